"""Symptoms: failures that a log shows outside the decision tree, a folder for each family."""
