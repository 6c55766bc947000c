"""Symptoms of weight norms, updates and activations."""
