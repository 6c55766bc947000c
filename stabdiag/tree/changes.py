"""What else changed where something began: a sequence length, a stage, a batch size.

A change counts if the setting was constant before it and after it, if it lies within a few logged
points, and if so near a change would be improbable by chance: one that changes again and again is
near to everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.settings import changes_objective, is_part
from stabdiag.model.text import clipped, listed, num, plural
from stabdiag.stats.coincidence import FREQUENT_RATE, Onset, nearest
from stabdiag.stats.peaks import BY_CHANCE
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import Spike
from stabdiag.tree.causes import Moves
from stabdiag.tree.run import Run

_LONGEST = 40

# A setting stands out at this many times its usual value, given so many values before. Records
# with this fraction of it are as high.
_TIMES_USUAL = 2.0
_MIN_BEFORE = 8
_AS_HIGH = 0.8

# So many settings are named.
MOST = 4


@frozen
class Change:
    """A setting that changed for good near to something: its name, where, from what to what.

    ``step`` is the first that was logged with what it is ``after``, and ``since`` the first at
    which it may have been so, as not each loss has it beside it. ``measured_on`` says that the
    losses before and after are of different things, ``weighs`` that it is the weight of a part of
    the loss, and ``off`` by how many logged points it is off.
    """

    name: str
    since: int
    step: int
    before: str
    after: str
    measured_on: bool
    weighs: bool
    off: int
    unit: str

    @property
    def place(self) -> str:
        """Where it changed, in words."""
        if self.since == self.step:
            return f"at {self.unit} {self.step}"
        return f"between {self.unit}s {self.since} and {self.step}"


def changes_near(
    run: Run, first: int, last: int, *, within: int | None = None
) -> tuple[Change, ...]:
    """Return the settings that changed where something began, the nearest change first.

    Args:
        run: the run.
        first: the first step at which it may have begun.
        last: the last one.
        within: how many logged points before it a change may lie; if not given, as many as any
            cause of a spike.
    """
    loss = run.history.get("loss")
    if loss is None or not len(loss) or not run.causes.moves:
        return ()
    n = len(loss)
    begin, end = np.searchsorted(loss.steps, [first, last])
    onset = Onset(
        first=min(int(begin), n - 1),
        last=min(int(end), n - 1),
        late=run.points(run.lookback, least=2) if within is None else within,
        points=n,
    )
    # That one of several settings is near is so much more likely (Bonferroni); those that always
    # change together count as one.
    kinds = len({one.high.tobytes() for one in run.causes.moves if len(one.high)})
    found = ((one, near) for one in run.causes.moves if (near := nearest(one.low, one.high, onset)))
    told = (
        _change(run, one, near.number, near.off)
        for one, near in found
        if near.chance * kinds < BY_CHANCE
    )
    return tuple(sorted(told, key=lambda change: (change.off, -change.step)))


def near_spike(run: Run, spike: Spike, *, within: int | None = None) -> tuple[Change, ...]:
    """Return the settings that changed where a spike began.

    Noise may have lifted the loss a little before: it began by the first loss that is nearer to the
    peak than to what was before.
    """
    rise = run.loss.values[spike.onset : spike.peak + 1] > spike.level + 0.5 * (
        spike.base + spike.height - spike.level
    )
    high = spike.onset + int(np.argmax(rise))
    return changes_near(run, run.at(spike.onset), run.at(high), within=within)


@frozen
class SettingOutlier:
    """A setting that was far above all its earlier values where something began."""

    name: str
    step: int
    value: float
    usual: float
    highest_before: float


def find_outlier_at(run: Run, spike: Spike) -> SettingOutlier | None:
    """Return the setting that stands out most at a spike, as the length of one batch does.

    It is at least twice its usual value, above all before, and as high at few other records.
    """
    first, last = run.at(spike.onset) - round(run.stride), run.at(spike.peak)
    outliers = []
    for series in run.history.group("setting").values():
        before, near = series.until(first - 1).values, series.between(first, last)
        if series.words or len(before) < _MIN_BEFORE or not len(near):
            continue
        at = int(np.argmax(near.values))
        value, usual, highest = float(near.values[at]), median(before), float(before.max())
        elsewhere = np.count_nonzero(series.values >= _AS_HIGH * value) - len(near)
        if value < _TIMES_USUAL * usual or value <= highest or usual <= 0:
            continue
        if elsewhere <= FREQUENT_RATE * len(series):
            outliers.append(
                SettingOutlier(
                    name=named(series.column),
                    step=int(near.steps[at]),
                    value=value,
                    usual=usual,
                    highest_before=highest,
                )
            )
    return max(outliers, key=lambda one: (one.value / one.usual, one.name), default=None)


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


def _change(run: Run, one: Moves, number: int, off: int) -> Change:
    steps = run.history.series["loss"].steps
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
        or any(map(changes_objective, (setting.column, setting.role.partition("/")[2])))
        or is_part(setting.column),
        weighs=setting.role == "loss_weight",
        off=off,
        unit=run.unit,
    )


def _word(one: Series, code: float) -> str:
    return repr(clipped(one.words[int(code)], _LONGEST))


def named(column: str) -> str:
    """Return a column's name, in quotation marks unless it is plainly one."""
    return (
        column if re.fullmatch(rf"[\w./-]{{1,{_LONGEST}}}", column) else repr(clipped(column, 60))
    )
