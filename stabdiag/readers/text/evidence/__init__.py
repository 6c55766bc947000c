"""The evidence that a text is a log, and which of its counters is the step."""
