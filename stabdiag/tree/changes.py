"""What else changed where something began: a sequence length, a stage, a batch size.

A change counts if the setting was constant before it and after it, if it lies within a few logged
points, and if so near a change would be improbable by chance: one that changes again and again is
near to everything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.roles import is_measured_on, is_part
from stabdiag.model.text import clipped, listed, num, plural
from stabdiag.stats.coincidence import Onset, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Ints
    from stabdiag.model.history import History, Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# Of all settings together, a change is told that would come so near with less than this chance.
_CHANCE = 0.05

# A setting that was not logged for so many losses was logged where it changed.
_GAP = 20

# What is written with fewer digits, here or there, has not changed.
_ROUNDING = 1e-6

# What changes with more than this share of the losses, and more than a few times, is no step.
_OFTEN = 0.1
_FEW = 3

_LONGEST = 40

# So many settings are named.
MOST = 4


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting that changed for good near to something: its name, where, from what to what.

    ``step`` is the first that was logged with what it is ``after``, and ``since`` the first at
    which it may have been so, as not each loss has it beside it. ``measured_on`` says that the
    losses before and after are of different things, and ``off`` by how many logged points it is
    off.
    """

    name: str
    since: int
    step: int
    before: str
    after: str
    measured_on: bool
    off: int

    @property
    def place(self) -> str:
        """Where it changed, in words."""
        if self.since == self.step:
            return f"at step {self.step}"
        return f"between steps {self.since} and {self.step}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """The changes of a setting: the records with a new value, and which losses they may precede.

    A change lies between the losses ``low`` and ``high``, as positions; both are one loss where the
    setting was logged with each of them.
    """

    setting: Series
    at: Ints
    low: Ints
    high: Ints


def changes_near(
    case: Case, first: int, last: int, *, within: int | None = None
) -> tuple[Change, ...]:
    """Return the settings that changed where something began, the nearest change first.

    Args:
        case: the case.
        first: the first step at which it may have begun.
        last: the last one.
        within: how many logged points before it a change may lie; if not given, as many as any
            cause of a spike.
    """
    loss = case.history.get("loss")
    if case.literal or loss is None or not len(loss) or not case.moves:
        return ()
    n = len(loss)
    begin, end = np.searchsorted(loss.steps, [first, last])
    onset = Onset(
        first=min(int(begin), n - 1),
        last=min(int(end), n - 1),
        late=case.points(case.lookback, least=2) if within is None else within,
        points=n,
    )
    found = ((one, near) for one in case.moves if (near := nearest(one.low, one.high, onset)))

    @cache  # the parts of many settings are mostly the same
    def kinds(begin: int, end: int) -> int:
        return _kinds(case.moves, begin, end)

    told = (
        _change(one, near.number, near.off, loss.steps)
        for one, near in found
        if near.chance * kinds(near.begin, near.end) < _CHANCE
        and near.overall * kinds(0, n + 1) < _CHANCE
    )
    return tuple(sorted(told, key=lambda change: (change.off, -change.step)))


def near_spike(case: Case, spike: Spike, *, within: int | None = None) -> tuple[Change, ...]:
    """Return the settings that changed where a spike began.

    Noise may have lifted the loss a little before: it began by the first loss that is nearer to the
    peak than to what was before.
    """
    rise = case.loss.values[spike.onset : spike.peak + 1] > spike.level + 0.5 * (
        spike.base + spike.height - spike.level
    )
    high = spike.onset + int(np.argmax(rise))
    return changes_near(case, case.at(spike.onset), case.at(high), within=within)


def went(changes: Sequence[Change]) -> str:
    """Return what changed, each step by itself: ``a went from 1 to 2 at step 5``."""
    told: list[str] = []
    for place, together in groupby(changes[:MOST], key=lambda change: change.place):
        verb = "" if told else " went"
        parts: list[str] = []
        for one in together:
            parts.append(f"{one.name}{'' if parts else verb} from {one.before} to {one.after}")
        told.append(f"{listed(parts)} {place}")
    more = len(changes) - MOST
    others = f", and {plural(more, 'more setting')}" if more > 0 else ""
    return "; ".join(told) + others


def stepped_settings(history: History) -> list[Series]:
    """Return the settings but for those that change all along, and so nowhere in particular."""
    found = []
    for one in history.group("setting").values():
        count = np.count_nonzero(one.values[1:] != one.values[:-1])
        if count <= max(_OFTEN * len(history.finite("loss")), _FEW):
            found.append(one)
    return found


def moves_of(case: Case) -> tuple[Moves, ...]:
    """Return where settings changed; the weight of a part of the loss is one of them."""
    history, loss = case.history, case.history.get("loss")
    if loss is None:
        return ()
    settings = (*stepped_settings(history), *history.group("loss_weight").values())
    return tuple(_moves(one.finite(), loss.steps) for one in settings)


def _moves(setting: Series, steps: Ints) -> Moves:
    """Return where a setting changed: after its last record with a value, by the first without."""
    values = setting.values
    at = np.flatnonzero(np.abs(np.diff(values)) > _ROUNDING * np.abs(values[1:])) + 1
    high = np.searchsorted(steps, setting.steps[at])
    low = np.minimum(np.searchsorted(steps, setting.steps[at - 1], side="right"), high)
    return Moves(setting=setting, at=at, low=np.where(high - low > _GAP, high, low), high=high)


def _kinds(moves: Sequence[Moves], begin: int, end: int) -> int:
    """Return how many settings change in a part, those that always change together there as one.

    That one of so many is near to something by chance is so much more likely (Bonferroni).
    """
    inside = (one.high[(one.high >= begin) & (one.high < end)] for one in moves)
    return len({places.tobytes() for places in inside if len(places)})


def _change(one: Moves, number: int, off: int, steps: Ints) -> Change:
    setting, place = one.setting, int(one.at[number])
    before, after = (float(value) for value in setting.values[place - 1 : place + 1])
    told = (num(before), num(after))
    if setting.words:
        told = (_word(setting, before), _word(setting, after))
    elif told[0] == told[1]:
        told = (f"{before:.9g}", f"{after:.9g}")
    low, step = int(one.low[number]), int(setting.steps[place])
    return Change(
        name=named(setting.column),
        since=int(steps[low]) if low < one.high[number] else step,
        step=step,
        before=told[0],
        after=told[1],
        measured_on=setting.role == "loss_weight"
        or any(map(is_measured_on, (setting.column, setting.role.partition("/")[2])))
        or is_part(setting.column),
        off=off,
    )


def _word(one: Series, code: float) -> str:
    return repr(clipped(one.words[int(code)], _LONGEST))


def named(column: str) -> str:
    """Return a column's name, in quotation marks unless it is plainly one."""
    return (
        column if re.fullmatch(rf"[\w./-]{{1,{_LONGEST}}}", column) else repr(clipped(column, 60))
    )
