"""A printed table, and the cells of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_a_reward
from stabdiag.readers.columns import BadLine
from stabdiag.readers.text.lines.grammar import is_a_loss
from stabdiag.readers.text.lines.shapes import Cells

# The fewest rows of a table.
MIN_PRINTED_ROWS: Final = 3

# A number that is wider than its column is only one blank away from the next number.
BLANK_FREE_TEXT: Final = lazy_pattern(r"\S+")
_INTEGER_CELL: Final = lazy_pattern(r"\d{1,12}(?:\.0)?")
# 30:, 30) or [30], below the name of a counter.
_MARKED_COUNT: Final = lazy_pattern(r"[\[(]?(\d{1,12})[\]):.]{1,2}")
PRINTED_NUMBER: Final = lazy_pattern(
    r"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)", re.IGNORECASE
)
_LISTED_NUMBERS: Final = lazy_pattern(
    rf"\[ ?({PRINTED_NUMBER.pattern})(?:[ ,]{{1,8}}{PRINTED_NUMBER.pattern}){{0,40}} ?\]",
    re.IGNORECASE,
)

# What fastai prints behind a row, below no name: (00:13).
_ROW_TIME: Final = lazy_pattern(r"\((?:\d{1,3}:)?\d\d:\d\d\)")

# The first name of a table of few rows.
COUNTER_NAME: Final = lazy_pattern(
    r"#|E|(?:epochs?|ep|it(?:er(?:ation)?|r|n)?|steps?)\.?", re.IGNORECASE
)

# The cells of a line, and where they begin and end in it.
CellMatches: TypeAlias = list[re.Match[str]]


@frozen
class PrintedTable:
    """The heading of a table, the cells of its rows, and other lines after the heading.

    None marks a cell that is missing from a row. Other lines inside the table have a reason.
    """

    names: tuple[str, ...]
    heading: CellMatches
    barred: bool
    counted: bool = True
    rows: list[Cells] = field(default_factory=list)
    others: list[BadLine] = field(default_factory=list)


def names_measure(name: str, *, barred: bool) -> bool:
    """Return True if a table with this column is a log: a loss, or between bars a reward."""
    return is_a_loss(name) or (barred and is_a_reward(name))


def read_row(table: PrintedTable, cells: CellMatches, line: str) -> list[bytes | None] | None:
    """Return the cells of a row in the order of the names, or None if it is not a row."""
    own_cells: list[str | None] = [*map(plain_cell, cells)]
    row = own_cells if table.barred else _read_unbarred(table, own_cells, line)
    if row is None or len(row) != len(table.heading):
        return None
    are_losses = [names_measure(name, barred=table.barred) for name in table.names]
    losses = [cell for cell, is_loss in zip(row, are_losses, strict=True) if is_loss]
    if not any(cell is not None and PRINTED_NUMBER.fullmatch(cell) for cell in losses):
        others = [None if is_loss else cell for cell, is_loss in zip(row, are_losses, strict=True)]
        if not any(losses) or not _continues(table.rows, others):
            return None
    return [None if cell is None else cell.encode() for cell in row]


def _read_unbarred(
    table: PrintedTable, row: list[str | None], line: str
) -> list[str | None] | None:
    """Return the cells of a line without bars, or None if it is not a row.

    ``row`` has the cells between blanks, which are too few if a cell is missing.
    """
    words = [*BLANK_FREE_TEXT.finditer(line)]
    width = len(table.heading)
    if len(words) < 2:
        return None
    count = _MARKED_COUNT.fullmatch(words[0][0])
    is_counted = count is not None and COUNTER_NAME.fullmatch(table.names[0]) is not None
    if table.counted:
        if not is_counted and not _INTEGER_CELL.fullmatch(words[0][0]):
            return None
    elif len(words) != width or not all(PRINTED_NUMBER.fullmatch(word[0]) for word in words):
        return None
    if len(words) == width + 1 and _ROW_TIME.fullmatch(words[-1][0]):
        words.pop()
    words = _without_remark(words, width)
    if len(words) == width:
        row = [word[0] for word in words]
    elif len(row) != width and _has_columns(table.heading):
        row = [_lower_cell(name, words) for name in table.heading]
    if count is not None and is_counted and row[:1] == [words[0][0]]:
        row[0] = count[1]
    return row


def _without_remark(words: CellMatches, width: int) -> CellMatches:
    """Return the numbers of a row without words behind them, such as ``(best)``."""
    are_words = not any(map(str.isdigit, "".join(word[0] for word in words[width:])))
    are_numbers = all(PRINTED_NUMBER.fullmatch(word[0]) for word in words[:width])
    return words[:width] if are_words and are_numbers else words


def has_words_as_loss(table: PrintedTable, line: str) -> bool:
    """Return True if a line counts on, and has words in the place of its loss."""
    words = BLANK_FREE_TEXT.findall(line)
    if table.barred or not table.counted or len(words) <= len(table.names):
        return False
    at = next(at for at, name in enumerate(table.names) if names_measure(name, barred=False))
    return not any(map(str.isdigit, words[at])) and _continues(table.rows, words[:at])


def _continues(rows: Sequence[Cells], others: Sequence[str | None]) -> bool:
    """Return True if a row with a word for its loss counts on, and its other cells are numbers.

    An epoch may be the first of several counts.
    """
    above = rows[-1] if len(rows) >= MIN_PRINTED_ROWS else ()
    counts = [
        (int(last), int(count))
        for last, count in zip(above, others, strict=False)
        if last is not None and count is not None and last.isdigit() and count.isdigit()
    ]
    if not counts or counts[0][0] > counts[0][1] or not any(last < now for last, now in counts):
        return False
    return all(cell is None or any(map(str.isdigit, cell)) for cell in others)


def plain_cell(cell: re.Match[str]) -> str:
    """Return the text of a cell, without Markdown for bold text and code.

    For a list of numbers return the first one: the total of the others, or the only number.
    """
    written = cell[0].strip()
    # A cell of asterisks only is a number wider than its column.
    text = written.strip("*`").strip() or written
    numbers = _LISTED_NUMBERS.fullmatch(text) if text.startswith("[") else None
    return numbers[1] if numbers else text


def _has_columns(heading: CellMatches) -> bool:
    """Return True if more than one blank is between two names, so that cells are below them."""
    return any(name.start() - before.end() > 1 for before, name in pairwise(heading))


def _lower_cell(name: re.Match[str], cells: Sequence[re.Match[str]]) -> str | None:
    """Return the cell below a name, which overlaps with it."""
    below = (cell for cell in cells if cell.start() < name.end() and name.start() < cell.end())
    return next((cell[0] for cell in below), None)
