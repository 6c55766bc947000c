"""Build a history from raw columns: roles of columns, hidden NaN, order of records."""

from stabdiag.assemble.history import build_history
from stabdiag.assemble.steps import convert_to_steps

__all__ = ["build_history", "convert_to_steps"]
