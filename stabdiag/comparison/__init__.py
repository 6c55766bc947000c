"""Several runs that ought to be the same: where they part, by how much, and what that points at."""

from stabdiag.comparison.compare import compare_runs

__all__ = ["compare_runs"]
