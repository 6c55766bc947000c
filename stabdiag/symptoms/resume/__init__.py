"""Symptoms of a resume."""
