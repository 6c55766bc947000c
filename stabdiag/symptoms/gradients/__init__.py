"""Symptoms of gradient norms and of clipping."""
