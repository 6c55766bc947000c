"""What a comparison with a baseline finds, and its sentences."""
