"""Conditions on rows, as a command line takes them: ``severity=error``, ``peak_lr>=0.003``."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.scan.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.arrays import Mask

_CONDITION = re.compile(r"\s*(.+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_TEXT = ("=", "!=")
_SIGNS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "!=": operator.ne,
}
_COLUMNS = tuple(name for name in SCHEMA.names if name not in ("settings", "curve"))


def where(table: pa.Table, condition: str) -> pa.Table:
    """Return the rows for which a condition holds: a field of a row or a setting, and a value.

    Numbers compare as numbers. In a text ``*`` stands for anything, ``?`` for one character. What a
    run does not tell is equal to nothing.

    Raises:
        StabdiagError: if it is no condition, or no run tells what it names.
    """
    found = _CONDITION.fullmatch(condition)
    if found is None:
        raise StabdiagError(
            f"--where {condition!r}: wants NAME=VALUE, such as severity=error or 'peak_lr>=0.003'"
        )
    name, sign, value = found.groups()
    column = _column(table, name)
    try:
        return table.filter(pa.array(_compared(column, sign, value)))
    except ValueError:
        raise StabdiagError(
            f"--where {condition!r}: {sign} compares numbers, and {name} or {value!r} is none"
        ) from None


def _column(table: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    if name in _COLUMNS:
        return table[name]
    names: set[str] = set()
    for chunk in table["settings"].chunks:
        keys: Any = chunk
        names |= set(pc.unique(keys.keys).to_pylist())
    if name not in names:
        hint = did_you_mean(name, [*_COLUMNS, *sorted(names)])
        raise StabdiagError(f"--where {name}: no run has such a field or setting{hint}")
    column: pa.ChunkedArray[Any] = pc.map_lookup(table["settings"], pa.scalar(name), "first")
    return column


def _compared(column: pa.ChunkedArray[Any], sign: str, value: str) -> Mask:
    """Return for which rows it holds.

    Raises:
        ValueError: if the sign wants numbers and there are none.
    """
    number = _number(value)
    if not math.isnan(number):
        numbers = np.array([_number(told) for told in column.to_pylist()])
        if sign in _TEXT or not np.isnan(numbers).all():
            return np.asarray(_SIGNS[sign](numbers, number), dtype=np.bool_)
    if sign not in _TEXT:
        raise ValueError
    pattern = re.sub(r"([\\%_])", r"\\\1", value).replace("*", "%").replace("?", "_")
    like: Any = pc.match_like(column.cast(pa.string()), pattern)
    found = np.asarray(like.fill_null(False).to_numpy(), dtype=np.bool_)
    return found if sign == "=" else ~found


def _number(told: object) -> float:
    """Return a value as a number; NaN if it is none."""
    try:
        return float(str(told))
    except ValueError:
        return math.nan
