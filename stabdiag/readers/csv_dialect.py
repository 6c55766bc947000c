"""What a CSV file looks like: its delimiter, its header, and whether it is one at all."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from stabdiag.readers.columns import INDEX
from stabdiag.readers.csv_commas import has_commas, with_points
from stabdiag.readers.words import NUMBER, WORD, meaning
from stabdiag.roles import assign

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stabdiag.history import Event

DELIMITERS: Final = (",", ";", "\t", "|")

# A table for people: cells are set apart by as many blanks as align them.
BLANKS: Final = " "

_FEWEST_ROWS: Final = 3

# So many lines may stand above a header, a title or settings, if it has no more cells than that.
_PREAMBLE: Final = 10
_WIDE: Final = 1000

# How many lines below the header are looked at, and how many of them may have another width.
LINES: Final = 50
_RAGGED: Final = 0.2

_LONGEST_NAME: Final = 200

# What is looked at has an end, whatever the file holds: no logger has so many columns, and of rows
# that are so wide a few tell as much as fifty.
_COLUMNS: Final = 1 << 17
_CELLS: Final = 1 << 17

# What Excel writes above the header where it is told to name the delimiter.
_NAMED_DELIMITER: Final = re.compile(r"\ufeff?sep=.\r?")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The delimiter and the first header; ``start`` is where the records begin.

    ``commas`` says that the comma is the decimal point, as in what Excel writes in most of Europe.
    So many lines ``above`` the header are neither blank nor comments: a title, or settings.
    ``ends_open`` says that each line ends in a delimiter, and ``has_index`` that the first column
    has no name and counts the rows, as pandas writes it. ``assumed`` says what columns without
    names are taken for.
    """

    delimiter: str
    commas: bool
    names: tuple[str, ...]
    start: int
    lines: int
    above: int = 0
    ends_open: bool = False
    has_index: bool = False
    assumed: Event | None = None

    def shown(self, names: Iterable[str]) -> dict[str, str]:
        """Return the columns by the names under which they are told of; see ``ends_open``."""
        own = {name: name for name in names}
        if self.ends_open:
            own.pop(unnamed(len(self.names)), None)
        if self.has_index and INDEX not in own:
            own = {INDEX if name == unnamed(1) else name: name for name in own}
        return own


def cells_of(line: str, delimiter: str) -> list[str]:
    """Return the cells of one line, without the blanks around them."""
    line = line.lstrip("\ufeff").rstrip("\r")
    if delimiter == BLANKS:
        return [cell for cell in line.split(BLANKS) if cell]
    if '"' not in line:
        row = line.split(delimiter)
        return [cell.strip() for cell in row] if " " in line or "\t" in line else row
    try:
        row = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        row = line.split(delimiter)
    return [cell.strip() for cell in row]


def unnamed(number: int) -> str:
    """Return the name of a column, counted from 1, whose header is blank."""
    return f"column_{number}"


