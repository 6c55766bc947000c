"""The thresholds in force as text: the tree's quick reference, and every limit."""
