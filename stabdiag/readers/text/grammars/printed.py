"""Read printed tables, in Markdown or row by row. The largest table with a loss is read.

::

    | Epoch | Train Loss |       epoch    train_loss     dur        ┏━━━━━━━┳━━━━━━━━━━━━┓
    |-------|-----------:|     -------  ------------  ------        ┃ Epoch ┃ Train loss ┃
    | 1     | 6.4731     |           1        0.6931  0.0151        ┡━━━━━━━╇━━━━━━━━━━━━┩
    | 2     | 5.9321     |           2        0.6702  0.0178        │ 1     │ 3.31       │

A heading between bars may have two lines, as in MATLAB, and one without bars may be a comment: then
a blank is enough between its names. The line above it may name an evaluation, as in NequIP.

Cells are separated by bars, or by two or more blanks, as in skorch, fastai or scikit-learn. Without
bars, the first cell of a row has to be a count, or all cells are numbers. This excludes tables of
results, whose rows begin with the name of a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import NameParts, find_split, is_evaluation, names_split
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.text import plural
from stabdiag.readers.columns import BadLine, Columns
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.pieces import Piece, Rows
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammars.printed_rows import (
    BLANK_FREE_TEXT,
    COUNTER_NAME,
    MIN_PRINTED_ROWS,
    PRINTED_NUMBER,
    PrintedTable,
    has_words_as_loss,
    names_measure,
    plain_cell,
    read_row,
)
from stabdiag.readers.text.lines.cells import make_cell_piece
from stabdiag.readers.text.lines.clean import cleaned
from stabdiag.readers.text.lines.grammar import is_a_loss
from stabdiag.readers.text.lines.line_forms import outline
from stabdiag.readers.text.lines.shapes import Cells
from stabdiag.readers.text.names.bounds import negate_bounds, rises_above_zero
from stabdiag.readers.text.names.optimizers import heading_of_probability, name_function

# Limits: the bytes that are searched, and the length of a line.
_MAX_PRINTED_BYTES: Final = 1 << 24
_LONGEST_LINE: Final = 2000

# Every name of a loss contains one of the first two; every name of a reward contains the last.
_NAME_STEMS: Final = (b"oss", b"LOSS", b"eward")

_COLUMN_BAR: Final = lazy_pattern(rb"\||\xe2[\x94\x95][\x82\x83\x91]")
_BETWEEN_BARS: Final = lazy_pattern(r"[^|│┃║]+")
# Below the heading of a table in Markdown.
_MARKDOWN_RULE: Final = lazy_pattern(rb"[ \t|:+]{0,8}-[ \t|:+-]{2,2000}")

# A line with several cells has a bar, a comment sign, or a separator other than one blank.
_CELL_SIGN: Final = lazy_pattern(rb"[|#\t\v\f\x1c-\x1f\x80-\xff]|\S  ")

# A name or a cell may have several words.
_CELL_TEXT: Final = lazy_pattern(r"\S+(?: \S+)*")

_COLUMN_NAME: Final = lazy_pattern(r"#|[^\W\d](?:[^=,]|,(?! )){0,60}")
# The start of a row, which most other lines of a log lack.
_NUMBERED_ROW: Final = lazy_pattern(rb"[ \t]{0,200}[-+\[(]?(?:[.\d]|nan|NaN|NAN|inf|Inf)")

_SPLIT_NAME: Final = "split"
_TRIAL_NAME: Final = "trial name"
_TRIAL_WORD: Final = lazy_pattern(r"\w")

# The first names of a table of spaCy, and columns that are not losses.
_SPACY: Final = ("E", "#")
_SHARED: Final = lazy_pattern(r"LOSS (?:TOK2VEC|TRANS)")


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if there is a table with a loss."""
    return _largest(head) is not None


def read(stream: Stream) -> Columns:
    """Read the largest table that has a loss."""
    table = _largest(stream.peek(_MAX_PRINTED_BYTES))
    if table is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected a heading such as epoch, train_loss"
            " and rows with as many cells, separated by bars or two blanks"
        )
    names, rows = _names_and_rows(table)
    pieces: dict[str, Piece] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        pieces.setdefault(name, make_cell_piece(column))  # of equal names the first one counts
    columns = columns_from_chunks(
        [Rows.of(pieces)],
        source=stream.name,
        format="printed-table",
        bad=table.others,
        notes=(*stream.notes, *_other_tables(stream.peek(_MAX_PRINTED_BYTES), table)),
    )
    is_of_probability = heading_of_probability(stream.peek(_MAX_PRINTED_BYTES))
    if is_of_probability is False:
        return columns
    columns, note = negate_bounds(columns, rises=is_of_probability is True)
    if not note and rises_above_zero(columns):
        raise NoUsableRecord(
            f"{stream.name}: a likelihood above zero that rises may have been maximized or not;"
            " rename its column to loss if it is minimized"
        )
    return replace(columns, notes=(*columns.notes, f"the loss is a likelihood {note}"))


