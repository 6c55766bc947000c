"""Steps from epochs that are written with few digits, so that records may share an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# The digits of an epoch after the point; the error of rounding, with a little for floats.
_DIGITS: Final = 2
_ROUNDED: Final = 0.5 * 10**-_DIGITS + 1e-9


def are_shared(epochs: Floats) -> bool:
    """Tell whether records that follow each other have the same epoch."""
    return bool((np.diff(epochs) == 0).any())


def are_rounded(epochs: Floats) -> bool:
    """Tell whether epochs are written with few digits, and not in full."""
    return bool((np.abs(epochs - np.round(epochs, _DIGITS)) < 1e-9).all())


def steps_of(epochs: Floats, an_epoch: float) -> Floats:
    """Return rising steps for the epochs of records of training, of shape (records,).

    ``an_epoch`` is how many steps an epoch has. A new run begins where the epoch falls.
    """
    runs = np.split(epochs, np.flatnonzero(np.diff(epochs) < 0) + 1)
    return np.concatenate([_of_one_run(run, an_epoch) for run in runs])


def _of_one_run(epochs: Floats, an_epoch: float) -> Floats:
    """Return the steps of one run: at one stride if that explains the epochs."""
    count = len(epochs)
    number = np.arange(1.0, count + 1)
    stride = np.round((epochs[-1] - epochs[0]) * an_epoch / max(count - 1, 1))
    # The first step may be logged whatever the stride, and a resume begins anywhere.
    for begin in (stride, 0.0, float(np.round(epochs[0] * an_epoch))):
        steps: Floats = np.maximum(begin + stride * (number - 1), 1.0)
        if stride > 0 and (np.abs(steps / an_epoch - epochs) <= _ROUNDED).all():
            return steps
    return _between_changes(epochs, an_epoch) if are_shared(epochs) else np.round(epochs * an_epoch)


def _between_changes(epochs: Floats, an_epoch: float) -> Floats:
    """Spread the steps evenly over the records from one change of the epoch to the next.

    At a change the epoch is taken to be halfway between the two that are written.
    """
    changes = np.flatnonzero(np.diff(epochs) > 0)
    ends = [-0.5, *(changes + 0.5), len(epochs) - 0.5]
    half = min(_ROUNDED, float(np.diff(epochs[changes.min() :]).max()) / 2) if len(changes) else 0.0
    known = [
        max(epochs[0] - half, 0.0),
        *((epochs[changes] + epochs[changes + 1]) / 2),
        epochs[-1] + half,
    ]
    spread = np.round(np.interp(np.arange(len(epochs)), ends, known) * an_epoch)
    # Each step lies above the last, whatever the rounding.
    number = np.arange(len(epochs))
    rising: Floats = np.maximum.accumulate(spread - number) + number
    return rising
