"""Build the history of one run from the raw columns of its log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.clock import with_clock
from stabdiag.assemble.losses import read_losses
from stabdiag.assemble.order import find_order
from stabdiag.assemble.settled import settled_history
from stabdiag.assemble.splits import with_splits
from stabdiag.assemble.steps import read_steps
from stabdiag.assemble.telling import with_telling_loss
from stabdiag.assemble.totals import with_totals
from stabdiag.errors import ColumnError, LogError, NoUsableRecord
from stabdiag.history import Event, EventKind, History, Series, Source
from stabdiag.roles import assign, contested, stand_ins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stabdiag.limits import Limits
    from stabdiag.readers.columns import Column, Columns

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Values that some frameworks write on every line for "not measured".
_PLACEHOLDERS = {"loss_scale": (-1.0, 0.0), "grad_norm": (0.0, -1.0)}

# No dtype that networks are trained in but fp64 holds more than 3.4e38: a number beyond this is an
# infinity in all but name, and its square would be one.
_LARGEST = 1e100


def build_history(
    columns: Columns,
    limits: Limits,
    *,
    chosen: Mapping[str, str] | None = None,
    attempt: int | None = None,
) -> History:
    """Turn raw columns into the history of one run.

    Args:
        columns: what the reader found.
        limits: thresholds; ``nan.absent_records`` is used here.
        chosen: columns by role that the user named.
        attempt: which of several appended runs to take, from 1; the last where it is None.

    Raises:
        ColumnError: if there is no loss nor anything else to go by, or a chosen column does not
            exist.
        LogError: if there is no such attempt.
        NoUsableRecord: if no record has both a loss and a step.
    """
    if columns.settled and not chosen and attempt in (None, 1):
        settled = settled_history(columns)
        if settled is not None:
            return settled
    assignment = assign(columns.names, chosen)
    columns, roles, totals = with_totals(columns, assignment)
    names, stand_in = _with_a_loss(columns, roles)
    if "loss" not in (chosen or {}):
        names, lost = with_telling_loss(columns, names, assignment.other_losses)
        stand_in += lost
    columns, names, split = with_splits(columns, names)
    clock = read_steps(columns, names)
    events = [*_unreadable(columns), *clock.events]
    notes = (*assignment.notes, *totals, *stand_in, *split)
    events += [Event(kind=EventKind.COLUMN, message=note) for note in notes]
    data, dropped = _load(columns, names)
    data, names, moved = with_clock(data, names)
    events += [*dropped, *moved]
    losses = read_losses(columns, data, names, limits, clock.steps, clock.usable)
    events += losses.events
    epochs = columns.load(names["epoch"]).values if names.get("epoch") else None
    known = losses.records & np.isfinite(losses.values)
    finite = losses.values if known.all() else np.where(known, losses.values, np.nan)
    order = find_order(
        clock.steps,
        clock.usable,
        finite,
        losses.records,
        epochs,
        times=data["clock"].values if "clock" in data else None,
        of_epochs=clock.of_epochs,
    )
    events += order.events
    number = len(order.runs) if attempt is None else attempt
    if not 1 <= number <= len(order.runs):
        raise LogError(
            f"{columns.source}: there is no attempt {number}; it holds {len(order.runs)}"
        )
    run = order.runs[number - 1]
    if "loss" in names and not (run & losses.records).any():
        raise NoUsableRecord(f"{columns.source}: no record has both a step and a loss")
    if len(order.runs) > 1:
        message = (
            f"the log holds {len(order.runs)} runs, one after the other; this is number {number} "
            "(--attempt N picks another)"
        )
        events.append(Event(kind=EventKind.ATTEMPT, message=message))
    steps = order.steps if run.all() else order.steps[run]
    taken = _Run(steps=order.steps, records=run, rising=bool(np.all(steps[1:] > steps[:-1])))
    series = {}
    if "loss" in names:
        series["loss"] = taken.series("loss", names["loss"], losses.values, losses.records)
    for role, column in data.items():
        if role != "loss":
            one = taken.series(role, names[role], column.values, column.present)
            if len(one):
                series[role] = one
    return History(
        series=series,
        events=(*columns.events, *events),
        config=columns.config,
        contested=contested(names.get("loss", ""), columns.names, has_reward="reward" in names),
        source=Source(
            name=columns.source,
            format=columns.format,
            records=columns.rows,
            unreadable=columns.bad_count,
            attempts=len(order.runs),
            attempt=number,
        ),
    )


def _with_a_loss(
    columns: Columns, names: Mapping[str, str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the columns' names by role, with what stands in for a loss that was not logged.

    That is the evaluation loss, or what goes by the name of what it measures. Where there is none
    either, a log that tells of overflows is still worth reading: §3 needs no loss.
    """
    if "loss" in names:
        return names, ()
    if "eval_loss" in names:
        others = {role: name for role, name in names.items() if role != "eval_loss"}
        note = f"no training loss was logged: {names['eval_loss']!r} stands in for it"
        return {**others, "loss": names["eval_loss"]}, (note,)
    for one in stand_ins(columns.names, counted=not names.keys().isdisjoint(("step", "epoch"))):
        column = columns.load(one.loss)
        if not column.is_text and column.present.any() and one.loss not in names.values():
            evaluation = {} if one.eval_loss is None else {"eval_loss": one.eval_loss}
            return {**names, "loss": one.loss, **evaluation}, (one.note,)
    if "loss_scale" in names or "grad_norm" in names:
        return names, ("no loss was logged: only what needs none can be told",)
    raise ColumnError(
        f"{columns.source}: no column looks like a training loss (it has "
        f"{_some(columns.names)}); name it with --column loss=NAME"
    )


