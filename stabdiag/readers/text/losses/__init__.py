"""The lines of any log that carry losses: those of the training, and those of evaluations."""
