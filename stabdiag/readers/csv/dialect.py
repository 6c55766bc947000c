"""Tell whether a file is CSV, with a header or without, and find its delimiter and its names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event
from stabdiag.model.roles.choice import assign
from stabdiag.readers.columns import INDEX
from stabdiag.readers.csv.cells import (
    BLANKS,
    COLUMNS,
    DELIMITERS,
    by_count,
    cells_of,
    first_rows,
    is_content,
    is_header,
    is_next_header,
    is_prose,
    names_of,
    offset,
    pointed,
    unnamed,
)
from stabdiag.readers.unnamed import FEWEST, may_be_losses, may_be_steps, name_of_values, taken_as
from stabdiag.readers.words import NUMBER, WORD, meaning, states_of

_FEWEST_ROWS: Final = 3

# How many lines, such as a title or settings, may stand above a header, how far down the first few
# are looked for that name a loss, and how wide that may be.
_PREAMBLE: Final = 10
_FURTHEST: Final = 500
_WIDE: Final = 1000

# How many lines below the header are looked at, and which share may have another width.
LINES: Final = 50
_RAGGED: Final = 0.5


@frozen
class Dialect:
    """The delimiter and the first header; ``start`` is where the records begin.

    ``commas`` says that the comma is the decimal point, as in what Excel writes in most of Europe.
    ``above`` is how many lines above the header are neither blank nor comments, as a title is.
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
        """Return the columns by the names that a user sees; see ``ends_open`` and ``has_index``."""
        own = {name: name for name in names}
        if self.ends_open:
            own.pop(unnamed(len(self.names)), None)
        if self.has_index and INDEX not in own:
            own = {INDEX if name == unnamed(1) else name: name for name in own}
        return own


@lru_cache(maxsize=1)
def dialect_of(head: bytes, *, is_complete: bool) -> Dialect | None:
    """Return the dialect if the bytes at the head of a file are CSV, else None.

    The last line counts only if the head ``is_complete``. The result is cached, as it is used to
    detect the format and then to read the log.
    """
    lines = head.decode("utf-8", "replace").split("\n")
    if len(lines) > 1 and not (is_complete and lines[-1]):
        lines.pop()
    places = _content(lines, _FURTHEST)
    if not places:
        return None
    found = _dialects(head, lines, places)
    first = next(found, None)
    if first is None or len(first.names) > _WIDE or _tells_of_a_loss(first):
        return first
    # Settings look like a header as well: one that names a loss goes before them.
    return next(filter(_tells_of_a_loss, found), first)


def _tells_of_a_loss(dialect: Dialect) -> bool:
    return assign(dialect.names).has("loss", "eval_loss")


def _dialects(head: bytes, lines: Sequence[str], places: Sequence[int]) -> Iterator[Dialect]:
    """Yield the dialects that the first lines may be headers of."""
    # What is coloured was printed for people: its cells are the business of printed tables.
    blanks = () if b"\x1b" in head else (BLANKS,)
    named = (n for n, place in enumerate(places) if n > _PREAMBLE and "oss" in lines[place])
    for above in (*range(min(len(places), _PREAMBLE + 1)), *islice(named, _PREAMBLE)):
        taken = places[above : above + LINES + 1]
        first, *below = (lines[place] for place in taken)
        for delimiter in (*by_count(first), *blanks):
            if first.count(delimiter) >= COLUMNS or (
                above and not _recurs(delimiter, first, below)
            ):
                continue
            dialect = _divided(delimiter, head, lines, taken)
            if dialect is not None:
                yield replace(dialect, above=above)
                break


def _recurs(delimiter: str, first: str, below: Sequence[str]) -> bool:
    """Return whether a line below others is the header of a table of mostly numbers."""
    count = first.count(delimiter)
    if delimiter == BLANKS or not 0 < count < _WIDE or not is_header(cells_of(first, delimiter)):
        return False
    rows = [cells_of(line, delimiter) for line in below if line.count(delimiter) == count]
    rows, _ = pointed(rows, delimiter)
    states = [meaning(cell)[0] for row in rows[:_PREAMBLE] for cell in row]
    return len(rows) >= _FEWEST_ROWS and states.count(NUMBER) > states.count(WORD)


