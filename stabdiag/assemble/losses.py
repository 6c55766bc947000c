"""The columns of all roles without what was not measured, and the losses with their hidden NaN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial, reduce

import numpy as np

from stabdiag.assemble.hidden import (
    Hidden,
    evaluation_records,
    find_hidden,
    find_stopped,
    hidden_norms,
    records_of_another_kind,
    records_with_values,
    since_the_first,
)
from stabdiag.assemble.records import (
    ENOUGH,
    between_evaluations,
    shown_name,
    up_to_last,
    without_gaps,
)
from stabdiag.assemble.steps import Steps, ends_of_means
from stabdiag.errors import ColumnError
from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import LARGEST_READ, Event, EventCode, EventKind
from stabdiag.model.roles.names import (
    counts_per_record,
    factor_of,
    is_evaluation,
    words_of,
)
from stabdiag.model.roles.table import ROLES
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns

_TRAINING = frozenset(role.name for role in ROLES if role.training)

# Values that some frameworks write on every line for "not measured"; one record or two that say so
# may have measured it.
_PLACEHOLDERS = {"loss_scale": (-1.0, 0.0), "grad_norm": (0.0, -1.0)}

# In a log of so many records a group with a single one is no series.
_MANY_RECORDS = 100

# Several records of a step are a habit, and no resume, if so many of them follow one of their step:
# it is half of them where two ranks write, less where some steps are written once.
_HABIT = 0.4


def load(
    columns: Columns, names: Mapping[str, str], *, of_epochs: bool
) -> tuple[dict[str, Column], list[Event]]:
    """Load the column of every role but the step, and drop what is no measurement.

    ``of_epochs`` tells that the epoch serves as the step.
    """
    data: dict[str, Column] = {}
    events: list[Event] = []
    # A scale of 0 at which steps are skipped is one that fell as far as it could.
    skips = "skipped" in names and bool(columns.load(names["skipped"]).logged.any())
    for role, name in names.items():
        # What serves as the step is no series beside it.
        if role == "step" or (role == "epoch" and of_epochs):
            continue
        column = columns.load(name)
        if factor_of(name) != 1:
            column = replace(column, values=column.values * factor_of(name))
        if "/" in role and columns.rows >= _MANY_RECORDS and np.count_nonzero(column.present) < 2:
            continue  # a single point of a long log tells nothing, and thousands take its memory
        no_measurement = _no_measurement(columns.source, role, name, column, skips=skips)
        if no_measurement is not None:
            events.append(no_measurement)
            continue
        data[role], huge = _bounded(column) if role != "batch_id" else (column, 0)
        events += _about_entries(name, column.strays, huge)
    data, gaps = without_gaps(data)
    if "eval_loss" in data and not data["eval_loss"].is_text:
        data["eval_loss"] = between_evaluations(data["eval_loss"])
    return data, events + gaps


def _no_measurement(
    source: str, role: str, name: str, column: Column, *, skips: bool
) -> Event | None:
    """Tell why a column measures nothing, or None if it does.

    Raises:
        ColumnError: if it is the loss that holds words.
    """
    if column.is_text and role != "batch_id":
        what = "neither numbers nor times" if role == "clock" else "no numbers"
        message = f"{shown_name(name)!r} holds words, {what}: it is not used as {role}"
        if role == "loss":
            raise ColumnError(f"{source}: {message}; name another with --column loss=NAME")
        return Event(kind=EventKind.COLUMN, message=message)
    placeholder = _placeholder(role, column)
    if placeholder is None or (role == "loss_scale" and placeholder == 0 and skips):
        return None
    return Event(
        kind=EventKind.PLACEHOLDER,
        code=EventCode.PLACEHOLDER_DROPPED,
        message=f"{name!r} is {placeholder:g} in every record, a placeholder: it is not used as "
        f"{role}",
        role=role,
        value=placeholder,
    )


def _placeholder(role: str, column: Column) -> float | None:
    known = _PLACEHOLDERS.get(role.partition("/")[0])
    if known is None or np.count_nonzero(column.present) < ENOUGH:
        return None
    first = float(column.values[np.argmax(column.present)])
    return first if first in known and (column.logged == first).all() else None


def _about_entries(name: str, strays: int, huge: int) -> Iterator[Event]:
    """Tell of a column's entries that are no numbers, or none that a training has."""
    if strays:
        message = f"{plural(strays, 'word')} among the numbers of {name!r} left out"
        yield Event(kind=EventKind.COLUMN, message=message)
    if huge:
        values = plural(huge, "value is read", "values are read")
        message = f"{values} as ±{LARGEST_READ:g}: absurd, but finite, in {name!r}"
        yield Event(kind=EventKind.COLUMN, message=message)


