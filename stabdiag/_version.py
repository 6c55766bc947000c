"""The version, where every part of the program can have it."""

__version__ = "0.1.0"
