"""Detect CSV with a header, and find its delimiter and its names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final

from stabdiag.model.events import Event
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import name_words, names_measurements
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.columns import INDEX
from stabdiag.readers.csv.cells import (
    BLANKS,
    COLUMNS,
    DELIMITERS,
    delimiters_by_count,
    first_rows,
    header_names,
    is_content,
    is_header,
    is_next_header,
    offset,
    split_cells,
    unnamed,
)
from stabdiag.readers.csv.commented_names import find_commented_names
from stabdiag.readers.csv.decimal_commas import without_decimal_commas
from stabdiag.readers.csv.quoted import whole_row
from stabdiag.readers.csv.widths import are_ragged, count_rows, padded, with_unnamed
from stabdiag.readers.words import NUMBER, WORD, cell_states, is_prose, meaning, with_joined_names

_MIN_NUMBER_ROWS: Final = 3

# At most this many lines, such as a title or settings, are above a header. The first few lines that
# name a loss are also tried, up to this line and this many columns.
_PREAMBLE: Final = 10
_MAX_HEADER_LINE: Final = 500
_MAX_HEADER_COLUMNS: Final = 1000

# The columns of a table of measures.
_NAME_AND_VALUE: Final = 2

# This many lines below the header are checked. At most this fraction may have another width.
LINES: Final = 50
_MAX_RAGGED: Final = 0.5

# As many words are not the name of a column.
_MIN_SENTENCE_WORDS: Final = 4


@frozen
class Dialect:
    """The delimiter and the first header of a CSV file.

    Attributes:
        delimiter: the delimiter.
        commas: numbers have decimal commas, as Excel writes them in most of Europe.
        names: the names in the header.
        start: the position of the first record.
        lines: the number of lines before the first record.
        above: the number of lines above the header, such as a title, except blank lines and
            comments.
        ends_open: each line ends with a delimiter.
        is_ragged: rows lack cells at their end.
        has_index: the first column has no name and counts the rows, as pandas writes it.
        assumed: an event with the names given to unnamed columns.
        is_unknown: nothing indicates which of the unnamed columns is the loss.
    """

    delimiter: str
    commas: bool
    names: tuple[str, ...]
    start: int
    lines: int
    above: int = 0
    ends_open: bool = False
    is_ragged: bool = False
    has_index: bool = False
    assumed: Event | None = None
    is_unknown: bool = False

    def shown(self, names: Iterable[str]) -> dict[str, str]:
        """Map displayed names to the names of columns; see ``ends_open`` and ``has_index``."""
        own = {name: name for name in names}
        if self.ends_open:
            own.pop(unnamed(len(self.names)), None)
        if self.has_index and INDEX not in own:
            own = {INDEX if name == unnamed(1) else name: name for name in own}
        return own


@lru_cache(maxsize=1)
def detect_dialect(head: bytes, *, is_complete: bool) -> Dialect | None:
    """Return the dialect if the bytes at the head of a file are CSV, else None.

    The last line counts only if the head ``is_complete``. The result is cached, as it is used to
    detect the format and then to read the log.
    """
    lines = head.decode("utf-8", "replace").split("\n")
    if len(lines) > 1 and not (is_complete and lines[-1]):
        lines.pop()
    places = content_lines(lines, _MAX_HEADER_LINE)
    if not places:
        return None
    if b'"' in head:
        lines = _with_whole_rows(lines, delimiters_by_count(lines[places[0]])[0])
        places = content_lines(lines, _MAX_HEADER_LINE)
    dialects = _dialects(head, lines, places)
    first = next(dialects, None)
    if first is None or len(first.names) > _MAX_HEADER_COLUMNS or has_loss(first):
        return first
    # Settings look like a header as well: a header with a loss has priority.
    return next(filter(has_loss, dialects), first)


def _with_whole_rows(lines: Sequence[str], delimiter: str) -> list[str]:
    """Return lines with each quoted cell on its first line; its other lines are blank.

    Texts that a model generated are cells of several lines.
    """
    result: list[str] = []
    while len(result) < len(lines):
        row, extra_lines = whole_row(lines, len(result), delimiter)
        result += [row, *[""] * extra_lines]
    return result


def has_loss(dialect: Dialect) -> bool:
    """Return True if the header names a loss of the training or of an evaluation."""
    return assign(dialect.names).has("loss", "eval_loss")


def lists_scores(head: bytes, *, is_complete: bool) -> bool:
    """Return True for a table in Markdown with the names of measures, and one value of each."""
    dialect = detect_dialect(head, is_complete=is_complete)
    if dialect is None or dialect.delimiter != "|":
        return False
    edges = unnamed(1), unnamed(len(dialect.names))
    names = [name for name in dialect.names if name not in edges]
    return len(names) == _NAME_AND_VALUE and names_measurements(names[0])


def _dialects(head: bytes, lines: Sequence[str], places: Sequence[int]) -> Iterator[Dialect]:
    """Yield the dialects that make one of the first lines a possible header."""
    # Colored output is read as a printed table instead.
    blanks = () if b"\x1b" in head else (BLANKS,)
    named = (n for n, place in enumerate(places) if n > _PREAMBLE and "oss" in lines[place])
    for above in (*range(min(len(places), _PREAMBLE + 1)), *islice(named, _PREAMBLE)):
        taken = places[above : above + LINES + 1]
        first, *below = (lines[place] for place in taken)
        for delimiter in (*delimiters_by_count(first), *blanks):
            if first.count(delimiter) >= COLUMNS or (
                above and not _recurs(delimiter, first, below)
            ):
                continue
            dialect = _divided(delimiter, head, lines, taken)
            if dialect is not None:
                yield replace(dialect, above=above)
                break


def _recurs(delimiter: str, first: str, below: Sequence[str]) -> bool:
    """Return True if a line below others is the header of a table of mostly numbers."""
    count = first.count(delimiter)
    if (
        # A table in Markdown below a text has a reader of its own.
        delimiter in (BLANKS, "|")
        or not 0 < count < _MAX_HEADER_COLUMNS
        or not is_header(split_cells(first, delimiter))
    ):
        return False
    rows = [split_cells(line, delimiter) for line in below if line.count(delimiter) == count]
    rows, _ = without_decimal_commas(rows, delimiter)
    states = [meaning(cell)[0] for row in rows[:_PREAMBLE] for cell in row]
    return len(rows) >= _MIN_NUMBER_ROWS and states.count(NUMBER) > states.count(WORD)


def _divided(
    delimiter: str, head: bytes, lines: Sequence[str], places: Sequence[int]
) -> Dialect | None:
    """Return the dialect if these lines are CSV with this delimiter."""
    first, *following = places
    if not first and not following:
        return None  # a single line, which may have a hundred thousand words
    header = split_cells(lines[first], delimiter)
    if delimiter == BLANKS:
        header = split_cells(with_joined_names(lines[first]), delimiter)
    if len(header) == 1 and any(other in lines[first] for other in DELIMITERS):
        return None
    rows = first_rows([lines[place] for place in following], delimiter)
    if len(header) > 1 and rows:
        header = with_unnamed(header, rows)
    is_ragged = delimiter not in ("|", BLANKS) and are_ragged(header, rows)
    if is_ragged:
        rows = [padded(row, len(header)) for row in rows]
    names = header_names(header)
    repeated = (n for n, row in enumerate(rows) if is_next_header(row, names))
    rows = rows[: next(repeated, len(rows))]
    above = find_commented_names(lines[max(first - _PREAMBLE, 0) : first], delimiter, len(header))
    if delimiter == BLANKS and not _is_table(header, rows, above or header):
        return None
    rows, commas = without_decimal_commas(rows, delimiter)
    if len(header) == 1 and (_has_words(header[0], rows) or _is_sentence(header[0])):
        return None  # a text with some numbers alone on a line, maybe below their names
    # A printed table has a reader of its own: in Markdown, or with a heading of two lines.
    if (
        delimiter == "|"
        and rows
        and WORD in (states := cell_states(rows[0]))
        and NUMBER not in states
    ):
        return None
    has_messages = delimiter not in ("|", BLANKS)
    if is_header(header) and are_records(rows, len(header), has_messages=has_messages):
        return Dialect(
            delimiter=delimiter,
            commas=commas,
            names=names,
            start=offset(head, first + 1),
            lines=first + 1,
            ends_open=_ends_open([header, *rows]),
            is_ragged=is_ragged,
            has_index=not header[0] and count_rows(rows),
        )
    if above and are_records([header], len(above)):
        return Dialect(
            delimiter=delimiter,
            commas=commas,
            names=header_names(above),
            start=offset(head, first),
            lines=first,
            ends_open=_ends_open([above, header, *rows]),
        )
    return None


def _ends_open(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if a header and all rows below it end with a delimiter."""
    return len(rows[0]) > 1 and all(row[-1:] == [""] for row in rows)


