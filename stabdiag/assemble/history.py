"""Build the history of one run from the raw columns of its log.

The six steps are the roles of the columns, the step of each record, the losses, hidden NaN, the
order of the records, and the series of one run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.accounting import unused_after_loss
from stabdiag.assemble.losses import (
    load,
    of_whole_epochs,
    read_losses,
    with_hidden_norms,
    with_nan_of_any,
)
from stabdiag.assemble.naming import name_columns
from stabdiag.assemble.order import find_order
from stabdiag.assemble.parquet import converted_history
from stabdiag.assemble.records import (
    MIN_RECORDS,
    MIN_SERIES_LENGTH,
    RARE_FRACTION,
    SHOWN,
    select_rank,
)
from stabdiag.assemble.steps import read_steps, with_clock
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.frozen import frozen
from stabdiag.model.history import (
    Event,
    EventCode,
    EventKind,
    History,
    Part,
    RepeatedSteps,
    Series,
    Source,
    unit_of,
)
from stabdiag.model.roles.loss_kinds import loss_kind
from stabdiag.model.roles.names import is_setting, names_split, split_of, words_of
from stabdiag.model.roles.other_losses import find_other_losses
from stabdiag.model.roles.scores import scores_of
from stabdiag.model.roles.settings import difficulty_direction, is_part, setting_of, settings_of
from stabdiag.model.text import and_more, names_in, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from stabdiag.assemble.losses import Losses
    from stabdiag.assemble.order import Order
    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.limits import Limits
    from stabdiag.readers.columns import Column, Columns

# At most this many earlier runs of a log are diagnosed as well: each costs as much as the last one.
MAX_EARLIER_RUNS = 10

# In a log, an epsilon usually belongs to an exploration or an attack, not to the optimizer.
_AMBIGUOUS_SETTINGS = frozenset({"epsilon", "eps"})

# Columns without a role are listed first if their names contain these words.
_LISTED_FIRST = frozenset(
    names_in("loss grad norm lr scale reward acc accuracy entropy kl ppl weight")
)


def build_history(
    columns: Columns,
    limits: Limits,
    *,
    chosen: Mapping[str, str] | None = None,
    attempt: int | None = None,
) -> History:
    """Turn the raw columns of a log into the history of one run.

    Args:
        columns: the raw columns from the reader.
        limits: thresholds; ``nan.absent_records`` is used here.
        chosen: columns by role that the user named.
        attempt: the number of the appended run to use, from 1; None for the last.

    Raises:
        ColumnError: if the log lacks a loss and other usable series, or a chosen column.
        LogError: if the attempt does not exist.
        NoUsableRecord: if no record has both a loss and a step, or each belongs to a separate run.
    """
    if columns.converted and not chosen and attempt in (None, 1):
        history = converted_history(columns, columns.converted)
        if history is not None:
            return history
    # 1. Roles of the columns. Settings that the user named are not measurements.
    named = name_columns(columns, chosen)
    columns = named.columns
    picked = {role: name for role, name in named.names.items() if role.startswith("setting/")}
    names = {role: name for role, name in named.names.items() if role not in picked}
    # 2. Steps and times of the records.
    clock = read_steps(columns, names)
    events = [*_unreadable(columns), *clock.events]
    events += [Event(kind=EventKind.COLUMN, message=note) for note in named.notes]
    data, dropped = load(columns, names, of_epochs=clock.of_epochs)
    data, names, moved = with_clock(data, names)
    # 3. and 4. Losses, and hidden NaN in losses and gradient norms.
    data, restored = with_hidden_norms(data, null_is_nan=columns.distinguishes_null)
    events += [*dropped, *moved, *restored]
    losses = read_losses(columns, data, names, clock, absent_records=limits.nan.absent_records)
    # 5. Order: resumes and consecutive runs.
    usable_losses = losses.records & np.isfinite(losses.values)
    ranks = data.pop("rank", None)
    is_selected = select_rank(clock.steps, clock.usable, losses.records, usable_losses, ranks)
    order = find_order(
        clock if is_selected.all() else replace(clock, usable=clock.usable & is_selected),
        losses.values if usable_losses.all() else np.where(usable_losses, losses.values, np.nan),
        losses.records,
        columns.load(names["epoch"]).values if names.get("epoch") else None,
        rates=data["lr"].values if "lr" in data else None,
        epoch_length=columns.epoch_length,
        ends=[*columns.ends, *_epoch_falls(columns, names, clock, losses.records)],
    )
    others = clock.usable & ~is_selected
    order = order.with_other_ranks(others) if others.any() else order
    is_parallel = order.interleaved and order.runs > 1
    if not is_parallel:
        losses = with_nan_of_any(losses, order.steps, clock.usable, interleaved=order.interleaved)
    # 6. History: the series of one run.
    number = order.runs if attempt is None else attempt
    if not 1 <= number <= order.runs:
        raise LogError(
            f"{columns.source}: no attempt {number}; the log contains "
            f"{plural(order.runs, 'attempt')}"
        )
    built = _Built(
        columns=columns,
        names=names,
        picked=picked,
        clock=clock,
        data=data,
        losses=losses,
        order=order,
        events=tuple(events),
        is_parallel=is_parallel,
    )
    history = built.history(number)
    if attempt is not None or order.runs == 1:
        return history
    earlier = [n for n in range(1, order.runs + 1) if n != number][-MAX_EARLIER_RUNS:]
    return replace(history, earlier=tuple(built.histories(earlier)))


def _epoch_falls(
    columns: Columns, names: Mapping[str, str], clock: Steps, records: Mask
) -> list[int]:
    """Return the records where a fractional epoch goes back, if it is the only counter of a log.

    If record numbers are used as steps, only the epoch shows that a new run began.
    """
    if "epoch" not in names or not any(e.code is EventCode.NUMBERED for e in clock.events):
        return []
    column = columns.load(names["epoch"])
    rows = np.flatnonzero(column.present & records & np.isfinite(column.values))
    if column.is_text or not len(rows):
        return []
    falls = np.diff(column.values[rows]) < 0
    return [int(row) for row in rows[1:][falls]][:MIN_SERIES_LENGTH]


@frozen
class _Built:
    """A log with ordered records; it builds the histories of its runs."""

    columns: Columns
    names: Mapping[str, str]
    picked: Mapping[str, str]
    clock: Steps
    data: Mapping[str, Column]
    losses: Losses
    order: Order
    events: tuple[Event, ...]
    is_parallel: bool

    def histories(self, numbers: Iterable[int]) -> Iterator[History]:
        """Yield the histories of some runs, skipping runs without a usable record."""
        for number in numbers:
            with suppress(NoUsableRecord):
                yield self.history(number)

    def history(self, number: int) -> History:
        """Return the history of one run, by its number from 1."""
        columns, names, picked = self.columns, self.names, self.picked
        clock, data, order = self.clock, self.data, self.order
        events = [*self.events]
        run = order.run(number)
        losses = of_whole_epochs(self.losses, clock, order.steps, run)
        events += [*losses.events, *order.events]
        events += unused_after_loss(columns, names, losses.records & clock.usable, clock.usable)
        if "loss" in names and not (run & losses.records).any():
            raise NoUsableRecord(f"{columns.source}: no record has both a step and a loss")
        if order.runs > 1:
            lost = order.number[losses.records & ~np.isfinite(losses.values)]
            events.append(_several(order.runs, number, lost, is_parallel=self.is_parallel))
        series = dict(_series(data, names, losses, order.steps, run))
        taken = set(names.values())
        series |= {
            setting.role: setting for setting in _settings(columns, picked, taken, order.steps, run)
        }
        series |= {part.role: part for part in _late_loss_parts(columns, taken, order.steps, run)}
        used = taken | {logged.column for logged in series.values()}
        series |= {loss.role: loss for loss in _other_losses(columns, used, order.steps, run)}
        series |= {score.role: score for score in _scores(columns, taken, order.steps, run)}
        if not columns.unnamed:
            events += _without_a_role(
                columns.names, {logged.column for logged in series.values()} | taken
            )
        all_events = (*columns.events, *events)
        return History(
            series=series,
            events=all_events,
            unit=unit_of(all_events),
            repeated_steps=tuple(_repeated_steps(losses, order, number)),
            config={**_fixed(columns, taken, run), **columns.config},
            loss_kind=loss_kind(names.get("loss", ""), columns.names, has_reward="reward" in names),
            source=Source(
                name=columns.source,
                format=columns.format,
                other_runs=columns.other_runs,
                records=columns.rows,
                unreadable=columns.bad_count,
                attempts=order.runs,
                attempt=number,
                files=columns.files,
                parts=tuple(_parts(columns, order.steps, run)),
            ),
        )


def _series(
    data: Mapping[str, Column], names: Mapping[str, str], losses: Losses, steps: Ints, run: Mask
) -> Iterator[tuple[str, Series]]:
    """Yield the nonempty series of one run by role, the loss first."""
    run_steps = steps if run.all() else steps[run]
    rising = bool(np.all(run_steps[1:] > run_steps[:-1]))

    def logged(role: str, values: Floats, records: Mask) -> Series:
        which = run & records
        at = steps
        if not which.all():
            at, values = steps[which], values[which]
        at, values = _in_order(at, values, rising=rising)
        return Series(role=role, column=names[role], steps=at, values=values)

    if "loss" in names:
        yield "loss", logged("loss", losses.values, losses.records)
    for role, column in data.items():
        if role != "loss":
            series = logged(role, column.values, column.present)
            if len(series):
                yield role, series


def _in_order(steps: Ints, values: Floats, *, rising: bool) -> tuple[Ints, Floats]:
    """Sort by step and keep the last record of each step.

    If the steps are already ``rising``, nothing is copied.
    """
    if rising or len(steps) < 2:
        return steps, values
    order = np.argsort(steps, kind="stable")
    last = np.append(steps[order][1:] != steps[order][:-1], True)
    return steps[order][last], values[order][last]


def _several(
    runs: int, number: int, lost: NDArray[np.signedinteger], *, is_parallel: bool
) -> Event:
    """Report that a log contains several runs; ``lost`` are the runs with non-finite losses."""
    order = "written at the same time" if is_parallel else "one after the other"
    message = (
        f"the log contains {runs} runs, {order}; this is number {number} "
        "(--attempt N selects another)"
    )
    others = [n for n in np.unique(lost).tolist() if n > 0 and n != number]
    if others:
        message += f"; not all losses of number {and_more(others, 3)} are finite"
    code = EventCode.SEVERAL_WRITERS if is_parallel else None
    return Event(kind=EventKind.ATTEMPT, code=code, message=message)


def _parts(columns: Columns, steps: Ints, run: Mask) -> Iterator[Part]:
    """Yield the files that contain the run's records, in the order they were written."""
    for path, rows in columns.parts:
        run_steps = steps[rows[run[rows]]]
        if len(run_steps):
            yield Part(path=path, first=int(run_steps.min()), last=int(run_steps.max()))


