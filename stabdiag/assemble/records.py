"""The records that contain a series, alone or with others, and their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.events import Event, EventKind
from stabdiag.model.roles.names import normal
from stabdiag.model.text import clipped, plural
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Column

# These thresholds separate regular behavior of a logger from accidents. They describe the form of a
# log, not the run. Logs behave regularly nearly always or not at all, so the exact values matter
# little. This many records are not an accident.
MIN_RECORDS = 3
# This many records are a separate series, not a gap or a few restarts.
MIN_SERIES_LENGTH = 20
# Behavior in this fraction of the records is the rule, and in this fraction an exception.
USUAL_FRACTION = 0.8
RARE_FRACTION = 0.05

# Messages name at most this many columns and count the others.
MAX_SHOWN_COLUMNS = 8

# Columns of the role of a rank that number processes as the operating system does.
_PROCESS_IDS = frozenset({"pid", "process_id"})


def shown_name(name: str) -> str:
    """Return a column name for messages: damaged files have names that span many lines."""
    return clipped(" ".join(name.split()))


def is_filled(others: Mapping[str, Column]) -> bool:
    """Return True if nulls fill the gaps of the log, so that a single null means nothing."""
    return 2 * sum(bool(column.null.any()) for column in others.values()) > len(others)


def has_a_rhythm(present: Mask) -> bool:
    """Return True if a series is regularly logged in only some records, such as every tenth."""
    gaps = np.diff(np.flatnonzero(present))
    if not len(gaps):
        return False
    usual = np.median(gaps)
    return bool(usual > 1 and np.mean(gaps == usual) > USUAL_FRACTION)


def is_usually_logged(loss: Column, column: Column) -> bool:
    """Return True if a series is logged with most of the losses."""
    both = int((column.present & loss.present).sum())
    return both >= max(USUAL_FRACTION * int(loss.present.sum()), 1)


def accompanies_loss(loss: Column, column: Column, absent: Mask) -> bool:
    """Return True if a series is logged with the loss, and rarely where the loss is ``absent``.

    A loss that is logged at a multiple of the interval of the other series is not meant.
    """
    logged = np.flatnonzero(column.present)
    gaps = np.diff(np.flatnonzero(loss.present[logged]))
    if not is_usually_logged(loss, column) or (len(gaps) and np.median(gaps) > 1):
        return False
    return are_few(stretches(absent[logged]), len(logged))


def are_few(gaps: list[tuple[int, int]], records: int) -> bool:
    """Return True if a series of this length has few gaps, of any length."""
    return len(gaps) <= max(RARE_FRACTION * records, 1)


def any_present(columns: Iterable[Column], *, template: Mask) -> Mask:
    """Return the records with a value in any of the columns."""
    records = np.zeros_like(template)
    for column in columns:
        records |= column.present
    return records


def all_present(columns: Iterable[Column], *, template: Mask) -> Mask:
    """Return the records with a value in all of the columns."""
    records = np.ones_like(template)
    for column in columns:
        records &= column.present
    return records


def stretches(mask: Mask) -> list[tuple[int, int]]:
    """Return the beginning and end (exclusive) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def up_to_last(column: Column) -> Mask:
    """Return the records up to the last one that has a value."""
    behind: Mask = np.logical_or.accumulate(column.present[::-1])
    return behind[::-1]


def without_gaps(data: Mapping[str, Column]) -> tuple[dict[str, Column], list[Event]]:
    """Return the columns by role without NaN that only fills the gaps of a table.

    pandas writes it when it dumps records of several kinds as JSON. A column that is NaN with every
    finite loss, and finite where the loss is NaN, has separate records, such as evaluations. A loss
    that is NaN in a training record is kept.
    """
    loss = data.get("loss")
    if loss is None or np.isfinite(loss.logged).all():
        return dict(data), []
    lost = loss.present & np.isnan(loss.values)
    finite = loss.present & np.isfinite(loss.values)
    others = {role for role, column in data.items() if _is_nan_everywhere(column, finite)}
    apart = np.zeros_like(lost)
    for role in others:
        apart |= lost & data[role].present & np.isfinite(data[role].values)
    if not apart.any():
        return dict(data), []
    cleaned = {}
    for role, column in data.items():
        gaps = np.isnan(column.values) & (apart | (role in others))
        cleaned[role] = replace(column, present=column.present & ~gaps)
    losses = plural(int(apart.sum()), "NaN loss", "NaN losses")
    message = (
        f"{losses} left out: NaN fills the gaps between different kinds of records in this table"
    )
    return cleaned, [Event(kind=EventKind.PLACEHOLDER, message=message)]


