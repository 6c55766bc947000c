"""The tolerant reader of CSV: slow, line by line, through broken rows and second headers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.text import plural
from stabdiag.readers.chunks import Rows, piece_of_cells
from stabdiag.readers.columns import BadLine
from stabdiag.readers.csv.cells import cells_of, is_next_header, is_rule, names_of, with_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.readers.chunks import Chunk, Piece

# A quoted cell may run over this many lines: an unpaired quote must not swallow the file.
_LINES_OF_A_CELL: Final = 50
_LONGEST_QUOTED: Final = 1 << 14

# Quotes, comments, rules and what has to be stripped.
_ODD: Final = ('"', "#", "---", "===", "\0", "\r", "\ufeff", " ", "\t")


@dataclass(kw_only=True)
class Parsed:
    """What a block holds that was read ``under`` one header, and the ``names`` that hold after it.

    ``repeated`` and ``renamed`` are the lines on which a header stands: the same, or another.
    """

    chunk: Chunk
    under: tuple[str, ...]
    names: tuple[str, ...]
    lines: int
    bad: list[BadLine] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    renamed: list[int] = field(default_factory=list)


def read_lines(
    block: bytes, names: tuple[str, ...], delimiter: str, *, commas: bool = False
) -> Parsed:
    """Read the records of a block that come under a header, with decimal commas or points."""
    text = block.decode("utf-8", "replace")
    plain = None if commas else _plain(text, names, delimiter)
    if plain is not None:
        return Parsed(chunk=plain, under=names, names=names, lines=plain.rows)
    lines = text.split("\n")
    last_is_cut = bool(lines[-1])
    if not last_is_cut:
        lines.pop()
    parsed = Parsed(chunk=Rows(rows=0), under=names, names=names, lines=len(lines))
    sections: list[tuple[tuple[str, ...], list[list[str]]]] = [(names, [])]
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if line.startswith("#") or not (line.strip() or delimiter in line) or is_rule(line):
            continue
        cells, more = _row(lines, number - 1, delimiter)
        width = len(parsed.names)
        if len(cells) == width + 1 and not cells[-1]:
            cells.pop()
        if is_next_header(cells, parsed.names):
            header = names_of(cells)
            (parsed.repeated if header == parsed.names else parsed.renamed).append(number)
            parsed.names = header
            sections.append((header, []))
        elif "\0" in line:
            parsed.bad.append(BadLine(line=number, reason="holds NUL bytes"))
        elif len(cells) != width:
            cut = last_is_cut and at == len(lines) and len(cells) < width
            parsed.bad.append(BadLine(line=number, reason=_why(len(cells), width, cut=cut)))
        else:
            sections[-1][1].append(with_points(cells) if commas else cells)
            at += more
    parsed.chunk = _chunk(sections)
    return parsed


class _Cells:
    """A chunk of cells, of which a column becomes numbers when it is asked for."""

    def __init__(self, names: Sequence[str], rows: list[list[str]]) -> None:
        self.rows = len(rows)
        self.names = names
        self._cells = dict(zip(names, zip(*rows, strict=True), strict=True))

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column, or None if it has none."""
        cells = self._cells.get(name)
        return None if cells is None else piece_of_cells(cells)


def _plain(text: str, names: tuple[str, ...], delimiter: str) -> _Cells | None:
    """Return the records of a block in which each line is one, and nothing needs a second look."""
    if any(sign in text for sign in _ODD if sign != delimiter) or len(names) < 2:
        return None
    # A header among the records would hold a name.
    if any(name in text for name in names):
        return None
    rows = [line.split(delimiter) for line in text.removesuffix("\n").split("\n")]
    width = len(names)
    return _Cells(names, rows) if all(len(row) == width for row in rows) else None


def _row(lines: list[str], at: int, delimiter: str) -> tuple[list[str], int]:
    """Return the cells of a row, and how many more lines its quoted cells run over."""
    text = lines[at].rstrip("\r")
    if not _is_open(text, delimiter):
        return cells_of(text, delimiter), 0
    longer = [text]
    for more, line in enumerate(lines[at + 1 : at + _LINES_OF_A_CELL], start=1):
        longer.append(line.rstrip("\r"))
        # A line without a quote ends no cell, so the whole need not be searched again for it.
        if '"' in line:
            # The line ends go: a cell of several lines is a text, and only compared.
            whole = " ".join(longer)
            if not _is_open(whole, delimiter):
                return cells_of(whole, delimiter), more
    return cells_of(text, delimiter), 0


def _is_open(text: str, delimiter: str) -> bool:
    """Return whether a quoted cell begins in the text and does not end there."""
    if text.count('"') % 2 == 0 or len(text) > _LONGEST_QUOTED:
        return False
    return re.search(rf'(?:^|{re.escape(delimiter)})"(?:[^"]|"")*$', text) is not None


def _why(found: int, expected: int, *, cut: bool) -> str:
    if cut:
        return "breaks off"
    return f"{plural(found, 'cell')} under a header of {expected}"


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
