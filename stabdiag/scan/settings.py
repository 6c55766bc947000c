"""The settings of many runs as numbers that can be counted: a code for each value of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from stabdiag.model.scan import Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.model.arrays import Ints, Mask

TYPED: Final = ("dtype", "optimizer", "peak_lr", "batch_size", "seed")

# A value that fewer runs share than this is no group of them.
_FEWEST = 3

# More thresholds, or more values of one setting, tell no more about it.
_MOST_SPLITS = 128

# So many settings of all runs can be held: those that most of them tell.
_MOST_SETTINGS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """One setting of all runs: ``codes`` of shape (runs,) number its ``values``; -1 is untold.

    The values of an ordered one rise, and it is split between two of them; of another one, each
    value is held against all others. ``at`` numbers the splits that are looked at. ``twins`` are
    settings that part the runs in the very same way.
    """

    name: str
    codes: Ints
    values: Sequence[str | float]
    ordered: bool
    at: Ints
    twins: list[Setting] = field(default_factory=list)

    @property
    def told(self) -> Mask:
        """Which runs tell it."""
        told: Mask = self.codes >= 0
        return told

    def count(self, which: Mask) -> Ints:
        """Return how many of some runs are inside each split: at a threshold or above, or equal."""
        count = np.bincount(self.codes[which & self.told], minlength=len(self.values))
        return (count[::-1].cumsum()[::-1] if self.ordered else count)[self.at]

    def inside(self, split: int) -> Mask:
        """Return which runs are inside a split, by its place in ``at``."""
        at = self.at[split]
        inside: Mask = self.codes >= at if self.ordered else self.codes == at
        return inside

    def tell(self, split: int, *, inverse: bool, has: Mask) -> Split:
        """Return a split, or its inverse, with the runs on either side that have something."""
        at = int(self.at[split])
        inside = self.inside(split) != inverse
        value = self.values[at]
        if self.ordered:
            value = _between(float(self.values[at - 1]), float(value))
        elif len(self.values) == 2 and inverse:
            value, inverse = self.values[1 - at], False
        return Split(
            setting=self.name,
            relation=("<" if inverse else "≥") if self.ordered else ("≠" if inverse else "="),
            value=value,
            inside=(int((inside & has & self.told).sum()), int((inside & self.told).sum())),
            outside=(int((~inside & has & self.told).sum()), int((~inside & self.told).sum())),
        )


def settings_of(table: pa.Table) -> list[Setting]:
    """Return the settings that vary; those that part the runs alike stand under the first."""
    first: dict[bytes, Setting] = {}
    varying = (_setting(name, rows, told, table.num_rows) for name, rows, told in _columns(table))
    for made in islice(filter(None, varying), _MOST_SETTINGS):
        known = first.setdefault(_key(made), made)
        if known is not made and known.name != made.name:
            known.twins.append(made)
    return list(first.values())


def _columns(table: pa.Table) -> Iterator[tuple[str, Ints, pa.Array[Any]]]:
    """Yield each setting, that of most rows first: its name, the rows, and what they tell."""
    for name in TYPED:
        column = table[name].combine_chunks()
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        yield name, rows, column.drop_null()
    chunks: list[Any] = table["settings"].chunks or [pa.array([], table["settings"].type)]
    offsets = [chunk.offsets.to_numpy() for chunk in chunks]
    # What a chunk was cut out of may hold more keys than the chunk.
    ends = [(int(one[0]), int(one[-1])) for one in offsets]
    keys, items = (
        pa.concat_arrays([part[begin:end] for part, (begin, end) in zip(parts, ends, strict=True)])
        for parts in ([chunk.keys for chunk in chunks], [chunk.items for chunk in chunks])
    )
    keys = keys.dictionary_encode()
    lengths = np.concatenate([np.diff(one) for one in offsets])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    codes = keys.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    count = np.bincount(codes, minlength=len(keys.dictionary))
    last = np.cumsum(count)
    for i in np.argsort(-count, kind="stable").tolist():
        name, at = keys.dictionary[i].as_py(), order[last[i] - count[i] : last[i]]
        yield name, rows[at], items.take(pa.array(at))


def _setting(name: str, rows: Ints, told: pa.Array[Any], runs: int) -> Setting | None:
    encoded = told.dictionary_encode()
    raw = encoded.dictionary.to_pylist()
    if len(raw) < 2 or len(rows) < 2 * _FEWEST:
        return None
    numbers = None if name.rpartition(".")[2].endswith("seed") else _numbers(raw)
    ordered = numbers is not None and len(set(numbers)) > 2
    values = list(numbers) if numbers is not None else [str(value) for value in raw]
    levels, code = np.unique(np.asarray(values), return_inverse=True)
    codes = np.full(runs, -1, dtype=np.int64)
    codes[rows] = code[encoded.indices.to_numpy()]
    count = np.bincount(codes[rows], minlength=len(levels))
    at = _thresholds(count) if ordered else _shared(count)
    if not len(at):
        return None
    return Setting(name=name, codes=codes, values=levels.tolist(), ordered=ordered, at=at)


def _numbers(raw: list[object]) -> list[float] | None:
    """Return values as numbers; None where one is none, such as NaN."""
    try:
        numbers = [float(value) for value in raw if not isinstance(value, bool)]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return numbers if len(numbers) == len(raw) and all(map(math.isfinite, numbers)) else None


def _thresholds(count: Ints) -> Ints:
    """Return between which values to split: all of them, or so that each part has as many runs."""
    if len(count) <= _MOST_SPLITS:
        return np.arange(1, len(count))
    shares = np.arange(1, _MOST_SPLITS) / _MOST_SPLITS * count.sum()
    found = np.unique(np.searchsorted(np.cumsum(count), shares) + 1)
    return found[found < len(count)]


def _shared(count: Ints) -> Ints:
    """Return the values that enough runs share; of two values one: the other is its inverse."""
    if len(count) == 2:
        return np.array([int(count[1] < count[0])])
    common = np.argsort(-count, kind="stable")[:_MOST_SPLITS]
    return np.sort(common[count[common] >= _FEWEST])


def _key(setting: Setting) -> bytes:
    """Return what is the same for settings that part the runs alike, whatever their values are."""
    codes = setting.codes
    if setting.ordered:
        back = np.where(codes >= 0, len(setting.values) - 1 - codes, -1)
        return b"ordered" + min(codes.tobytes(), back.tobytes())
    _, at, code = np.unique(codes, return_index=True, return_inverse=True)
    return setting.told.tobytes() + np.argsort(np.argsort(at))[code].tobytes()


def _between(low: float, high: float) -> float:
    """Return the shortest number above the one and not above the other."""
    shorter = (f"{one:.{digits}g}" for digits in range(1, 18) for one in (high, (low + high) / 2))
    return next(one for one in map(float, shorter) if low < one <= high)
