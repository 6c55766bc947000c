"""Cells and headers of CSV, and a tolerant reader of its lines."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import field
from typing import Final

import numpy as np

from stabdiag.model.frozen import mutable
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.text import plural
from stabdiag.readers.columns import BadLine
from stabdiag.readers.csv.decimal_commas import DECIMAL_COMMA, with_points
from stabdiag.readers.csv.quoted import whole_row
from stabdiag.readers.csv.widths import padded
from stabdiag.readers.pieces import Chunk, Piece, Rows, piece_of_cells
from stabdiag.readers.words import (
    NUMBER,
    WORD,
    has_lost_cell,
    is_prose,
    meaning,
    with_joined_names,
    with_joined_words,
)

DELIMITERS: Final = (",", ";", "\t", "|")

_COUNT_AND_NUMBER: Final = lazy_pattern(r"\d{1,12}[;|\t]\d")

# In printed tables, blanks align the cells. A cell may contain blanks inside brackets:
# tensor(nan, device='cuda:0').
BLANKS: Final = " "
_BRACKETED_CELL: Final = lazy_pattern(r"[^\s()]*\([^()]{0,200}\)\S*|\S+")

# In a table of Markdown, the first of the numbers of a list counts, as in JSON: | [2.31, 2.28] |
_LIST_IN_CELL: Final = lazy_pattern(
    r"(?<=\|)(?a:\s{0,8}\[\s?([-+.\w]{1,40})(?:,\s?[-+.\w]{1,40}){1,60}\s?\]\s{0,8})(?=\|)"
)

_LONGEST_NAME: Final = 200

# Limits for any file: no logger has this many columns, and a few rows of this width are as good as
# fifty.
COLUMNS: Final = 1 << 17
_SAMPLE_CELLS: Final = 1 << 17

# The characters of the line below a Markdown header, and of the frame of a table.
_RULED: Final = "-=+|: "

# Excel can write the delimiter in a line above the header.
_NAMED_DELIMITER: Final = lazy_pattern(r"sep=.\r?")


def split_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of one line, stripped, without the mark of code in a post."""
    line = line.lstrip("\ufeff`").rstrip("\r")
    if delimiter == BLANKS:
        line = with_joined_words(line)
        if "(" in line:
            return _BRACKETED_CELL.findall(line)
        cells = [cell for cell in line.split(BLANKS) if cell]
        return [cell.strip('"') for cell in cells] if '"' in line else cells
    if delimiter == "|" and "[" in line:
        line = _LIST_IN_CELL.sub(r"\1", line)
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


def header_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a header, unique and not blank."""
    names: dict[str, None] = {}
    # The last number of each name. Starting at 1 each time would be slow for many equal names.
    counts: dict[str, int] = {}
    for number, cell in enumerate(cells, start=1):
        name = base = cell or unnamed(number)
        while name in names:
            counts[base] = counts.get(base, 0) + 1
            name = f"{base}.{counts[base]}"
        names[name] = None
    return tuple(names)


def is_header(cells: Sequence[str]) -> bool:
    """Return True if these cells can only be names of columns."""
    # A list that a cell begins ends in another one: epoch 3 losses=[2.31, 0.45], loss: [2.31 0.45
    if any(len(cell) > _LONGEST_NAME or "=[" in cell or _begins_list(cell) for cell in cells):
        return False
    words = [cell for cell in cells if meaning(cell)[0] == WORD]
    named = any(any(map(str.isalpha, word)) for word in words)
    numbers = sum(meaning(cell)[0] == NUMBER for cell in cells)
    # Most cells of a framed title are blank: | rollout/ |  |
    return named and numbers < len(words) and 2 * len(words) >= len(cells) - numbers


def _begins_list(cell: str) -> bool:
    """Return True if a cell has the first items of a list and not its end."""
    _, bracket, items = cell.rpartition("[")
    return bool(bracket and items.strip()) and "]" not in items


def is_next_header(cells: Sequence[str], names: tuple[str, ...]) -> bool:
    """Return True if a row is another header: words, some of the same names, or as many others."""
    shared = len({*map(str.lower, names)}.intersection(map(str.lower, cells)))
    if not shared:
        # A loss and a counter are two cells, and pairs such as loss=2.31 are not names.
        if not 1 < len(cells) == len(names) or all("=" in cell for cell in cells):
            return False
        if not all(cell[:1].isalpha() and meaning(cell)[0] == WORD for cell in cells):
            return False
        return {"loss"} < assign(cells).columns.keys() & {"loss", "step", "epoch"}
    if _is_same_header(header_names(cells), names):
        return True
    blank = {place for place, name in enumerate(names) if name == unnamed(place + 1)}
    # The first column counts: step,metric,value below step,loss,lr.
    named = [*filter(None, cells)]
    first = next((name for place, name in enumerate(names) if place not in blank), None)
    if named[0] == first and all(map(str.isidentifier, named)):
        return True
    if shared * 2 < min(len(named), len(names) - len(blank)):
        return False
    return all(
        meaning(cell)[0] == WORD or (not cell and place in blank)
        for place, cell in enumerate(cells)
    )


def _is_same_header(header: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Return True if two headers differ only in case: Step,Loss below step,loss."""
    return [*map(str.lower, header)] == [*map(str.lower, names)]