def _unreadable(columns: Columns) -> list[Event]:
    events = [Event(kind=EventKind.UNREADABLE, message=note) for note in columns.notes]
    if columns.bad_count:
        first = columns.bad_lines[0]
        lines = plural(columns.bad_count, "line was", "lines were")
        message = f"{lines} not readable (line {first.line}: {first.reason})"
        events.insert(0, Event(kind=EventKind.UNREADABLE, message=message))
    return events


def _repeated_steps(losses: Losses, order: Order, number: int) -> Iterator[RepeatedSteps]:
    """Yield the steps that each resume of a run repeated, where both attempts logged a loss."""
    rows = np.flatnonzero(losses.records & np.isfinite(losses.values) & (order.number >= 0))
    steps, runs = order.steps[rows], order.number[rows]
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    if not len(back):
        return
    for begin, at, end in zip([0, *back[:-1]], back, [*back[1:], len(rows)], strict=True):
        # A positive run number before the step back means that a new run begins.
        if runs[at - 1] or not {0, number}.issuperset(runs[[at, end - 1]].tolist()):
            continue
        shared, old, new = np.intersect1d(steps[begin:at], steps[at:end], return_indices=True)
        values = losses.values[rows]
        if len(shared):
            yield RepeatedSteps(
                step=int(steps[at]),
                steps=shared,
                before=values[begin:at][old],
                after=values[at:end][new],
            )


