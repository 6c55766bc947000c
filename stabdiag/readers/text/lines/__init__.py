"""The text of a log, its lines, and the counters, names and values on a line."""
