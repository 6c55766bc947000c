"""The columns of all roles without placeholders, and the losses with hidden NaN restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial, reduce

import numpy as np

from stabdiag.assemble.hidden import (
    HiddenRecords,
    evaluation_records,
    find_hidden,
    find_stopped,
    hidden_norms,
    records_of_another_kind,
    records_with_values,
    without_initial_nan,
)
from stabdiag.assemble.records import (
    MIN_RECORDS,
    USUAL_FRACTION,
    shown_name,
    up_to_last,
    without_fill,
    without_gaps,
)
from stabdiag.assemble.renamed import takes_over
from stabdiag.assemble.steps import Steps
from stabdiag.errors import ColumnError
from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.history import LARGEST_READ
from stabdiag.model.roles.names import counts_per_record, is_evaluation, name_words, parse_factor
from stabdiag.model.roles.table import ROLES
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns

_ROLES_IN_TRAINING = frozenset(role.name for role in ROLES if role.training)

# Values that some frameworks write on every line for "not measured"; in one or two records they may
# be measurements.
_PLACEHOLDERS = {"loss_scale": (-1.0, 0.0), "grad_norm": (0.0, -1.0)}

# The recorder may write a fact in a single record.
_RECORDED = "recorder/"

# In a log of this many records, a group with a single value is not used.
_MANY_RECORDS = 100

# Repeated steps are normal, not a resume, if this fraction of the records repeats the step of the
# previous one: half of them if two ranks write, less if some steps are written once.
_REPEATED_FRACTION = 0.4


def load(
    columns: Columns, names: Mapping[str, str], *, of_epochs: bool
) -> tuple[dict[str, Column], list[Event]]:
    """Load the columns of all roles except the step, without placeholders and words.

    ``of_epochs`` means that the epoch is used as the step.
    """
    data: dict[str, Column] = {}
    events: list[Event] = []
    # If steps are skipped, a loss scale of 0 is real: the scale has collapsed.
    skips = "skipped" in names and bool(columns.load(names["skipped"]).logged.any())
    for role, name in names.items():
        # The step column is not a series.
        if role == "step" or (role == "epoch" and of_epochs):
            continue
        column = columns.load(name)
        if parse_factor(name) != 1:
            column = replace(column, values=column.values * parse_factor(name))
        is_group = "/" in role and not role.startswith(_RECORDED)
        if is_group and columns.rows >= _MANY_RECORDS and np.count_nonzero(column.present) < 2:
            continue  # single points of a long log are useless, and thousands of them take memory
        unusable = _unusable(columns.source, role, name, column, skips=skips)
        if unusable is not None:
            events.append(unusable)
            continue
        data[role], huge = _bounded(column) if role != "batch_id" else (column, 0)
        events += _about_entries(name, column.strays, huge)
    data, gaps = without_gaps(data)
    if "eval_loss" in data and not data["eval_loss"].is_text:
        data["eval_loss"] = without_fill(data["eval_loss"])
    return data, events + gaps


def _unusable(source: str, role: str, name: str, column: Column, *, skips: bool) -> Event | None:
    """Return an event if a column contains no measurements, else None.

    Raises:
        ColumnError: if the loss contains words.
    """
    if column.is_text and role != "batch_id":
        expected = "numbers or times" if role == "clock" else "numbers"
        message = f"{shown_name(name)!r} contains words instead of {expected}: not used as {role}"
        if role == "loss":
            raise ColumnError(f"{source}: {message}; name another with --column loss=NAME")
        return Event(kind=EventKind.COLUMN, message=message)
    if role == "loss_scale" and _is_another_scale(name, column):
        message = f"{name!r} begins below 1, unlike a loss scale: not used as {role}"
        return Event(kind=EventKind.COLUMN, message=message)
    placeholder = _placeholder(role, column)
    if placeholder is None or (role == "loss_scale" and placeholder == 0 and skips):
        return None
    return Event(
        kind=EventKind.PLACEHOLDER,
        code=EventCode.PLACEHOLDER_DROPPED,
        message=f"{name!r} is {placeholder:g} in every record, a placeholder: not used as {role}",
        role=role,
        value=placeholder,
    )


def _is_another_scale(name: str, column: Column) -> bool:
    """Return True for a scale of something else, as of the steps of a line search in NGBoost."""
    return name_words(name) == ["scale"] and len(column.logged) > 0 and 0 < column.logged[0] < 1


def _placeholder(role: str, column: Column) -> float | None:
    placeholders = _PLACEHOLDERS.get(role.partition("/")[0])
    if placeholders is None or np.count_nonzero(column.present) < MIN_RECORDS:
        return None
    first = float(column.values[np.argmax(column.present)])
    return first if first in placeholders and (column.logged == first).all() else None


def _about_entries(name: str, strays: int, huge: int) -> Iterator[Event]:
    """Report the entries of a column that are not numbers or impossibly large."""
    if strays:
        message = f"{plural(strays, 'word')} among the numbers of {name!r} left out"
        yield Event(kind=EventKind.COLUMN, message=message)
    if huge:
        values = plural(huge, "value is read", "values are read")
        message = f"{values} as ±{LARGEST_READ:g}: impossibly large, but finite, in {name!r}"
        yield Event(kind=EventKind.COLUMN, message=message)


def _bounded(column: Column) -> tuple[Column, int]:
    """Return the column with impossibly large numbers clipped, and their count."""
    values = column.values
    highest, lowest = np.fmax.reduce(values, initial=0.0), np.fmin.reduce(values, initial=0.0)
    if max(highest, -lowest) <= LARGEST_READ:
        return column, 0
    huge = column.present & (np.abs(values) > LARGEST_READ) & np.isfinite(values)
    bounded = np.where(huge, np.copysign(LARGEST_READ, values), values)
    return replace(column, values=bounded), int(huge.sum())


@frozen
class Losses:
    """The losses including hidden NaN: values of shape (rows,), and the records that have one."""

    values: Floats
    records: Mask
    events: list[Event] = field(default_factory=list)


def _reports_initial_nan(events: Iterable[Event]) -> bool:
    """Return True if a message says that the first loss, or one above it, is not finite."""
    return any(
        event.code is EventCode.NOT_FINITE and event.above is not None and event.above <= 1
        for event in events
    )


def read_losses(
    columns: Columns,
    data: Mapping[str, Column],
    names: Mapping[str, str],
    clock: Steps,
    *,
    absent_records: int,
) -> Losses:
    """Return the losses with hidden NaN restored.

    Args:
        columns: the raw columns of the log.
        data: the columns that serve a role, by role.
        names: the columns' names by role.
        clock: the step of each record; records without a step are not expected to have a loss.
        absent_records: a loss missing from this many records in a row counts as NaN.
    """
    steps = clock.steps
    loss = data.get("loss")
    if loss is None:
        no_records = np.zeros(columns.rows, dtype=bool)
        return Losses(values=np.full(columns.rows, np.nan), records=no_records)
    events: list[Event] = []
    if not _reports_initial_nan(columns.events):
        loss, events = without_initial_nan(loss, data.get("grad_norm"), steps)
    others = _training_columns(data)
    skipped = _wholly_skipped(data.get("skipped"), names.get("skipped", ""), steps)
    if skipped.any():
        # The value in these records, if any, is 0.0 and does not belong to a step.
        loss = replace(loss, present=loss.present & ~(skipped & (loss.values == 0.0)))
    elsewhere = skipped | _unreadable(loss)
    for name, later in _later_losses(columns, names, loss):
        elsewhere = elsewhere | later
        events.append(_about_later(name, int(steps[np.argmax(later)])))
    hidden_losses = find_hidden(
        loss,
        others,
        evaluation_records(columns, names, loss, others, absent_records) | elsewhere,
        eval_loss=data.get("eval_loss"),
        of_another_kind=partial(records_of_another_kind, columns, names, loss),
        with_values=partial(records_with_values, columns, names),
        absent_records=absent_records,
        null_is_nan=columns.distinguishes_null,
    )
    present_or_hidden = reduce(
        np.logical_or, (hidden.records for hidden in hidden_losses), loss.present
    )
    stopped = find_stopped(
        replace(loss, present=present_or_hidden),
        others,
        steps,
        clock.usable,
        elsewhere,
        absent_records=absent_records,
    )
    hidden_losses += [] if stopped is None else [stopped]
    return _restore_nan(loss, hidden_losses, clock, events)


def _unreadable(loss: Column) -> Mask:
    """Return a mask of the records whose loss is a text with digits, such as 2.31 nats."""
    unreadable = np.zeros(len(loss.present), dtype=bool)
    unreadable[loss.stray_rows] = True
    return unreadable & ~loss.null


def _restore_nan(
    loss: Column, hidden_losses: Iterable[HiddenRecords], clock: Steps, events: list[Event]
) -> Losses:
    """Return the losses with NaN where they were hidden, with events about it at the end."""
    records, values = loss.present.copy(), loss.values
    for hidden in hidden_losses:
        new = hidden.records & clock.usable & (~records | np.isfinite(values))
        if not new.any():
            continue
        values = np.where(new, np.nan, values)
        records |= new
        count = plural(int(new.sum()), "loss counts", "losses count")
        at = int(clock.steps[np.argmax(new)])
        message = f"{count} as NaN from step {at} on, although not written as NaN: {hidden.reason}"
        kind = EventKind.HIDDEN_NAN
        events.append(Event(kind=kind, message=message, step=at, value=hidden.placeholder))
    return Losses(values=values, records=records, events=events)


def _training_columns(data: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns that are logged with the training loss, by role."""
    roles = (
        role for role in data if role != "loss" and role.partition("/")[0] in _ROLES_IN_TRAINING
    )
    return {role: data[role] for role in roles}