def _without_a_role(names: Collection[str], used: Collection[str]) -> list[Event]:
    """Report the columns without a role that are not settings or split markers."""
    unused = [
        name
        for name in names
        if name not in used and not (is_setting(name) or setting_of(name) or names_split(name))
    ]
    if not unused:
        return []
    unused.sort(key=lambda name: _LISTED_FIRST.isdisjoint(words_of(name)))
    message = f"ignored columns: {and_more(unused, SHOWN // 2)} (--column ROLE=NAME assigns a role)"
    return [Event(kind=EventKind.COLUMN, message=message)]


def _settings(
    columns: Columns, chosen: Mapping[str, str], taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the settings that changed during a run, each with its own role.

    Args:
        columns: the columns of the log.
        chosen: columns that the user named, by role.
        taken: columns with another role.
        steps: the step of each record.
        run: the records of the run.
    """
    detected = settings_of(columns.names, {*taken, *chosen.values()})
    for role, name in {**detected, **chosen}.items():
        column = columns.load(name)
        # Times are not settings, and neither are the words for training and evaluation.
        if column.is_time or any(split_of(word) is not None for word in column.words):
            continue
        series = _changing(role, name, column, steps, run)
        if series is not None and _is_setting(series, int(run.sum())):
            yield series


def _fixed(columns: Columns, taken: Collection[str], run: Mask) -> Mapping[str, object]:
    """Return the settings that are constant in all records of a run, by plain name.

    If parameter groups differ in a setting, it is left out.
    """
    values_by_name: dict[str, set[object]] = {}
    for name in settings_of(columns.names, taken).values():
        column, plain = columns.load(name), str(setting_of(name))
        values = column.values[run & column.present]
        if plain in _AMBIGUOUS_SETTINGS or column.is_time or not len(values):
            continue
        words = dict(enumerate(column.words))
        first = float(values[0])
        value = None if (values != first).any() else words.get(int(first)) if words else first
        values_by_name.setdefault(plain, set()).add(value)
    return {
        plain: value
        for plain, group_values in values_by_name.items()
        for value in group_values
        if len(group_values) == 1 and value is not None
    }


def _is_setting(series: Series, records: int) -> bool:
    """Return True if a column changes rarely, or often but may make the task harder."""
    before, after = series.values[:-1], series.values[1:]
    if np.count_nonzero(after != before) <= max(RARE_FRACTION * records, MIN_RECORDS):
        return True
    is_monotonic = (after >= before).all() or (after <= before).all()
    names = (series.column, series.role.partition("/")[2])
    is_kept = bool(is_monotonic) or _has_outlier(series, records)
    return is_kept and any(difficulty_direction(name) is not None for name in names)


def _has_outlier(series: Series, records: int) -> bool:
    """Return True if a number is at least twice its usual value at only a few records."""
    values = series.values
    highest, usual = float(values.max()), float(np.sort(values)[len(values) // 2])
    high_count = int(np.count_nonzero(values > highest / 2))
    is_rare = high_count <= max(RARE_FRACTION * records, MIN_RECORDS)
    return not series.words and 0 < 2 * usual <= highest and is_rare


def _late_loss_parts(
    columns: Columns, taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the loss terms that are 0 at first and never again, as settings that go from off to on.

    YOLOX adds an L1 loss for its last epochs, and a GAN loss may start later.
    """
    for name in columns.names:
        if name in taken or not is_part(name):
            continue
        column = columns.load(name)
        part = None if column.is_text else _changing(f"setting/{name}", name, column, steps, run)
        if part is None:
            continue
        on = part.values != 0
        if not on[:MIN_SERIES_LENGTH].any() and np.count_nonzero(on[1:] != on[:-1]) == 1:
            yield replace(part, values=on.astype(np.float64), words=("off", "on"))


def _scores(columns: Columns, taken: Collection[str], steps: Ints, run: Mask) -> Iterator[Series]:
    """Yield the scores of a run without another role, each under its own name."""
    for role, name in scores_of(columns.names, taken).items():
        column = columns.load(name)
        which = run & column.present & np.isfinite(column.values)
        if column.is_text or column.is_time or not which.any():
            continue
        at, values = steps[which], column.values[which]
        at, values = _in_order(at, values, rising=bool((at[1:] > at[:-1]).all()))
        yield Series(role=role, column=name, steps=at, values=values)


def _other_losses(
    columns: Columns, taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the other losses of a run, each under its own name.

    A value that is not a number counts as NaN: the loss was measured but is not finite.
    """
    for role, name in find_other_losses(columns.names, taken).items():
        column = columns.load(name)
        if column.is_text or column.is_time:
            continue
        which = column.present.copy()
        which[column.stray_rows] = True
        which &= run
        if which.any():
            at, values = steps[which], column.values[which]
            at, values = _in_order(at, values, rising=bool((at[1:] > at[:-1]).all()))
            yield Series(role=role, column=name, steps=at, values=values)


def _changing(role: str, name: str, column: Column, steps: Ints, run: Mask) -> Series | None:
    """Return the finite values of a run as a series, or None if they are all the same."""
    which = run & column.present & np.isfinite(column.values)
    if column.is_text:
        which &= column.values < len(column.words)
    at, values = steps[which], column.values[which]
    if len(at) < 2 or not (values != values[0]).any():
        return None
    at, values = _in_order(at, values, rising=bool((at[1:] > at[:-1]).all()))
    words = column.words if column.is_text else ()
    return Series(role=role, column=name, steps=at, values=values, words=words)
