"""Steps for records that were only counted, where the manifest tells how often one is written."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.history import COUNTED, Event, EventKind
from stabdiag.manifest.other import other_number
from stabdiag.manifest.spelling import by_spelling
from stabdiag.words import plural

if TYPE_CHECKING:
    from stabdiag.history import History
    from stabdiag.manifest import Manifest

# What these tell of, they tell by its steps.
_TELL_STEPS = (EventKind.REWIND, EventKind.HIDDEN_NAN)
_STEPS = re.compile(r"(?<=\bstep )\d+|(?<= to )\d+")


def in_steps(history: History, manifest: Manifest) -> History:
    """Return the history in steps, if its records were counted and are written every so many.

    The first is written when so many steps are done. A cadence of checkpoints is in steps as well.
    """
    every = _log_every(manifest)
    if every is None or not any(event.message == COUNTED for event in history.events):
        return history
    series = {
        role: replace(one, steps=(one.steps + 1) * every) for role, one in history.series.items()
    }
    parts = tuple(
        replace(part, first=(part.first + 1) * every, last=(part.last + 1) * every)
        for part in history.source.parts
    )
    return replace(
        history,
        series=series,
        events=tuple(_moved(event, every) for event in history.events),
        source=replace(history.source, parts=parts),
    )


def _log_every(manifest: Manifest) -> int | None:
    every = other_number(by_spelling(manifest.also), "log_every")
    # Below 1 it is a share of the run.
    return int(every) if every is not None and every >= 1 else None


def _moved(event: Event, every: int) -> Event:
    """Return an event with the steps that it tells of."""
    if event.message == COUNTED:
        message = (
            "no step was logged: the records of training are counted, and one is written every "
            f"{plural(every, 'step')} (logging_steps)"
        )
        return Event(kind=EventKind.STEPS, message=message)
    message = event.message
    if event.kind in _TELL_STEPS:
        message = _STEPS.sub(lambda told: str((int(told[0]) + 1) * every), message)
    step = None if event.step is None else (event.step + 1) * every
    return replace(event, message=message, step=step)
