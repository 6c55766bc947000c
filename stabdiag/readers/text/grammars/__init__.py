"""The grammars: the kinds of lines with records, for any log and for single programs."""
