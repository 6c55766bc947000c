"""The history of one run, built from the raw columns of its log in six steps.

Which column is what, the step of each record, the losses, the NaN that is hidden among them, the
order of the records, and from these the series of one run.
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
from stabdiag.assemble.records import ENOUGH, MANY, SELDOM, SHOWN, of_a_rank
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
from stabdiag.model.roles.other_losses import other_losses_of
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

# So many other runs of a log are judged as well: each costs what the last one does.
MAX_EARLIER_RUNS = 10

# In a log, an epsilon is that of an exploration or of an attack more often than an optimizer's.
_OF_WHAT_ELSE = frozenset({"epsilon", "eps"})

# Words in the names of columns that could have a role, and have none.
_MATTERS = frozenset(names_in("loss grad norm lr scale reward acc accuracy entropy kl ppl weight"))


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
    if columns.converted and not chosen and attempt in (None, 1):
        history_as_converted = converted_history(columns, columns.converted)
        if history_as_converted is not None:
            return history_as_converted
    # 1. Roles: which column is what. Settings that the user named are not measured.
    named = name_columns(columns, chosen)
    columns = named.columns
    picked = {role: one for role, one in named.names.items() if role.startswith("setting/")}
    names = {role: one for role, one in named.names.items() if role not in picked}
    # 2. Steps: when each record was written, by its step and by the clock.
    clock = read_steps(columns, names)
    events = [*_unreadable(columns), *clock.events]
    events += [Event(kind=EventKind.COLUMN, message=note) for note in named.notes]
    data, dropped = load(columns, names, of_epochs=clock.of_epochs)
    data, names, moved = with_clock(data, names)
    # 3. and 4. Losses, with the NaN that is hidden among them and the gradient norms.
    data, put_back = with_hidden_norms(data, null_is_nan=columns.tells_null)
    events += [*dropped, *moved, *put_back]
    losses = read_losses(columns, data, names, clock, absent_records=limits.nan.absent_records)
    # 5. Order: resumes, and runs one after the other.
    known = losses.records & np.isfinite(losses.values)
    ranks = data.pop("rank", None)
    mine = of_a_rank(clock.steps, clock.usable, losses.records, known, ranks)
    order = find_order(
        clock if mine.all() else replace(clock, usable=clock.usable & mine),
        losses.values if known.all() else np.where(known, losses.values, np.nan),
        losses.records,
        columns.load(names["epoch"]).values if names.get("epoch") else None,
        rates=data["lr"].values if "lr" in data else None,
        epoch_length=columns.epoch_length,
        ends=[*columns.ends, *_epoch_falls(columns, names, clock, losses.records)],
    )
    others = clock.usable & ~mine
    order = order.beside(others) if others.any() else order
    at_once = order.interleaved and order.runs > 1
    if not at_once:
        losses = with_nan_of_any(losses, order.steps, clock.usable, interleaved=order.interleaved)
    # 6. History: the series of one run.
    number = order.runs if attempt is None else attempt
    if not 1 <= number <= order.runs:
        raise LogError(
            f"{columns.source}: there is no attempt {number}; the log holds "
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
        at_once=at_once,
    )
    history = built.history(number)
    if attempt is not None or order.runs == 1:
        return history
    earlier = [n for n in range(1, order.runs + 1) if n != number][-MAX_EARLIER_RUNS:]
    return replace(history, earlier=tuple(built.histories(earlier)))


def _epoch_falls(
    columns: Columns, names: Mapping[str, str], clock: Steps, records: Mask
) -> list[int]:
    """Return the records at which a fractional epoch, the only counter of a log, goes back.

    Where the number of a record serves as its step, nothing else tells that a run began again.
    """
    if "epoch" not in names or not any(e.code is EventCode.NUMBERED for e in clock.events):
        return []
    column = columns.load(names["epoch"])
    rows = np.flatnonzero(column.present & records & np.isfinite(column.values))
    if column.is_text or not len(rows):
        return []
    falls = np.diff(column.values[rows]) < 0
    return [int(row) for row in rows[1:][falls]][:MANY]


@frozen
class _Built:
    """A log whose records are in order: what the histories of its runs are made of."""

    columns: Columns
    names: Mapping[str, str]
    picked: Mapping[str, str]
    clock: Steps
    data: Mapping[str, Column]
    losses: Losses
    order: Order
    events: tuple[Event, ...]
    at_once: bool

    def histories(self, numbers: Iterable[int]) -> Iterator[History]:
        """Yield the histories of some runs; one without a usable record has none."""
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
            events.append(_several(order.runs, number, lost, at_once=self.at_once))
        series = dict(_series(data, names, losses, order.steps, run))
        taken = set(names.values())
        series |= {one.role: one for one in _settings(columns, picked, taken, order.steps, run)}
        series |= {one.role: one for one in _parts_switched_on(columns, taken, order.steps, run)}
        used = taken | {one.column for one in series.values()}
        series |= {loss.role: loss for loss in _other_losses(columns, used, order.steps, run)}
        series |= {score.role: score for score in _scores(columns, taken, order.steps, run)}
        if not columns.unnamed:
            events += _without_a_role(
                columns.names, {one.column for one in series.values()} | taken
            )
        all_events = (*columns.events, *events)
        return History(
            series=series,
            events=all_events,
            unit=unit_of(all_events),
            retaken=tuple(_retaken(losses, order, number)),
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
    """Yield the series of one run by role, the loss first; a role without a record has none."""
    mine = steps if run.all() else steps[run]
    rising = bool(np.all(mine[1:] > mine[:-1]))

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
            one = logged(role, column.values, column.present)
            if len(one):
                yield role, one


def _in_order(steps: Ints, values: Floats, *, rising: bool) -> tuple[Ints, Floats]:
    """Return steps and values with the steps rising, the last record of each step.

    What is ``rising`` already is not copied.
    """
    if rising or len(steps) < 2:
        return steps, values
    order = np.argsort(steps, kind="stable")
    last = np.append(steps[order][1:] != steps[order][:-1], True)
    return steps[order][last], values[order][last]


def _several(runs: int, number: int, lost: NDArray[np.signedinteger], *, at_once: bool) -> Event:
    """Tell that a log holds several runs; ``lost`` are the runs of losses that are not finite."""
    how = "written at the same time" if at_once else "one after the other"
    message = (
        f"the log holds {runs} runs, {how}; this is number {number} (--attempt N picks another)"
    )
    others = [n for n in np.unique(lost).tolist() if n > 0 and n != number]
    if others:
        message += f"; not all losses of number {and_more(others, 3)} are finite"
    code = EventCode.SEVERAL_WRITERS if at_once else None
    return Event(kind=EventKind.ATTEMPT, code=code, message=message)


def _parts(columns: Columns, steps: Ints, run: Mask) -> Iterator[Part]:
    """Yield the files that the run's records lie in, in the order in which they were written."""
    for path, rows in columns.parts:
        mine = steps[rows[run[rows]]]
        if len(mine):
            yield Part(path=path, first=int(mine.min()), last=int(mine.max()))