def _bounded(column: Column) -> tuple[Column, int]:
    """Return the column with numbers that no training holds bounded, and their count."""
    values = column.values
    highest, lowest = np.fmax.reduce(values, initial=0.0), np.fmin.reduce(values, initial=0.0)
    if max(highest, -lowest) <= LARGEST_READ:
        return column, 0
    huge = column.present & (np.abs(values) > LARGEST_READ) & np.isfinite(values)
    bounded = np.where(huge, np.copysign(LARGEST_READ, values), values)
    return replace(column, values=bounded), int(huge.sum())


@frozen
class Losses:
    """The losses, logged or hidden: values of shape (rows,), and the records that have one."""

    values: Floats
    records: Mask
    events: list[Event] = field(default_factory=list)


def read_losses(
    columns: Columns,
    data: Mapping[str, Column],
    names: Mapping[str, str],
    clock: Steps,
    *,
    absent_records: int,
) -> Losses:
    """Return the losses with hidden NaN put back.

    Args:
        columns: the raw columns of the log.
        data: the columns that serve a role, by role.
        names: the columns' names by role.
        clock: the step of each record; a loss of those that have none is not missed.
        absent_records: a loss missing from so many records in a row counts as NaN.
    """
    steps = clock.steps
    loss = data.get("loss")
    if loss is None:
        nothing = np.zeros(columns.rows, dtype=bool)
        return Losses(values=np.full(columns.rows, np.nan), records=nothing)
    loss, events = since_the_first(loss, data.get("grad_norm"), steps)
    others = _of_training(data)
    skipped = _wholly_skipped(data.get("skipped"), names.get("skipped", ""), steps)
    if skipped.any():
        # What stands there, nothing or 0.0, is the loss of no step.
        loss = replace(loss, present=loss.present & ~(skipped & (loss.values == 0.0)))
    elsewhere = skipped
    for name, later in _later_losses(columns, names, loss):
        elsewhere = elsewhere | later
        events.append(_about_later(name, int(steps[np.argmax(later)])))
    found = find_hidden(
        loss,
        others,
        evaluation_records(columns, names, loss, others, absent_records) | elsewhere,
        held=data.get("eval_loss"),
        of_another_kind=partial(records_of_another_kind, columns, names, loss),
        with_values=partial(records_with_values, columns, names),
        absent_records=absent_records,
        null_is_nan=columns.tells_null,
    )
    known = reduce(np.logical_or, (hidden.records for hidden in found), loss.present)
    stopped = find_stopped(
        replace(loss, present=known),
        others,
        steps,
        clock.usable,
        elsewhere,
        absent_records=absent_records,
    )
    found += [] if stopped is None else [stopped]
    return _put_back(loss, found, clock, events)


def _put_back(loss: Column, found: Iterable[Hidden], clock: Steps, events: list[Event]) -> Losses:
    """Return the losses with NaN where they were hidden, and say so after all other events."""
    records, values = loss.present.copy(), loss.values
    for hidden in found:
        new = hidden.records & clock.usable & (~records | np.isfinite(values))
        if not new.any():
            continue
        values = np.where(new, np.nan, values)
        records |= new
        count = plural(int(new.sum()), "loss counts", "losses count")
        at = int(clock.steps[np.argmax(new)])
        message = f"{count} as NaN, from step {at} on, though not written so: {hidden.grounds}"
        events.append(Event(kind=EventKind.HIDDEN_NAN, message=message, step=at))
    return Losses(values=values, records=records, events=events)


def _of_training(data: Mapping[str, Column]) -> dict[str, Column]:
    """Return what is measured with the training loss, by role: its records prove a step."""
    roles = (role for role in data if role != "loss" and role.partition("/")[0] in _TRAINING)
    return {role: data[role] for role in roles}


def with_hidden_norms(
    data: dict[str, Column], *, null_is_nan: bool
) -> tuple[dict[str, Column], list[Event]]:
    """Return the columns by role with the gradient norms that were not finite, not written so."""
    if "loss" not in data:
        return data, []
    loss, others = data["loss"], _of_training(data)
    found: dict[str, int] = {}
    marked: dict[str, Column] = {}
    norms = [role for role in others if role.partition("/")[0] == "grad_norm"]
    beside = {role: others[role] for role in others.keys() - norms}
    for role in norms:
        norm = others[role]
        # DeepSpeed ZeRO-3 writes -1 for a norm that is not finite.
        hidden = norm.present & (norm.values == -1.0)
        if (loss.present & ~norm.present).any():
            hidden |= hidden_norms(loss, norm, beside, null_is_nan=null_is_nan)
        if not hidden.any():
            continue
        found[role] = int(hidden.sum())
        marked[role] = replace(
            norm,
            values=np.where(hidden, np.nan, norm.values),
            present=norm.present | hidden,
            null=norm.null & ~hidden,
        )
    if not found:
        return data, []
    role, count = next(iter(found.items()))
    more = f" and of {len(found) - 1} more like it" if len(found) > 1 else ""
    values = f"{plural(count, 'value')} of {role}{more}"
    verb = "counts" if count == 1 and not more else "count"
    message = f"{values} {verb} as not finite: missing, null or -1 beside a loss"
    return {**data, **marked}, [Event(kind=EventKind.HIDDEN_NAN, message=message)]


