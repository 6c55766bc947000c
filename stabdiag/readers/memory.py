"""Columns from objects in memory: DataFrames, Arrow tables, mappings of arrays, records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final, cast

import numpy as np

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.arrays import AnyArray
from stabdiag.model.history import NAN_STEPS
from stabdiag.model.roles.choice import assign
from stabdiag.readers.columns import Columns
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.nested import flattened
from stabdiag.readers.pieces import Piece, Rows, make_piece, piece_of_numbers, record_rows
from stabdiag.readers.words import ABSENT, NULL, NUMBER

_EXPECTED_DATA = (
    'expected a path, a DataFrame, an Arrow table, a mapping of arrays such as {"loss": [2.3]}, '
    "or a list of records"
)

# Most values are of these types, and need no conversion.
_BASIC: Final = frozenset({float, int, bool, str, type(None)})


def memory_columns(table: object) -> Columns:
    """Return the columns of an object in memory."""
    kind = type(table).__name__
    if isinstance(table, Mapping):
        return _columns_from_pieces(
            {str(name): _piece(values) for name, values in table.items()}, kind
        )
    if isinstance(table, Sequence) and all(isinstance(record, dict) for record in table):
        return _read_records(cast("list[dict[str, object]]", list(table)), kind)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return _columns_from_pieces(_read_frame(table), kind)
    if hasattr(table, "__arrow_c_stream__"):
        return _columns_from_pieces(_read_arrow_table(table), kind)
    raise LogError(f"cannot read a {kind}; {_EXPECTED_DATA}")


def _columns_from_pieces(pieces: dict[str, Piece], kind: str) -> Columns:
    lengths = {name: len(piece.values) for name, piece in pieces.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in list(lengths.items())[:3])
        raise LogError(f"{kind}: columns of unequal length ({shown}); give one value a record")
    if not any(lengths.values()):
        raise NoUsableRecord(f"{kind}: no record could be read; it has no rows")
    return _columns(Rows.of(pieces), kind)


def _read_records(records: list[dict[str, object]], kind: str) -> Columns:
    flat, names = flattened(
        [{str(key): value for key, value in record.items()} for record in records]
    )
    if not names:
        raise NoUsableRecord(f"{kind}: no record could be read; it has no values")
    plain = [dict(zip(record, _plain(record.values()), strict=True)) for record in flat]
    return _columns(record_rows(plain, names), kind)


def _columns(rows: Rows, kind: str) -> Columns:
    return replace(
        columns_from_chunks([rows], source=kind, format="memory"), distinguishes_null=True
    )


def _piece(values: Any) -> Piece:
    """Return the piece of one array of a mapping; a NaN in it was written, unless by pandas."""
    if hasattr(values, "iloc"):
        return _read_series(values)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return _read_arrow_array(values)
    if isinstance(values, list | tuple):
        return make_piece(_plain(values))
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LogError(f"not an array but a {type(values).__name__}; {_EXPECTED_DATA}") from error
    if array.ndim != 1:
        raise LogError(f"an array of {array.ndim} dimensions; give one value a record")
    if array.dtype.kind in "fiub":
        return piece_of_numbers(array.astype(np.float64))
    if array.dtype.kind in "mM":
        return _of_times(array)
    return make_piece(_plain(array.tolist()))


def _plain(values: Iterable[object]) -> list[object]:
    """Convert numbers of NumPy and other libraries to Python's, and times to texts."""
    return [v if type(v) in _BASIC else _basic(v) for v in values]


def _basic(value: Any) -> object:
    if isinstance(value, list | tuple):
        return _plain(value)
    if isinstance(value, date | np.datetime64):
        # A missing time is not equal to itself.
        return str(value) if value == value else None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, np.timedelta64):
        return value / np.timedelta64(1, "s") if value == value else None
    if isinstance(value, Decimal):
        return float(value) if not value.is_nan() else np.nan
    if callable(getattr(value, "item", None)):
        try:
            return value.item()
        except (TypeError, ValueError, RuntimeError):  # an array of several values
            return value
    return value