def _divided(
    delimiter: str, head: bytes, lines: Sequence[str], places: Sequence[int]
) -> Dialect | None:
    """Return the dialect if the lines at these places are CSV with such a delimiter."""
    first, *rest = places
    header = cells_of(lines[first], delimiter)
    if delimiter == BLANKS:
        header = cells_of(_with_joined_names(lines[first]), delimiter)
    if len(header) == 1 and any(other in lines[first] for other in DELIMITERS):
        return None
    rows = first_rows([lines[place] for place in rest], delimiter)
    if delimiter == BLANKS and all(len(row) == len(header) + 1 for row in rows) and _counts(rows):
        header = [INDEX, *header]  # which pandas prints without a name
    names = names_of(header)
    again = (n for n, row in enumerate(rows) if is_next_header(row, names))
    rows = rows[: next(again, len(rows))]
    if delimiter == BLANKS and not _is_table(header, rows):
        return None
    rows, commas = pointed(rows, delimiter)
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
    above = _names_in_comments(lines[:first], delimiter, len(header))
    if len(above) == len(header) and is_header(above) and are_records([header], len(above)):
        return Dialect(
            delimiter=delimiter,
            commas=commas,
            names=names_of(above),
            start=offset(head, first),
            lines=first,
        )
    return None


def _names_in_comments(lines: Sequence[str], delimiter: str, width: int) -> list[str]:
    """Return the cells of the last comment above the records that may be their header.

    Other comments, such as a remark on the columns, may stand between it and the records.
    """
    for line in reversed(lines[-_PREAMBLE:]):
        if is_content(line) or not line.strip():
            return []
        cells = cells_of(line.lstrip("# "), delimiter)
        if len(cells) == width and is_header(cells):
            return cells
    return []


# Names of several words in the header of a table whose cells are parted by single blanks, as a
# browser copies it: Step Training Loss Validation Loss, epoch train loss valid loss error rate.
_SEVERAL_WORDS: Final = re.compile(
    r"\b(?:(?:train|training|valid|validation|val|eval|test|avg|average|mean|total|dev) "
    r"(?:loss|acc|accuracy|error|perplexity|ppl)|error rate|learning rate|grad norm"
    r"|gradient norm|no log)\b",
    re.IGNORECASE,
)


def _with_joined_names(line: str) -> str:
    """Return a header in which a name of several words is one cell."""
    return _SEVERAL_WORDS.sub(lambda name: name[0].replace(" ", "_"), line)


def _is_table(header: list[str], rows: list[list[str]]) -> bool:
    """Return whether all lines have the same number of cells, as no prose has.

    The first has names alone, or numbers alone where the names stand in a comment above it.
    """
    fewest = 1 if {*map(str.lower, header)} & _COUNTERS and _names_loss(header) else _FEWEST_ROWS
    even = len(rows) >= fewest and all(len(row) == len(header) for row in rows)
    first = {meaning(cell)[0] for cell in header}
    return even and len(header) > 1 and first in ({WORD}, {NUMBER})


# How the first column of a table of losses may be called.
_COUNTERS: Final = frozenset({"epoch", "step", "iter", "iteration"})


def _names_loss(header: Sequence[str]) -> bool:
    return any(name.lower().endswith("loss") for name in header[1:])


def _counts(rows: list[list[str]]) -> bool:
    return all(row[0] == str(number) for number, row in enumerate(rows))


def are_records(rows: list[list[str]], width: int) -> bool:
    """Return whether nearly all rows have this width, and most of their cells are numbers."""
    fitting = [row for row in rows if len(row) == width or (len(row) == width + 1 and not row[-1])]
    fitting = [row for row in fitting if not is_prose(row)]
    if not fitting or len(rows) - len(fitting) > max(1, _RAGGED * len(rows)):
        return False
    states = states_of([cell for row in fitting for cell in row if cell])
    # A column of words or two beside the numbers is common; a table of words is no log.
    numbers = states.count(NUMBER)
    return numbers > 0 and (numbers >= states.count(WORD) or _has_numeric_columns(fitting))


