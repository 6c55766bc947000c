"""Tables printed for people: in a page of Markdown, or row by row. The largest with a loss counts.

::

    | Epoch | Train Loss |       epoch    train_loss     dur        ┏━━━━━━━┳━━━━━━━━━━━━┓
    |-------|-----------:|     -------  ------------  ------        ┃ Epoch ┃ Train loss ┃
    | 1     | 6.4731     |           1        0.6931  0.0151        ┡━━━━━━━╇━━━━━━━━━━━━┩
    | 2     | 5.9321     |           2        0.6702  0.0178        │ 1     │ 3.31       │

Cells are separated by bars, or else by two blanks or more, as skorch, fastai or scikit-learn print
them. There the first cell of a row is a count: a table of results, whose rows begin with the name
of a model, is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Final, TypeAlias

from stabdiag.errors import NoUsableRecord
from stabdiag.model.frozen import frozen
from stabdiag.readers.columns import BadLine, Columns, Piece, Rows
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.source import Stream
from stabdiag.readers.text.clean import cleaned
from stabdiag.readers.text.grammar import is_a_loss
from stabdiag.readers.text.shapes import Cells
from stabdiag.readers.text.table import piece_of

# How many bytes are looked at, how long a line may be, and how few rows make no table.
_LONGEST: Final = 1 << 24
_LONGEST_LINE: Final = 2000
_FEWEST: Final = 3

# What every name of a loss contains: loss, Loss or LOSS.
_LOSSES: Final = (b"oss", b"LOSS")

_BAR: Final = re.compile(rb"\||\xe2[\x94\x95][\x82\x83\x91]")
_BETWEEN_BARS: Final = re.compile(r"[^|│┃║]+")
# Below the heading of a table in Markdown.
_RULE: Final = re.compile(rb"[ \t|:]{0,8}-[ \t|:-]{2,2000}")

# A name or a cell may have several words; a number that is wider than its column is only one blank
# away from the next.
_WORD: Final = re.compile(r"\S+")
_WORDS: Final = re.compile(r"\S+(?: \S+)*")

_NAME: Final = re.compile(r"#|[^\W\d](?:[^=,]|,(?! )){0,60}")
_COUNT: Final = re.compile(r"\d{1,12}(?:\.0)?")
# How a row begins, which most other lines of a log do not.
_COUNTED: Final = re.compile(rb"[ \t]{0,200}\d")
_NUMBER: Final = re.compile(r"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)", re.IGNORECASE)

# How a table of spaCy begins, and the losses in it that are none.
_SPACY: Final = ("E", "#")
_SHARED: Final = re.compile(r"LOSS (?:TOK2VEC|TRANS)")

# The cells of a line, and where they begin and end in it.
_Cells: TypeAlias = list[re.Match[str]]


@frozen
class _Table:
    """The heading of a table, the cells of its rows, and the lines behind it that are no rows.

    A cell that a row does not have is None. What is wrong with lines is told of those within.
    """

    names: tuple[str, ...]
    heading: _Cells
    barred: bool
    rows: list[Cells] = field(default_factory=list)
    others: list[BadLine] = field(default_factory=list)


def sniff(head: bytes, *, is_complete: bool) -> bool:
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
    names, rows = _told(table)
    pieces: dict[str, Piece] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        pieces.setdefault(name, piece_of(column))  # of equal names the first one counts
    return columns_from_chunks(
        [Rows.of(pieces)],
        source=stream.name,
        format="printed-table",
        bad=table.others,
        notes=stream.notes,
    )


def _largest(data: bytes) -> _Table | None:
    found = [one for one in _tables(cleaned(data)) if len(one.rows) >= _FEWEST]
    return max(found, key=lambda one: len(one.rows), default=None)


def _tables(data: bytes) -> list[_Table]:
    """Return the tables that have a loss; after the same heading a table continues."""
    found: list[_Table] = []
    table, inside = None, False
    lines = data.split(b"\n") if any(word in data for word in _LOSSES) else []
    for number, line in enumerate(lines):
        named = any(word in line for word in _LOSSES)
        barred = (named or table is not None) and _BAR.search(line) is not None
        wanted = table is not None and (barred if table.barred else _COUNTED.match(line))
        wanted = len(line) <= _LONGEST_LINE and (named or wanted)
        text = line.decode("utf-8", "replace") if wanted else ""
        text, reason = text.strip() if barred else text, ""
        cells = [*(_BETWEEN_BARS if barred else _WORDS).finditer(text)]
        names = tuple(map(_plain, cells)) if named else ()
        if not wanted:
            inside = False
        elif _is_heading(names, barred=barred):
            if not found or found[-1].names != names:
                found.append(_Table(names=names, heading=cells, barred=barred))
            table, inside = found[-1], True
            continue
        elif barred and not inside and _RULE.fullmatch(line):
            # Without a loss in the heading above it another table begins.
            table = None
        elif table is not None and (row := _row(table, cells, text)) is not None:
            table.rows.append(row)
            inside = True
            continue
        elif table is not None and inside and barred and len(cells) != len(table.heading):
            reason = f"{len(cells)} cells instead of {len(table.heading)}"
        if found:
            others, above = found[-1].others, len(found[-1].rows)
            spelt = line.decode("utf-8", "replace")
            others.append(BadLine(line=number, reason=reason, above=above, text=spelt))
    return found


def _is_heading(names: Sequence[str], *, barred: bool) -> bool:
    """Tell whether cells are different names, one of them that of a loss."""
    return (
        len(set(names)) == len(names) > 1
        and all(map(_NAME.fullmatch, names))
        and any(map(is_a_loss, names if barred else names[1:]))
    )


def _row(table: _Table, cells: _Cells, line: str) -> list[bytes | None] | None:
    """Return the cells of a row in the order of the names, or None if it is no row."""
    row: list[str | None] = [*map(_plain, cells)]
    if not table.barred:
        words = [*_WORD.finditer(line)]
        if len(words) < 2 or not _COUNT.fullmatch(words[0][0]):
            return None
        if len(words) == len(table.heading):
            row = [word[0] for word in words]
        elif len(row) != len(table.heading):
            row = [_below(name, words) for name in table.heading]
    if len(row) != len(table.heading):
        return None
    told = [cell for name, cell in zip(table.names, row, strict=True) if is_a_loss(name)]
    if not any(cell is not None and _NUMBER.fullmatch(cell) for cell in told):
        return None
    return [None if cell is None else cell.encode() for cell in row]


def _plain(cell: re.Match[str]) -> str:
    """Return what a cell says, without the signs of bold text and code."""
    return cell[0].strip().strip("*`").strip()


def _below(name: re.Match[str], cells: Sequence[re.Match[str]]) -> str | None:
    """Return the cell below a name, which overlaps with its width."""
    below = (one for one in cells if one.start() < name.end() and name.start() < one.end())
    return next((cell[0] for cell in below), None)


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
