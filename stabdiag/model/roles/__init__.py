"""What columns mean: which column serves which role."""