def _is_nan_everywhere(column: Column, finite: Mask) -> bool:
    """Return True if a column is NaN with every finite loss."""
    is_nan = np.isnan(column.values) & column.present
    return int(finite.sum()) >= MIN_RECORDS and bool(is_nan[finite].all())


def without_fill(eval_loss: Column) -> Column:
    """Return an evaluation loss without the NaN that fills the records between evaluations.

    Evaluations then have regular intervals; a NaN after a longer interval belongs to an evaluation.
    """
    rows = np.flatnonzero(eval_loss.present)
    finite = np.isfinite(eval_loss.values[rows])
    positions = np.flatnonzero(finite)
    if not has_a_rhythm(finite):
        return eval_loss
    interval = int(np.median(np.diff(positions)))
    number = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(finite, number, positions[0] - interval))
    is_fill = np.isnan(eval_loss.values[rows]) & (number - last < interval)
    present = eval_loss.present.copy()
    present[rows[is_fill]] = False
    return replace(eval_loss, present=present)


def by_writer(steps: Ints, rates: Floats, training: Mask) -> Ints | None:
    """Number the runs that write one log simultaneously from 1, or return None if there are none.

    A record belongs to the writer whose interval it fits, or else whose learning rate is nearest.
    If the learning rates of a step do not differ, the writers may be ranks of one run.

    Args:
        steps: of each record, shape (records,).
        rates: the learning rates; NaN where not logged.
        training: the training records. Other records belong to the writer with the nearest step.
    """
    # The first records show whether writers can be distinguished.
    head = slice(100 * MIN_SERIES_LENGTH)
    if len(steps) > head.stop and by_writer(steps[head], rates[head], training[head]) is None:
        return None
    number = np.zeros(len(steps), dtype=np.int64)
    # The last step, the last interval and the learning rate of each writer.
    last: list[tuple[int, int, float]] = []
    rates = np.nan_to_num(rates)
    for record, (step, rate) in enumerate(zip(steps.tolist(), rates.tolist(), strict=True)):
        if not training[record]:
            if last:
                number[record] = 1 + min(range(len(last)), key=lambda n: abs(step - last[n][0]))
            continue
        fits = [
            (abs(step - at - gap), abs(rate - old), n)
            for n, (at, gap, old) in enumerate(last)
            if at < step
        ]
        if not fits:
            last.append((step, 0, rate))
            number[record] = len(last)
            if len(last) > MIN_SERIES_LENGTH:
                return None
            continue
        writer = min(fits)[-1]
        last[writer] = (step, step - last[writer][0], rate)
        number[record] = writer + 1
    writers = [np.flatnonzero(training & (number == 1 + n)) for n in range(len(last))]
    for first, second in combinations(writers, 2):
        _, first_rows, second_rows = np.intersect1d(
            steps[first], steps[second], return_indices=True
        )
        if (
            len(first_rows) < MIN_SERIES_LENGTH
            or np.mean(rates[first[first_rows]] != rates[second[second_rows]]) < USUAL_FRACTION
        ):
            return None
    return number


def numbers_of_ranks(ranks: Column | None, name: str | None) -> Floats:
    """Return the numbers of the ranks that share a log, or none.

    The ranks of a run are numbered consecutively from 0 or 1; LoRA ranks and ranking metrics are
    not. Processes have any numbers, but those that run one after another are restarts.
    """
    numbers = unique_values(ranks.logged) if ranks is not None else np.empty(0)
    if ranks is None or len(numbers) < 2:
        return np.empty(0)
    if normal(name or "") in _PROCESS_IDS:
        changes = np.count_nonzero(np.diff(ranks.logged))
        return numbers if changes >= MIN_RECORDS * len(numbers) else np.empty(0)
    is_consecutive = numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
    return numbers if is_consecutive else np.empty(0)


def select_rank(
    steps: Ints,
    usable: Mask,
    is_loss: Mask,
    has_value: Mask,
    ranks: Column | None,
    name: str | None,
) -> Mask:
    """Return the records to use if several ranks wrote the log: one rank for each step.

    It is the rank with the most losses in ``has_value``. ``name`` is the column of the ranks.
    """
    if ranks is None or not len(numbers_of_ranks(ranks, name)):
        return usable
    # Few logs have ranks, and most of the readers of texts would be imported with this.
    from stabdiag.readers.text.lines.prefix import NO_RANK, select_lines

    rank = np.where(ranks.present, ranks.values, NO_RANK).astype(np.int64)
    known_steps = np.where(usable & (has_value | ~is_loss), steps, np.nan)
    return select_lines(is_loss.astype(np.int64), known_steps, rank, np.zeros_like(usable))
