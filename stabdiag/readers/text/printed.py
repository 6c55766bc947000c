"""A table printed row by row, as skorch, fastai, scikit-learn or Rich do it.

::

      epoch    train_loss    valid_loss     dur        ┏━━━━━━━┳━━━━━━━━━━━━┓
    -------  ------------  ------------  ------        ┃ Epoch ┃ Train loss ┃
          1        0.6931        0.6925  0.0151        ┡━━━━━━━╇━━━━━━━━━━━━┩
          2        0.6702        0.6698  0.0178        │ 1     │ 3.31       │

Cells are separated by two blanks or more, or by bars. The first cell of a row is a count: a table
of results, whose rows begin with the name of a model, is not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.grammar import is_a_loss
from stabdiag.readers.text.table import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

# How many bytes are looked at, and how long a line of a table may be.
_LONGEST: Final = 1 << 24
_LONGEST_LINE: Final = 1000
_FEWEST: Final = 3

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


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A heading and the rows below it; a cell that a row does not have is None."""

    heading: _Cells
    rows: list[list[bytes | None]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(cell[0] for cell in self.heading)

    def row(self, line: str) -> list[bytes | None] | None:
        """Return the cells of a row in the order of the names, or None if it is no row."""
        words = list(_WORD.finditer(line))
        if len(words) < 2 or not _COUNT.fullmatch(words[0][0]):
            return None
        for cells in (words, list(_WORDS.finditer(line))):
            if len(cells) == len(self.heading):
                row: list[str | None] = [cell[0] for cell in cells]
                break
        else:
            row = [_below(name, words) for name in self.heading]
        told = [cell for name, cell in zip(self.names, row, strict=True) if is_a_loss(name)]
        if not any(cell is not None and _NUMBER.fullmatch(cell) for cell in told):
            return None
        return [None if cell is None else cell.encode() for cell in row]


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether there is a table with a loss."""
    return _largest(head) is not None


def read(stream: Stream) -> Columns:
    """Read the largest table that has a loss."""
    table = _largest(stream.peek(_LONGEST))
    if table is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected a heading such as epoch, train_loss"
            " over rows of as many cells, two blanks or bars between them"
        )
    names, cells = _of_spacy(table) if table.names[:2] == _SPACY else (table.names, table.rows)
    return columns_of(stream, "printed-table", names, cells)


def _of_spacy(table: _Table) -> tuple[tuple[str, ...], list[list[bytes | None]]]:
    """Return names and rows of a table of spaCy: the epoch, the step, and what the parts lost.

    A row tells the sum of all losses since the row before it, but the first one that of a single
    batch. What it calls the loss of a tok2vec or a transformer is a size of gradients.
    """
    parts = (
        name.replace("LOSS", "size of", 1) if _SHARED.match(name) else name
        for name in table.names[2:]
    )
    return ("epoch", "step", *parts), [row for row in table.rows if row[1] != b"0"] or table.rows


def _largest(data: bytes) -> _Table | None:
    if not any(word in data for word in _LOSSES):
        return None
    largest = max(_tables(data), key=lambda one: len(one.rows), default=None)
    return largest if largest is not None and len(largest.rows) >= _FEWEST else None


def _tables(data: bytes) -> list[_Table]:
    """Return the tables that have a loss; after the same heading a table continues."""
    found: list[_Table] = []
    table: _Table | None = None
    for line in Text(data).data.split(b"\n"):
        named = any(word in line for word in _LOSSES)
        if len(line) > _LONGEST_LINE or not (named or (table and _COUNTED.match(line))):
            continue
        text = line.decode("utf-8", "replace")
        if named and _is_heading(cells := list(_WORDS.finditer(text))):
            if table is None or table.names != tuple(cell[0] for cell in cells):
                table = _Table(heading=cells)
                found.append(table)
        elif table is not None and (row := table.row(text)) is not None:
            table.rows.append(row)
    return found


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
