"""Symptoms that only the recorder's facts show."""