def short_table(data: bytes) -> tuple[tuple[str, ...], list[Cells]] | None:
    """Return the names and rows of a table with too few rows to be recognized by itself.

    It has to be the only one, and begin with the name of a counter or of the trials of Ray Tune.
    """
    tables = [table for table in _tables(cleaned(data)) if table.rows]
    names = tables[0].names if len(tables) == 1 else ("",)
    # A name of the split may be in front of the counter.
    first = names[1] if names_split(names[0]) else names[0]
    if not COUNTER_NAME.fullmatch(first) and first.lower() != _TRIAL_NAME:
        return None
    if _lists_trials(tables[0]):
        return None
    names, rows = _names_and_rows(tables[0])
    # The losses of a first row are left out only if others follow.
    return names, rows if len(rows) > 1 else tables[0].rows


def _other_tables(data: bytes, read_table: PrintedTable) -> Iterator[str]:
    """Yield a note if a text has other tables with a loss."""
    others = len(_full_tables(data)) - 1
    if others > 0 and not read_table.counted:
        yield f"{plural(others, 'other table')} with a loss not read: each run has a table"


def _full_tables(data: bytes) -> list[PrintedTable]:
    return [
        table
        for table in _tables(cleaned(data))
        if len(table.rows) >= MIN_PRINTED_ROWS and not _lists_trials(table)
    ]


def _lists_trials(table: PrintedTable) -> bool:
    """Return True for a table of Ray Tune with the state of several trials, some without a loss."""
    if table.names[0].lower() != _TRIAL_NAME:
        return False
    others = (_BETWEEN_BARS.findall(line.text.strip()) for line in table.others)
    waiting = {row[0].strip() for row in others if len(row) == len(table.names)}
    started = {cell.decode() for cell, *_ in table.rows if cell is not None}
    return len(started | {*filter(_TRIAL_WORD.search, waiting)}) > 1


def _largest(data: bytes) -> PrintedTable | None:
    tables = _full_tables(data)
    # Each table of a later run begins with the same heading: of equal tables, the last one counts.
    return max(reversed(tables), key=lambda table: len(table.rows), default=None)


def _tables(data: bytes) -> list[PrintedTable]:
    """Return the tables with a loss."""
    data = name_function(data)
    # A log without a table repeats a few lines, and no line is a heading.
    if not any(map(_may_be_heading, outline(data).split(b"\n"))):
        return []
    search = _TableSearch()
    lines = data.split(b"\n")
    for number, (above, line) in enumerate(zip([b"", *lines], lines, strict=False)):
        search.look(number, line, above)
    return search.tables


class _TableSearch:
    """The tables with a loss in the lines of a text so far.

    A table continues after a repeated heading, unless its rows have no count. The other lines below
    its heading are listed in ``others``.
    """

    def __init__(self) -> None:
        self.tables: list[PrintedTable] = []
        # The table that a row would belong to, and whether the last line was in it.
        self._table: PrintedTable | None = None
        self._is_inside = False

    def look(self, number: int, line: bytes, above: bytes) -> None:
        """Look at the next line, below the line ``above``."""
        table = self._table
        named = any(word in line for word in _NAME_STEMS)
        barred = (named or table is not None) and _COLUMN_BAR.search(line) is not None
        may_be_row = table is not None and (barred if table.barred else _NUMBERED_ROW.match(line))
        if len(line) > _LONGEST_LINE or not (named or may_be_row):
            self._is_inside = False
            self._add_other(number, line)
            return
        text = line.decode("utf-8", "replace")
        text = text.strip() if barred else text
        cells = _find_cells(text, named=named, barred=barred)
        names = _heading_names(cells, above, barred=barred) if named else ()
        reason = ""
        if named and not barred and _is_of_evaluation(names, above):
            self._table, self._is_inside = None, False
        elif _is_heading(names, barred=barred):
            self._begin(names, cells, barred=barred)
            return
        elif barred and not self._is_inside and _MARKDOWN_RULE.fullmatch(line):
            # A rule below a heading without a loss: another table begins.
            self._table = None
        elif table is not None and (row := read_row(table, cells, text)) is not None:
            table.rows.append(row)
            self._is_inside = True
            return
        elif table is not None and self._is_inside and barred and len(cells) != len(table.heading):
            is_rule = _MARKDOWN_RULE.fullmatch(line) is not None
            reason = "" if is_rule else f"{len(cells)} cells instead of {len(table.heading)}"
        self._add_other(number, line, text, reason)

    def _begin(self, names: tuple[str, ...], cells: list[re.Match[str]], *, barred: bool) -> None:
        """Begin a table, or continue the last one if its heading is repeated."""
        counted = barred or not names_measure(names[0], barred=barred)
        counted = counted and score_direction(names[0]) is None
        if not self.tables or self.tables[-1].names != names or not counted:
            self.tables.append(
                PrintedTable(names=names, heading=cells, barred=barred, counted=counted)
            )
        self._table, self._is_inside = self.tables[-1], True

    def _add_other(self, number: int, line: bytes, text: str = "", reason: str = "") -> None:
        """Add a line that is not a row to the last table."""
        if not self.tables:
            return
        last, table = self.tables[-1], self._table
        has_words = self._is_inside and table is not None and has_words_as_loss(table, text)
        bad = BadLine(
            line=number,
            reason="words in the place of the loss" if has_words else reason,
            above=len(last.rows),
            text=line.decode("utf-8", "replace"),
            has_words=has_words,
        )
        last.others.append(bad)


