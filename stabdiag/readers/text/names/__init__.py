"""Rewrite the names and notations of programs as standard ones: steps, losses and scores."""
