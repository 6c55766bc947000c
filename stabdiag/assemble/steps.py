"""When each record was written: its step, and the time if the log has a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np

from stabdiag.assemble.records import ENOUGH, MANY, MOST
from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventCode, EventKind
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import by_spelling, other_number
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import normal
from stabdiag.model.text import plural
from stabdiag.readers.columns import EXACT, Column, Columns

_EPOCHS = frozenset({"epoca", "epocas", "epoche", "epoque", "epoques"})

# By how the names of what is no epoch begin.
_CODES = {"episo": EventCode.EPISODES_AS_STEPS, "round": EventCode.ROUNDS_AS_STEPS}

_DAY = timedelta(days=1).total_seconds()

# A step counter counts within epochs if it started again this often, each time after the same count
# up to this fraction.
_MIN_EPOCHS = 3
_EPOCH_TOLERANCE = 0.1


@frozen
class Steps:
    """The step of each record (int64, shape (rows,)), which records have one, and what was decided.

    ``of_epochs`` says that they count the epochs of the run, or its rounds.
    """

    steps: Ints
    usable: Mask
    events: tuple[Event, ...] = ()
    of_epochs: bool = False


def read_steps(columns: Columns, names: Mapping[str, str]) -> Steps:
    """Return the step of each record: from the step column, the epoch, or the record's number."""
    tried: list[Event] = []
    for role in ("step", "epoch"):
        if role not in names:
            continue
        column = columns.load(names[role])
        # NaN and ±inf are no steps.
        good = column.present & (np.abs(column.values) < EXACT)
        logged = column.values if good.all() else column.values[good]
        if column.is_text or not len(logged):
            reason = "holds no numbers"
        elif not np.array_equal(logged, np.floor(logged)):
            reason = "is not in whole numbers"
        elif role == "step" and _is_a_length(logged, columns, names):
            reason = f"does not count on with {names['epoch']!r}: it is the length of each"
        elif role == "epoch" and not _serves(column, good, columns, names):
            continue
        else:
            return _from_column(columns, column, good, role, names[role], tried)
        tried.append(_note(f"the step column {names[role]!r} {reason}"))
    numbered = "no step was logged: the record's number serves as the step"
    tried.append(_note(numbered, EventCode.NUMBERED))
    return Steps(
        steps=np.arange(columns.rows), usable=np.ones(columns.rows, bool), events=tuple(tried)
    )


def _is_a_length(steps: Floats, columns: Columns, names: Mapping[str, str]) -> bool:
    """Tell whether what is called steps is how long each episode took, which goes up and down."""
    epochs = columns.load(names["epoch"]).logged if "epoch" in names else steps
    whole = np.array_equal(epochs, np.floor(epochs))
    enough = min(len(epochs), len(steps)) > ENOUGH
    return enough and whole and not _counts_on(steps) and _counts_on(epochs)


def _counts_on(values: Floats) -> bool:
    return bool(np.mean(np.diff(values) > 0) > MOST)


def _serves(epochs: Column, good: Mask, columns: Columns, names: Mapping[str, str]) -> bool:
    """Tell whether nearly every record of a loss has an epoch of its own.

    In a log of several runs the epochs start again. What starts again often counts within
    something else, such as a round.
    """
    if "loss" in names:
        good = good & columns.load(names["loss"]).present
    values = epochs.values[good]
    if len(np.unique(values)) >= MOST * len(values):
        return True
    moves = np.diff(values)
    return bool(np.mean(moves != 0) >= MOST and np.count_nonzero(moves < 0) <= MANY)


def _from_column(
    columns: Columns,
    column: Column,
    good: Mask,
    role: str,
    name: str,
    tried: list[Event],
) -> Steps:
    if role == "epoch":
        # In another language it is said what it counts.
        what = f"{name!r} (the epoch)" if normal(name) in _EPOCHS else repr(name)
        note = f"no step was logged: {what} serves as the step"
        tried.append(_note(note, _CODES.get(normal(name)[:5], EventCode.EPOCHS_AS_STEPS)))
    lost = columns.rows - int(good.sum())
    if lost:
        have, are = plural(lost, "record has", "records have"), "are" if lost > 1 else "is"
        tried.append(_note(f"{have} no usable step in {name!r} and {are} left out"))
    values = np.where(good, column.values, 0) if lost else column.values
    steps = values.astype(np.int64)
    return Steps(steps=steps, usable=good, events=tuple(tried), of_epochs=role == "epoch")


