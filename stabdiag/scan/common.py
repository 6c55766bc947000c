"""What runs that failed have in common: each setting against each outcome.

All splits of all settings are tested for all outcomes, and one is told only if there is little
chance of any so clear among all of them: so a scan in which nothing hangs together tells nothing.
What is left of a finding once what is clearer is taken into account decides whether it is told by
itself, or as something that moved with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.scan import ANY_ERROR, Common, Compared
from stabdiag.scan.settings import TYPED, Setting, settings_of
from stabdiag.stats.contrast import chance_in_strata, chance_of, upper_tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from stabdiag.model.arrays import Mask
    from stabdiag.model.scan import Split

CHANCE = 0.05
"""A statement is made if there is less chance than this of any, were nothing connected."""

# An outcome that fewer runs have is told run by run.
_FEWEST = 3

# Of very many runs, what is beyond chance may still be too little to matter: odds that are so
# many times as high are not.
_ODDS = 3.0

# What is inside the splits of settings that moved together is correlated by so much.
_TOGETHER = 0.5


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


def in_common(table: pa.Table) -> tuple[tuple[Common, ...], Compared]:
    """Return what the runs with each outcome have in common, the clearest first."""
    read = table["severity"].is_valid().to_numpy()
    table = table.select(["severity", "outcome", *TYPED, "settings"]).filter(read)
    outcomes = dict(_outcomes(table))
    compared = Compared(runs=table.num_rows, outcomes=tuple(outcomes))
    if not outcomes:
        return (), replace(compared, why="fewer than three runs failed")
    outcomes = {name: has for name, has in outcomes.items() if not has.all()}
    if not outcomes:
        return (), replace(compared, why="all runs failed alike")
    settings = settings_of(table)
    if not settings:
        return (), replace(compared, why="no setting is known that differs")
    compared = replace(compared, settings=sum(1 + len(one.twins) for one in settings))
    hits = [_hit(one, name, has) for one in settings for name, has in outcomes.items()]
    return tuple(_told(sorted(hits, key=lambda hit: hit.tail))), compared


def _outcomes(table: pa.Table) -> Iterator[tuple[str, Mask]]:
    """Yield which runs have each frequent outcome; first any error, if that is several outcomes."""
    severity = table["severity"].to_numpy().astype(str)
    names, first, codes = np.unique(
        table["outcome"].to_numpy().astype(str), return_index=True, return_inverse=True
    )
    each = {
        name: codes == i
        for i, name in enumerate(names.tolist())
        if severity[first[i]] in ("error", "warning")
    }
    failed = severity == "error"
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
