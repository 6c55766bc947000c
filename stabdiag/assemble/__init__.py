"""From raw columns to a history: what the columns mean, what is hidden, in which order."""

from stabdiag.assemble.build import build_history

__all__ = ["build_history"]
