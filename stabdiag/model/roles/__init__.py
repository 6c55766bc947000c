"""The meaning of columns: the choice of a column for each role."""
