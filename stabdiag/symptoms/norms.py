"""What the symptoms of gradients share: the norm of the whole model, and its early level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.stats.quantiles import median

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# A norm is judged by so many points at least; a level is a median over one of so many stretches.
LEAST = 100
STRETCHES = 20

# Most of the loss is left if it still has this share of its first level.
LEFT = 0.8


def finite_norm(case: Case) -> Series | None:
    """Return the finite gradient norms of the whole model, if there are enough."""
    norm = case.history.finite("grad_norm")
    return norm if len(norm) >= LEAST else None


def early_level(reached: Floats) -> float:
    """Return the early level; a first few steps far above all others are the initialisation's."""
    return median(reached[: STRETCHES // 4])
