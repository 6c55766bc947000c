"""Symptoms of the learning-rate schedule and of unusual settings."""
