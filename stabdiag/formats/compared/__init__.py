"""Comparison → str."""
