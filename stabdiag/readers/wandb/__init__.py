"""The run file of W&B: its records, its history and what the run printed."""
