"""Rows of a table with more or fewer cells than its header has names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.counter_names import counter_unit
from stabdiag.readers.columns import INDEX
from stabdiag.readers.words import NUMBER, WORD, meaning

# Fewer rows without their last cells may have lost others.
_MIN_SHORT_ROWS: Final = 3


def padded(cells: list[str], width: int) -> list[str]:
    """Return a row with blanks for the cells that it lacks at its end, if it has two or more."""
    return [*cells, *[""] * (width - len(cells))] if 1 < len(cells) < width else cells


def with_unnamed(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return the header of rows that all have more cells, with the names that it lacks.

    pandas and R print a first column that counts the rows without a name. But if the header begins
    with a counter, and only the first column counts, the last columns have no names.
    """
    missing = len(rows[0]) - len(header)
    if missing < 1 or any(len(row) != len(rows[0]) for row in rows):
        return header
    has_words = any(meaning(cell)[0] == WORD for row in rows for cell in row)
    if not has_words and _begins_with_counter(header, rows):
        return [*header, *[""] * missing]
    return [INDEX, *header] if missing == 1 and count_rows(rows) else header


def are_ragged(header: list[str], rows: list[list[str]]) -> bool:
    """Return True if several rows lack cells at their end, and rows below them do not, or all do.

    Rows that lose a cell permanently may have lost one in the middle.
    """
    width = len(header)
    short = [at for at, row in enumerate(rows) if 1 < len(row) < width]
    if len(short) < _MIN_SHORT_ROWS or any(
        meaning(cell)[0] == WORD for at in short for cell in rows[at]
    ):
        return False
    if any(len(row) == width for row in rows[short[0] :]):
        return True
    return len(short) == len(rows) and _begins_with_counter(header, rows)


def count_rows(rows: list[list[str]]) -> bool:
    """Return True if the first cells count the rows, as in pandas and R.

    The middle of a long table, or its beginning, may be left out.
    """
    if not all(row[0].isascii() and row[0].isdigit() for row in rows):
        return False
    numbers = [int(row[0]) for row in rows]
    gaps = [after - before for before, after in pairwise(numbers)]
    is_counted = len(gaps) == gaps.count(1) + (max(gaps, default=1) > 1)
    return is_counted and (len(gaps) > 1 or not rows or numbers[0] <= 1)


def _begins_with_counter(header: list[str], rows: list[list[str]]) -> bool:
    """Return True if the first name is the one of a counter, and only the first column counts."""
    if not (assign(header[:1]).has("step", "epoch") or counter_unit(header[0])):
        return False
    first, second = ([meaning(row[at])[:2] for row in rows] for at in range(2))
    return _rises(first) and not _rises(second)


def _rises(cells: Sequence[tuple[int, float]]) -> bool:
    """Return True if cells are whole numbers, each at least the one before it."""
    numbers = [number for state, number in cells if state == NUMBER and number % 1 == 0]
    return len(numbers) == len(cells) and numbers == sorted(numbers)
