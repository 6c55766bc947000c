"""Symptoms of mixed precision: overflows, the loss scale, underflow."""