def _wholly_skipped(skipped: Column | None, name: str, steps: Ints) -> Mask:
    """Return the records, of shape (rows,), whose steps since the record before were all skipped.

    The loss scaler skipped them: Megatron then prints no loss, or 0.0. It prints none either where
    the loss is NaN. The number of skipped steps tells the two apart.
    """
    records = np.zeros(len(steps), dtype=bool)
    if skipped is None or not counts_per_record(name):
        return records
    rows = np.flatnonzero(skipped.present)
    gaps = np.diff(steps[rows])
    usual = int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1
    # The record before the first, and that before a resume, are not known.
    intervals = np.concatenate([[usual], np.where(gaps > 0, gaps, usual)])
    records[rows] = skipped.values[rows] >= intervals
    return records


def _later_losses(
    columns: Columns, names: Mapping[str, str], loss: Column
) -> Iterator[tuple[str, Mask]]:
    """Yield the losses that begin where this one ends, like that of a second stage.

    Each comes with the records that hold it: that the other is missing there proves nothing.
    """
    end = int(up_to_last(loss).sum())
    if end in (0, columns.rows):
        return
    taken = set(names.values())
    for name in columns.names:
        if name not in taken and "loss" in words_of(name) and not is_evaluation(name):
            other = columns.load(name)
            if other.present.any() and not other.is_text and not other.present[:end].any():
                yield name, other.present & np.isfinite(other.values)


def _about_later(name: str, step: int) -> Event:
    message = (
        f"from step {step} on {name!r} is logged in place of the loss; --column 'loss={name}' "
        "diagnoses that one"
    )
    return Event(kind=EventKind.COLUMN, message=message, step=step)


def with_nan_of_any(losses: Losses, steps: Ints, usable: Mask, *, interleaved: bool) -> Losses:
    """Return the losses with NaN in all records of a step of which one has a loss that is NaN.

    Several ranks or micro-batches may write each step. The last record of a step counts, and the
    NaN of another rank would go unseen.

    Args:
        losses: the losses as they were read.
        steps: of each record, shape (rows,).
        usable: the records that have a step.
        interleaved: the writers shared the log so that the records of a step do not follow one
            another; else those that do belong together, as a step may come again after a resume.
    """
    here = losses.records & usable
    if not (here & ~np.isfinite(losses.values)).any():
        return losses
    rows = np.flatnonzero(here)
    if interleaved:
        rows = rows[np.argsort(steps[rows], kind="stable")]
    again = steps[rows][1:] == steps[rows][:-1]
    if not len(again) or again.mean() < _HABIT:
        return losses
    group = np.concatenate(([0], np.cumsum(~again)))
    bad = ~np.isfinite(losses.values[rows])
    lost, size = np.bincount(group, weights=bad), np.bincount(group)
    partly = (lost > 0) & (lost < size)
    # Records that never had a finite loss beside the others were not made to hold one.
    if not partly.any() or int(np.argmax(lost > 0)) < ENOUGH:
        return losses
    marked = rows[partly[group] & ~bad]
    values = losses.values.copy()
    values[marked] = np.nan
    count, at = plural(int(partly.sum()), "loss counts", "losses count"), int(steps[marked].min())
    message = (
        f"{count} as NaN, from step {at} on: of several records of the step, one has a loss that "
        "is not finite"
    )
    event = Event(kind=EventKind.HIDDEN_NAN, message=message, step=at)
    return replace(losses, values=values, events=[*losses.events, event])


def of_whole_epochs(losses: Losses, clock: Steps, steps: Ints, run: Mask) -> Losses:
    """Return the losses of a run without those of bars that show the mean since their epoch began.

    The first of an epoch is of one batch. ``steps`` are those of the clock, counted on.
    """
    here = losses.records & run
    if not (here & (steps != clock.steps)).any():
        return losses
    rows = np.flatnonzero(here)
    ends = ends_of_means(clock.steps[rows], losses.values[rows])
    if ends is None:
        return losses
    records = losses.records.copy()
    records[rows] = ends
    message = "each loss is the mean since its epoch began: of an epoch the last counts"
    event = Event(kind=EventKind.COLUMN, message=message)
    return replace(losses, records=records, events=[*losses.events, event])
