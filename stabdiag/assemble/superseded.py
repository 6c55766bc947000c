"""Records that a later attempt of the same run replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.history import Event, EventKind
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.arrays import Ints, Mask


def kept_of(steps: Ints, run: Mask, is_loss: Mask) -> Mask:
    """Return the records of a run that no later record replaced.

    A record is superseded by a later training record at a lower step, a training record also by one
    at the same step.
    """
    huge = np.iinfo(np.int64).max
    ahead = np.where(is_loss & run, steps, huge)
    if np.all(ahead[:-1] < ahead[1:]):
        return run
    lowest = np.minimum.accumulate(ahead[::-1])[::-1]
    later = np.append(lowest[1:], huge)
    return run & ~((later < steps) | (is_loss & (later <= steps)))


def about_superseded(training: Mask, kept: Mask) -> tuple[Event, ...]:
    """Say how many losses later ones of the same steps have replaced."""
    return superseded(int((training & ~kept).sum()))


def superseded(count: int) -> tuple[Event, ...]:
    """Say how many losses are superseded."""
    if not count:
        return ()
    losses = plural(count, "loss is", "losses are")
    later = "a later one" if count == 1 else "later ones"
    return (Event(kind=EventKind.STEPS, message=f"{losses} superseded by {later}"),)
