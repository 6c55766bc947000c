"""When each record was written: its step, and the time if the log has a clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np

from stabdiag.assemble.records import (
    MIN_RECORDS,
    MIN_SERIES_LENGTH,
    USUAL_FRACTION,
    numbers_of_ranks,
)
from stabdiag.model.arrays import Floats, Ints, Mask, Positions
from stabdiag.model.events import MAX_SUMMARY, Event, EventCode, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import by_spelling, other_number
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.counter_names import (
    BATCH,
    STEP_UNITS,
    counter_unit,
    is_plain_counter,
)
from stabdiag.model.roles.names import EPISODES_OR_GAMES, is_evaluation, normal
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.text import plural
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import EXACT, Column, Columns

_EPISODES = frozenset({"episode", "episodes"})

# Counters that are not epochs.
_COUNTER_CODES = {"episode": EventCode.EPISODES_AS_STEPS, "round": EventCode.ROUNDS_AS_STEPS}

# A log is judged by the first of these.
_JUDGED_ROLES = ("loss", "reward", "accuracy", "eval_accuracy")

_DAY = timedelta(days=1).total_seconds()

# A step counter counts within epochs if it restarted MIN_RECORDS times, each time after the same
# count, within this tolerance.
_EPOCH_TOLERANCE = 0.1


@frozen
class Steps:
    """The step of each record (int64, shape (rows,)), and the records that have one.

    ``of_epochs`` means that the steps count epochs or rounds, and ``column`` is the one that does.
    """

    steps: Ints
    usable: Mask
    events: tuple[Event, ...] = ()
    of_epochs: bool = False
    column: str | None = None


def read_steps(columns: Columns, names: Mapping[str, str]) -> Steps:
    """Return the step of each record: from the step column, the epoch, or the record number."""
    events: list[Event] = []
    for role, name in (*_counters(columns, names), *unusual_counters(columns, names)):
        column = columns.load(name)
        # NaN and ±inf are not steps.
        good = column.present & (np.abs(column.values) < EXACT)
        logged = column.values if good.all() else column.values[good]
        if column.is_text or not len(logged):
            reason = "contains no numbers"
        elif not np.array_equal(logged, np.floor(logged)):
            reason = "is not in whole numbers"
        elif role == "step" and _is_a_length(name, logged, columns, names):
            reason = f"does not increase with {names['epoch']!r}: it is the length of each"
        elif role == "epoch" and not _is_usable_epoch(column, good, columns, names):
            continue
        else:
            return _read_step_column(columns, column, good, role, name, events, names.get("loss"))
        events.append(_note(f"the step column {name!r} {reason}"))
    numbered = "no step was logged: the record number is used as the step"
    events.append(_note(numbered, EventCode.NUMBERED))
    return Steps(
        steps=np.arange(columns.rows), usable=np.ones(columns.rows, bool), events=tuple(events)
    )


def _counters(columns: Columns, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the roles and columns that may count steps, the preferred ones first.

    Next to a fraction of an epoch, policies count episodes.
    """
    named = [(role, names[role]) for role in ("step", "epoch") if role in names]
    taken = {*names.values()}
    others = (name for name in columns.names if name not in taken and normal(name) in _EPISODES)
    return [*named, *(("epoch", name) for name in others)] if "epoch" in names else named


