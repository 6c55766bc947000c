"""The limits of this family: ``limits.generalization``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class GeneralizationLimits:
    """An evaluation loss that does not follow the training loss."""

    min_evaluations: int = limit(3, unit="evaluations", at_least=3)
    """Fewer evaluations than this show no trend."""
    eval_rise: float = limit(0.1, unit="of its best")
    """An evaluation loss that ends this fraction above its best has turned."""
    train_fall: float = limit(0.05, unit="of the loss", at_most=1.0)
    """The training loss still falls if it fell by this fraction since the best evaluation."""
    gap: float = limit(1.5, unit="x", at_least=1.1)
    """An evaluation loss this factor above the training loss from the first evaluation on is
    measured differently."""
    early: float = limit(0.1, unit="of the run", at_most=0.5)
    """The gap must be there by the end of this first part of the run, before a model can have
    memorized much, and stay."""
    augmentation: float = limit(4.0, unit="x", at_least=1.1)
    """Dropout and augmentation raise a training loss up to this factor above the evaluation loss.
    Above it, one of the two is measured differently."""
    collapsed_score: float = limit(0.4, unit="of its best", at_least=0.01, at_most=0.95)
    """A score that ends below this fraction of its best value has collapsed. In healthy runs,
    scores vary by a tenth."""
    underfit: float = limit(0.7, unit="of log K", at_least=0.1, at_most=1.0)
    """A training loss that ends above this fraction of chance has learned little."""
