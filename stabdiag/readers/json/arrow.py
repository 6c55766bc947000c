"""Read JSON lines with Arrow where the result is certain to be right.

Arrow merges ``null`` with a missing key, accepts records on several lines, gives wrong numbers for
a list with a null, and crashes on deep nesting or a null for the first record. Blocks where
this may matter go to the tolerant reader, as do blocks that Arrow refuses.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json
from pyarrow import types

from stabdiag.model.arrays import Positions
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.arrow import PIECE_SIZE, ArrowTable, piece_of_array, schema_layout
from stabdiag.readers.blocks import line_starts
from stabdiag.readers.json.tolerant import read_lines
from stabdiag.readers.pieces import Chunk, Piece, Rows
from stabdiag.readers.words import ABSENT

# A line of twice this length may be nested too deeply for Arrow's recursion.
_SHORT_LINE: Final = 1 << 11
_MAX_ARROW_DEPTH: Final = 256

# With more keys than this, Arrow is slower than the tolerant reader.
_MAX_KEYS: Final = 1 << 12

# If the head of a block has this many times more columns than a record has members, a table of all
# rows and all columns would be mostly empty, and large.
_SPARSE: Final = 8
_SNIFFED_BYTES: Final = 1 << 13


class _Records(ArrowTable):
    """A chunk of records. A key that a record lacks is absent there."""

    def __init__(self, table: pa.Table, block: bytes) -> None:
        """Keep the block if it has times: the table does not show how they were written."""
        super().__init__(table)
        self._block = block if schema_layout(table.schema).has_times else b""

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column."""
        array = self.array(name)
        if array is None:
            return super().piece(name)
        if types.is_temporal(array.type):  # Arrow converts some texts to times
            text = pa.schema([(name, pa.string())])
            array = _parse(self._block, schema=text).column(0).combine_chunks()
        return piece_of_array(array, missing=ABSENT)


def read_block(block: bytes) -> _Records | None:
    """Read a block with Arrow, or return None if the tolerant reader has to read it."""
    is_wide = block.count(b":", 0, block.find(b"\n") + 1 or None) > _MAX_KEYS
    starts = line_starts(block)
    if is_wide or not _objects(block, starts) or _deep(block, starts) or _sparse(block):
        return None
    try:
        table = _parse(block)
        return _Records(table, block) if _certain(table, block, len(starts)) else None
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _parse(block: bytes, *, schema: pa.Schema | None = None) -> pa.Table:
    """Parse a block, or only some columns of it, of known types."""
    source: Any = pa.BufferReader(block)
    return arrow_json.read_json(
        source,
        # A block is one task: the order of the columns is then the same in every run.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=schema,
            unexpected_field_behavior="infer" if schema is None else "ignore",
        ),
        # Arrow's own pool returns freed pages in the background, which slows down the statistics.
        memory_pool=pa.system_memory_pool(),
    )


def _certain(table: pa.Table, block: bytes, lines: int) -> bool:
    layout = schema_layout(table.schema)
    if not layout.paths or table.num_rows != lines:
        return False
    gaps = layout.is_nested or layout.lists or any(column.null_count for column in table.columns)
    if gaps and b"null" in block:
        return False
    # Epochs with the records or the losses of their steps.
    if layout.lists and assign(layout.paths).has("epoch"):
        return False
    # Lists of measurements, each with its name and its value.
    if layout.lists and any(map(_holds_values, table.schema.types)):
        return False
    if layout.has_inner_times:
        return False
    # Outer and inner names may collide: {"a/b": 1, "a": {"b": 2}}.
    return not layout.is_nested or not layout.is_ambiguous


def _holds_values(kind: pa.DataType) -> bool:
    """Return True if a type has a list of objects with a value, at any depth."""
    if pa.types.is_list(kind):
        item = kind.value_type
        return pa.types.is_struct(item) and item.get_field_index("value") >= 0
    return pa.types.is_struct(kind) and any(
        _holds_values(kind.field(place).type) for place in range(kind.num_fields)
    )


def _objects(block: bytes, starts: Positions) -> bool:
    """Return True if each line begins like an object.

    A blank or continued line would compensate for a line with two records.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    return bool(len(starts)) and bool((text[starts] == ord("{")).all())


def _deep(block: bytes, starts: Positions) -> bool:
    """Return True if a line may be nested too deeply for Arrow's recursion."""
    if np.diff(starts, append=len(block)).max(initial=0) < 2 * _SHORT_LINE:
        return False
    # Each line has one brace of its own. This is faster than a count of all braces.
    stops = [*starts[1:].tolist(), len(block)]
    inner = (
        block.find(b"{", start + 1, stop)
        for start, stop in zip(starts.tolist(), stops, strict=True)
    )
    if b"[" not in block and max(inner) < 0:
        return False
    return any(
        line.count(b"{") + line.count(b"[") > _MAX_ARROW_DEPTH and _depth(line) > _MAX_ARROW_DEPTH
        for line in block.split(b"\n")
    )


def _depth(line: bytes) -> int:
    text = np.frombuffer(line, dtype=np.uint8)
    opens = (text == ord("{")) | (text == ord("["))
    closes = (text == ord("}")) | (text == ord("]"))
    return int(np.cumsum(opens.astype(np.int32) - closes).max(initial=0))