def _note(message: str, code: EventCode | None = None) -> Event:
    return Event(kind=EventKind.STEPS, message=message, code=code)


def in_steps(columns: Columns, manifest: Manifest) -> Columns:
    """Return the columns with steps for numbers of records, if one is written every so many steps.

    The first record is written when so many steps are done.
    """
    every = other_number(by_spelling(manifest.also), "log_every")
    counted = any(event.code is EventCode.COUNTED for event in columns.events)
    # Below 1 it is a share of the run.
    if every is None or every < 1 or not counted:
        return columns
    between, counter = int(every), assign(columns.names).columns.get("step")

    def load(name: str) -> Column:
        column = columns.load(name)
        if name != counter:
            return column
        return replace(column, values=(column.values + 1) * between)

    message = (
        "no step was logged: the records are counted, one every "
        f"{plural(between, 'step')} (logging_steps)"
    )
    events = tuple(
        replace(event, message=message, code=None) if event.code is EventCode.COUNTED else event
        for event in columns.events
    )
    return replace(columns, load=load, events=events)


def with_clock(
    data: Mapping[str, Column], names: Mapping[str, str]
) -> tuple[dict[str, Column], dict[str, str], list[Event]]:
    """Return the columns and their names by role, with the clock if the log has one.

    Dates without times are none. A column called ``time`` may be one, though it mostly holds the
    time that a step takes.
    """
    data, names, events = dict(data), dict(names), []
    if "clock" in data and _is_days(data["clock"]):
        message = f"{names['clock']!r} holds dates without times: it is not used as clock"
        events.append(Event(kind=EventKind.COLUMN, message=message))
        del data["clock"], names["clock"]
    if "step_time" in data and "clock" not in data and _rises(data["step_time"].logged):
        data["clock"], names["clock"] = data.pop("step_time"), names.pop("step_time")
        message = f"{names['clock']!r} is the time of the record, not the length of the step"
        events.append(Event(kind=EventKind.COLUMN, message=message))
    return data, names, events


def _is_days(column: Column) -> bool:
    return column.is_time and not (column.logged % _DAY).any()


def _rises(times: Floats) -> bool:
    """Tell whether times rise nearly always: the length of a step goes up and down."""
    return len(times) >= MANY and bool(np.mean(times[1:] > times[:-1]) > MOST)


def _are_epochs(lengths: Floats) -> bool:
    """Return True if a counter started again often enough, each time after about the same count."""
    if len(lengths) < _MIN_EPOCHS:
        return False
    usual = float(np.median(lengths))
    return bool(np.mean(np.abs(lengths - usual) <= _EPOCH_TOLERANCE * usual) >= MOST)


def ends_of_means(counts: Ints, losses: Floats) -> Mask | None:
    """Return a mask of the losses to keep if each is a mean since its epoch began, or None.

    The last loss of each epoch is kept. From step b of an epoch to step c a mean moves by about
    σ√(1/b - 1/c), the loss of a single step by the same amount anywhere. The more likely of both
    models is chosen, with the absolute deviations of a Laplace distribution. The first epoch is not
    used: any loss falls fastest there.

    A counter that starts again once or twice, or after unequal counts, shows restarts and not
    epochs: after a bad restart the loss falls as a mean does.

    Args:
        counts: the steps as they were logged, shape (records,), which start again with each epoch.
        losses: shape (records,); those that are not finite count in any case.
    """
    finite = np.isfinite(losses)
    done = counts[finite] + max(1.0 - counts.min(initial=1), 0.0)
    turned = np.diff(done) <= 0
    if not _are_epochs(done[:-1][turned]):
        return None
    inside = ~turned & (np.cumsum(turned) > 0)
    moves = np.abs(np.diff(losses[finite]))[inside]
    if len(moves) < MANY or not moves.any():
        return None
    spread = np.sqrt(-np.diff(1 / done)[inside])
    as_means = np.log(np.mean(moves / spread)) + np.mean(np.log(spread))
    # A few nats in all are evidence enough.
    if len(moves) * (np.log(np.mean(moves)) - as_means) < ENOUGH:
        return None
    # An epoch that the log breaks off in tells of too few steps.
    ends = np.append(turned, done[-1] >= done[:-1][turned][-1])
    kept = ~finite
    kept[np.flatnonzero(finite)[ends]] = True
    return kept