def _has_words(name: str, rows: Sequence[Sequence[str]]) -> bool:
    """Return True if a column of unknown name has words, or if one of them is another name."""
    words = {cell for row in rows for cell in row if meaning(cell)[0] == WORD}
    if not words:
        return False
    return not assign([name]).columns or any(assign([word]).columns for word in words - {name})


def _is_sentence(name: str) -> bool:
    """Return True if the name of the only column is words that name no measure."""
    is_long = len(name.split()) >= _MIN_SENTENCE_WORDS
    return is_long and not (assign([name]).columns or score_direction(name))


def _is_table(header: list[str], rows: list[list[str]], names: list[str]) -> bool:
    """Return True if all lines have the same number of cells, unlike prose.

    The first line has only names, or only numbers if the ``names`` are in a comment above it.
    """
    fewest = (
        1 if {*map(str.lower, names)} & _FIRST_COLUMNS and _names_loss(names) else _MIN_NUMBER_ROWS
    )
    count = len(rows) + (names is not header)
    even = count >= fewest and all(len(row) == len(header) for row in rows)
    # A sentence may have as many words as a line below it with names and values, or a bar, "]".
    if len({*names}) < len(names) or any(
        cell.endswith(":") or cell == "]" for row in rows[:1] for cell in row
    ):
        return False
    # A line that ends with a colon introduces what is below it.
    if header and header[-1].endswith(":") and not header[0].endswith(":"):
        return False
    first = {meaning(cell)[0] for cell in header}
    return even and len(header) > 1 and first in ({WORD}, {NUMBER})


