"""Any log of names and values: ``Step 100 | loss: 2.31 | lr: 0.0003``.

Such a log has no known format. There is only evidence that it is one: the same name of a loss on
line after line, with a counter that rises. How good this evidence is stands in the report.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.model.history import Event, EventKind
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.clean import cleaned
from stabdiag.readers.text.counters import EPOCH, STEP
from stabdiag.readers.text.evidence import evidence
from stabdiag.readers.text.grammar import is_a_loss
from stabdiag.readers.text.log import read_log
from stabdiag.readers.text.measured import Evaluation, Measured
from stabdiag.readers.text.sample import Evidence
from stabdiag.readers.text.spelling import plainly
from stabdiag.readers.text.tokens import LOSS, OBJECTIVES

# How far into the log evidence is searched for, and evaluations above their epochs.
_LOOKS: Final = 1 << 24
_AHEAD_WITHIN: Final = 1 << 20


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether a loss recurs while a counter rises."""
    return evidence(cleaned(head)) is not None


def read(stream: Stream) -> Columns:
    """Read a log by its names and values."""
    head = cleaned(stream.peek(_LOOKS))
    found = evidence(head)
    if found is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected lines with a step and a loss, such"
            " as Step 100 | loss: 2.31"
        )
    if found.counter == EPOCH and _is_ahead(found, plainly(head[:_AHEAD_WITHIN], found.spelt)):
        found = replace(found, ahead=True)
    columns = read_log(stream, "text", found.grammar)
    columns, note = _as_a_loss(columns) if found.word.lower() in OBJECTIVES else (columns, "")
    told = Event(
        kind=EventKind.COLUMN,
        message=f"read by its names and values ({found.certainty}): {_about(found)}{note}",
    )
    columns = _counting_epochs(columns) if found.counter == EPOCH else columns
    events = (told, *columns.events)
    planned = {} if found.planned is None else {"total_steps": found.planned}
    config = {**planned, **columns.config}
    return replace(columns, events=events, epoch_length=found.epoch_length, config=config)


def _is_ahead(found: Evidence, head: bytes) -> bool:
    """Tell whether there is an evaluation above each loss of the training, and none below."""
    kinds = (one for one in found.grammar.kinds if isinstance(one, Measured | Evaluation))
    at = [sorted(start for part in kind.find(head) for start in part.starts) for kind in kinds]
    if len(at) < 2 or not 0 < len(at[0]) == len(at[1]):
        return False
    return all(ahead < loss for loss, ahead in zip(*at, strict=True))


def _counting_epochs(columns: Columns) -> Columns:
    """Return the columns with the counter as what it is: there may be many losses of an epoch."""
    epoch, load = EPOCH.decode(), columns.load
    names = dict.fromkeys(epoch if name == STEP else name for name in columns.names)
    return replace(
        columns, names=(*names,), load=lambda name: load(STEP if name == epoch else name)
    )


def _as_a_loss(columns: Columns) -> tuple[Columns, str]:
    """Return the columns with the losses turned, if they are a bound that rises, and what to say.

    The logarithm of a probability, or a bound of it, is below zero; as a loss its negative is
    printed.
    """
    bounds = [name for name in columns.names if is_a_loss(name)]
    values = [columns.load(name).logged for name in bounds]
    if not any(len(one) and 2 * np.count_nonzero(one < 0) > len(one) for one in values):
        return columns, ""

    def load(name: str) -> Column:
        column = columns.load(name)
        return replace(column, values=-column.values) if name in bounds else column

    return replace(columns, load=load), ", with its sign turned: a higher value is better"


def _about(found: Evidence) -> str:
    """Return the evidence in words."""
    lines = plural(found.lines, "line")
    what = f"no loss is in it, but {found.loss!r}" if found.is_without_loss else "a loss"
    if found.counter is None:
        counted = f"{lines} or more, and no step with any"
    else:
        where = "below" if found.above else "beside"
        counter = found.counter.decode()
        counted = f"{lines}, {where} {counter!r}, which rises {found.rising:.0%} of the time"
    usual = found.word in (LOSS, b"LOSS") or found.is_without_loss
    called = "" if usual else f"; what is called {found.word.decode()!r} is the loss"
    return f"{what} is on {counted}{called}"
