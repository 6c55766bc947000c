"""Symptoms of an evaluation loss that does not follow the training loss."""
