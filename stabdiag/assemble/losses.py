"""The losses of a log, with hidden NaN restored."""

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
)
from stabdiag.assemble.initial_nan import without_initial_nan, without_nan_at_starts
from stabdiag.assemble.records import MIN_RECORDS, USUAL_FRACTION, up_to_last
from stabdiag.assemble.renamed import takes_over
from stabdiag.assemble.steps import Steps
from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.names import counts_per_record, is_evaluation, name_words
from stabdiag.model.roles.table import ROLES
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns

_ROLES_IN_TRAINING = frozenset(role.name for role in ROLES if role.training)

# Repeated steps are normal, not a resume, if this fraction of the records repeats the step of the
# previous one: half of them if two ranks write, less if some steps are written once.
_REPEATED_FRACTION = 0.4


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
    if "step" in names:
        counter = columns.load(names["step"])
        loss, nan_events = without_nan_at_starts(loss, counter, data.get("grad_norm"))
        events += nan_events
    others = _training_columns(data)
    skipped = _wholly_skipped(data.get("skipped"), names.get("skipped", ""), steps)
    if skipped.any():
        # The value in these records, if any, is 0.0 and does not belong to a step.
        loss = replace(loss, present=loss.present & ~(skipped & (loss.values == 0.0)))
    elsewhere = skipped | _unreadable(loss) | _on_other_lines(columns, loss, absent_records)
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


def _on_other_lines(columns: Columns, loss: Column, fewest: int) -> Mask:
    """Return a mask of the records whose losses may be on lines that were not read.

    These lines are below the last loss, at least the ``fewest``, and show a number.
    """
    from stabdiag.readers.later_forms.left_out import breaks_off, may_hold_loss

    rows = np.arange(columns.rows)
    last = rows[loss.present][-1:].max(initial=0)
    is_unread = any(
        entry.code is EventCode.LINES_LEFT_OUT
        and entry.count >= fewest
        and (entry.above is None or entry.above > last)
        and may_hold_loss(entry.text)
        and breaks_off(entry.text, is_short=True)
        for entry in columns.left_out
    )
    below: Mask = rows > last
    return below if is_unread else np.zeros_like(below)


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
                column, values=values, present=column.present | hidden, null=column.null & ~hidden
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
