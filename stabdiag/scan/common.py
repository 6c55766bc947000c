"""What runs that failed have in common: each setting against each outcome.

Every split of every setting is tested against every outcome. A split is stated only if chance would
hardly produce one as clear anywhere among them: a scan without connections states nothing. Whether
a split still stands beside clearer ones decides if it is stated alone, or with what it moved with.
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
from stabdiag.model.scan import ANY_ERROR, Common, Compared, Split
from stabdiag.scan.rows import Rows, columns_of
from stabdiag.stats.contrast import chance_in_strata, chance_of, upper_tail

Codes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

TYPED: Final = ("dtype", "optimizer", "peak_lr", "batch_size", "seed")
"""Settings that have columns of their own."""

CHANCE: Final = 0.05
"""Largest chance of any statement if nothing were connected."""

# An outcome of fewer runs, or a value that fewer runs share, is no group.
_FEWEST: Final = 3

# Among very many runs the slightest difference is beyond chance: the odds must differ by this
# factor for it to matter.
_ODDS: Final = 3.0

# Settings whose splits correlate this much moved together.
_TOGETHER: Final = 0.5

# More thresholds, or more values of one setting, add nothing; so codes fit a byte.
_MOST_SPLITS: Final = 128
_NOT_TOLD: Final = 255

# Settings held of all runs: those that most runs have. While they are read, so many values of all
# runs are held at once.
_MOST_SETTINGS: Final = 200
_VALUES: Final = 2_000_000


@frozen
class Setting:
    """One setting of all runs: ``codes``, shape (runs,), the part of its values in which each lies.

    The parts of an ordered setting rise, and a split lies between two of them. Otherwise a part is
    one value that is held against all others, and the last may stand for the rare ones. ``splits``
    are the splits to test, each by the part with which it begins, or the one it is, and its value.
    ``twins`` are settings that part the runs in the same way.
    """

    name: str
    codes: Codes
    ordered: bool
    splits: dict[int, str | float]
    opposite: str | float | None = None
    twins: list[Setting] = field(default_factory=list)

    @property
    def told(self) -> Mask:
        """The runs that have it."""
        return np.not_equal(self.codes, _NOT_TOLD)

    def count(self, which: Mask) -> Ints:
        """Return how many of some runs are inside each split: at a threshold or above, or equal."""
        count = np.bincount(self.codes[which & self.told], minlength=_NOT_TOLD)
        return (count[::-1].cumsum()[::-1] if self.ordered else count)[list(self.splits)]

    def inside(self, at: int) -> Mask:
        """Return which runs are inside the split that is or begins with a part."""
        inside: Mask = (self.codes >= at) & self.told if self.ordered else self.codes == at
        return inside


@frozen
class _Hit:
    """The clearest split of a setting by an outcome, in which those inside have it more often."""

    setting: Setting
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
        """The split, with the runs on either side that have the outcome."""
        setting, inverse = self.setting, self.inverse
        value = setting.splits[self.at]
        if inverse and setting.opposite is not None:
            value, inverse = setting.opposite, False
        inside, outside = self.inside & setting.told, ~self.inside & setting.told
        return Split(
            setting=setting.name,
            relation=("≥<" if setting.ordered else "=≠")[inverse],
            value=value,
            inside=(int((inside & self.has).sum()), int(inside.sum())),
            outside=(int((outside & self.has).sum()), int(outside.sum())),
        )


def in_common(rows: Rows) -> tuple[tuple[Common, ...], Compared]:
    """Return what the runs with each outcome have in common, the clearest first."""
    kinds: dict[tuple[str, str | None], int] = {}
    ended = np.fromiter(
        (
            kinds.setdefault(kind, len(kinds))
            for table in rows.batches("outcome", "severity")
            for kind in columns_of(table, *table.column_names)
        ),
        np.int64,
    )
    read = ~np.isin(ended, [code for (_, severity), code in kinds.items() if severity is None])
    outcomes = _outcomes(kinds, ended[read])
    compared = Compared(runs=int(read.sum()), outcomes=tuple(outcomes))
    if not outcomes:
        return (), replace(compared, why="fewer than three runs failed")
    outcomes = {name: has for name, has in outcomes.items() if not has.all()}
    if not outcomes:
        return (), replace(compared, why="all runs failed alike")
    settings = settings_of(rows.filter(read))
    if not settings:
        return (), replace(compared, why="no known setting differs")
    compared = replace(compared, settings=sum(1 + len(one.twins) for one in settings))
    hits = [_hit(one, name, has) for one in settings for name, has in outcomes.items()]
    return tuple(_told(sorted(hits, key=lambda hit: hit.tail))), compared


def _outcomes(kinds: Mapping[tuple[str, str | None], int], ended: Ints) -> dict[str, Mask]:
    """Return which runs have each frequent outcome; first any error, if that is several outcomes.

    ``ended``, shape (runs,), are the numbers that ``kinds`` has of each outcome and severity.
    """
    bad = [kind for kind in sorted(kinds) if kind[1] in ("error", "warning")]
    failed = np.isin(ended, [kinds[kind] for kind in bad if kind[1] == "error"])
    each: dict[str, Mask] = {}
    for name, severity in bad:
        has = ended == kinds[name, severity]
        each[name] = each[name] | has if name in each else has
    if not any((has == failed).all() for has in each.values()):
        each = {ANY_ERROR: failed, **each}
    return {name: has for name, has in each.items() if has.sum() >= _FEWEST}


def _hit(setting: Setting, outcome: str, has: Mask) -> _Hit:
    total, hits = int(setting.told.sum()), setting.count(has)
    size, known = setting.count(setting.told), int((has & setting.told).sum())
    sides = (hits, size), (known - hits, total - size)
    tails = np.stack([upper_tail(those, of, known, total) for those, of in sides])
    inverse, split = divmod(int(tails.argmin()), len(size))
    at, tail = list(setting.splits)[split], float(tails.min())
    return _Hit(setting=setting, outcome=outcome, has=has, at=at, inverse=bool(inverse), tail=tail)


def _told(hits: list[_Hit]) -> list[Common]:
    """Return the statements that the hits, the clearest first, allow."""
    clear = [hit for hit in hits if hit.tail <= CHANCE]
    tails = np.array([hit.tail for hit in clear])
    chances = np.zeros(len(clear))
    for hit in hits:
        told, size = hit.setting.told, hit.setting.count(hit.setting.told)
        total = int(told.sum())
        both = np.concatenate([size, total - size])
        chances += chance_of(tails, both, int((hit.has & told).sum()), total)
    pairs = zip(clear, chances.tolist(), strict=True)
    sure = [(hit, chance) for hit, chance in pairs if chance <= CHANCE and _matters(hit.split)]
    leads: list[tuple[_Hit, Common]] = []
    for hit, chance in sure:
        _add(hit, chance, len(sure), leads)
    return [common for _, common in leads]


def _matters(split: Split) -> bool:
    (hits, size), (others, rest) = split.inside, split.outside
    return (hits + 0.5) * (rest - others + 0.5) >= _ODDS * (others + 0.5) * (size - hits + 0.5)


def _add(hit: _Hit, chance: float, others: int, leads: list[tuple[_Hit, Common]]) -> None:
    """Tell a hit by itself, or with the lead that it moved with, or not at all.

    It is asked of runs that are alike by what was told already, and without those whose outcome is
    another one that was told: where one failure is frequent, there is less room for the other. That
    so many others are asked as well is taken into account. What was told of a setting is not told
    again of other outcomes of the same runs.
    """
    keep, stratum = hit.setting.told, np.zeros(len(hit.has), dtype=np.int64)
    for i, (lead, common) in enumerate(leads):
        if not (lead.has & hit.has).any():
            keep = keep & ~lead.has
            continue
        if hit.setting.name in (common.split.setting, *(one.setting for one in common.along)):
            return
        if _together(hit, lead):
            also = (hit.setting, *hit.setting.twins)
            more = tuple(_hit(one, lead.outcome, lead.has).split for one in also)
            leads[i] = lead, replace(common, along=(*common.along, *more))
            return
        part = np.where(lead.setting.told, lead.inside.astype(np.int64), 2)
        stratum = stratum * 3 + part
        stratum = (np.cumsum(np.bincount(stratum) > 0) - 1)[stratum]
    left = chance_in_strata(hit.inside[keep], hit.has[keep], stratum[keep])
    if not leads or left * others <= CHANCE:
        along = tuple(_hit(twin, hit.outcome, hit.has).split for twin in hit.setting.twins)
        found = Common(outcome=hit.outcome, split=hit.split, chance=chance, along=along)
        leads.append((hit, found))


def _together(one: _Hit, other: _Hit) -> bool:
    """Tell whether the settings moved together: the correlation of what is inside their splits."""
    both = one.setting.told & other.setting.told
    mine, its = one.inside[both].astype(float), other.inside[both].astype(float)
    spread = mine.std() * its.std() if len(mine) else 0.0
    return bool((mine * its).mean() - mine.mean() * its.mean() >= _TOGETHER * spread > 0)


def settings_of(rows: Rows) -> list[Setting]:
    """Return the settings that vary; those that part the runs alike stand under the first.

    Those with columns of their own come first, then those that most runs have. The values of some
    are held at a time, and in the end a byte for each setting of a run.
    """
    first: dict[bytes, Setting] = {}
    numeric = _names(rows)
    names = list(numeric)
    size = max(_VALUES // max(len(rows), 1), 1)
    found = 0
    for begin in range(0, len(names), size):
        held = _values(rows, {name: numeric[name] for name in names[begin : begin + size]})
        while held and found < _MOST_SETTINGS:
            name = next(iter(held))
            made = _setting(name, held.pop(name), rows)
            if made is not None:
                found += 1
                known = first.setdefault(_key(made), made)
                known.twins.extend([] if known is made else [made])
    return list(first.values())


def _columns(rows: Rows) -> Iterator[tuple[str, Ints, pa.DictionaryArray[Any, Any]]]:
    """Yield the values of all settings, part by part: which rows have it, and the texts there.

    What has a column of its own is not looked for among the others.
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