def with_hidden_norms(
    data: dict[str, Column], *, null_is_nan: bool
) -> tuple[dict[str, Column], list[Event]]:
    """Return the columns by role with non-finite gradient norms restored."""
    if "loss" not in data:
        return data, []
    loss, others = data["loss"], _training_columns(data)
    counts: dict[str, int] = {}
    marked: dict[str, Column] = {}
    norms = [role for role in others if role.partition("/")[0] == "grad_norm"]
    companions = {role: others[role] for role in others.keys() - norms}
    for role in norms:
        norm = others[role]
        # DeepSpeed ZeRO-3 writes -1 for a norm that is not finite.
        hidden = norm.present & (norm.values == -1.0)
        if (loss.present & ~norm.present).any():
            hidden |= hidden_norms(loss, norm, companions, null_is_nan=null_is_nan)
        if not hidden.any():
            continue
        counts[role] = int(hidden.sum())
        marked[role] = replace(
            norm,
            values=np.where(hidden, np.nan, norm.values),
            present=norm.present | hidden,
            null=norm.null & ~hidden,
        )
    if not counts:
        return data, []
    role, count = next(iter(counts.items()))
    others_like_it = f" and {len(counts) - 1} similar series" if len(counts) > 1 else ""
    values = f"{plural(count, 'value')} of {role}{others_like_it}"
    verb = "counts" if count == 1 and not others_like_it else "count"
    message = f"{values} {verb} as not finite: missing, null or -1 in a record with a loss"
    return {**data, **marked}, [Event(kind=EventKind.HIDDEN_NAN, message=message)]


