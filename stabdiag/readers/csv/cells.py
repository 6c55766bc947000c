"""Cells and headers of CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.words import NUMBER, WORD, meaning, with_joined_words

DELIMITERS: Final = (",", ";", "\t", "|")

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
    if is_same_header(header_names(cells), names):
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


def is_same_header(header: tuple[str, ...], names: tuple[str, ...]) -> bool:
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
