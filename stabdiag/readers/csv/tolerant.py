"""A tolerant reader of the lines of CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

import numpy as np

from stabdiag.model.frozen import mutable
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import plural
from stabdiag.readers.columns import BadLine
from stabdiag.readers.csv.cells import (
    BLANKS,
    DELIMITERS,
    header_names,
    is_next_header,
    is_rule,
    is_same_header,
    split_cells,
    unnamed,
)
from stabdiag.readers.csv.decimal_commas import DECIMAL_COMMA, with_points
from stabdiag.readers.csv.quoted import whole_row
from stabdiag.readers.csv.widths import padded
from stabdiag.readers.pieces import Chunk, Piece, Rows, piece_of_cells
from stabdiag.readers.words import NUMBER, WORD, has_lost_cell, is_prose, meaning, with_joined_names

_COUNT_AND_NUMBER: Final = lazy_pattern(r"\d{1,12}[;|\t]\d")

# The first row is at most this many lines below its header.
_MAX_TO_ROW: Final = 8

# Quotes, comments, rules and characters that have to be stripped.
_ODD: Final = ('"', "#", ";", "---", "===", "\0", "\r", "\ufeff", " ", "\t")


@mutable
class CsvBlock:
    """The content of a block: ``under`` is the header before it, ``names`` the header after it.

    ``repeated`` and ``renamed`` are the lines with the same header, or another one.
    """

    chunk: Chunk
    under: tuple[str, ...]
    names: tuple[str, ...]
    lines: int
    bad: list[BadLine] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    renamed: list[int] = field(default_factory=list)
    is_ended: bool = True


def read_lines(
    block: bytes,
    names: tuple[str, ...],
    delimiter: str,
    *,
    commas: bool = False,
    is_ragged: bool = False,
) -> CsvBlock:
    """Read the records of a block under a header, with decimal commas or points.

    If the table ``is_ragged``, its rows may lack cells at their end.
    """
    text = block.decode("utf-8", "replace")
    # Python's csv module ends lines with "\r\n".
    plain = None if commas else _plain(text.replace("\r\n", "\n"), names, delimiter)
    if plain is not None:
        return CsvBlock(chunk=plain, under=names, names=names, lines=plain.rows)
    lines = text.split("\n")
    is_ended = not lines[-1]
    if is_ended:
        lines.pop()
    reader = _LineReader(lines, names, delimiter, commas=commas, is_ragged=is_ragged)
    return reader.read(is_ended=is_ended)


class _LineReader:
    """Reads each line of a block as a record, a header or a bad line."""

    def __init__(
        self,
        lines: list[str],
        names: tuple[str, ...],
        delimiter: str,
        *,
        commas: bool,
        is_ragged: bool,
    ) -> None:
        self._lines, self._delimiter = lines, delimiter
        self._commas, self._is_ragged = commas, is_ragged
        # The rows below each header.
        self._sections: list[tuple[tuple[str, ...], list[list[str]]]] = [(names, [])]
        self._rows = 0
        self._block = CsvBlock(chunk=Rows(rows=0), under=names, names=names, lines=len(lines))

    def read(self, *, is_ended: bool) -> CsvBlock:
        """Read all lines; the last one may be cut."""
        self._block.is_ended = is_ended
        at = 0
        while at < len(self._lines):
            at += self._read_row(at)
        self._block.chunk = _chunk(self._sections)
        return self._block

    def _read_row(self, at: int) -> int:
        """Read the row that begins with a line, and return its number of lines."""
        line, block, delimiter = self._lines[at], self._block, self._delimiter
        if not (line.strip() or delimiter in line) or is_rule(line):
            return 1
        if line.startswith("#") and _is_comment(line, delimiter, len(block.names)):
            return 1
        row, extra_lines = whole_row(self._lines, at, delimiter)
        cells = self._split(row, line)
        header = header_names(cells) if is_next_header(cells, block.names) else None
        if header is not None and is_same_header(header, block.names):
            block.repeated.append(at + 1)
            return 1
        if header is not None:
            below = self._lines[at + 1 : at + 1 + _MAX_TO_ROW]
            header = header if _has_rows(below, delimiter, header) else None
        elif len(cells) != len(block.names) or _hides_delimiter(cells[0]):
            cells = _by_other_delimiter(line, delimiter, block.names) or cells
            header = header_names(cells) if is_next_header(cells, block.names) else None
        if header is not None:
            block.renamed.append(at + 1)
            block.names = header
            self._sections.append((header, []))
            return 1
        return 1 + extra_lines if self._add(cells, at) else 1

    def _split(self, row: str, line: str) -> list[str]:
        """Return the cells of a row that begins with a line."""
        cells, names = split_cells(row, self._delimiter), self._block.names
        width = len(names)
        # Where the header ends with a delimiter, a row with another blank has a further cell.
        if len(cells) == width + 1 and not cells[-1] and names[-1] != unnamed(width):
            cells.pop()
        if self._delimiter == BLANKS and len(cells) != width:
            joined = split_cells(with_joined_names(line), self._delimiter)
            return joined if is_next_header(joined, names) else cells
        return cells

    def _add(self, cells: list[str], at: int) -> bool:
        """Add a record, or its line to the bad lines; return True if it is a record."""
        line, width, is_printed = self._lines[at], len(self._block.names), self._delimiter == BLANKS
        is_last = at + 1 == len(self._lines)
        is_cut = is_last and not self._block.is_ended and len(cells) < width
        if self._is_ragged and not is_cut and all(meaning(cell)[0] != WORD for cell in cells):
            cells = padded(cells, width)
        rows = self._sections[-1][1]
        reason = "contains NUL bytes" if "\0" in line else _error_message(cells, width, cut=is_cut)
        if not reason and is_printed and _is_sentence(cells, rows):
            reason = "words below numbers"
        if not reason:
            rows.append(with_points(cells) if self._commas else cells)
            self._rows += 1
            return True
        bad = BadLine(
            line=at + 1,
            reason=reason,
            above=self._rows,
            text=line,
            is_short=1 < len(cells) < width,
            has_words=is_printed and has_lost_cell(cells, width),
        )
        self._block.bad.append(bad)
        return False


def _has_rows(lines: Sequence[str], delimiter: str, header: Sequence[str]) -> bool:
    """Return True unless none of the lines below a header has a cell for each name."""
    widths = [len(split_cells(line, delimiter)) for line in lines]
    return not widths or not {len(header), len(header) + 1}.isdisjoint(widths)


class _Cells:
    """A chunk of cells. A column is converted to numbers on first use."""

    def __init__(self, names: Sequence[str], rows: list[list[str]]) -> None:
        self.rows = len(rows)
        self.names = names
        self._cells = dict(zip(names, zip(*rows, strict=True), strict=True))
        self._pieces: dict[str, Piece] = {}

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column, or None if it has none."""
        if name in self._cells:
            self._pieces[name] = piece_of_cells(self._cells.pop(name))
        return self._pieces.get(name)