def _find_cells(text: str, *, named: bool, barred: bool) -> list[re.Match[str]]:
    """Return the cells of a line between bars, or else between blanks."""
    if named and not barred and text.startswith("# "):
        return [*BLANK_FREE_TEXT.finditer(text, 1)]
    return [*(_BETWEEN_BARS if barred else _CELL_TEXT).finditer(text)]


def _heading_names(
    cells: Sequence[re.Match[str]], above: bytes, *, barred: bool
) -> tuple[str, ...]:
    """Return the names in the cells of a line, which may continue those of the line above."""
    names = tuple(plain_cell(cell).removesuffix(":") for cell in cells)
    return _joined_names(above, names) if barred and not _is_heading(names, barred=True) else names


def _may_be_heading(line: bytes) -> bool:
    """Return True if a line may have several cells that are names without values."""
    if not any(word in line for word in _NAME_STEMS) or b"=" in line or b", " in line:
        return False
    return _CELL_SIGN.search(line) is not None


def _is_of_evaluation(names: Sequence[str], above: bytes) -> bool:
    """Return True for the heading of an evaluation, or of one row for each set of an epoch."""
    if not _is_heading(names, barred=False):
        return False
    is_of_sets = "#" in names[1:] and names[:2] != _SPACY
    # Training samples: 800, validation samples: 200 is about both.
    return is_of_sets or (b"rain" not in above and is_evaluation(above.decode("utf-8", "replace")))


def _joined_names(above: bytes, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a heading of two lines; ``names`` are the cells of the second line."""
    cells = _BETWEEN_BARS.finditer(above.decode("utf-8", "replace").strip())
    first = [*map(plain_cell, cells)] if _COLUMN_BAR.search(above) else []
    if len(first) != len(names) or any(map(PRINTED_NUMBER.fullmatch, first)):
        return tuple(names)
    return tuple(" ".join(filter(None, pair)) for pair in zip(first, names, strict=True))


def _is_heading(names: Sequence[str], *, barred: bool) -> bool:
    """Return True if cells are different names, including the name of a loss."""
    return (
        len(set(names)) == len(names) > 1
        and all(map(_COLUMN_NAME.fullmatch, names))
        and any(names_measure(name, barred=barred) for name in names)
    )


def _lists_splits(table: PrintedTable) -> bool:
    """Return True if the rows begin with several splits, below the name of an output or none."""
    words = {(row[0] or b"").decode() for row in table.rows}
    splits = {*map(find_split, words)}
    return len(splits) > 1 and None not in splits and NameParts.TRAINING in splits


def _names_and_rows(table: PrintedTable) -> tuple[tuple[str, ...], list[Cells]]:
    """Return the names and rows of a table, with standard names for a table of spaCy.

    spaCy prints the sum of the losses since the previous row. The first row has scores, but only
    the losses of a single batch, which are left out. The loss of a tok2vec or a transformer is a
    size of gradients.
    """
    if table.names[:2] != _SPACY:
        first = _SPLIT_NAME if _lists_splits(table) else table.names[0]
        return (first, *table.names[1:]), table.rows
    parts = (
        name.removeprefix("LOSS ") if _SHARED.match(name) else name for name in table.names[2:]
    )
    losses = [is_a_loss(name) for name in table.names]
    rows = [
        [None if is_loss else cell for cell, is_loss in zip(row, losses, strict=True)]
        if row[1] == b"0"
        else row
        for row in table.rows
    ]
    return ("epoch", "step", *parts), rows