def _names(rows: Rows) -> dict[str, bool]:
    """Return the settings in their order, and whether all values of each are numbers."""
    runs: Counter[str] = Counter()
    texts = set()
    for name, at, values in _columns(rows):
        runs[name] += len(at)
        # A seed is a number, but none that is more or less than another.
        if name.rpartition(".")[2].endswith("seed") or _numbers(values.dictionary) is None:
            texts.add(name)
    order = sorted(runs, key=lambda name: (name not in TYPED, name not in TYPED and -runs[name]))
    return {name: name not in texts for name in order if runs[name]}


def _values(rows: Rows, names: Mapping[str, bool]) -> dict[str, Floats | Ints]:
    """Return some settings of all runs: numbers, NaN where there is none, or hashes of texts, 0.

    ``names`` tells of each whether its values are numbers.
    """
    held: dict[str, Any] = {
        name: np.full(len(rows), np.nan) if numeric else np.zeros(len(rows), np.int64)
        for name, numeric in names.items()
    }
    for name, at, values in _columns(rows):
        if name in held:
            levels: Any = values.dictionary
            texts = (hash(text) or 1 for text in levels.to_pylist())
            numbers: Any = _numbers(levels) if names[name] else np.fromiter(texts, np.int64)
            held[name][at] = numbers[values.indices.to_numpy()]
    return held


