"""Symptoms of the order of batches, and of hard ones."""
