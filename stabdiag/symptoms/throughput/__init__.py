"""Symptoms of speed, memory and stalls."""
