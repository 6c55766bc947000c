"""Build the history of one run from the raw columns of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.by_epoch import with_epochs_placed
from stabdiag.assemble.clock import with_clock
from stabdiag.assemble.converted import converted_history
from stabdiag.assemble.load import load
from stabdiag.assemble.losses import read_losses
from stabdiag.assemble.naming import name_columns
from stabdiag.assemble.order import find_order
from stabdiag.assemble.settings import parts_switched_on, settings
from stabdiag.assemble.several_a_step import with_nan_of_any
from stabdiag.assemble.steps import read_steps
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.history import Event, EventKind, History, Part, Series, Source, unit_of
from stabdiag.model.roles import contested
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stabdiag.assemble.losses import Losses
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.limits import Limits
    from stabdiag.readers.columns import Column, Columns

# So many of other runs are told by their numbers.
_SHOWN = 3


def build_history(
    columns: Columns,
    limits: Limits,
    *,
    chosen: Mapping[str, str] | None = None,
    attempt: int | None = None,
) -> History:
    """Turn the raw columns of a log into the history of one run.

    Args:
        columns: what the reader found.
        limits: thresholds; ``nan.absent_records`` is used here.
        chosen: columns by role that the user named.
        attempt: which of several appended runs to take, from 1; the last where it is None.

    Raises:
        ColumnError: if there is no loss nor anything else to go by, or a chosen column does not
            exist.
        LogError: if there is no such attempt.
        NoUsableRecord: if no record has both a loss and a step, or each is of a run of its own.
    """
    if columns.settled and not chosen and attempt in (None, 1):
        settled = converted_history(columns, columns.settled)
        if settled is not None:
            return settled
    named = name_columns(columns, chosen)
    columns = named.columns
    names, picked = _without_settings(named.names)
    clock = read_steps(columns, names)
    events = [*_unreadable(columns), *clock.events]
    events += [Event(kind=EventKind.COLUMN, message=note) for note in named.notes]
    data, dropped = load(columns, names)
    data, names, moved = with_clock(data, names)
    events += [*dropped, *moved]
    losses = read_losses(columns, data, names, limits, clock, named.due)
    epochs = columns.load(names["epoch"]).values if names.get("epoch") else None
    known = losses.records & np.isfinite(losses.values)
    finite = losses.values if known.all() else np.where(known, losses.values, np.nan)
    order = find_order(
        clock,
        finite,
        losses.records,
        epochs,
        times=data["clock"].values if "clock" in data else None,
        epoch_length=columns.epoch_length,
    )
    losses = with_nan_of_any(losses, order.steps, clock.usable, interleaved=order.interleaved)
    events += [*losses.events, *order.events]
    number = order.runs if attempt is None else attempt
    if not 1 <= number <= order.runs:
        raise LogError(
            f"{columns.source}: there is no attempt {number}; the log holds "
            f"{plural(order.runs, 'attempt')}"
        )
    run = order.run(number)
    if "loss" in names and not (run & losses.records).any():
        raise NoUsableRecord(f"{columns.source}: no record has both a step and a loss")
    if order.runs > 1:
        lost = order.number[losses.records & ~np.isfinite(losses.values)]
        events.append(_several(order.runs, number, lost))
    series, placed = with_epochs_placed(dict(_series(data, names, losses, order.steps, run)))
    events += placed
    taken = set(names.values())
    series |= {one.role: one for one in settings(columns, picked, taken, order.steps, run)}
    series |= {one.role: one for one in parts_switched_on(columns, taken, order.steps, run)}
    told = (*columns.events, *events)
    return History(
        series=series,
        events=told,
        unit=unit_of(told),
        config=columns.config,
        contested=contested(names.get("loss", ""), columns.names, has_reward="reward" in names),
        source=Source(
            name=columns.source,
            format=columns.format,
            runs_beside=columns.runs_beside,
            records=columns.rows,
            unreadable=columns.bad_count,
            attempts=order.runs,
            attempt=number,
            files=columns.files,
            parts=tuple(_parts(columns, order.steps, run)),
        ),
    )


def _without_settings(names: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns that are measured, and those of settings that the user named, by role."""
    picked = {role: name for role, name in names.items() if role.partition("/")[0] == "setting"}
    return {role: name for role, name in names.items() if role not in picked}, picked


def _series(
    data: Mapping[str, Column], names: Mapping[str, str], losses: Losses, steps: Ints, run: Mask
) -> Iterator[tuple[str, Series]]:
    """Yield the series of one run by role, those of which it has a record; the loss comes first."""
    mine = steps if run.all() else steps[run]
    rising = bool(np.all(mine[1:] > mine[:-1]))

    def logged(role: str, values: Floats, records: Mask) -> Series:
        at, values = _in_order(steps, values, run & records, rising=rising)
        return Series(role=role, column=names[role], steps=at, values=values)

    if "loss" in names:
        yield "loss", logged("loss", losses.values, losses.records)
    for role, column in data.items():
        if role != "loss":
            one = logged(role, column.values, column.present)
            if len(one):
                yield role, one


def _in_order(steps: Ints, values: Floats, which: Mask, *, rising: bool) -> tuple[Ints, Floats]:
    """Return the steps and values of some records, steps rising, the last record of each step.

    ``rising`` says that the steps rise as they are. All records in their order are not copied.
    """
    if not which.all():
        steps, values = steps[which], values[which]
    if not rising and len(steps) > 1:
        order = np.argsort(steps, kind="stable")
        last = np.append(steps[order][1:] != steps[order][:-1], True)
        steps, values = steps[order][last], values[order][last]
    return steps, values


def _several(runs: int, number: int, lost: NDArray[np.signedinteger]) -> Event:
    """Tell that a log holds several runs; ``lost`` are the runs of losses that are not finite."""
    message = (
        f"the log holds {runs} runs, one after the other; this is number {number} "
        "(--attempt N picks another)"
    )
    others = [n for n in np.unique(lost).tolist() if n not in (0, number)]
    if others:
        message += f"; not all losses of number {_few_of(others)} are finite"
    return Event(kind=EventKind.ATTEMPT, message=message)


def _parts(columns: Columns, steps: Ints, run: Mask) -> Iterator[Part]:
    """Yield the files that the run's records lie in, in the order in which they were written."""
    for path, rows in columns.parts:
        mine = steps[rows[run[rows]]]
        if len(mine):
            yield Part(path=path, first=int(mine.min()), last=int(mine.max()))


def _few_of(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return f"{shown} and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else shown


def _unreadable(columns: Columns) -> list[Event]:
    events = [Event(kind=EventKind.UNREADABLE, message=note) for note in columns.notes]
    if columns.bad_count:
        first = columns.bad_lines[0]
        lines = plural(columns.bad_count, "line was", "lines were")
        message = f"{lines} not readable (line {first.line}: {first.reason})"
        events.insert(0, Event(kind=EventKind.UNREADABLE, message=message))
    return events