def _unreadable(columns: Columns) -> list[Event]:
    events = [Event(kind=EventKind.UNREADABLE, message=note) for note in columns.notes]
    if columns.bad_count:
        first = columns.bad_lines[0]
        lines = plural(columns.bad_count, "line was", "lines were")
        message = f"{lines} not readable (line {first.line}: {first.reason})"
        events.insert(0, Event(kind=EventKind.UNREADABLE, message=message))
    return events


def _retaken(losses: Losses, order: Order, number: int) -> Iterator[RepeatedSteps]:
    """Yield what each resume of a run went over again, as far as both attempts logged it."""
    rows = np.flatnonzero(losses.records & np.isfinite(losses.values) & (order.number >= 0))
    steps, runs = order.steps[rows], order.number[rows]
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    if not len(back):
        return
    for begin, at, end in zip([0, *back[:-1]], back, [*back[1:], len(rows)], strict=True):
        # Another run begins behind a record that counts.
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
    """Tell which columns mean nothing to the program, and are neither settings nor marks."""
    unused = [
        name
        for name in names
        if name not in used and not (is_setting(name) or setting_of(name) or names_split(name))
    ]
    if not unused:
        return []
    unused.sort(key=lambda name: _MATTERS.isdisjoint(words_of(name)))
    message = f"no role for {and_more(unused, SHOWN // 2)} (--column ROLE=NAME gives one)"
    return [Event(kind=EventKind.COLUMN, message=message)]