def _sparse(block: bytes) -> bool:
    """Return True if the records at the head of the block have mostly different keys."""
    head = block[:_SNIFFED_BYTES]
    rows = read_lines(head[: head.rfind(b"\n") + 1])[0]
    filled = sum(len(piece.values) for parts in rows.parts.values() for _, piece in parts)
    return rows.rows * len(rows.parts) > _SPARSE * max(filled, 1)


_QUOTED_KEY: Final = lazy_pattern(rb'\s*(?:\{\s*)?"([^"\\]+)"\s*')
_NULLS: Final = ("null", " null")

# With more keys, the setup of a table for each block takes longer than it saves. So does reading
# more than one in ten lines separately.
_MAX_CELLS: Final = 500
_OTHER_LINE_RATE: Final = 10


def read_uniform(block: bytes) -> Chunk | None:
    """Read the block if most of its records have the keys and numbers of the first, else None."""
    keys = _colons(block[: block.find(b"\n") + 1] or block).split(b":")[:-1:2]
    names = _names(keys)
    if not names:
        return None
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.append(np.flatnonzero(text[:-1] == ord("\n")), len(block) - 1)
    others: dict[int, str] = {}
    try:
        cells = _parse_cells(_colons(block), keys, others, max_others=len(ends) // _OTHER_LINE_RATE)
        numbers = cells.select(range(1, 2 * len(keys), 2))
        numbers = numbers.rename_columns([name.decode() for name in names])
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if not all(_is_always(cells.column(2 * at), key) for at, key in enumerate(keys)):
        return None
    table = ArrowTable(numbers)
    lines = [block[ends[at - 1] + 1 : ends[at] + 1] for at in others if at < len(ends)]
    # Arrow accepts other line ends and skips blank lines: then its line numbers differ from ours.
    if [_colons(line).rstrip(b"\r\n").decode() for line in lines] != list(others.values()):
        return None
    separate = b"".join(lines)
    commas, braces = (np.count_nonzero(text == mark) - separate.count(mark) for mark in b",}")
    if not len(ends) - len(lines) == table.rows == braces or commas != braces * (len(keys) - 1):
        return None
    return _with_others(table, lines, np.array(list(others))) if others else table


def _names(keys: list[bytes]) -> list[bytes]:
    """Return the names in the key cells of a line, or none if it is not a record of them."""
    opens = [key.lstrip().startswith(b"{") for key in keys]
    names = [match[1] for match in map(_QUOTED_KEY.fullmatch, keys) if match is not None]
    different = len(keys) == len(names) == len(set(names)) <= _MAX_CELLS
    return names if different and opens == [True, *[False] * (len(keys) - 1)] else []


def _with_others(table: ArrowTable, lines: list[bytes], at: Positions) -> Rows | None:
    """Merge a table and the records of other lines, which are at these positions among all."""
    # Nested values may be the records of an epoch, which a few lines cannot show.
    if any(line.count(b"{") != 1 or b"[" in line for line in lines):
        return None
    chunk, bad, _ = read_lines(b"".join(lines))
    if bad or chunk.rows != len(lines):
        return None
    positions = np.delete(np.arange(table.rows + len(at)), at)
    both = Rows(rows=table.rows + len(at))
    for name in table.names:
        piece = table.piece(name)
        both.parts[name] = [] if piece is None else [(positions, piece)]
    for name, parts in chunk.parts.items():
        placed = [(at if rows is None else at[rows], piece) for rows, piece in parts]
        both.parts.setdefault(name, []).extend(placed)
    return both


def _colons(text: bytes) -> bytes:
    return text.replace(b",", b":").replace(b"}", b":")


def _parse_cells(
    block: bytes, keys: list[bytes], others: dict[int, str], *, max_others: int
) -> pa.Table:
    """Parse lines of key, number, key, number, …, with key lengths as in the first line.

    Up to ``max_others`` lines with more or fewer cells are added to ``others`` by their positions.
    """
    kinds = [kind for key in keys for kind in (pa.binary(len(key)), pa.float64())]
    columns = {f"{at}": kind for at, kind in enumerate([*kinds, pa.binary(0)])}
    source: Any = pa.BufferReader(block)

    def skip_row(row: arrow_csv.InvalidRow) -> Literal["skip", "error"]:
        others[(row.number or 0) - 1] = row.text
        return "skip" if len(others) <= max_others else "error"

    return arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(
            use_threads=False,
            block_size=min(len(block) + 1, PIECE_SIZE),
            column_names=list(columns),
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=":",
            quote_char=False,
            # Arrow cannot pass on a line that is not UTF-8.
            invalid_row_handler=skip_row if block.isascii() else None,
        ),
        convert_options=arrow_csv.ConvertOptions(column_types=columns, null_values=[*_NULLS]),
    )


def _is_always(column: Any, cell: bytes) -> bool:
    """Return True if all cells of a column, which are as long as ``cell``, are equal to it."""
    return all(array.buffers()[1].to_pybytes() == cell * len(array) for array in column.chunks)
