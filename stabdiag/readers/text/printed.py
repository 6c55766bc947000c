"""Tables printed for people: in a page of Markdown, or row by row. The largest with a loss counts.

::

    | Epoch | Train Loss |       epoch    train_loss     dur        ┏━━━━━━━┳━━━━━━━━━━━━┓
    |-------|-----------:|     -------  ------------  ------        ┃ Epoch ┃ Train loss ┃
    | 1     | 6.4731     |           1        0.6931  0.0151        ┡━━━━━━━╇━━━━━━━━━━━━┩
    | 2     | 5.9321     |           2        0.6702  0.0178        │ 1     │ 3.31       │

Row by row, as skorch, fastai, scikit-learn or Rich print it, cells are separated by two blanks or
more, or by bars. The first cell of a row is a count: a table of results, whose rows begin with the
name of a model, is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.columns import SHOWN, BadLine, Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.clean import Text, line_end
from stabdiag.readers.text.grammar import Cells, is_a_loss
from stabdiag.readers.text.table import columns_of

# How many bytes are looked at, and how few rows make no table.
_LONGEST: Final = 1 << 24
_FEWEST: Final = 3


@dataclass(kw_only=True, eq=False)
class _Table:
    """The names of a table, the cells of its rows, and its bad lines, which are no rows.

    A cell that a row does not have is None. A bad line is given by its place in the page and the
    number of its cells.
    """

    names: tuple[str, ...]
    rows: list[Cells] = field(default_factory=list)
    bad: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Format:
    """A format of such tables: what finds those with a loss, and what is expected of one."""

    name: str
    tables: Callable[[bytes], Iterable[_Table]]
    expected: str

    def recognises(self, head: bytes, *, whole: bool) -> bool:
        """Return whether there is a table with a loss."""
        return self._largest(Text(head)) is not None

    def read(self, stream: Stream) -> Columns:
        """Read the largest table that has a loss."""
        page = Text(stream.peek(_LONGEST))
        table = self._largest(page)
        if table is None:
            raise NoUsableRecord(
                f"{stream.name}: no record could be read; expected {self.expected}"
            )
        bad = (
            BadLine(line=page.line_at(place), reason=f"{count} cells instead of {len(table.names)}")
            for place, count in table.bad[:SHOWN]
        )
        columns = columns_of(stream, self.name, *_told(table))
        return replace(columns, bad_lines=tuple(bad), bad_count=len(table.bad))

    def _largest(self, page: Text) -> _Table | None:
        found = [one for one in self.tables(page.data) if len(one.rows) >= _FEWEST]
        return max(found, key=lambda one: len(one.rows), default=None)


# A heading and the line below it; whether this has a dash and as many cells is checked later.
_RULE: Final = re.compile(rb"\n([^\n]{3,2000})\n([ \t|:-]{3,2000})(?=\n)")


def _in_markdown(data: bytes) -> Iterator[_Table]:
    """Yield the tables that have a column of a loss; none begins within another."""
    begin = 0
    while (match := _RULE.search(data, begin)) is not None:
        begin = match.start(2) - 1
        names = tuple(cell.decode("utf-8", "replace") for cell in _between_bars(match[1]))
        is_rule = b"-" in match[2] and len(_between_bars(match[2])) == len(names) > 1
        if is_rule and any(map(is_a_loss, names)):
            table = _Table(names=names)
            begin = _fill(table, data, match.end() + 1)
            yield table


def _fill(table: _Table, data: bytes, begin: int) -> int:
    """Read the rows of a table, the first of which begins at a place; return where they end."""
    while begin < len(data):
        end = line_end(data, begin, len(data))
        line = data[begin:end]
        if b"|" not in line:
            break
        cells = _between_bars(line)
        if len(cells) == len(table.names):
            table.rows.append(cells)
        else:
            table.bad.append((begin, len(cells)))
        begin = end + 1
    return begin - 1


def _between_bars(line: bytes) -> list[bytes]:
    """Return the cells between the bars of a line, without the signs of bold text and code."""
    inner = line.strip().removeprefix(b"|").removesuffix(b"|")
    return [cell.strip().strip(b"*`").strip() for cell in inner.split(b"|")]


# How long a line of a table may be.
_LONGEST_LINE: Final = 1000

# What every name of a loss contains: loss, Loss or LOSS.
_LOSSES: Final = (b"oss", b"LOSS")

# A name or a cell may have several words; a number that is wider than its column is only one blank
# away from the next.
_WORD: Final = re.compile(r"[^\s|│┃║]+")
_WORDS: Final = re.compile(rf"{_WORD.pattern}(?: {_WORD.pattern})*")

_NAME: Final = re.compile(r"#|[A-Za-z][\w ./:%-]{0,60}")
_COUNT: Final = re.compile(r"\d{1,12}(?:\.0)?")
# How a row begins, which most other lines of a log do not.
_COUNTED: Final = re.compile(rb"(?:[ \t|]|\xe2[\x94\x95][\x82\x83\x91]){0,200}\d")
_NUMBER: Final = re.compile(r"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)", re.IGNORECASE)

# How a table of spaCy begins, and the losses in it that are none.
_SPACY: Final = ("E", "#")
_SHARED: Final = re.compile(r"LOSS (?:TOK2VEC|TRANS)")

# The cells of a line, and where they begin and end in it.
_Cells = list[re.Match[str]]


def _row_by_row(data: bytes) -> list[_Table]:
    """Return the tables that have a loss; after the same heading a table continues."""
    found: list[tuple[_Cells, _Table]] = []
    for line in data.split(b"\n") if any(word in data for word in _LOSSES) else ():
        named = any(word in line for word in _LOSSES)
        if len(line) > _LONGEST_LINE or not (named or (found and _COUNTED.match(line))):
            continue
        text = line.decode("utf-8", "replace")
        if named and _is_heading(cells := list(_WORDS.finditer(text))):
            names = tuple(cell[0] for cell in cells)
            if not found or found[-1][1].names != names:
                found.append((cells, _Table(names=names)))
        elif found and (row := _row(found[-1][0], text)) is not None:
            found[-1][1].rows.append(row)
    return [table for _, table in found]


def _row(heading: _Cells, line: str) -> list[bytes | None] | None:
    """Return the cells of a row in the order of the names, or None if it is no row."""
    words = list(_WORD.finditer(line))
    if len(words) < 2 or not _COUNT.fullmatch(words[0][0]):
        return None
    for cells in (words, list(_WORDS.finditer(line))):
        if len(cells) == len(heading):
            row: list[str | None] = [cell[0] for cell in cells]
            break
    else:
        row = [_below(name, words) for name in heading]
    told = [cell for name, cell in zip(heading, row, strict=True) if is_a_loss(name[0])]
    if not any(cell is not None and _NUMBER.fullmatch(cell) for cell in told):
        return None
    return [None if cell is None else cell.encode() for cell in row]


def _told(table: _Table) -> tuple[tuple[str, ...], list[Cells]]:
    """Return names and rows; those of spaCy are the epoch, the step, and what the parts lost.

    A row of it tells the sum of all losses since the row before it, but the first one that of a
    single batch. What it calls the loss of a tok2vec or a transformer is a size of gradients.
    """
    if table.names[:2] != _SPACY:
        return table.names, table.rows
    parts = (
        name.replace("LOSS", "size of", 1) if _SHARED.match(name) else name
        for name in table.names[2:]
    )
    return ("epoch", "step", *parts), [row for row in table.rows if row[1] != b"0"] or table.rows


def _is_heading(cells: _Cells) -> bool:
    """Tell whether cells are different names, one of them that of a loss."""
    names = [cell[0] for cell in cells]
    return (
        len(set(names)) == len(names) > 1
        and all(_NAME.fullmatch(name) for name in names)
        and any(map(is_a_loss, names[1:]))
    )


def _below(name: re.Match[str], cells: Sequence[re.Match[str]]) -> str | None:
    """Return the cell below a name, which overlaps with its width."""
    below = (one for one in cells if one.start() < name.end() and name.start() < one.end())
    return next((cell[0] for cell in below), None)


MARKDOWN: Final = _Format(
    name="markdown",
    tables=_in_markdown,
    expected="a table such as | Epoch | Loss | over |---|---| and rows",
)
PRINTED: Final = _Format(
    name="printed-table",
    tables=_row_by_row,
    expected="a heading such as epoch, train_loss over rows of as many cells, two blanks or bars"
    " between them",
)
