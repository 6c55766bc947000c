"""Convert Arrow arrays to pieces of columns."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types

from stabdiag.model.arrays import AnyArray, Floats, Mask
from stabdiag.readers.nested import MAX_RECORD_DEPTH
from stabdiag.readers.pieces import Piece, piece_of_meanings, piece_of_numbers
from stabdiag.readers.words import NULL, WORD, decoded_meaning, meaning

# The type stubs of pyarrow lack ``flatten`` of a struct and the buffer protocol.
Array: TypeAlias = Any

# Arrow reads a block in pieces of this size: it takes half the time if a piece stays in the cache.
# It refuses a longer line.
PIECE_SIZE: Final = 1 << 20


def is_text(kind: pa.DataType) -> bool:
    """Return True for types of text, and of bytes that may be text."""
    return any(
        test(kind)
        for test in (
            types.is_string,
            types.is_binary,
            types.is_large_string,
            types.is_large_binary,
            types.is_string_view,
            types.is_binary_view,
        )
    )


def as_text(array: Array) -> Array:
    """View texts or bytes as texts without a check: not all bytes in a log are UTF-8."""
    kind = array.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_binary()).view(pa.large_string())
    wide = types.is_large_string(kind) or types.is_large_binary(kind)
    return array.view(pa.large_string() if wide else pa.string())


def decode_texts(array: Array) -> list[str | None]:
    """Return texts as ``str``, with a replacement character for bytes that are not UTF-8."""
    text = as_text(array)
    try:
        texts: list[str | None] = text.to_pylist()
    except UnicodeDecodeError:
        plain = pa.large_binary() if types.is_large_string(text.type) else pa.binary()
        raw: list[bytes | None] = text.view(plain).to_pylist()
        texts = [None if item is None else item.decode("utf-8", "replace") for item in raw]
    return texts


def counted_index(
    metadata: Mapping[bytes, bytes] | None, rows: int, names: Collection[str]
) -> dict[str, Piece]:
    """Return a named index that is stored as a range.

    pandas stores evenly spaced steps in this form, separate from the columns ``names``; see
    https://pandas.pydata.org/docs/development/developer.html.
    """
    try:
        indexes = json.loads((metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        index = next(item for item in indexes if isinstance(item, dict) and item["kind"] == "range")
        name, numbers = index["name"], range(index["start"], index["stop"], index["step"])
        fits = len(numbers) == rows
    except (ValueError, LookupError, TypeError, OverflowError, StopIteration, RecursionError):
        return {}
    if not fits or not isinstance(name, str) or name in names:
        return {}
    steps = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.float64)
    return {name: piece_of_numbers(steps)}


# The path to a column: its index in the table, and its index in each struct below.
Path: TypeAlias = tuple[int, ...]

# Python parses up to this many texts faster than pyarrow.compute is imported.
_MAX_PYTHON_TEXTS: Final = 20_000

# Types with different names in Arrow and NumPy.
_FLOATS: Final = {"halffloat": "float16", "float": "float32", "double": "float64"}


def leaves(schema: pa.Schema) -> Mapping[str, Path]:
    """Return the path to each column; a member of a struct is named ``outer/inner``."""
    return schema_layout(schema).paths


def every_leaf(schema: pa.Schema) -> Iterator[tuple[str, Path, pa.DataType]]:
    """Yield name, path and type of each column; outer and inner names may collide."""
    yield from _nested_fields(map(schema.field, range(len(schema))), "", ())


def _nested_fields(
    fields: Iterable[Any], prefix: str, above: Path
) -> Iterator[tuple[str, Path, Any]]:
    for place, entry in enumerate(fields):
        name, path, kind = prefix + entry.name, (*above, place), entry.type
        if not types.is_struct(kind):
            yield name, path, kind
        elif len(path) < MAX_RECORD_DEPTH:
            yield from _nested_fields(map(kind.field, range(kind.num_fields)), f"{name}/", path)


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """The columns of a schema: the path to each by name, and what their types may require.

    ``floats`` has the positions of the floating-point columns outside structs. ``lists`` is the
    number of lists. ``is_ambiguous`` means that two columns have the same name. ``has_times`` is
    True for times outside structs and lists, ``has_inner_times`` for times in them.
    """

    schema: pa.Schema
    paths: Mapping[str, Path]
    floats: Mapping[str, int]
    lists: int
    is_nested: bool
    is_ambiguous: bool
    has_times: bool
    has_inner_times: bool


# The blocks of a log have the same schema, and each new layout of a wide one takes milliseconds.
_recent_layouts: deque[Layout] = deque(maxlen=2)


def schema_layout(schema: pa.Schema) -> Layout:
    """Return the layout of a schema."""
    for layout in list(_recent_layouts):
        if layout.schema.equals(schema):
            return layout
    columns = list(every_leaf(schema))
    paths = {name: path for name, path, _ in columns}
    outer = [(name, path[0], kind) for name, path, kind in columns if len(path) == 1]
    lists = [kind.value_type for _, _, kind in columns if types.is_list(kind)]
    inner = [*lists, *(kind for _, path, kind in columns if len(path) > 1)]
    layout = Layout(
        schema=schema,
        paths=paths,
        floats={name: place for name, place, kind in outer if types.is_float64(kind)},
        lists=len(lists),
        is_nested=len(outer) < len(schema),
        is_ambiguous=len(paths) < len(columns),
        has_times=any(types.is_temporal(kind) for _, _, kind in outer),
        has_inner_times=any(map(types.is_temporal, inner)),
    )
    _recent_layouts.append(layout)
    return layout


def leaf(array: Array, path: tuple[int, ...]) -> Array:
    """Return the array at a path of struct members. It is null where its struct is null."""
    for place in path:
        array = array.flatten()[place]
    return array


def piece_of_array(array: Array, *, missing: int) -> Piece:
    """Convert an array to a piece. Nulls get the state ``missing``."""
    kind = array.type
    if types.is_dictionary(kind):
        return _from_dictionary(array, missing)
    if is_text(kind):
        return _from_texts(array, missing)
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind):
        return _from_numbers(array, missing)
    if types.is_null(kind):
        return _nothing(len(array), missing)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _from_times(array, missing)
    if types.is_decimal(kind):
        return _from_numbers(array.cast(pa.float64()), missing)
    return _from_objects(array, missing)


def valid(array: Array) -> Mask:
    """Return a mask of the values of an array that are not null.

    This reads the bitmap, as ``Array.is_valid`` would import all of pyarrow.compute.
    """
    bitmap = array.buffers()[0]
    if array.null_count == 0 or bitmap is None:
        return np.full(len(array), fill_value=array.null_count == 0)
    bits = np.frombuffer(bitmap, dtype=np.uint8)
    stop = array.offset + len(array)
    return np.unpackbits(bits, count=stop, bitorder="little")[array.offset :].view(np.bool_)


def array_numbers(array: Array) -> AnyArray:
    """Return the numbers of an array without a copy. Nulls are arbitrary numbers.

    ``Array.to_numpy`` would import pandas, and in older versions the conversion of the type too.
    """
    kind = str(array.type)
    values = np.frombuffer(array.buffers()[1], dtype=_FLOATS.get(kind, kind))
    return values[array.offset : array.offset + len(array)]


def _from_numbers(array: Array, missing: int) -> Piece:
    if types.is_boolean(array.type) or array.null_count == len(array):
        values = np.array(array.to_pylist(), dtype=np.float64)
    else:
        # Nulls are arbitrary numbers here. Their state marks them as missing.
        values = array_numbers(array).astype(np.float64, copy=False)
    gaps = ~valid(array) if array.null_count else None
    return piece_of_numbers(values, gaps, gap=missing)


def _from_texts(array: Array, missing: int) -> Piece:
    if len(array) > _MAX_PYTHON_TEXTS:
        text = as_text(array)
        (first,) = decode_texts(array[:1])
        if first is not None and meaning(first)[0] == WORD:  # no need to try numbers
            return _from_dictionary(text.dictionary_encode(), missing)
        try:
            return _from_numbers(text.cast(pa.float64()), missing)
        except pa.ArrowInvalid:
            return _from_dictionary(text.dictionary_encode(), missing)
    return piece_of_meanings(
        (missing, np.nan, "") if text is None else meaning(text) for text in decode_texts(array)
    )


def _from_dictionary(array: Array, missing: int) -> Piece:
    """Convert an array with a dictionary. Each text is parsed once."""
    here = valid(array.indices)
    if not here.any():
        return _nothing(len(array), missing)
    if is_text(array.dictionary.type):
        keys = piece_of_meanings(meaning(text or "") for text in decode_texts(array.dictionary))
    else:
        keys = piece_of_array(array.dictionary, missing=missing)
    index = np.where(here, _from_numbers(array.indices, missing).values, 0).astype(np.intp)
    if not 0 <= index.min() <= index.max() < len(keys.states):
        raise pa.ArrowInvalid("an index beyond its dictionary")  # Arrow does not check them
    states = np.where(here, keys.states[index], missing).astype(np.uint8)
    rank = np.cumsum(keys.states == WORD) - 1
    words = [keys.words[place] for place in rank[index[states == WORD]].tolist()]
    return Piece(values=keys.values[index], states=states, words=words)


def _from_objects(array: Array, missing: int) -> Piece:
    """Convert lists and all other types of Arrow, slowly."""
    # Each word is kept once: a long text of a dictionary is copied for each row.
    meanings = (decoded_meaning(value.as_py()) for value in array)
    once: dict[str, str] = {}
    piece = piece_of_meanings(
        (state, at, once.setdefault(word, word)) for state, at, word in meanings
    )
    states = np.where(valid(array), piece.states, missing).astype(np.uint8)
    return Piece(values=piece.values, states=states, words=piece.words)


def _nothing(rows: int, missing: int) -> Piece:
    return Piece(values=np.full(rows, np.nan), states=np.full(rows, missing, dtype=np.uint8))


def _from_times(array: Array, missing: int) -> Piece:
    kind = array.type
    if types.is_date32(kind):
        scale = 86_400.0
    else:
        scale = _SECONDS["ms" if types.is_date64(kind) else kind.unit]
    piece = _from_numbers(array.view(pa.int32() if kind.bit_width == 32 else pa.int64()), missing)
    return Piece(values=piece.values * scale, states=piece.states)


_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


# With this many columns, the time goes into pieces of columns rather than numbers.
MANY_COLUMNS: Final = 200


class ArrowTable:
    """A chunk that Arrow has read. A member of a struct is a column of its own."""

    def __init__(self, table: pa.Table, names: Sequence[str] = ()) -> None:
        """Wrap a table. ``names`` are the names of all columns of the log, if there are more."""
        layout = schema_layout(table.schema)
        self._moved = _as_matrix(table, layout)
        self._columns = {
            name: (table.column(path[0]), path[1:])
            for name, path in layout.paths.items()
            if name not in self._moved  # frees it
        }
        self.rows = int(table.num_rows)
        self.names = names or list(layout.paths)

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column; a blank cell is null."""
        if name in self._moved:
            return piece_of_numbers(self._moved[name])
        array = self.array(name)
        return None if array is None else piece_of_array(array, missing=NULL)

    def array(self, name: str) -> Array | None:
        """Return the Arrow array of a column, or None if the column was not requested."""
        if name not in self._columns:
            return None
        column, below = self._columns[name]
        return leaf(column.combine_chunks(), below)

    def numbers(self, name: str) -> list[Floats] | None:
        """Return the numbers of a column without a copy, or None if it has other values."""
        if name in self._moved:
            return [self._moved[name]]
        column, below = self._columns.get(name, (None, ()))
        if column is None or below or column.null_count or not types.is_float64(column.type):
            return None
        return [array_numbers(array) for array in column.chunks if len(array)]

    def move(self, into: Callable[[str, list[Floats]], Floats]) -> None:
        """Move columns with only numbers to the arrays of ``into``, and free Arrow's memory."""
        for name in list(self._columns):
            numbers = self.numbers(name)
            if numbers is not None:
                self._moved[name] = into(name, numbers)
                del self._columns[name]


def _as_matrix(table: pa.Table, layout: Layout) -> dict[str, Floats]:
    """Return the columns with only floats, as parts of one array, if there are many.

    An example is the norms of all layers of a network.
    """
    floats = layout.floats
    if len(floats) <= MANY_COLUMNS or layout.is_ambiguous:
        return {}
    batches: Any = table.select(list(floats.values())).combine_chunks().to_batches()
    if len(batches) != 1:
        return {}
    (batch,) = batches
    names = list(floats)
    try:
        tensor = batch.to_tensor(row_major=False)
    except pa.ArrowException:  # some columns have nulls
        complete = [place for place, column in enumerate(batch.columns) if not column.null_count]
        names = [names[place] for place in complete]
        if len(names) <= MANY_COLUMNS:
            return {}
        tensor = batch.select(complete).to_tensor(row_major=False)
    return dict(zip(names, tensor.to_numpy().T, strict=True))