def _plain(text: str, names: tuple[str, ...], delimiter: str) -> _Cells | None:
    """Return the records of a block if each line is a plain record, else None."""
    if any(sign in text for sign in _ODD if sign != delimiter) or len(names) < 2:
        return None
    # A header among the records would contain a name, perhaps in another case.
    lowered = text.lower()
    if any(name.lower() in lowered for name in names):
        return None
    rows = [line.split(delimiter) for line in text.removesuffix("\n").split("\n")]
    width = len(names)
    return _Cells(names, rows) if all(len(row) == width for row in rows) else None


def _is_comment(line: str, delimiter: str, width: int) -> bool:
    """Return False for a line with # that is a record, as #NUM! may be its first value."""
    cells = split_cells(line, delimiter)
    return len(cells) != width or meaning(cells[0])[0] == WORD


def _by_other_delimiter(line: str, delimiter: str, names: tuple[str, ...]) -> list[str] | None:
    """Return the cells of a line that another delimiter splits into a record or a header."""
    # Below a table framed with bars, numbers between blanks belong to another one.
    for other in DELIMITERS if names[0] == unnamed(1) else (*DELIMITERS, BLANKS):
        if other == delimiter or other not in line:
            continue
        cells = split_cells(line, other)
        if other != "," and any(map(DECIMAL_COMMA.fullmatch, cells)):
            cells = with_points(cells)
        is_record = len(cells) == len(names) and all(meaning(cell)[0] != WORD for cell in cells)
        # Words between blanks may be prose.
        may_be_header = other != BLANKS or {*cells} == {*names}
        if is_record or (may_be_header and is_next_header(cells, names)):
            return cells
    return None


def _hides_delimiter(cell: str) -> bool:
    """Return True if a count and a number with a decimal comma begin a row: 180;2,31;0,0001."""
    return _COUNT_AND_NUMBER.match(cell) is not None


def _error_message(cells: Sequence[str], expected: int, *, cut: bool) -> str:
    """Return the reason that cells are not a record, or "" if they may be a record."""
    if cut:
        return "breaks off"
    if len(cells) != expected:
        return f"{plural(len(cells), 'cell')} under a header of {expected}"
    if expected == 1 and " " not in cells[0]:
        return ""  # a value that is not a number
    return "only words" if is_prose(cells) else ""


def _is_sentence(cells: Sequence[str], above: Sequence[Sequence[str]]) -> bool:
    """Return True if a line between rows of numbers begins with a word and is mostly words."""
    if not above or meaning(above[-1][0])[0] != NUMBER or meaning(cells[0])[0] != WORD:
        return False
    return 2 * sum(meaning(cell)[0] == WORD for cell in cells) >= len(cells)


def _chunk(sections: list[tuple[tuple[str, ...], list[list[str]]]]) -> Rows:
    total = sum(len(rows) for _, rows in sections)
    chunk = Rows(rows=total)
    start = 0
    for names, rows in sections:
        if not rows and len(sections) > 1:
            continue
        where = None if len(rows) == total else np.arange(start, start + len(rows))
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        for name, column in zip(names, columns, strict=True):
            chunk.parts.setdefault(name, []).append((where, piece_of_cells(column)))
        start += len(rows)
    return chunk
