"""The advice on each leaf, with the numbers of the run."""
