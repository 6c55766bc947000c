"""Statistics: arrays in, arrays out. No input or output, no history, no limits."""