def _read_frame(frame: Any) -> dict[str, Piece]:
    """Read a DataFrame, and its index if it has a name, times or steps."""
    names = [_joined(name) for name in frame.columns]
    pieces = {name: piece for name, piece in _read_index(frame.index, names) if name not in names}
    for place, name in enumerate(names):
        pieces[name] = _read_series(frame.iloc[:, place])
    return pieces | _with_nan(pieces, frame.attrs.get(NAN_STEPS))


def _read_index(index: Any, names: Sequence[str]) -> Iterator[tuple[str, Piece]]:
    """Yield the columns of an index.

    An index of times is a timestamp. One of rising numbers without a name is the step, unless it
    only counts the rows or there is another counter.
    """
    for name in index.names:
        if name is not None:
            is_time = index.nlevels == 1 and index.dtype.kind == "M"
            own = "timestamp" if is_time and "timestamp" not in names else _joined(name)
            yield own, _read_series(index.get_level_values(name))
    if index.nlevels > 1 or index.name is not None:
        return
    if index.dtype.kind == "M":
        yield "timestamp", _read_series(index)
    elif index.dtype.kind in "iu" and not assign(names).has("step", "epoch"):
        numbers = np.asarray(index, dtype=np.float64)
        counts_rows = np.array_equal(numbers, np.arange(len(numbers)))
        if (np.diff(numbers) > 0).all() and not counts_rows:
            yield "step", piece_of_numbers(numbers)


def _with_nan(pieces: Mapping[str, Piece], nan_steps: object) -> dict[str, Piece]:
    """Return the columns of a history with its NaN; their other blanks were not logged."""
    if not isinstance(nan_steps, Mapping) or "step" not in pieces:
        return {}
    steps = pieces["step"].values
    changed: dict[str, Piece] = {}
    for name, own in nan_steps.items():
        if name in pieces and name != "step":
            piece = pieces[name]
            states = np.where(np.isin(steps, own), NUMBER, ABSENT).astype(np.uint8)
            states = np.where(piece.states == NULL, states, piece.states)
            changed[name] = replace(piece, states=states)
    return changed


def _read_series(series: Any) -> Piece:
    """Read a Series; pandas has one mark for missing and NaN, so either may be meant: null."""
    missing = np.asarray(series.isna(), dtype=np.bool_)
    kind = getattr(series.dtype, "kind", "O")
    if kind in "mM":
        return _of_times(np.asarray(series, dtype=f"{kind}8[us]"))
    if kind in "fiub":
        values = series.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
        return piece_of_numbers(values, missing)
    plain = _plain(series.tolist())
    return make_piece([None if gone else v for v, gone in zip(plain, missing, strict=True)])


def _of_times(array: AnyArray) -> Piece:
    missing = np.isnat(array)
    micros = array.astype(f"{array.dtype.kind}8[us]").astype(np.int64)
    return piece_of_numbers(np.where(missing, np.nan, micros / 1e6), missing)


def _joined(name: object) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    return "/".join(str(part) for part in parts if part != "")


def _read_arrow_table(table: Any) -> dict[str, Piece]:
    import pyarrow as pa

    from stabdiag.readers.arrow import ArrowTable, counted_index

    try:
        arrow_table = table if isinstance(table, pa.Table) else pa.table(table)
    except pa.ArrowInvalid as error:  # a single column, such as a Series
        raise LogError(f"cannot read a {type(table).__name__}; {_EXPECTED_DATA}") from error
    read = ArrowTable(arrow_table)
    pieces = {name: piece for name in read.names if (piece := read.piece(name)) is not None}
    return counted_index(arrow_table.schema.metadata, len(arrow_table), pieces) | pieces


def _read_arrow_array(values: Any) -> Piece:
    import pyarrow as pa

    from stabdiag.readers.arrow import piece_of_array

    is_array = hasattr(values, "__arrow_c_array__")
    array = pa.array(values) if is_array else pa.chunked_array(values).combine_chunks()
    return piece_of_array(array, missing=NULL)
