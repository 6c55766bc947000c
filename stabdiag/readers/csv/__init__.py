"""CSV: a fast reader through Arrow, and a tolerant one that gives the same."""