def first_rows(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the cells of the first lines, up to a limit."""
    rows: list[list[str]] = []
    remaining = _SAMPLE_CELLS
    for line in lines:
        width = line.count(delimiter) + 1
        if remaining <= 0 or width > COLUMNS:
            break
        rows.append(split_cells(line, delimiter))
        remaining -= width
    return rows


def is_content(line: str) -> bool:
    """Return False for blank lines, comments, rules and the line with the delimiter."""
    line = line.lstrip("\ufeff")
    if not line.strip() or line[0] in "#%" or is_rule(line):
        return False
    return _NAMED_DELIMITER.fullmatch(line) is None


def is_rule(line: str) -> bool:
    """Return True for lines that separate a header from its rows, or frame a table."""
    if line[:1] not in ("|", "+", "-") or line.removesuffix("\r").strip(_RULED):
        return False
    # GitHub writes -- | -- below the header of a table that is quoted.
    return "---" in line or "===" in line or ("--" in line and "|" in line)


def delimiters_by_count(line: str) -> list[str]:
    """Return the delimiters, the most frequent in a line first."""
    return sorted(DELIMITERS, key=line.count, reverse=True)


def offset(head: bytes, lines: int) -> int:
    """Return the start of the line after the first ``lines`` lines."""
    start = 0
    for _ in range(lines):
        start = head.find(b"\n", start) + 1 or len(head)
    return start


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
    last_is_cut = bool(lines[-1])
    if not last_is_cut:
        lines.pop()
    parsed = CsvBlock(chunk=Rows(rows=0), under=names, names=names, lines=len(lines))
    parsed.is_ended = not last_is_cut
    sections: list[tuple[tuple[str, ...], list[list[str]]]] = [(names, [])]
    at = rows = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not (line.strip() or delimiter in line) or is_rule(line):
            continue
        if line.startswith("#") and _is_comment(line, delimiter, len(parsed.names)):
            continue
        row, extra_lines = whole_row(lines, number - 1, delimiter)
        cells = split_cells(row, delimiter)
        width = len(parsed.names)
        # Where the header ends with a delimiter, a row with another blank has a further cell.
        if len(cells) == width + 1 and not cells[-1] and parsed.names[-1] != unnamed(width):
            cells.pop()
        if delimiter == BLANKS and len(cells) != width:
            joined = split_cells(with_joined_names(line), delimiter)
            cells = joined if is_next_header(joined, parsed.names) else cells
        header = header_names(cells) if is_next_header(cells, parsed.names) else None
        if header is not None and _is_same_header(header, parsed.names):
            parsed.repeated.append(number)
            continue
        if header is not None and not _has_rows(lines[at : at + _MAX_TO_ROW], delimiter, header):
            header = None
        elif header is None and (len(cells) != width or _hides_delimiter(cells[0])):
            cells = _by_other_delimiter(line, delimiter, parsed.names) or cells
            header = header_names(cells) if is_next_header(cells, parsed.names) else None
        if header is not None:
            parsed.renamed.append(number)
            parsed.names = header
            sections.append((header, []))
            continue
        cut = last_is_cut and at == len(lines) and len(cells) < width
        if is_ragged and not cut and all(meaning(cell)[0] != WORD for cell in cells):
            cells = padded(cells, width)
        reason = "contains NUL bytes" if "\0" in line else _error_message(cells, width, cut=cut)
        if not reason and delimiter == BLANKS and _is_sentence(cells, sections[-1][1]):
            reason = "words below numbers"
        if reason:
            bad = BadLine(
                line=number,
                reason=reason,
                above=rows,
                text=line,
                is_short=1 < len(cells) < width,
                has_words=delimiter == BLANKS and has_lost_cell(cells, width),
            )
            parsed.bad.append(bad)
        else:
            sections[-1][1].append(with_points(cells) if commas else cells)
            at += extra_lines
            rows += 1
    parsed.chunk = _chunk(sections)
    return parsed


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
