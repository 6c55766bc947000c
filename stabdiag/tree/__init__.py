"""The decision tree: how its questions are answered, the walk, and what to do about a leaf."""