def with_hidden_activations(data: dict[str, Column], losses: Losses) -> dict[str, Column]:
    """Return the columns by role with non-finite activations restored.

    A table has no cell for NaN next to missing values. If the loss is not finite and other layers
    were logged in the same record, an activation that is otherwise logged with every loss was not
    finite.
    """
    finite = np.isfinite(losses.values)
    bad = losses.records & ~finite
    names = [role for role in data if role.partition("/")[0] == "activation_norm"]
    if not bad.any() or len(names) < 2:
        return data
    bad &= np.any([data[role].present for role in names], axis=0)
    marked: dict[str, Column] = {}
    for role in names:
        column = data[role]
        hidden, usual = bad & ~column.present, losses.records & finite
        if hidden.any() and column.present[usual].mean() >= USUAL_FRACTION:
            values = np.where(hidden, np.nan, column.values)
            marked[role] = replace(
                column,
                values=values,
                present=column.present | hidden,
                null=column.null & ~hidden,
            )
    return {**data, **marked}


def _wholly_skipped(skipped: Column | None, name: str, steps: Ints) -> Mask:
    """Return the records, of shape (rows,), whose steps since the previous record were all skipped.

    If the loss scaler skipped them, Megatron prints no loss, or 0.0. It also prints no loss if the
    loss is NaN. The number of skipped steps distinguishes the two cases.
    """
    records = np.zeros(len(steps), dtype=bool)
    if skipped is None or not counts_per_record(name):
        return records
    rows = np.flatnonzero(skipped.present)
    gaps = np.diff(steps[rows])
    usual = int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1
    # The intervals before the first record and before a resume are unknown.
    intervals = np.concatenate([[usual], np.where(gaps > 0, gaps, usual)])
    records[rows] = skipped.values[rows] >= intervals
    return records


