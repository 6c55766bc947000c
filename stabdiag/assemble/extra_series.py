"""Series without a role of their own: settings that change, further scores and losses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.accounting import is_long
from stabdiag.assemble.records import (
    MIN_RECORDS,
    MIN_SERIES_LENGTH,
    RARE_FRACTION,
    has_a_rhythm,
)
from stabdiag.model.history import Series
from stabdiag.model.roles.names import find_split, is_evaluation
from stabdiag.model.roles.other_losses import (
    MAX_OTHER_LOSSES,
    RANK_LOSS,
    find_other_losses,
    find_other_values,
    is_of_answers,
)
from stabdiag.model.roles.scores import score_columns
from stabdiag.model.roles.settings import (
    column_setting,
    difficulty_direction,
    is_part,
    setting_columns,
)
from stabdiag.model.unique import unique_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.readers.columns import Column, Columns

# Roles of a training that may be terms of its loss.
SECOND_LOSSES = ("load_balance", "policy_kl", "policy_entropy")

# In a log, an epsilon usually belongs to an exploration or an attack, not to the optimizer, and
# fairseq's clip is the percentage of updates that were clipped.
_AMBIGUOUS_SETTINGS = frozenset({"epsilon", "eps", "clip"})


def ordered_series(
    role: str, column: str, steps: Ints, values: Floats, *, rising: bool | None = None
) -> Series:
    """Return a series that is sorted by step, with the last record of each step.

    If the steps are ``rising``, which is found out unless it is known, nothing is copied.
    """
    if rising is None:
        rising = bool((steps[1:] > steps[:-1]).all())
    if not rising and len(steps) > 1:
        order = np.argsort(steps, kind="stable")
        last = np.append(steps[order][1:] != steps[order][:-1], True)
        steps, values = steps[order][last], values[order][last]
    return Series(role=role, column=column, steps=steps, values=values)


def changing_settings(
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
    detected = setting_columns(columns.names, {*taken, *chosen.values()})
    for role, name in {**detected, **chosen}.items():
        column = columns.load(name)
        # Times are not settings, and neither are the words for training and evaluation.
        if column.is_time or any(find_split(word) is not None for word in column.words):
            continue
        series = _changing(role, name, column, steps, run)
        if series is not None and _is_setting(series, int(run.sum())):
            yield series


def fixed_settings(columns: Columns, taken: Collection[str], run: Mask) -> Mapping[str, object]:
    """Return the settings that are constant in all records of a run, by plain name.

    If parameter groups differ in a setting, it is left out.
    """
    values_by_name: dict[str, set[object]] = {}
    for name in setting_columns(columns.names, taken).values():
        column, plain = columns.load(name), str(column_setting(name))
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


def late_loss_parts(
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


def score_series(
    columns: Columns, taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the scores of a run without another role, each under its own name.

    Only scores whose last value is not finite keep values that are not finite.
    """
    for role, name in score_columns(columns.names, taken).items():
        column = columns.load(name)
        which = run & column.present
        logged = column.values[which]
        if len(logged) and np.isfinite(logged[-1]):
            which &= np.isfinite(column.values)
        if column.is_text or column.is_time or not which.any():
            continue
        yield ordered_series(role, name, steps[which], column.values[which])


def final_nulls(column: Column) -> Mask:
    """Return a mask of the nulls of a column, if all of them follow its last number."""
    nulls, numbers = np.flatnonzero(column.null), np.flatnonzero(column.present)
    are_final = len(nulls) and len(numbers) and nulls[0] > numbers[-1]
    return column.null if are_final else np.zeros_like(column.null)


def _sudden_nulls(column: Column, losses: Mask) -> Mask:
    """Return a mask of the nulls next to a loss, if at first each loss came with a number.

    A value that is logged less often from some record on has its numbers at equal distances.
    """
    nulls = column.null & losses
    first = int(np.argmax(nulls))
    above = int(np.count_nonzero(column.present[:first] & losses[:first]))
    is_sudden = nulls.any() and above >= MIN_RECORDS and above == losses[:first].sum()
    if not is_sudden or has_a_rhythm(column.present[first:][losses[first:]]):
        return np.zeros_like(nulls)
    return nulls


def failed_cells(columns: Columns, column: Column, losses: Mask) -> Mask:
    """Return the cells of a second loss, of shape (rows,), that count as NaN.

    These are words, and the nulls after the last number or among numbers. In a table, where a blank
    cell may mean that a value is not logged any more, they count if the loss never came without the
    value before and goes on, and if no other column of the training begins: a new stage has other
    losses.
    """
    strays = np.zeros_like(column.null)
    strays[column.stray_rows] = True
    if is_long(columns):
        return strays | final_nulls(column)
    if columns.distinguishes_null:
        return strays | final_nulls(column) | _sudden_nulls(column, losses)
    missing = column.null & losses
    end = int(np.flatnonzero(column.present)[-1]) + 1 if column.present.any() else columns.rows
    if missing[:end].any() or not missing.any():
        return strays
    names = (name for name in columns.names if columns.is_parsed(name) and not is_evaluation(name))
    others = map(columns.load, names)
    return strays if any(_begins_stage(other, end) for other in others) else strays | missing


