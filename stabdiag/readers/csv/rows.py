"""The tolerant reader of CSV: slow, line by line, through broken rows and second headers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.text import plural
from stabdiag.readers.chunks import Rows
from stabdiag.readers.columns import BadLine
from stabdiag.readers.csv.cells import cells_of, is_next_header, is_rule, names_of
from stabdiag.readers.csv.commas import with_points
from stabdiag.readers.pieces import piece_of_cells

if TYPE_CHECKING:
    from stabdiag.readers.chunks import Chunk

# A quoted cell may run over this many lines: an unpaired quote must not swallow the file.
_LINES_OF_A_CELL: Final = 50
_LONGEST_QUOTED: Final = 1 << 14


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
    lines = block.decode("utf-8", "replace").split("\n")
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