def _unreadable(columns: Columns) -> list[Event]:
    events = [Event(kind=EventKind.UNREADABLE, message=note) for note in columns.notes]
    if columns.bad_count:
        first = columns.bad_lines[0]
        lines = "line was" if columns.bad_count == 1 else "lines were"
        message = f"{columns.bad_count} {lines} not readable (line {first.line}: {first.reason})"
        events.insert(0, Event(kind=EventKind.UNREADABLE, message=message))
    return events


def _load(columns: Columns, names: Mapping[str, str]) -> tuple[dict[str, Column], list[Event]]:
    """Load the column of every role but the step; drop what is no measurement."""
    data: dict[str, Column] = {}
    events: list[Event] = []
    for role, name in names.items():
        # What serves as the step is no series beside it.
        if role == "step" or (role == "epoch" and "step" not in names):
            continue
        column = columns.load(name)
        if column.is_text and role != "batch_id":
            what = "neither numbers nor times" if role == "clock" else "no numbers"
            message = f"{name!r} holds words, {what}: it is not used as {role}"
            if role == "loss":
                raise ColumnError(
                    f"{columns.source}: {message}; name another with --column loss=NAME"
                )
            events.append(Event(kind=EventKind.COLUMN, message=message))
            continue
        placeholder = _placeholder(role, column)
        if placeholder is not None:
            message = f"{name!r} is {placeholder:g} in every record, a placeholder: it is not used"
            events.append(Event(kind=EventKind.PLACEHOLDER, message=message))
            continue
        if column.strays:
            words = "1 word" if column.strays == 1 else f"{column.strays} words"
            message = f"{words} among the numbers of {name!r} left out"
            events.append(Event(kind=EventKind.COLUMN, message=message))
        data[role], huge = _bounded(column) if role != "batch_id" else (column, 0)
        if huge:
            values = "1 value" if huge == 1 else f"{huge} values"
            lie, count = ("lies", "it counts") if huge == 1 else ("lie", "they count")
            message = f"{values} of {name!r} {lie} beyond ±{_LARGEST:g}: {count} as infinite"
            events.append(Event(kind=EventKind.COLUMN, message=message))
    return data, events


def _bounded(column: Column) -> tuple[Column, int]:
    """Return the column with numbers that no training holds as infinities, and their count."""
    values = column.values
    if len(values) == 0 or (
        np.fmax.reduce(values) <= _LARGEST and np.fmin.reduce(values) >= -_LARGEST
    ):
        return column, 0
    huge = column.present & (np.abs(values) > _LARGEST) & np.isfinite(values)
    if not huge.any():
        return column, 0
    infinite = np.where(huge, np.copysign(np.inf, values), values)
    return replace(column, values=infinite), int(huge.sum())


def _placeholder(role: str, column: Column) -> float | None:
    known = _PLACEHOLDERS.get(role.partition("/")[0])
    if known is None or not column.present.any():
        return None
    first = float(column.values[np.argmax(column.present)])
    if first in known and (column.logged == first).all():
        return first
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    """The records of one run; ``rising`` says that each of their steps lies above the last."""

    steps: Ints
    records: Mask
    rising: bool

    def series(self, role: str, column: str, values: Floats, logged: Mask) -> Series:
        """Return the logged records as a series: steps rising, the last record of each step.

        A column that is logged in every record of the only run is not copied.
        """
        which = self.records & logged
        steps = self.steps
        if not which.all():
            steps, values = steps[which], values[which]
        if not self.rising and len(steps) > 1:
            order = np.argsort(steps, kind="stable")
            last = np.append(steps[order][1:] != steps[order][:-1], True)
            steps, values = steps[order][last], values[order][last]
        return Series(role=role, column=column, steps=steps, values=values)


def _some(names: tuple[str, ...]) -> str:
    # A damaged file has names of many lines.
    shown = ", ".join(" ".join(name.split())[:60] for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown
