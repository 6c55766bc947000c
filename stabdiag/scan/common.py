"""What runs that failed have in common: each setting against each outcome.

Every split of every setting is tested against every outcome. A split is stated only if chance would
hardly produce one as clear anywhere among them: a scan without connections states nothing. Whether
a split still stands beside clearer ones decides if it is stated alone, or with what it moved with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.model.scan import ANY_ERROR, Common, Compared, Split
from stabdiag.scan.store import coded
from stabdiag.stats.contrast import chance_in_strata, chance_of, upper_tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.scan.store import Rows

    Objects = np.ndarray[Any, Any]

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

# More thresholds, or more values of one setting, add nothing.
_MOST_SPLITS: Final = 128

# Settings held of all runs: those that most runs have.
_MOST_SETTINGS: Final = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """One setting of all runs: ``codes``, shape (runs,), index ``values``; -1 is a run without it.

    The values of an ordered setting rise, and a split lies between two of them; otherwise each
    value is held against all others, and a last value None stands for the rare ones. ``at`` are
    the splits to test. ``twins`` are settings that part the runs in the same way.
    """

    name: str
    codes: Ints
    values: Objects
    ordered: bool
    at: Ints
    twins: list[Setting] = field(default_factory=list)

    @property
    def told(self) -> Mask:
        """The runs that have it."""
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
        elif len(self.values) == 2 and inverse and self.values[1 - at] is not None:
            value, inverse = self.values[1 - at], False
        return Split(
            setting=self.name,
            relation=("<" if inverse else "≥") if self.ordered else ("≠" if inverse else "="),
            value=value if isinstance(value, str) else float(value),
            inside=(int((inside & has & self.told).sum()), int((inside & self.told).sum())),
            outside=(int((~inside & has & self.told).sum()), int((~inside & self.told).sum())),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Hit:
    """The clearest split of a setting by an outcome, in which those inside have it more often."""

    setting: Setting
    outcome: str
    has: Mask
    split: int
    inverse: bool
    tail: float

    @property
    def inside(self) -> Mask:
        return np.not_equal(self.setting.inside(self.split), self.inverse)


def in_common(rows: Rows) -> tuple[tuple[Common, ...], Compared]:
    """Return what the runs with each outcome have in common, the clearest first."""
    table = rows.columns("severity", "outcome")
    read = table["severity"].is_valid().to_numpy()
    outcomes = dict(_outcomes(table.filter(pa.array(read))))
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


def _outcomes(table: pa.Table) -> Iterator[tuple[str, Mask]]:
    """Yield which runs have each frequent outcome; first any error, if that is several outcomes."""
    bad = pc.is_in(table["severity"], pa.array(["error", "warning"])).to_numpy()
    failed = pc.is_in(table["severity"], pa.array(["error"])).to_numpy()
    names, codes = coded(table["outcome"])
    each = {name: codes == i for i, name in sorted(enumerate(names), key=lambda one: one[1])}
    each = {name: has for name, has in each.items() if bad[has.argmax()]}
    if not any((has == failed).all() for has in each.values()):
        each = {ANY_ERROR: failed, **each}
    yield from ((name, has) for name, has in each.items() if has.sum() >= _FEWEST)


def _hit(setting: Setting, outcome: str, has: Mask) -> _Hit:
    total, hits = int(setting.told.sum()), setting.count(has)
    size, known = setting.count(setting.told), int((has & setting.told).sum())
    tails = np.stack(
        [upper_tail(hits, size, known, total), upper_tail(known - hits, total - size, known, total)]
    )
    inverse, split = divmod(int(tails.argmin()), len(size))
    return _Hit(
        setting=setting,
        outcome=outcome,
        has=has,
        split=split,
        inverse=bool(inverse),
        tail=float(tails.min()),
    )


def _told(hits: list[_Hit]) -> list[Common]:
    """Return the statements that the hits, the clearest first, allow."""
    clear = [hit for hit in hits if hit.tail <= CHANCE]
    tails = np.array([hit.tail for hit in clear])
    chances = np.zeros(len(clear))
    for hit in hits:
        size = hit.setting.count(hit.setting.told)
        told = hit.setting.told
        both = np.concatenate([size, int(told.sum()) - size])
        chances += chance_of(tails, both, int((hit.has & told).sum()), int(told.sum()))
    pairs = zip(clear, chances.tolist(), strict=True)
    sure = [(hit, chance) for hit, chance in pairs if chance <= CHANCE and _matters(hit)]
    leads: list[tuple[_Hit, Common]] = []
    for hit, chance in sure:
        _add(hit, chance, len(sure), leads)
    return [common for _, common in leads]


def _matters(hit: _Hit) -> bool:
    split = hit.setting.tell(hit.split, inverse=hit.inverse, has=hit.has)
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
            more = tuple(_best(one, lead) for one in (hit.setting, *hit.setting.twins))
            leads[i] = lead, replace(common, along=(*common.along, *more))
            return
        part = np.where(lead.setting.told, lead.inside.astype(np.int64), 2)
        stratum = np.unique(stratum * 3 + part, return_inverse=True)[1]
    left = chance_in_strata(hit.inside[keep], hit.has[keep], stratum[keep])
    if not leads or left * others <= CHANCE:
        mine = hit.setting.tell(hit.split, inverse=hit.inverse, has=hit.has)
        along = tuple(_best(twin, hit) for twin in hit.setting.twins)
        leads.append((hit, Common(outcome=hit.outcome, split=mine, chance=chance, along=along)))


def _together(one: _Hit, other: _Hit) -> bool:
    """Tell whether the settings moved together: the correlation of what is inside their splits."""
    both = one.setting.told & other.setting.told
    mine, its = one.inside[both].astype(float), other.inside[both].astype(float)
    spread = mine.std() * its.std() if len(mine) else 0.0
    return bool((mine * its).mean() - mine.mean() * its.mean() >= _TOGETHER * spread > 0)


def _best(setting: Setting, hit: _Hit) -> Split:
    found = _hit(setting, hit.outcome, hit.has)
    return setting.tell(found.split, inverse=found.inverse, has=hit.has)


def settings_of(rows: Rows) -> list[Setting]:
    """Return the settings that vary; those that part the runs alike stand under the first."""
    first: dict[bytes, Setting] = {}
    varying = (_setting(name, at, values, len(rows)) for name, at, values in _columns(rows))
    for made in islice(filter(None, varying), _MOST_SETTINGS):
        known = first.setdefault(_key(made), made)
        if known is not made and known.name != made.name:
            known.twins.append(made)
    return list(first.values())


def _columns(rows: Rows) -> Iterator[tuple[str, Ints, pa.ChunkedArray[Any]]]:
    """Yield each setting: its name, the rows that have it, and their values, dictionary-encoded.

    Typed settings come first, then those that most rows have.
    """
    held: dict[tuple[bool, str], list[tuple[Ints, pa.Array[Any]]]] = {}
    held |= {(True, name): [] for name in TYPED}
    begin = 0
    for table in rows.batches([*TYPED, "settings"]):
        for name in TYPED:
            column: Any = table[name].combine_chunks()
            at = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            held[True, name].append((begin + at, column.drop_null()))
        for name, at, items in _unpacked(table["settings"].combine_chunks()):
            held.setdefault((False, name), []).append((begin + at, items))
        begin += table.num_rows
    for key in sorted(held, key=lambda one: (not one[0], -sum(len(at) for at, _ in held[one]))):
        parts = held.pop(key)
        if parts:
            values = pa.chunked_array([column.dictionary_encode() for _, column in parts])
            yield key[1], np.concatenate([at for at, _ in parts]), values.unify_dictionaries()


def _unpacked(maps: Any) -> Iterator[tuple[str, Ints, pa.Array[Any]]]:
    """Yield each key of an array of maps: its name, the maps that hold it, and its values there."""
    offsets = maps.offsets.to_numpy()
    # An array cut out of another may hold keys before and after its own.
    keys = maps.keys[offsets[0] : offsets[-1]].dictionary_encode()
    items = maps.items[offsets[0] : offsets[-1]]
    codes = keys.indices.to_numpy()
    holds: Any = np.repeat(np.arange(len(maps), dtype=np.int32), np.diff(offsets))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(keys.dictionary)))
    for name, begin, end in zip(keys.dictionary.to_pylist(), [0, *ends], ends, strict=False):
        at = order[begin:end]
        yield name, holds[at], items.take(pa.array(at)).dictionary_encode()


def _setting(name: str, rows: Ints, values: pa.ChunkedArray[Any], runs: int) -> Setting | None:
    encoded: Any = values.chunks
    levels = encoded[0].dictionary
    code = np.concatenate([one.indices.to_numpy() for one in encoded])
    if len(levels) < 2 or len(rows) < 2 * _FEWEST:
        return None
    numbers = None if name.rpartition(".")[2].endswith("seed") else _numbers(levels)
    if numbers is not None:
        held, number = np.unique(numbers, return_inverse=True)
    else:
        held, number = _texts(levels, np.bincount(code, minlength=len(levels)))
    if len(held) < 2:
        return None
    codes: Ints = np.full(runs, -1, dtype=np.int32)
    codes[rows] = number[code]
    count = np.bincount(codes[rows], minlength=len(held))
    ordered = numbers is not None and len(held) > 2
    if ordered:
        at = _thresholds(count)
    elif len(held) == 2 and held[1] is not None:  # one value: the other is its inverse
        at = np.array([count.argmin()])
    else:
        at = np.array([i for i, value in enumerate(held.tolist()) if value is not None])
    if not len(at):
        return None
    return Setting(name=name, codes=codes, values=held, ordered=ordered, at=at)


def _texts(levels: pa.Array[Any], count: Ints) -> tuple[Objects, Ints]:
    """Return the values that are common enough to matter, and the number of each value in these.

    Rare values, such as a folder for each run, have the number of a last one, None.
    """
    kept = np.argsort(-count, kind="stable")[:_MOST_SPLITS]
    kept = kept if len(levels) == 2 else kept[count[kept] >= _FEWEST]
    texts = [str(levels[i].as_py()) for i in kept.tolist()]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    number = np.full(len(levels), len(texts))
    number[kept[order]] = np.arange(len(texts))
    rare = [None] * (len(kept) < len(levels))
    return np.array([*(texts[i] for i in order), *rare], dtype=object), number


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