# Names of the first column of a table of losses.
_FIRST_COLUMNS: Final = frozenset({"epoch", "step", "iter", "iteration"})


def _names_loss(header: Sequence[str]) -> bool:
    return any("loss" in name_words(name) for name in header[1:])


def are_records(rows: list[list[str]], width: int, *, has_messages: bool = False) -> bool:
    """Return True if most rows have this width, and most of their cells are numbers.

    With ``has_messages``, lines of one cell between the rows do not count.
    """
    fitting = [row for row in rows if len(row) == width or (len(row) == width + 1 and not row[-1])]
    fitting = [row for row in fitting if not is_prose(row)]
    unfitting = len(rows) - len(fitting)
    if has_messages and width > 2 and len(fitting) >= _MIN_NUMBER_ROWS:
        # A program may print messages between its rows.
        unfitting -= sum(len(row) == 1 for row in rows)
    if not fitting or unfitting > max(1, _MAX_RAGGED * len(rows)):
        return False
    states = cell_states([cell for row in fitting for cell in row if cell])
    # One or two columns of words are common. A table of words is not a log.
    numbers = states.count(NUMBER)
    return numbers > 0 and (numbers >= states.count(WORD) or _has_numeric_columns(fitting))


def _has_numeric_columns(rows: list[list[str]]) -> bool:
    columns = list(zip(*rows, strict=False))
    numeric = [all(meaning(cell)[0] != WORD for cell in column) for column in columns]
    return sum(numeric) * 2 >= len(columns)


_LONGEST_CELL: Final = 60


# The first line of the error that ended a program.
_ERROR_BEGINS: Final = "Traceback (most recent call last)"


def content_lines(lines: Sequence[str], limit: int) -> list[int]:
    """Return the numbers of the first lines with content, above the traceback of a program."""
    content = (n for n, line in enumerate(lines) if is_content(line))
    return list(islice(takewhile(lambda n: not lines[n].startswith(_ERROR_BEGINS), content), limit))


def is_bare_header(head: bytes) -> bool:
    """Return True if a file is only a line of names, which each start of the program repeats."""
    lines = head.decode("utf-8", "replace").split("\n")
    places = content_lines(lines, LINES)
    if len({lines[place] for place in places}) != 1:
        return False
    header = split_cells(lines[places[0]], delimiters_by_count(lines[places[0]])[0])
    return len(header) > 1 and is_header(header)


def lacks_header(head: bytes) -> bool:
    """Return True if a text has rows of mostly numbers, without a line of names above them."""
    lines = head.decode("utf-8", "replace").split("\n")
    content = [lines[place] for place in content_lines(lines, LINES)]
    tables = (first_rows(content, delimiter) for delimiter in DELIMITERS)
    return len(content) >= _MIN_NUMBER_ROWS and any(
        len(rows[0]) > 2 and are_records(rows, len(rows[0])) for rows in tables if rows
    )


def describe_words(head: bytes) -> str | None:
    """Describe a column of words in a table, if this is why it cannot be read as a log."""
    lines = head.decode("utf-8", "replace").split("\n")
    places = content_lines(lines, LINES + 1)
    if len(places) < 2:
        return None
    delimiter = delimiters_by_count(lines[places[0]])[0]
    header, *rows = (split_cells(lines[place], delimiter) for place in places)
    if len(header) < 2 or not is_header(header):
        return None
    columns = sorted(range(len(header)), key=lambda column: "loss" not in header[column].lower())
    for column in columns:
        for place, row in zip(places[1:], rows, strict=False):
            if len(row) == len(header) and meaning(row[column])[0] == WORD:
                cell = row[column][:_LONGEST_CELL]
                return (
                    f"{header[column]!r} has words instead of numbers: {cell!r} on line {place + 1}"
                )
    return None
