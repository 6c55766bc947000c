"""The decision tree: its questions, its edges, its leaves, and the walk."""

from stabdiag.tree import divergence, nan, precision, spike

QUESTIONS = (*nan.QUESTIONS, *spike.QUESTIONS, *precision.QUESTIONS, *divergence.QUESTIONS)

__all__ = ["QUESTIONS"]