def unusual_counters(columns: Columns, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the roles and columns of counters with unusual names, if their values rise.

    A name that may be of anything comes last, and has to count evenly. Batches are often counted
    within an epoch, or named in any order, so their number has to rise throughout.
    """
    taken = {*names.values()}
    free = [name for name in columns.names if name not in taken]
    units = {name: unit for name in free if (unit := counter_unit(name))}
    for name in (*units, *filter(is_plain_counter, free)):
        values = columns.load(name).logged
        strides = np.diff(values)
        if len(values) < max(columns.rows, 2) or not np.all(values == np.floor(values)):
            continue
        if name not in units:
            is_counter = strides[0] > 0 and bool(np.all(strides == strides[0]))
        elif units[name] == BATCH:
            is_counter = bool(np.all(strides > 0))
        else:
            is_counter = _increases(values)
        if is_counter:
            yield "epoch" if units.get(name, "step") not in STEP_UNITS else "step", name


def _is_a_length(name: str, steps: Floats, columns: Columns, names: Mapping[str, str]) -> bool:
    """Return True if a "steps" column contains episode lengths, which go up and down.

    Or it counts within epochs, and each has one record, at the same count.
    """
    if "epoch" not in names:
        return False
    epochs = columns.load(names["epoch"]).logged
    if "loss" in names:
        # Records of evaluations repeat the epochs.
        counters = columns.load(name), columns.load(names["epoch"])
        of_loss = columns.load(names["loss"]).present & counters[0].present & counters[1].present
        steps, epochs = (counter.values[of_loss] for counter in counters)
    if not len(steps) or not np.array_equal(epochs, np.floor(epochs)):
        return False
    if np.all(steps == steps[0]):
        return len(epochs) > 1 and bool(np.all(np.diff(epochs) > 0))
    is_long = min(len(epochs), len(steps)) > MIN_RECORDS
    return is_long and not _increases(steps) and _increases(epochs)


def _increases(values: Floats) -> bool:
    return bool(np.mean(np.diff(values) > 0) > USUAL_FRACTION)


def _is_usable_epoch(
    epochs: Column, good: Mask, columns: Columns, names: Mapping[str, str]
) -> bool:
    """Return True if nearly every record of a loss has a different epoch.

    Without a loss, these are the records of a reward or an accuracy. In a log of several runs,
    epochs restart. A counter that restarts often counts within something else, such as a round.
    Each rank counts for itself.
    """
    ranks = columns.load(names["rank"]) if "rank" in names else None
    if ranks is not None and len(numbers_of_ranks(ranks, names["rank"])):
        numbers, counts = np.unique(ranks.values[good & ranks.present], return_counts=True)
        good = good & np.isin(ranks.values, numbers[counts == counts.max(initial=0)][:1])
    judged = next((names[role] for role in _JUDGED_ROLES if role in names), None)
    if judged is not None:
        good = good & columns.load(judged).present
    values = epochs.values[good]
    loss = names.get("loss") or names.get("eval_loss")
    if loss is not None and columns.load(loss).present[good].all():
        values = values[_are_first(values, columns.load(loss).values[good])]
    if len(unique_values(values)) >= USUAL_FRACTION * len(values):
        return True
    moves = np.diff(values)
    return bool(
        np.mean(moves != 0) >= USUAL_FRACTION and np.count_nonzero(moves < 0) <= MIN_SERIES_LENGTH
    )


def _are_first(epochs: Floats, losses: Floats) -> Mask:
    """Return a mask of the records that are not copies of the record before, from another rank.

    Losses that are the same in all epochs may repeat in an epoch as well.
    """
    first = np.ones(len(epochs), bool)
    is_lost = np.isnan(losses)
    is_equal = (losses[1:] == losses[:-1]) | (is_lost[1:] & is_lost[:-1])
    first[1:] = (np.diff(epochs) != 0) | ~is_equal
    return first if len(unique_values(losses[first])) > 1 else np.ones(len(epochs), bool)


def _read_step_column(
    columns: Columns,
    column: Column,
    good: Mask,
    role: str,
    name: str,
    events: list[Event],
    loss: str | None,
) -> Steps:
    if role == "epoch":
        # Add a translation if the name is in another language.
        is_foreign = normal(name) == "epoch" and "epoch" not in name.lower()
        source = f"{name!r} (the epoch)" if is_foreign else repr(name)
        note = f"no step was logged: {source} is used as the step"
        events.append(
            _note(note, _COUNTER_CODES.get(counter_unit(name), EventCode.EPOCHS_AS_STEPS))
        )
    values = column.values
    if not good.all():
        later = _records_without_steps(columns, good, loss)
        numbers = _numbers_after(values[good], len(later))
        values = np.where(good, values, 0)
        if len(later):
            last = f"{role} {int(values[good][-1])}"
            values[later] = numbers
            good = good.copy()
            good[later] = True
            events.append(
                _note(
                    f"{plural(len(later), 'record')} after {last} have no usable step in {name!r}: "
                    f"they are numbered on, up to {int(numbers[-1])}"
                )
            )
        evaluated = _evaluations_without_steps(columns, good, loss)
        if len(evaluated):
            above = np.maximum.accumulate(np.where(good, np.arange(columns.rows), -1))[evaluated]
            values[evaluated] = values[above]
            good = good.copy()
            good[evaluated] = True
            counted = plural(len(evaluated), "evaluation has", "evaluations have")
            events.append(_note(f"{counted} no step in {name!r}; the step above is used"))
    missing = columns.rows - int(good.sum())
    if missing:
        have, are = plural(missing, "record has", "records have"), "are" if missing > 1 else "is"
        events.append(_note(f"{have} no usable step in {name!r} and {are} left out"))
    steps = values.astype(np.int64)
    return Steps(
        steps=steps, usable=good, events=tuple(events), of_epochs=role == "epoch", column=name
    )


def _records_without_steps(columns: Columns, good: Mask, loss: str | None) -> Positions:
    """Return the records with a loss after the last step, if they are too many for a summary.

    The counter of the log was renamed or dropped when its form changed.
    """
    if loss is None or not good.any():
        return np.empty(0, dtype=np.intp)
    present = columns.load(loss).present
    last = int(np.flatnonzero(good)[-1])
    later = np.flatnonzero(present[last + 1 :]) + last + 1
    is_series = int(present[: last + 1].sum()) >= MIN_SERIES_LENGTH
    return later if is_series and len(later) > MAX_SUMMARY else later[:0]


def _evaluations_without_steps(columns: Columns, good: Mask, loss: str | None) -> Positions:
    """Return the records below a step that have none, and scores or other evaluations but no loss.

    fairseq logs {"epoch": 3, "valid_loss": 2.5} below a record with num_updates.
    """
    if loss is None or good.all() or not good.any():
        return np.empty(0, dtype=np.intp)
    without = ~(good | columns.load(loss).present)
    without[: int(np.argmax(good))] = False
    if not without.any():
        return np.empty(0, dtype=np.intp)
    is_evaluated = np.zeros(columns.rows, bool)
    for name in columns.names:
        if is_evaluation(name) or score_direction(name) is not None:
            is_evaluated |= columns.load(name).present
    return np.flatnonzero(without & is_evaluated)


def _numbers_after(steps: Floats, count: int) -> Floats:
    """Return the numbers of records after the last step, with the usual distance of two steps."""
    moves = np.diff(steps)
    rising = moves[moves > 0]
    stride = max(float(np.median(rising)) if len(rising) else 1.0, 1.0)
    numbers: Floats = steps[-1] + np.round(stride * np.arange(1, count + 1))
    return numbers


def _note(message: str, code: EventCode | None = None) -> Event:
    return Event(kind=EventKind.STEPS, message=message, code=code)


def first_games(clock: Steps, counter: str, rewards: Column) -> list[int]:
    """Return the later rewards of games that are counted from the first one on, or one before it.

    Without a loss, the games of a run are counted once: another count is another run.
    """
    codes = {event.code for event in clock.events}
    if counter not in EPISODES_OR_GAMES and EventCode.EPISODES_AS_STEPS not in codes:
        return []
    rows = np.flatnonzero(rewards.present & clock.usable)
    return [int(row) for row in rows[1:] if clock.steps[row] <= clock.steps[rows[0]]]


def convert_to_steps(columns: Columns, manifest: Manifest) -> Columns:
    """Convert record numbers to steps if the manifest gives the logging interval.

    The first record is written after the first interval.
    """
    every = other_number(by_spelling(manifest.also), "log_every")
    counted = any(event.code is EventCode.COUNTED for event in columns.events)
    # Values below 1 are fractions of the run.
    if every is None or every < 1 or not counted:
        return columns
    interval, counter = int(every), assign(columns.names).columns.get("step")

    def convert(name: str, column: Column) -> Column:
        values = (column.values + 1) * interval
        return replace(column, values=values) if name == counter else column

    message = (
        "no step was logged: records are counted, one every "
        f"{plural(interval, 'step')} (logging_steps)"
    )
    events = tuple(
        replace(event, message=message, code=None) if event.code is EventCode.COUNTED else event
        for event in columns.events
    )
    return replace(columns.with_changed(convert), events=events)


def with_clock(
    data: Mapping[str, Column], names: Mapping[str, str]
) -> tuple[dict[str, Column], dict[str, str], list[Event]]:
    """Return the columns and their names by role, with the clock if the log has one.

    Dates without times are not a clock. A column called ``time`` may be a clock, although it
    usually contains the step time.
    """
    data, names, events = dict(data), dict(names), []
    if "clock" in data and _is_days(data["clock"]):
        message = f"{names['clock']!r} contains dates without times: not used as clock"
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
    """Return True if times nearly always rise; step times go up and down."""
    return len(times) >= MIN_SERIES_LENGTH and bool(
        np.mean(times[1:] > times[:-1]) > USUAL_FRACTION
    )


def are_epochs(lengths: Floats) -> bool:
    """Return True if a counter restarted often enough, each time after about the same count."""
    if len(lengths) < MIN_RECORDS:
        return False
    usual = float(np.median(lengths))
    return bool(np.mean(np.abs(lengths - usual) <= _EPOCH_TOLERANCE * usual) >= USUAL_FRACTION)
