"""Build the history of one run from the raw columns of its log.

The six steps are the roles of the columns, the step of each record, the losses, hidden NaN, the
order of the records, and the series of one run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.accounting import unused_after_loss
from stabdiag.assemble.extra_series import (
    SECOND_LOSSES,
    changing_settings,
    failed_value_series,
    fixed_settings,
    late_loss_parts,
    ordered_series,
    other_loss_series,
    rank_loss_series,
    score_series,
    with_failed_cells,
)
from stabdiag.assemble.losses import (
    read_losses,
    with_hidden_activations,
    with_hidden_norms,
    with_nan_of_any,
)
from stabdiag.assemble.means import with_corrected_start, without_running_means
from stabdiag.assemble.messages import (
    columns_without_role,
    describe_runs,
    place_messages,
    unreadable_lines,
)
from stabdiag.assemble.naming import name_columns
from stabdiag.assemble.order import find_order
from stabdiag.assemble.records import MIN_RECORDS, MIN_SERIES_LENGTH, select_rank
from stabdiag.assemble.steps import first_games, read_steps, with_clock
from stabdiag.assemble.usable_columns import load_usable
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.events import Event, EventCode, EventKind, step_unit
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Part, RepeatedSteps, Series, Source
from stabdiag.model.roles.loss_kinds import loss_kind
from stabdiag.model.roles.names import normal
from stabdiag.model.roles.scores import PERCENT, score_columns
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stabdiag.assemble.losses import Losses
    from stabdiag.assemble.order import Order
    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.limits import Limits
    from stabdiag.readers.columns import Column, Columns

# At most this many earlier runs of a log, and this many attempts that a resume gave up, are
# diagnosed as well: each costs as much as the last one.
MAX_EARLIER_RUNS = 10
MAX_ABANDONED = 3

# An attempt may have failed if its last loss is this many times the usual one.
_FAR_UP = 2.0


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
        from stabdiag.assemble.parquet import converted_history

        history = converted_history(columns, columns.converted)
        if history is not None:
            return history
    # 1. Roles of the columns. Settings that the user named are not measurements.
    named = name_columns(columns.with_recent(), chosen)
    columns = named.columns
    picked = {role: name for role, name in named.names.items() if role.startswith("setting/")}
    names = {role: name for role, name in named.names.items() if role not in picked}
    # 2. Steps and times of the records.
    clock = read_steps(columns, names)
    events = [*unreadable_lines(columns), *clock.events]
    events += [Event(kind=EventKind.COLUMN, message=note) for note in named.notes]
    data, dropped = load_usable(columns, names, of_epochs=clock.of_epochs)
    data, names, moved = with_clock(data, names)
    # 3. and 4. Losses, and hidden NaN in losses and gradient norms.
    data, restored = with_hidden_norms(data, null_is_nan=columns.distinguishes_null)
    data = with_failed_cells(columns, data, SECOND_LOSSES)
    events += [*dropped, *moved, *restored]
    losses = read_losses(columns, data, names, clock, absent_records=limits.nan.absent_records)
    data = with_hidden_activations(data, losses)
    # 5. Order: resumes and consecutive runs.
    ranks = data.pop("rank", None)
    order, others = _find_order(columns, names, clock, losses, data, ranks)
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
    built = _OrderedLog(
        columns=columns,
        names=names,
        picked=picked,
        clock=clock,
        data=data,
        losses=losses,
        order=order,
        events=tuple(events),
        is_parallel=is_parallel,
        ranks=ranks if others.any() else None,
    )
    history = built.history(number)
    if attempt is not None:
        return history
    numbers = [n for n in range(1, order.runs + 1) if n != number][-MAX_EARLIER_RUNS:]
    return replace(history, earlier=(*built.histories(numbers), *built.failed_attempts(number)))


def _find_order(
    columns: Columns,
    names: Mapping[str, str],
    clock: Steps,
    losses: Losses,
    data: Mapping[str, Column],
    ranks: Column | None,
) -> tuple[Order, Mask]:
    """Return the order of the records of one rank for each step, and the records of other ranks."""
    usable_losses = losses.records & np.isfinite(losses.values)
    values, records = _ordered_values(columns, names, losses, data, clock)
    is_selected = select_rank(
        clock.steps, clock.usable, losses.records, usable_losses, ranks, names.get("rank")
    )
    order = find_order(
        clock if is_selected.all() else replace(clock, usable=clock.usable & is_selected),
        values,
        records,
        columns.load(names["epoch"]).values if names.get("epoch") else None,
        rates=data["lr"].values if "lr" in data else None,
        epoch_length=columns.epoch_length,
        ends=[*columns.ends, *_epoch_falls(columns, names, clock, losses.records)],
        restarts=(
            columns.restarts
            if losses.records.any() or "reward" not in data
            else first_games(clock, columns.counter, data["reward"])
        ),
    )
    others = clock.usable & ~is_selected
    return order.with_other_ranks(others) if others.any() else order, others


def _ends_far_up(losses: Floats) -> bool:
    """Return True if the last losses are not finite, or far above the usual one."""
    last = losses[-MIN_RECORDS:]
    return not np.isfinite(last).all() or bool(last[-1] > _FAR_UP * np.nanmedian(losses))


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


def _ordered_values(
    columns: Columns,
    names: Mapping[str, str],
    losses: Losses,
    data: Mapping[str, Column],
    clock: Steps,
) -> tuple[Floats, Mask]:
    """Return the values that determine the order, NaN where not finite, and their records.

    These are the losses. A log of scores whose counter restarts with each epoch uses its records of
    training accuracy. A log of evaluations or rewards uses the first column: its values return to
    their start if a new run begins.
    """
    usable = losses.records & np.isfinite(losses.values)
    values = losses.values if usable.all() else np.where(usable, losses.values, np.nan)
    if losses.records.any():
        return values, losses.records
    if "accuracy" in data:
        scored = data["accuracy"].present & clock.usable
        return values, scored & data["epoch"].present if "epoch" in data else scored
    preferred = [data[role] for role in ("eval_accuracy", "reward") if role in data]
    others = map(columns.load, score_columns(columns.names, {*names.values()}).values())
    for column in chain(preferred, others):
        if column.present.any() and not (column.is_text or column.is_time):
            return column.values, column.present & clock.usable
    return values, losses.records


@frozen
class _OrderedLog:
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
    ranks: Column | None = None

    def histories(self, numbers: Iterable[int]) -> Iterator[History]:
        """Yield the histories of some runs, skipping runs without a usable record."""
        for number in numbers:
            with suppress(NoUsableRecord):
                yield self.history(number)

    def failed_attempts(self, number: int) -> Iterator[History]:
        """Yield the attempts of a run that a resume gave up, if they may have failed."""
        losses, order, usable = self.losses, self.order, self.clock.usable
        if order.interleaved:
            return
        for row in [row for row in order.rewinds if order.number[row] == number][-MAX_ABANDONED:]:
            run = order.abandoned(row, usable, losses.records)
            rows = np.flatnonzero(run & losses.records)
            if len(rows) and _ends_far_up(losses.values[rows]):
                yield self._build_history(number, run, resumed_at=int(order.steps[row]))

    def history(self, number: int) -> History:
        """Return the history of one run, by its number from 1."""
        return self._build_history(number, self.order.run(number))

    def _build_history(self, number: int, run: Mask, *, resumed_at: int | None = None) -> History:
        columns, names, clock, order = self.columns, self.names, self.clock, self.order
        events = [*self.events]
        losses = without_running_means(self.losses, clock, order.steps, run, columns.bar)
        losses = with_corrected_start(losses, order.steps, run)
        events += [*losses.events, *order.events]
        events += unused_after_loss(columns, names, losses.records & clock.usable, clock.usable)
        if "loss" in names and not (run & losses.records).any():
            raise NoUsableRecord(f"{columns.source}: no record has both a step and a loss")
        if order.runs > 1:
            lost = order.number[losses.records & ~np.isfinite(losses.values)]
            events.append(describe_runs(order.runs, number, lost, is_parallel=self.is_parallel))
        series = self._all_series(losses, run)
        taken = set(names.values())
        if not columns.unnamed:
            used = {logged.column for logged in series.values()} | taken | {clock.column}
            # The counter of a text may be a column as well: Step: 2000.
            used |= {name for name in columns.names if normal(name) == normal(columns.counter)}
            events += columns_without_role(columns.names, used)
        all_events = (*place_messages(columns.events, clock, order, run), *events)
        return History(
            series=series,
            events=all_events,
            unit=step_unit(all_events, columns.counter),
            repeated_steps=tuple(_repeated_steps(losses, order, number)),
            config={**fixed_settings(columns, taken, run), **columns.config},
            loss_kind=loss_kind(
                names.get("loss", ""),
                (*columns.names, columns.counter),
                has_reward="reward" in names,
            ),
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
                resumed_at=resumed_at,
            ),
        )

    def _all_series(self, losses: Losses, run: Mask) -> dict[str, Series]:
        """Return the series of one run by role, also of columns without a role."""
        columns, names, steps = self.columns, self.names, self.order.steps
        series = dict(_series(self.data, names, losses, steps, run))
        taken = set(names.values())

        def add(added: Iterable[Series]) -> None:
            series.update((logged.role, logged) for logged in added)

        def used() -> set[str]:
            return taken | {logged.column for logged in series.values()}

        add(changing_settings(columns, self.picked, taken, steps, run))
        add(late_loss_parts(columns, taken, steps, run))
        add(other_loss_series(columns, used(), steps, run, losses.records))
        if "loss" in names and not columns.unnamed:
            add(failed_value_series(columns, used(), steps, run, losses.records, names.get("lr")))
        add(score_series(columns, taken, steps, run))
        if self.ranks is not None and "loss" in names and self.order.runs == 1:
            others = self.clock.usable & losses.records & (self.order.number < 0)
            add(rank_loss_series(names["loss"], self.ranks, losses.values, steps, others))
        return series


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
        return ordered_series(role, names[role], at, values, rising=rising)

    if "loss" in names:
        yield "loss", logged("loss", losses.values, losses.records)
    for role, column in data.items():
        if role != "loss":
            series = logged(role, column.values, column.present)
            if len(series) and not ("loss" in names and _counts_answers(series)):
                yield role, series


def _counts_answers(series: Series) -> bool:
    """Return True if the values of an accuracy are numbers of right answers, or their sums."""
    is_accuracy = series.role in ("accuracy", "eval_accuracy")
    return is_accuracy and bool(2 * np.count_nonzero(series.values > PERCENT) > len(series))


def _parts(columns: Columns, steps: Ints, run: Mask) -> Iterator[Part]:
    """Yield the files that contain the run's records, in the order they were written."""
    for path, rows in columns.parts:
        run_steps = steps[rows[run[rows]]]
        if len(run_steps):
            yield Part(path=path, first=int(run_steps.min()), last=int(run_steps.max()))


def _repeated_steps(losses: Losses, order: Order, number: int) -> Iterator[RepeatedSteps]:
    """Yield the steps that each resume of a run repeated, where both attempts logged a loss."""
    if np.all(order.steps[1:] >= order.steps[:-1]):
        return
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
