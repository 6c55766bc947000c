"""Evaluations that are logged by the epoch, beside losses that are logged by the step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.history import Event, EventKind

if TYPE_CHECKING:
    from stabdiag.model.history import Series

# Fewer evaluations may all be of the first steps, and so may more where the run does not go on to
# so many times as many steps.
_FEWEST: Final = 3
_GOES_ON: Final = 10


def with_epochs_placed(series: dict[str, Series]) -> tuple[dict[str, Series], tuple[Event, ...]]:
    """Place evaluations whose steps are epochs where these end in the steps of the loss.

    PyTorch-Ignite's loggers count so, and so do loops that write ``add_scalar("loss/val", loss,
    epoch)``: the steps go 1, 2, 3, … and end where the training hardly began. Epochs are taken to
    be of equal length, and the last of them to have ended with the log.
    """
    loss, held = series.get("loss"), series.get("eval_loss")
    if loss is None or held is None or len(held) < _FEWEST:
        return series, ()
    first, last, end = int(held.steps[0]), int(held.steps[-1]), int(loss.steps[-1])
    if first not in (0, 1) or (np.diff(held.steps) != 1).any() or end < _GOES_ON * (last + 1):
        return series, ()
    ended = np.round(end / len(held) * np.arange(1, len(held) + 1)).astype(np.int64)
    message = (
        f"{held.column!r} has the steps {first} to {last} where the loss goes on to {end}: they "
        "are taken for epochs, each for as long a part of the run"
    )
    placed = {**series, "eval_loss": replace(held, steps=ended)}
    return placed, (Event(kind=EventKind.STEPS, message=message),)
