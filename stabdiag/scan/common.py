"""Find what failed runs have in common: test each setting against each outcome.

Every split of every setting is tested against every outcome. A split is stated only if chance would
rarely produce one as clear among all of them, so a scan without associations states nothing. A
split that a clearer one explains is not stated, or stated together with the setting it moved with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.scan import ANY_ERROR, Common, ComparedSettings, Split
from stabdiag.scan.rows import StoredRows, read_columns
from stabdiag.stats.contrast import chance_in_strata, split_chance, upper_tail
from stabdiag.stats.standards import HALF, MAX_CHANCE

Codes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

TYPED: Final = ("dtype", "optimizer", "peak_lr", "batch_size", "seed")
"""Settings that have columns of their own."""

CHANCE: Final = MAX_CHANCE
"""Largest chance of any statement if nothing were connected."""

# Minimum runs with an outcome, and minimum runs that share a value.
_MIN_RUNS: Final = 3

# Among very many runs the slightest difference is significant. It matters only if the odds differ
# by this factor.
_MIN_ODDS_RATIO: Final = 3.0

# Settings whose splits correlate this much moved together.
_MIN_CORRELATION: Final = HALF

# More thresholds or values of one setting add nothing, and codes fit into a byte.
_MAX_SPLITS: Final = 128
_MISSING_CODE: Final = 255

# The settings to keep: the most frequent ones. This many values are in memory at once.
_MAX_SETTINGS: Final = 200
_MAX_VALUES_IN_MEMORY: Final = 2_000_000


@frozen
class SweepSetting:
    """A setting of all runs: ``codes``, shape (runs,), is the bin of each run's value.

    The bins of an ordered setting increase, and a split is a boundary between two bins. Otherwise a
    bin is a single value, tested against all others, and the last bin may hold the rare values.
    ``splits`` maps the bin (or the first bin above the boundary) to its value. ``twins`` are
    settings that split the runs in the same way.
    """

    name: str
    codes: Codes
    ordered: bool
    splits: dict[int, str | float]
    opposite: str | float | None = None
    twins: list[SweepSetting] = field(default_factory=list)

    @property
    def is_known(self) -> Mask:
        """The runs that record the setting."""
        return np.not_equal(self.codes, _MISSING_CODE)

    def count(self, which: Mask) -> Ints:
        """Count the runs of a mask inside each split."""
        count = np.bincount(self.codes[which & self.is_known], minlength=_MISSING_CODE)
        return (count[::-1].cumsum()[::-1] if self.ordered else count)[list(self.splits)]

    def inside(self, at: int) -> Mask:
        """Return a mask of the runs inside the split of a bin."""
        inside: Mask = (self.codes >= at) & self.is_known if self.ordered else self.codes == at
        return inside


@frozen
class _ClearestSplit:
    """The clearest split of a setting by an outcome that is more frequent inside the split."""

    setting: SweepSetting
    outcome: str
    has: Mask
    at: int
    inverse: bool
    tail: float

    @property
    def inside(self) -> Mask:
        return np.not_equal(self.setting.inside(self.at), self.inverse)

    @property
    def split(self) -> Split:
        """The split, with the counts of the outcome on either side."""
        setting, inverse = self.setting, self.inverse
        value = setting.splits[self.at]
        if inverse and setting.opposite is not None:
            value, inverse = setting.opposite, False
        inside, outside = self.inside & setting.is_known, ~self.inside & setting.is_known
        return Split(
            setting=setting.name,
            relation=("≥<" if setting.ordered else "=≠")[inverse],
            value=value,
            inside=(int((inside & self.has).sum()), int(inside.sum())),
            outside=(int((outside & self.has).sum()), int(outside.sum())),
        )


def find_common(rows: StoredRows) -> tuple[tuple[Common, ...], ComparedSettings]:
    """Find what the runs with each outcome have in common, the clearest first."""
    kinds: dict[tuple[str, str | None], int] = {}
    ended = np.fromiter(
        (
            kinds.setdefault(kind, len(kinds))
            for table in rows.batches("outcome", "severity")
            for kind in read_columns(table, *table.column_names)
        ),
        np.int64,
    )
    read = ~np.isin(ended, [code for (_, severity), code in kinds.items() if severity is None])
    outcomes = _outcomes(kinds, ended[read])
    compared = ComparedSettings(runs=int(read.sum()), outcomes=tuple(outcomes))
    if not outcomes:
        return (), replace(compared, why="fewer than three runs failed")
    outcomes = {name: has for name, has in outcomes.items() if not has.all()}
    if not outcomes:
        return (), replace(compared, why="all runs failed alike")
    settings = varying_settings(rows.filter(read))
    if not settings:
        return (), replace(compared, why="no known setting differs")
    compared = replace(compared, settings=sum(1 + len(setting.twins) for setting in settings))
    hits = [_hit(setting, name, has) for setting in settings for name, has in outcomes.items()]
    return tuple(_statements(sorted(hits, key=lambda hit: hit.tail))), compared


def _outcomes(kinds: Mapping[tuple[str, str | None], int], ended: Ints) -> dict[str, Mask]:
    """Return a mask of runs for each frequent outcome; any error first, if it has several outcomes.

    ``ended``, shape (runs,), is the number of each run's outcome and severity in ``kinds``.
    """
    bad = [kind for kind in sorted(kinds) if kind[1] in ("error", "warning")]
    failed = np.isin(ended, [kinds[kind] for kind in bad if kind[1] == "error"])
    each: dict[str, Mask] = {}
    for name, severity in bad:
        has = ended == kinds[name, severity]
        each[name] = each[name] | has if name in each else has
    if not any((has == failed).all() for has in each.values()):
        each = {ANY_ERROR: failed, **each}
    return {name: has for name, has in each.items() if has.sum() >= _MIN_RUNS}


def _hit(setting: SweepSetting, outcome: str, has: Mask) -> _ClearestSplit:
    total, hits = int(setting.is_known.sum()), setting.count(has)
    size, hits_known = setting.count(setting.is_known), int((has & setting.is_known).sum())
    sides = (hits, size), (hits_known - hits, total - size)
    tails = np.stack([upper_tail(inside, of, hits_known, total) for inside, of in sides])
    inverse, split = divmod(int(tails.argmin()), len(size))
    at, tail = list(setting.splits)[split], float(tails.min())
    return _ClearestSplit(
        setting=setting, outcome=outcome, has=has, at=at, inverse=bool(inverse), tail=tail
    )


def _statements(hits: list[_ClearestSplit]) -> list[Common]:
    """Return the statements that the hits, the clearest first, support."""
    clear = [hit for hit in hits if hit.tail <= CHANCE]
    tails = np.array([hit.tail for hit in clear])
    chances = np.zeros(len(clear))
    for hit in hits:
        is_known, size = hit.setting.is_known, hit.setting.count(hit.setting.is_known)
        total = int(is_known.sum())
        both = np.concatenate([size, total - size])
        chances += split_chance(tails, both, int((hit.has & is_known).sum()), total)
    pairs = zip(clear, chances.tolist(), strict=True)
    significant = [
        (hit, chance) for hit, chance in pairs if chance <= CHANCE and _matters(hit.split)
    ]
    stated: list[tuple[_ClearestSplit, Common]] = []
    for hit, chance in significant:
        _add(hit, chance, len(significant), stated)
    return [common for _, common in stated]


def _matters(split: Split) -> bool:
    (hits, size), (others, outside) = split.inside, split.outside
    return (hits + 0.5) * (outside - others + 0.5) >= _MIN_ODDS_RATIO * (others + 0.5) * (
        size - hits + 0.5
    )


def _add(
    hit: _ClearestSplit, chance: float, others: int, stated: list[tuple[_ClearestSplit, Common]]
) -> None:
    """State a hit by itself, together with the lead that it moved with, or not at all.

    The test is stratified by the statements so far, and leaves out runs with another stated
    outcome: a frequent failure leaves less room for others. It is corrected for the number of other
    hits. A setting is not stated again for other outcomes of the same runs.
    """
    keep, stratum = hit.setting.is_known, np.zeros(len(hit.has), dtype=np.int64)
    for i, (lead, common) in enumerate(stated):
        if not (lead.has & hit.has).any():
            keep = keep & ~lead.has
            continue
        if hit.setting.name in (common.split.setting, *(split.setting for split in common.along)):
            return
        if _moved_together(hit, lead):
            settings = (hit.setting, *hit.setting.twins)
            splits = tuple(_hit(twin, lead.outcome, lead.has).split for twin in settings)
            stated[i] = lead, replace(common, along=(*common.along, *splits))
            return
        part = np.where(lead.setting.is_known, lead.inside.astype(np.int64), 2)
        stratum = stratum * 3 + part
        stratum = (np.cumsum(np.bincount(stratum) > 0) - 1)[stratum]
    left = chance_in_strata(hit.inside[keep], hit.has[keep], stratum[keep])
    if not stated or left * others <= CHANCE:
        along = tuple(_hit(twin, hit.outcome, hit.has).split for twin in hit.setting.twins)
        common = Common(outcome=hit.outcome, split=hit.split, chance=chance, along=along)
        stated.append((hit, common))


def _moved_together(hit: _ClearestSplit, other: _ClearestSplit) -> bool:
    """Return True if the splits of two settings correlate."""
    both = hit.setting.is_known & other.setting.is_known
    x, y = hit.inside[both].astype(float), other.inside[both].astype(float)
    spread = x.std() * y.std() if len(x) else 0.0
    return bool((x * y).mean() - x.mean() * y.mean() >= _MIN_CORRELATION * spread > 0)


def varying_settings(rows: StoredRows) -> list[SweepSetting]:
    """Return the settings that vary; settings with the same split are twins of the first.

    Settings with their own column come first, then the most frequent ones. The values of a few
    settings are in memory at a time; the result keeps one byte for each setting of a run.
    """
    first: dict[bytes, SweepSetting] = {}
    numeric = _names(rows)
    names = list(numeric)
    size = max(_MAX_VALUES_IN_MEMORY // max(len(rows), 1), 1)
    count = 0
    for begin in range(0, len(names), size):
        values = _values(rows, {name: numeric[name] for name in names[begin : begin + size]})
        while values and count < _MAX_SETTINGS:
            name = next(iter(values))
            setting = _setting(name, values.pop(name), rows)
            if setting is not None:
                count += 1
                twin = first.setdefault(_key(setting), setting)
                twin.twins.extend([] if twin is setting else [setting])
    return list(first.values())


def _columns(rows: StoredRows) -> Iterator[tuple[str, Ints, pa.DictionaryArray[Any, Any]]]:
    """Yield the values of all settings, part by part: row numbers and texts.

    A setting with its own column is not searched for in the map of the other settings.
    """
    begin = 0
    for table in rows.batches(*TYPED, "settings"):
        for name in TYPED:
            column: Any = table[name].combine_chunks().cast(pa.string())
            at = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            yield name, begin + at, column.drop_null().dictionary_encode()
        maps: Any = table["settings"].combine_chunks()
        keys, items = maps.keys.dictionary_encode(), maps.items
        holds: Any = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
        order = np.argsort(keys.indices.to_numpy(), kind="stable")
        ends = np.cumsum(np.bincount(keys.indices.to_numpy(), minlength=len(keys.dictionary)))
        for name, at in zip(keys.dictionary.to_pylist(), np.split(order, ends), strict=False):
            if name not in TYPED:
                yield name, begin + holds[at], items.take(at).dictionary_encode()
        begin += table.num_rows


def _names(rows: StoredRows) -> dict[str, bool]:
    """Return the settings in order, with True if all values are numbers."""
    runs: Counter[str] = Counter()
    texts = set()
    for name, at, values in _columns(rows):
        runs[name] += len(at)
        # Seeds are numbers without an order.
        if name.rpartition(".")[2].endswith("seed") or _numbers(values.dictionary) is None:
            texts.add(name)
    order = sorted(runs, key=lambda name: (name not in TYPED, name not in TYPED and -runs[name]))
    return {name: name not in texts for name in order if runs[name]}


def _values(rows: StoredRows, names: Mapping[str, bool]) -> dict[str, Floats | Ints]:
    """Return the values of some settings for all runs.

    Numbers are NaN if missing; texts are hashes, 0 if missing. ``names`` maps each setting to True
    if its values are numbers.
    """
    result: dict[str, Any] = {
        name: np.full(len(rows), np.nan) if numeric else np.zeros(len(rows), np.int64)
        for name, numeric in names.items()
    }
    for name, at, values in _columns(rows):
        if name in result:
            levels: Any = values.dictionary
            texts = (hash(text) or 1 for text in levels.to_pylist())
            numbers: Any = _numbers(levels) if names[name] else np.fromiter(texts, np.int64)
            result[name][at] = numbers[values.indices.to_numpy()]
    return result


def _setting(name: str, values: Floats | Ints, rows: StoredRows) -> SweepSetting | None:
    """Return a setting; None if it does not vary or too few runs record it."""
    numeric = values.dtype == np.float64
    is_known = ~np.isnan(values) if numeric else values != 0
    if is_known.sum() < 2 * _MIN_RUNS:
        return None
    if numeric:
        levels, count = np.unique(values[is_known], return_counts=True)
        if len(levels) > 2:
            return _ordered(name, values, levels, count)
        kept, shown = np.arange(len(levels)), levels.tolist()
    else:
        levels, first, count = np.unique(values[is_known], return_index=True, return_counts=True)
        kept = np.lexsort((first, -count))[:_MAX_SPLITS]
        kept = kept if len(levels) == 2 else kept[count[kept] >= _MIN_RUNS]
        shown = _texts(rows, name, np.flatnonzero(is_known)[first[kept]])
    if len(levels) < 2 or not len(kept):
        return None
    order = sorted(range(len(kept)), key=shown.__getitem__)
    splits = {part: shown[place] for part, place in enumerate(order)}
    # The last bin holds rare values, for example a folder per run.
    codes = np.where(is_known, len(kept), _MISSING_CODE).astype(np.uint8)
    for part, place in enumerate(order):
        codes[values == levels[kept[place]]] = part
    opposite = None
    if len(levels) == 2:  # the other value is the inverse
        opposite = splits.pop(1 - int(count[kept[order]].argmin()))
    return SweepSetting(name=name, codes=codes, ordered=False, splits=splits, opposite=opposite)


def _ordered(name: str, values: Floats | Ints, levels: Floats, count: Ints) -> SweepSetting:
    at = _thresholds(count)
    codes = np.searchsorted(levels[at], values, side="right").astype(np.uint8)
    codes[np.isnan(values)] = _MISSING_CODE
    bounds = (_shortest_number(float(levels[i - 1]), float(levels[i])) for i in at.tolist())
    return SweepSetting(name=name, codes=codes, ordered=True, splits=dict(enumerate(bounds, 1)))


def _texts(rows: StoredRows, name: str, at: Ints) -> list[str]:
    """Return the texts of a setting in some of the runs."""
    if name in TYPED:
        return [str(value) for (value,) in read_columns(rows.take(at, name), name)]
    return [
        dict(settings)[name] for (settings,) in read_columns(rows.take(at, "settings"), "settings")
    ]


def _numbers(levels: pa.Array[Any]) -> Floats | None:
    """Return values as numbers; None unless all are finite numbers."""
    try:
        numbers: Floats = levels.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _thresholds(count: Ints) -> Ints:
    """Return the indices to split at: all values, or bins with equal numbers of runs."""
    if len(count) <= _MAX_SPLITS:
        return np.arange(1, len(count))
    shares = np.arange(1, _MAX_SPLITS) / _MAX_SPLITS * count.sum()
    indices = np.unique(np.searchsorted(np.cumsum(count), shares) + 1)
    return indices[indices < len(count)]


def _key(setting: SweepSetting) -> bytes:
    """Return a key that is equal for settings that split the runs in the same way."""
    codes, is_known = setting.codes, setting.is_known
    if setting.ordered:
        back = np.where(is_known, len(setting.splits) - codes, codes)
        key = b"ordered" + min(codes.tobytes(), back.tobytes())
    else:
        parts, at = np.unique(codes, return_index=True)
        number = np.zeros(_MISSING_CODE + 1, np.uint8)
        number[parts] = np.argsort(np.argsort(at))
        key = is_known.tobytes() + number[codes].tobytes()
    return sha256(key).digest()


def _shortest_number(low: float, high: float) -> float:
    """Return the shortest number above ``low`` and at most ``high``."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 18) for value in (high, (low + high) / 2))
    return next(value for value in map(float, texts) if low < value <= high)