def _later_losses(
    columns: Columns, names: Mapping[str, str], loss: Column
) -> Iterator[tuple[str, Mask]]:
    """Yield the losses that begin where this one ends, such as the loss of a second stage.

    Each comes with its records, where a missing first loss proves nothing.
    """
    end = int(up_to_last(loss).sum())
    if end in (0, columns.rows):
        return
    taken = set(names.values())
    for name in columns.names:
        if name in taken or is_evaluation(name):
            continue
        is_loss = "loss" in name_words(name)
        # A log may have thousands of columns, and each takes time.
        other = columns.load(name) if is_loss or columns.is_parsed(name) else None
        if other is None or not other.present.any() or other.is_text or other.present[:end].any():
            continue
        if is_loss or takes_over(loss, other, end):
            yield name, other.present & np.isfinite(other.values)


def _about_later(name: str, step: int) -> Event:
    message = (
        f"from step {step} on {name!r} is logged in place of the loss; --column 'loss={name}' "
        "diagnoses it"
    )
    return Event(kind=EventKind.COLUMN, message=message, step=step)


def with_nan_of_any(losses: Losses, steps: Ints, usable: Mask, *, interleaved: bool) -> Losses:
    """Spread NaN losses to all records of the same step.

    Several ranks or micro-batches may write each step. Since the last record of a step is used, the
    NaN of another rank would be lost.

    Args:
        losses: the losses as they were read.
        steps: of each record, shape (rows,).
        usable: the records that have a step.
        interleaved: whether writers share the log, so that records of a step may be apart.
            Otherwise only adjacent records belong together, since a resume may repeat a step.
    """
    here = losses.records & usable
    if not (here & ~np.isfinite(losses.values)).any():
        return losses
    rows = np.flatnonzero(here)
    if interleaved:
        rows = rows[np.argsort(steps[rows], kind="stable")]
    is_repeat = steps[rows][1:] == steps[rows][:-1]
    if not len(is_repeat) or is_repeat.mean() < _REPEATED_FRACTION:
        return losses
    group = np.concatenate(([0], np.cumsum(~is_repeat)))
    bad = ~np.isfinite(losses.values[rows])
    lost, size = np.bincount(group, weights=bad), np.bincount(group)
    partly = (lost > 0) & (lost < size)
    # A record kind whose loss was never finite is not meant to have one. A single finite loss is
    # enough if the loss is lost at all later steps.
    begin = int(np.argmax(lost > 0))
    if not partly.any() or not begin or (begin < MIN_RECORDS and not lost[begin:].all()):
        return losses
    marked = rows[partly[group] & ~bad]
    values = losses.values.copy()
    values[marked] = np.nan
    count, at = plural(int(partly.sum()), "loss counts", "losses count"), int(steps[marked].min())
    message = (
        f"{count} as NaN from step {at} on: one of several records of the step has a non-finite "
        f"loss"
    )
    event = Event(kind=EventKind.HIDDEN_NAN, message=message, step=at)
    return replace(losses, values=values, events=[*losses.events, event])
