"""The fastest reader of JSON lines: records of which nearly all have the same keys, and numbers.

With its commas and closing braces made colons, such a record is a line of CSV whose cells are key
and number in turn: {"step": 1, "loss": 2.5} gives «{"step"», « 1», « "loss"», « 2.5» and a last
cell that is empty. Arrow reads CSV in half the time that it takes for JSON. A line is certain to be
such a record if its key cells are, byte for byte, those of the first line, and the cells between
them are numbers or null. The few lines that have more cells, or fewer, as where an evaluation was
logged, are left to the tolerant reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from stabdiag.readers.chunks import Rows
from stabdiag.readers.json.rows import read_lines
from stabdiag.readers.slab import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.readers.chunks import Chunk

_KEY: Final = re.compile(rb'\s*(?:\{\s*)?"([^"\\]+)"\s*')
_NULLS: Final = ("null", " null")

# Arrow takes least time where a piece stays in the cache; it refuses a line that is longer.
_CACHED: Final = 1 << 20

# A table of more keys takes longer to set up, for each block, than it saves; and so do the lines
# that are read one by one, if there are more than one in so many.
_MOST_KEYS: Final = 500
_OTHERS: Final = 10


def read_block(block: bytes) -> Chunk | None:
    """Return the block if most of its records have the first one's keys and numbers, else None."""
    keys = _colons(block[: block.find(b"\n") + 1] or block).split(b":")[:-1:2]
    names = _names(keys)
    if not names:
        return None
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.append(np.flatnonzero(text[:-1] == ord("\n")), len(block) - 1)
    others: dict[int, str] = {}
    try:
        cells = _parse(_colons(block), keys, others, most=len(ends) // _OTHERS)
        numbers = cells.select(range(1, 2 * len(keys), 2))
        numbers = numbers.rename_columns([name.decode() for name in names])
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if not all(_is_always(cells.column(2 * at), key) for at, key in enumerate(keys)):
        return None
    table = Table(numbers, numbers.column_names)
    lines = [block[ends[at - 1] + 1 : ends[at] + 1] for at in others if at < len(ends)]
    # Arrow knows other ends of a line, and no blank line: then its count of them is not ours.
    if [_colons(line).rstrip(b"\r\n").decode() for line in lines] != list(others.values()):
        return None
    left = b"".join(lines)
    commas, braces = (np.count_nonzero(text == mark) - left.count(mark) for mark in b",}")
    if not len(ends) - len(lines) == table.rows == braces or commas != braces * (len(keys) - 1):
        return None
    return _with_others(table, lines, np.array(list(others))) if others else table


def _names(keys: list[bytes]) -> list[bytes]:
    """Return the names in the key cells of a line, or none if it is no record of them."""
    opens = [key.lstrip().startswith(b"{") for key in keys]
    found = [match[1] for match in map(_KEY.fullmatch, keys) if match is not None]
    different = len(keys) == len(found) == len(set(found)) <= _MOST_KEYS
    return found if different and opens == [True, *[False] * (len(keys) - 1)] else []


def _with_others(table: Table, lines: list[bytes], at: NDArray[np.intp]) -> Rows | None:
    """Return a table and the records of other lines, which stand at these places among them all."""
    # What nests may be the records of an epoch: what it means is not for a few lines to tell.
    if any(line.count(b"{") != 1 or b"[" in line for line in lines):
        return None
    chunk, bad, _ = read_lines(b"".join(lines))
    if bad or chunk.rows != len(lines):
        return None
    rest = np.delete(np.arange(table.rows + len(at)), at)
    both = Rows(rows=table.rows + len(at))
    for name in table.names:
        piece = table.piece(name)
        both.parts[name] = [] if piece is None else [(rest, piece)]
    for name, found in chunk.parts.items():
        placed = [(at if rows is None else at[rows], piece) for rows, piece in found]
        both.parts.setdefault(name, []).extend(placed)
    return both


def _colons(text: bytes) -> bytes:
    return text.replace(b",", b":").replace(b"}", b":")


def _parse(block: bytes, keys: list[bytes], others: dict[int, str], *, most: int) -> pa.Table:
    """Parse lines of key, number, key, number, … and nothing; keys are as long as the first.

    Lines that have more or fewer cells, up to so many of them, go to ``others`` by their places.
    """
    kinds = [kind for key in keys for kind in (pa.binary(len(key)), pa.float64())]
    columns = {f"{at}": kind for at, kind in enumerate([*kinds, pa.binary(0)])}
    source: Any = pa.BufferReader(block)

    def pass_over(row: arrow_csv.InvalidRow) -> Literal["skip", "error"]:
        others[(row.number or 0) - 1] = row.text
        return "skip" if len(others) <= most else "error"

    return arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=min(len(block) + 1, _CACHED), column_names=list(columns)
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=":",
            quote_char=False,
            # A line that is not UTF-8 could not be told of.
            invalid_row_handler=pass_over if block.isascii() else None,
        ),
        convert_options=arrow_csv.ConvertOptions(column_types=columns, null_values=[*_NULLS]),
    )


def _is_always(column: Any, cell: bytes) -> bool:
    """Tell whether a column of cells as long as this one holds nothing but it."""
    return all(array.buffers()[1].to_pybytes() == cell * len(array) for array in column.chunks)
