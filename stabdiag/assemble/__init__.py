"""From raw columns to a history: what the columns mean, what is hidden, in which order."""

from stabdiag.assemble.history import build_history
from stabdiag.assemble.steps import in_steps

__all__ = ["build_history", "in_steps"]