def _begins_stage(column: Column, row: int) -> bool:
    """Return True if a column has its first value from a row on, or another constant there."""
    logged = np.flatnonzero(column.present)
    if not len(logged) or logged[0] >= row:
        return len(logged) > 0
    above, below = column.values[logged[logged < row]], column.values[logged[logged >= row]]
    return (
        len(below) > 0
        and (above == above[0]).all()
        and (below == below[0]).all()
        and bool(above[0] != below[0])
    )


def with_failed_cells(
    columns: Columns, data: Mapping[str, Column], roles: Sequence[str]
) -> dict[str, Column]:
    """Return the columns by role. For some ``roles``, cells without a number are NaN."""
    if "loss" not in data:
        return {**data}
    failed = {}
    for role in roles:
        if role in data and not data[role].present.all() and not data[role].is_text:
            cells = failed_cells(columns, data[role], data["loss"].present)
            failed[role] = replace(data[role], present=data[role].present | cells)
    return {**data, **failed}


def other_loss_series(
    columns: Columns, taken: Collection[str], steps: Ints, run: Mask, losses: Mask
) -> Iterator[Series]:
    """Yield the other losses of a run, each under its own name, where ``losses`` are records of it.

    A value that is not a number counts as NaN: the loss was measured but is not finite.
    """
    for role, name in find_other_losses(columns.names, taken).items():
        column = columns.load(name)
        if column.is_text or column.is_time:
            continue
        which = run & (column.present | failed_cells(columns, column, losses))
        if which.any():
            yield ordered_series(role, name, steps[which], column.values[which])


def failed_value_series(
    columns: Columns,
    taken: Collection[str],
    steps: Ints,
    run: Mask,
    losses: Mask,
    rate: str | None,
) -> Iterator[Series]:
    """Yield the values without a role, and the learning rate, that are finite only at first.

    A value that becomes a null or a word counts, where ``losses`` are records of the loss. The
    logits and rewards of answers are finite in each record.
    """
    parsed = [*filter(columns.is_parsed, columns.names)]
    answers = [name for name in parsed if name not in taken and is_of_answers(name)]
    rates = [rate] if rate is not None and columns.is_parsed(rate) else []
    for name in dict.fromkeys((*answers, *find_other_values(parsed, taken), *rates)):
        column = columns.load(name)
        if column.is_text or column.is_time:
            continue
        which = run & column.present
        if name in answers:
            which &= ~column.null
        else:
            which |= run & failed_cells(columns, column, losses)
        values = column.values[which]
        is_short = len(values) < MIN_SERIES_LENGTH and name not in answers
        if is_short or np.isfinite(values).all():
            continue
        series = ordered_series(f"failed_value/{name}", name, steps[which], values)
        finite = np.isfinite(series.values)
        if name in answers or (finite.any() and finite[: int(finite.sum())].all()):
            yield series


def rank_loss_series(
    name: str, ranks: Column, losses: Floats, steps: Ints, others: Mask
) -> Iterator[Series]:
    """Yield the losses of the ranks that are not diagnosed, each as another loss.

    Args:
        name: the column of the loss.
        ranks: the rank of each record.
        losses: the loss of each record.
        steps: the step of each record.
        others: the records of other ranks that have a loss.
    """
    rows = np.flatnonzero(others & ranks.present & np.isfinite(losses))
    for rank in unique_values(ranks.values[rows])[:MAX_OTHER_LOSSES].tolist():
        of_rank = rows[ranks.values[rows] == rank]
        role, column = f"{RANK_LOSS}{rank:.0f}", f"{name} of rank {rank:.0f}"
        series = ordered_series(role, column, steps[of_rank], losses[of_rank])
        if len(series) >= MIN_SERIES_LENGTH:
            yield series


def _changing(role: str, name: str, column: Column, steps: Ints, run: Mask) -> Series | None:
    """Return the finite values of a run as a series, or None if they are all the same."""
    which = run & column.present & np.isfinite(column.values)
    if column.is_text:
        which &= column.values < len(column.words)
    at, values = steps[which], column.values[which]
    if len(at) < 2 or not (values != values[0]).any():
        return None
    series = ordered_series(role, name, at, values)
    return replace(series, words=column.words) if column.is_text else series