def _settings(
    columns: Columns, chosen: Mapping[str, str], taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the settings that changed in the course of a run, each by its own role.

    Args:
        columns: the columns of the log.
        chosen: columns that the user named, by role.
        taken: columns that serve another role.
        steps: the step of each record.
        run: the records of the run.
    """
    found = settings_of(columns.names, {*taken, *chosen.values()})
    for role, name in {**found, **chosen}.items():
        column = columns.load(name)
        # Times are no setting, nor are the words for training and evaluation.
        if column.is_time or any(split_of(word) is not None for word in column.words):
            continue
        series = _changing(role, name, column, steps, run)
        if series is not None and _is_setting(series, int(run.sum())):
            yield series


def _fixed(columns: Columns, taken: Collection[str], run: Mask) -> Mapping[str, object]:
    """Return the settings that a run logs in its records and never changes, by plain name.

    Of several groups of parameters that differ, none is that of the run.
    """
    found: dict[str, set[object]] = {}
    for name in settings_of(columns.names, taken).values():
        column, plain = columns.load(name), str(setting_of(name))
        values = column.values[run & column.present]
        if plain in _OF_WHAT_ELSE or column.is_time or not len(values):
            continue
        words = dict(enumerate(column.words))
        first = float(values[0])
        told = None if (values != first).any() else words.get(int(first)) if words else first
        found.setdefault(plain, set()).add(told)
    told_alike = {plain: one for plain, told in found.items() for one in told if len(told) == 1}
    return {plain: value for plain, value in told_alike.items() if value is not None}


def _is_setting(series: Series, records: int) -> bool:
    """Tell whether a column changes, and not all along unless it may make the loss harder."""
    before, after = series.values[:-1], series.values[1:]
    if np.count_nonzero(after != before) <= max(SELDOM * records, ENOUGH):
        return True
    one_way = (after >= before).all() or (after <= before).all()
    names = (series.column, series.role.partition("/")[2])
    is_kept = bool(one_way) or _has_outlier(series, records)
    return is_kept and any(difficulty_direction(name) is not None for name in names)


def _has_outlier(series: Series, records: int) -> bool:
    """Return True if a number is at least twice its usual value at a few records alone."""
    values = series.values
    highest, usual = float(values.max()), float(np.sort(values)[len(values) // 2])
    as_high = int(np.count_nonzero(values > highest / 2))
    is_rare = as_high <= max(SELDOM * records, ENOUGH)
    return not series.words and 0 < 2 * usual <= highest and is_rare


def _parts_switched_on(
    columns: Columns, taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the parts of the loss that are 0 at first, and never again, as settings: off, then on.

    YOLOX adds an L1 loss for its last epochs, and a GAN begins after a while.
    """
    for name in columns.names:
        if name in taken or not is_part(name):
            continue
        column = columns.load(name)
        part = None if column.is_text else _changing(f"setting/{name}", name, column, steps, run)
        if part is None:
            continue
        on = part.values != 0
        if not on[:MANY].any() and np.count_nonzero(on[1:] != on[:-1]) == 1:
            yield replace(part, values=on.astype(np.float64), words=("off", "on"))


def _scores(columns: Columns, taken: Collection[str], steps: Ints, run: Mask) -> Iterator[Series]:
    """Yield the scores of a run that serve no other role, each under its own name."""
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

    A value that is not a number is NaN: the loss was measured, and came to nothing.
    """
    for role, name in other_losses_of(columns.names, taken).items():
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