def _has_numeric_columns(rows: list[list[str]]) -> bool:
    columns = list(zip(*rows, strict=False))
    numeric = [all(meaning(cell)[0] != WORD for cell in column) for column in columns]
    return sum(numeric) * 2 >= len(columns)


_LONGEST_CELL: Final = 60


@frozen
class Table:
    """The rows at the head of a file of numbers; ``above`` is how many lines precede them."""

    delimiter: str
    commas: bool
    rows: list[list[str]]
    above: int

    @property
    def is_series(self) -> bool:
        """Whether it holds losses alone, or steps and losses."""
        width = len(self.rows[0])
        rows = [row for row in self.rows if len(row) == width]
        columns = [list(map(meaning, column)) for column in zip(*rows, strict=True)]
        if width > 2 or any(state == WORD for column in columns for state, _, _ in column):
            return False
        *steps, losses = [[n for s, n, _ in column if s == NUMBER] for column in columns]
        counted = all(len(one) == len(rows) and may_be_steps(one) for one in steps)
        return counted and len(losses) >= FEWEST and may_be_losses(losses)


def table_of(head: bytes) -> Table | None:
    """Return the table at the head of a file that is CSV except that it has no header."""
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    places = _content(lines, LINES)
    if not places:
        return None
    content = [lines[place] for place in places]
    for delimiter in DELIMITERS:
        table = _table_of_cells(content, delimiter, above=places[0])
        width = len(table.rows[0]) if table.rows else 0
        named = width and any(meaning(cell)[0] == WORD for cell in table.rows[0])
        if width > 1 and not named and are_records(table.rows, width):
            return table
    # Numbers without a delimiter are nothing yet; they have to look like a series.
    table = _table_of_cells(content, BLANKS, above=places[0])
    return table if len(set(map(len, table.rows))) == 1 and table.is_series else None


def _table_of_cells(content: list[str], delimiter: str, *, above: int) -> Table:
    rows, commas = pointed(first_rows(content, delimiter), delimiter)
    return Table(delimiter=delimiter, commas=commas, rows=rows, above=above)


def _content(lines: Sequence[str], most: int) -> list[int]:
    """Return the numbers of the first lines that hold something."""
    return list(islice((n for n, line in enumerate(lines) if is_content(line)), most))


def assumed(table: Table, head: bytes, source: str) -> Dialect | None:
    """Return the dialect of unnamed losses, with steps beside them or without, else None."""
    if not table.is_series:
        return None
    name = name_of_values(source)
    if len(table.rows[0]) == 1:
        names: tuple[str, ...] = (name,)
        what = "the file names no column: its numbers are taken"
    else:
        names = ("step", name)
        what = (
            "the file names no columns: the first, which rises in whole numbers, is taken as the"
            " step, the second"
        )
    return Dialect(
        delimiter=table.delimiter,
        commas=table.commas,
        names=names,
        start=offset(head, table.above),
        lines=table.above,
        assumed=taken_as(what, name),
    )


def is_bare_header(head: bytes) -> bool:
    """Return whether the whole of a file is one line of names."""
    lines = head.decode("utf-8", "replace").split("\n")
    places = _content(lines, 2)
    if len(places) != 1:
        return False
    header = cells_of(lines[places[0]], by_count(lines[places[0]])[0])
    return len(header) > 1 and is_header(header)


def about_words(head: bytes) -> str | None:
    """Say which column of a table holds words, and where, if that is why it is no log."""
    lines = head.decode("utf-8", "replace").split("\n")
    places = _content(lines, LINES + 1)
    if len(places) < 2:
        return None
    delimiter = by_count(lines[places[0]])[0]
    header, *rows = first_rows([lines[place] for place in places], delimiter)
    if len(header) < 2 or not is_header(header):
        return None
    columns = sorted(range(len(header)), key=lambda column: "loss" not in header[column].lower())
    for column in columns:
        for place, row in zip(places[1:], rows, strict=False):
            if len(row) == len(header) and meaning(row[column])[0] == WORD:
                cell = row[column][:_LONGEST_CELL]
                return f"{header[column]!r} holds words, no numbers: {cell!r} on line {place + 1}"
    return None
