"""The fast reader of CSV: Arrow, where its result is certain to be right.

Every column is read as numbers or else as text, whose meaning is decided later. Arrow's own guesses
(dates, hexadecimal integers, words for null) are not used.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import types

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.arrow import PIECE_SIZE, ArrowTable
from stabdiag.readers.blocks import line_count
from stabdiag.readers.columns import ColumnFilter
from stabdiag.readers.csv.cells import unnamed

_COLUMN: Final = lazy_pattern(r"In CSV column #(\d+)")

# A piece of few lines costs each column as much as a piece of many.
_MIN_PIECE_LINES: Final = 256

# Each text that turns up in a column of numbers costs another pass over the block.
_PASSES: Final = 4


def read_block(
    block: bytes, names: tuple[str, ...], delimiter: str, texts: set[str], is_required: ColumnFilter
) -> ArrowTable | None:
    """Return the block as Arrow reads it, or None if the tolerant reader has to read it.

    ``texts`` collects the columns that hold texts; columns that are not required are left out.
    """
    if len(names) < 2:
        return None
    # Without a required column, a header among the records would not be noticed.
    used = [name for name in names if is_required(name)] or list(names)
    for _ in range(_PASSES):
        text_names = set(texts)
        try:
            table = _parse(block, names, delimiter, text_names, used)
        except pa.ArrowInvalid as error:
            place = _COLUMN.match(str(error))
            if place is None:
                return None
            texts.add(names[int(place.group(1))])
        else:
            # Unusual bytes never parse as numbers, so only texts or skipped columns can hide them.
            plain = not text_names and len(used) == len(names)
            certain = (plain or not _is_odd(block)) and _certain(table, block)
            return ArrowTable(table, names) if certain else None
    return None


def _is_odd(block: bytes) -> bool:
    """Return True if a block contains comments, a byte order mark or NUL bytes."""
    # A search for one byte is ten times faster than for two, and mostly it is not there.
    comment = b"#" in block and (b"\n#" in block or block.startswith(b"#"))
    return comment or b"\0" in block or (b"\xef" in block and b"\xef\xbb\xbf" in block)


def _parse(
    block: bytes, names: tuple[str, ...], delimiter: str, texts: set[str], used: list[str]
) -> pa.Table:
    # Texts are read as bytes: Arrow refuses a text that is not UTF-8, we do not.
    kinds = {name: pa.binary() if name in texts else pa.float64() for name in names}
    source: Any = pa.BufferReader(block)
    cached = max(PIECE_SIZE, _MIN_PIECE_LINES * (block.find(b"\n") + 1))
    return arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=min(len(block) + 1, cached), column_names=list(names)
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
        convert_options=arrow_csv.ConvertOptions(
            column_types=kinds, include_columns=used, null_values=[""], strings_can_be_null=True
        ),
    )


def _certain(table: pa.Table, block: bytes) -> bool:
    """Return True if each line is a record, without headers.

    A header or the rule of a table among the records would turn all columns into texts.
    """
    numeric = (
        types.is_floating(entry.type) and entry.name != unnamed(place)
        for place, entry in enumerate(table.schema, start=1)
    )
    return table.num_rows == line_count(block) and any(numeric)
