"""What the log tells of the causes that spikes have: the learning rate, the batches, the norms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stabdiag.stats.coincidence import any_again, steps_since_seen
from stabdiag.stats.quantiles import usual_gap
from stabdiag.tree.lr_jumps import highest_to_come, jumps, unit_of

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.history import History, Series
    from stabdiag.model.limits.tree import SpikeLimits

# Ids that come back this often all along are how the loader numbers its batches.
USUAL_REPEATS = 0.1

# A norm that was logged after clipping lies no farther beyond the threshold, as rounding goes.
_CLIPPED = 1.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Causes:
    """What every spike of a run is held against, each measured once, when first asked for.

    A log may have thousands of spikes: what is asked of each of them looks at its neighbours alone.
    """

    history: History
    limits: SpikeLimits
    grad_clip: float | None

    @cached_property
    def lr_jumps(self) -> Ints:
        """The steps at which the learning rate jumps up by more than its schedule explains."""
        return jumps(self.history.finite("lr"), self.limits.lr_jump)

    @cached_property
    def lr_unit(self) -> float:
        """What learning rates that are written with few digits change by, or else 0."""
        return unit_of(self.history.finite("lr").values)

    @cached_property
    def lr_to_come(self) -> Floats:
        """The highest learning rate from each one on."""
        return highest_to_come(self.history.finite("lr").values)

    @cached_property
    def batches_repeat(self) -> bool:
        """Whether any batch comes again within the lookback of §2."""
        batches = self.history.get("batch_id")
        if batches is None or len(batches) < 2:
            return False
        # Batches may be logged more often than losses are.
        gap = usual_gap(batches.steps)
        return any_again(batches.values, max(round(self.limits.batch_lookback / gap), 1))

    @cached_property
    def since_seen(self) -> Floats:
        """How many steps ago the batch of each record was last seen; inf for a new one."""
        batches = self.history.series["batch_id"]
        return steps_since_seen(batches.steps, batches.values)

    @cached_property
    def seen_again(self) -> Mask:
        """Which records are of a batch that had been seen shortly before."""
        return self.since_seen <= self.limits.batch_lookback

    @cached_property
    def repeated(self) -> Ints | None:
        """The steps on batches that had been seen shortly before, if these are few."""
        if not self.batches_repeat:
            return None
        steps = self.history.series["batch_id"].steps
        found = steps[self.seen_again]
        return found if 0 < len(found) <= USUAL_REPEATS * len(steps) else None

    @cached_property
    def norm_stride(self) -> float:
        """The usual steps from one gradient norm to the next."""
        return stride_of(self.history, self.history.finite("grad_norm"))

    @cached_property
    def norm_is_clipped(self) -> bool:
        """Whether the gradient norm never exceeds the clip threshold: it was logged after it."""
        norm = self.history.finite("grad_norm").values
        return bool(self.grad_clip and norm.max(initial=0.0) <= _CLIPPED * self.grad_clip)


def stride_of(history: History, series: Series) -> float:
    """Return the usual steps from one point of a series to the next; 1 where they are epochs."""
    none_between = len(series) < 2 or history.counts_epochs
    return 1.0 if none_between else usual_gap(series.steps)