def _setting(name: str, values: Floats | Ints, rows: Rows) -> Setting | None:
    """Return a setting; None if it does not vary, or if too few runs have it."""
    numeric = values.dtype == np.float64
    told = ~np.isnan(values) if numeric else values != 0
    if told.sum() < 2 * _FEWEST:
        return None
    if numeric:
        levels, count = np.unique(values[told], return_counts=True)
        if len(levels) > 2:
            return _ordered(name, values, levels, count)
        kept, shown = np.arange(len(levels)), levels.tolist()
    else:
        levels, first, count = np.unique(values[told], return_index=True, return_counts=True)
        kept = np.lexsort((first, -count))[:_MOST_SPLITS]
        kept = kept if len(levels) == 2 else kept[count[kept] >= _FEWEST]
        shown = _texts(rows, name, np.flatnonzero(told)[first[kept]])
    if len(levels) < 2 or not len(kept):
        return None
    order = sorted(range(len(kept)), key=shown.__getitem__)
    splits = {part: shown[place] for part, place in enumerate(order)}
    # Rare values, such as a folder for each run, are the last part.
    codes = np.where(told, len(kept), _NOT_TOLD).astype(np.uint8)
    for part, place in enumerate(order):
        codes[values == levels[kept[place]]] = part
    opposite = None
    if len(levels) == 2:  # one value: the other is its inverse
        opposite = splits.pop(1 - int(count[kept[order]].argmin()))
    return Setting(name=name, codes=codes, ordered=False, splits=splits, opposite=opposite)


def _ordered(name: str, values: Floats | Ints, levels: Floats, count: Ints) -> Setting:
    at = _thresholds(count)
    codes = np.searchsorted(levels[at], values, side="right").astype(np.uint8)
    codes[np.isnan(values)] = _NOT_TOLD
    bounds = (_between(float(levels[i - 1]), float(levels[i])) for i in at.tolist())
    return Setting(name=name, codes=codes, ordered=True, splits=dict(enumerate(bounds, 1)))


def _texts(rows: Rows, name: str, at: Ints) -> list[str]:
    """Return the texts of a setting in some of the runs."""
    if name in TYPED:
        return [str(told) for (told,) in columns_of(rows.take(at, name), name)]
    return [dict(told)[name] for (told,) in columns_of(rows.take(at, "settings"), "settings")]


def _numbers(levels: pa.Array[Any]) -> Floats | None:
    """Return values as numbers; None if one is not a finite number."""
    try:
        numbers: Floats = levels.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _thresholds(count: Ints) -> Ints:
    """Return between which values to split: all of them, or so that each part has as many runs."""
    if len(count) <= _MOST_SPLITS:
        return np.arange(1, len(count))
    shares = np.arange(1, _MOST_SPLITS) / _MOST_SPLITS * count.sum()
    found = np.unique(np.searchsorted(np.cumsum(count), shares) + 1)
    return found[found < len(count)]


def _key(setting: Setting) -> bytes:
    """Return what is the same for settings that part the runs alike, whatever their values are."""
    codes, told = setting.codes, setting.told
    if setting.ordered:
        back = np.where(told, len(setting.splits) - codes, codes)
        parted = b"ordered" + min(codes.tobytes(), back.tobytes())
    else:
        parts, at = np.unique(codes, return_index=True)
        number = np.zeros(_NOT_TOLD + 1, np.uint8)
        number[parts] = np.argsort(np.argsort(at))
        parted = told.tobytes() + number[codes].tobytes()
    return sha256(parted).digest()


def _between(low: float, high: float) -> float:
    """Return the shortest number above the one and not above the other."""
    shorter = (f"{one:.{digits}g}" for digits in range(1, 18) for one in (high, (low + high) / 2))
    return next(one for one in map(float, shorter) if low < one <= high)