def names_of(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a header gives: each once, and none blank."""
    names: dict[str, None] = {}
    # Where the counting of a name goes on: from 1 each time, many equal ones would take for ever.
    counts: dict[str, int] = {}
    for number, cell in enumerate(cells, start=1):
        name = base = cell or unnamed(number)
        while name in names:
            counts[base] = counts.get(base, 0) + 1
            name = f"{base}.{counts[base]}"
        names[name] = None
    return tuple(names)


def is_header(cells: Sequence[str]) -> bool:
    """Return whether these cells could be names of columns, and nothing else."""
    if any(len(cell) > _LONGEST_NAME for cell in cells):
        return False
    words = [cell for cell in cells if meaning(cell)[0] == WORD]
    named = any(any(map(str.isalpha, word)) for word in words)
    numbers = sum(meaning(cell)[0] == NUMBER for cell in cells)
    return named and numbers < len(words)


def is_next_header(cells: Sequence[str], names: tuple[str, ...]) -> bool:
    """Return whether a row is a header again: words alone, and some of the same names."""
    shared = len(set(names).intersection(cells))
    if not shared:
        return False
    if names_of(cells) == names:
        return True
    if shared * 2 < min(len(cells), len(names)):
        return False
    blank = {place for place, name in enumerate(names) if name == unnamed(place + 1)}
    return all(
        meaning(cell)[0] == WORD or (not cell and place in blank)
        for place, cell in enumerate(cells)
    )


def dialect_of(head: bytes, *, whole: bool) -> Dialect | None:
    """Return the dialect if the bytes at the head of a file are CSV, else None.

    ``whole`` says that they are the whole file: only then does the last line count.
    """
    lines = head.decode("utf-8", "replace").split("\n")
    if len(lines) > 1 and not (whole and lines[-1]):
        lines.pop()
    places = [n for n, line in enumerate(lines) if is_content(line)]
    if not places:
        return None
    found = _dialects(head, lines, places)
    first = next(found, None)
    if first is None or len(first.names) > _WIDE or _tells_of_a_loss(first):
        return first
    # Settings look like a header as well: one that names a loss goes before them.
    return next(filter(_tells_of_a_loss, found), first)


def _tells_of_a_loss(dialect: Dialect) -> bool:
    return not assign(dialect.names).columns.keys().isdisjoint(("loss", "eval_loss"))


def _dialects(head: bytes, lines: Sequence[str], places: Sequence[int]) -> Iterator[Dialect]:
    """Yield the dialects that the first lines may be headers of."""
    for above in range(min(len(places), _PREAMBLE + 1)):
        taken = places[above : above + LINES + 1]
        first, *below = (lines[place] for place in taken)
        for delimiter in (*by_count(first), BLANKS):
            if first.count(delimiter) >= _COLUMNS or (
                above and not _recurs(delimiter, first, below)
            ):
                continue
            dialect = _divided(delimiter, head, lines, taken)
            if dialect is not None:
                yield replace(dialect, above=above)
                break


def _recurs(delimiter: str, first: str, below: Sequence[str]) -> bool:
    """Return whether a line below others heads a table: of numbers, and words are fewer."""
    count = first.count(delimiter)
    if delimiter == BLANKS or not 0 < count < _WIDE or not is_header(cells_of(first, delimiter)):
        return False
    rows = [cells_of(line, delimiter) for line in below if line.count(delimiter) == count]
    states = [meaning(cell)[0] for row in rows[:_PREAMBLE] for cell in row]
    return len(rows) >= _FEWEST_ROWS and states.count(NUMBER) > states.count(WORD)


def _divided(
    delimiter: str, head: bytes, lines: Sequence[str], places: Sequence[int]
) -> Dialect | None:
    """Return the dialect if the lines at these places are CSV with such a delimiter."""
    first, *rest = places
    header = cells_of(lines[first], delimiter)
    if len(header) == 1 and any(other in lines[first] for other in DELIMITERS):
        return None
    rows = rows_of([lines[place] for place in rest], delimiter)
    if delimiter == BLANKS and all(len(row) == len(header) + 1 for row in rows) and _counts(rows):
        header = [INDEX, *header]  # which pandas prints without a name
    names = names_of(header)
    again = (n for n, row in enumerate(rows) if is_next_header(row, names))
    rows = rows[: next(again, len(rows))]
    if delimiter == BLANKS and not _is_table(header, rows):
        return None
    commas = has_commas(rows, delimiter)
    if commas:
        rows = list(map(with_points, rows))
    if is_header(header) and are_records(rows, len(header)):
        return Dialect(
            delimiter=delimiter,
            commas=commas,
            names=names,
            start=offset(head, first + 1),
            lines=first + 1,
            ends_open=len(header) > 1 and not any(row[-1:] != [""] for row in [header, *rows]),
            has_index=not header[0] and _counts(rows),
        )
    is_comment = first > 0 and not is_content(lines[first - 1])
    above = cells_of(lines[first - 1].lstrip("# "), delimiter) if is_comment else []
    if len(above) == len(header) and is_header(above) and are_records([header], len(above)):
        return Dialect(
            delimiter=delimiter,
            commas=commas,
            names=names_of(above),
            start=offset(head, first),
            lines=first,
        )
    return None


def _is_table(header: list[str], rows: list[list[str]]) -> bool:
    """Return whether all lines have as many cells, as no text for people has.

    The first has names alone, or numbers alone where the names stand in a comment above it.
    """
    even = len(rows) >= _FEWEST_ROWS and all(len(row) == len(header) for row in rows)
    first = {meaning(cell)[0] for cell in header}
    return even and len(header) > 1 and first in ({WORD}, {NUMBER})


def rows_of(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the cells of the lines, up to the one with which they are enough."""
    rows: list[list[str]] = []
    left = _CELLS
    for line in lines:
        width = line.count(delimiter) + 1
        if left <= 0 or width > _COLUMNS:
            break
        rows.append(cells_of(line, delimiter))
        left -= width
    return rows


def is_content(line: str) -> bool:
    """Return whether a line is neither blank nor a comment, nor names the delimiter."""
    return bool(line.strip()) and line[0] != "#" and not _NAMED_DELIMITER.fullmatch(line)


def _counts(rows: list[list[str]]) -> bool:
    """Return whether the first column counts the rows."""
    return all(row[0] == str(number) for number, row in enumerate(rows))


def by_count(line: str) -> list[str]:
    """Return the delimiters, the one that a line has most of first."""
    return sorted(DELIMITERS, key=line.count, reverse=True)


def are_records(rows: list[list[str]], width: int) -> bool:
    """Return whether nearly all rows are so wide, and their cells mostly numbers."""
    fitting = [row for row in rows if len(row) == width or (len(row) == width + 1 and not row[-1])]
    if not fitting or len(rows) - len(fitting) > max(1, _RAGGED * len(rows)):
        return False
    states = [meaning(cell)[0] for row in fitting for cell in row]
    # A column of words or two beside the numbers is common; a table of words is no log.
    numbers = states.count(NUMBER)
    return numbers > 0 and (numbers >= states.count(WORD) or _has_numeric_columns(fitting))


def _has_numeric_columns(rows: list[list[str]]) -> bool:
    columns = list(zip(*rows, strict=False))
    numeric = [all(meaning(cell)[0] != WORD for cell in column) for column in columns]
    return sum(numeric) * 2 >= len(columns)


def offset(head: bytes, lines: int) -> int:
    """Return where the line begins that comes after so many."""
    start = 0
    for _ in range(lines):
        start = head.find(b"\n", start) + 1 or len(head)
    return start
