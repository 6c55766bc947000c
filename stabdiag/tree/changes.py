"""Settings that changed near an event: a sequence length, a stage, a batch size.

A change counts if the setting was constant before and after it, if it is within a few logged points
of the event, and if chance rarely puts a change that close. A setting that changes often is close
to everything.
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
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import Spike
from stabdiag.stats.standards import MAJORITY, MAX_CHANCE, MIN_SAMPLE, TWICE
from stabdiag.tree.causes import Moves
from stabdiag.tree.run import Run

_LONGEST = 40

# An outlier is this many times the usual value, with at least this many earlier values. Other
# records count as equally high from this fraction of it.
_TIMES_USUAL = TWICE
_MIN_BEFORE = MIN_SAMPLE
_AS_HIGH = MAJORITY

# Texts name at most this many settings.
MAX_NAMED = 4


@frozen
class NearbyChange:
    """A permanent change of a setting near an event.

    ``step`` is the first step logged with the new value. The change may have happened from
    ``since`` on, because not every loss has the setting logged with it. ``changes_objective`` means
    that losses before and after it are not comparable. ``is_loss_weight`` means that the setting
    weights a term of the loss. ``off`` is the distance to the event in logged points.
    """

    name: str
    since: int
    step: int
    before: str
    after: str
    changes_objective: bool
    is_loss_weight: bool
    off: int
    unit: str

    @property
    def place(self) -> str:
        """The position of the change, in words."""
        if self.since == self.step:
            return f"at {self.unit} {self.step}"
        return f"between {self.unit}s {self.since} and {self.step}"


def nearby_changes(
    run: Run, first: int, last: int, *, within: int | None = None
) -> tuple[NearbyChange, ...]:
    """Return the settings that changed near an event, the nearest change first.

    Args:
        run: the run.
        first: the first step where the event may have begun.
        last: the last such step.
        within: maximum number of logged points from the change to the event; the default is the
            lookback for causes of a spike.
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
    # Bonferroni correction; settings that always change together count once.
    kinds = len({moves.high.tobytes() for moves in run.causes.moves if len(moves.high)})
    candidates = (
        (moves, change)
        for moves in run.causes.moves
        if (change := nearest(moves.low, moves.high, onset))
    )
    changes = (
        _change(run, moves, change.number, change.off)
        for moves, change in candidates
        if change.chance * kinds < MAX_CHANCE
    )
    return tuple(sorted(changes, key=lambda change: (change.off, -change.step)))


def near_spike(run: Run, spike: Spike, *, within: int | None = None) -> tuple[NearbyChange, ...]:
    """Return the settings that changed where a spike began.

    Noise may have raised the loss a little earlier, so the spike began no later than the first loss
    that is closer to the peak than to the earlier level.
    """
    rise = run.loss.values[spike.onset : spike.peak + 1] > spike.level + 0.5 * (
        spike.base + spike.height - spike.level
    )
    high = spike.onset + int(np.argmax(rise))
    return nearby_changes(run, run.at(spike.onset), run.at(high), within=within)


@frozen
class SettingOutlier:
    """A setting that was far above all its earlier values near an event."""

    name: str
    step: int
    value: float
    usual: float
    highest_before: float


def find_setting_outlier(run: Run, spike: Spike) -> SettingOutlier | None:
    """Return the setting with the largest outlier at a spike, such as the length of one batch.

    It is at least twice its usual value, above all earlier values, and few other records reach it.
    """
    first, last = run.at(spike.onset) - round(run.stride), run.at(spike.peak)
    outliers = []
    for series in run.history.group("setting").values():
        before, span = series.until(first - 1).values, series.between(first, last)
        if series.words or len(before) < _MIN_BEFORE or not len(span):
            continue
        at = int(np.argmax(span.values))
        value, usual, highest = float(span.values[at]), median(before), float(before.max())
        elsewhere = np.count_nonzero(series.values >= _AS_HIGH * value) - len(span)
        if value < _TIMES_USUAL * usual or value <= highest or usual <= 0:
            continue
        if elsewhere <= FREQUENT_RATE * len(series):
            outliers.append(
                SettingOutlier(
                    name=quoted_name(series.column),
                    step=int(span.steps[at]),
                    value=value,
                    usual=usual,
                    highest_before=highest,
                )
            )
    return max(
        outliers, key=lambda outlier: (outlier.value / outlier.usual, outlier.name), default=None
    )


def describe_changes(changes: Sequence[NearbyChange]) -> str:
    """Describe changes, grouped by step: ``a went from 1 to 2 at step 5``."""
    clauses: list[str] = []
    for place, together in groupby(changes[:MAX_NAMED], key=lambda change: change.place):
        verb = "" if clauses else " went"
        parts: list[str] = []
        for change in together:
            values = f"from {change.before} to {change.after}"
            parts.append(f"{change.name}{'' if parts else verb} {values}")
        clauses.append(f"{listed(parts)} {place}")
    unnamed = len(changes) - MAX_NAMED
    others = f", and {plural(unnamed, 'more setting')}" if unnamed > 0 else ""
    return "; ".join(clauses) + others


def _change(run: Run, moves: Moves, number: int, off: int) -> NearbyChange:
    steps = run.history.series["loss"].steps
    setting, position = moves.setting, int(moves.at[number])
    before, after = (float(value) for value in setting.values[position - 1 : position + 1])
    texts = (num(before), num(after))
    if setting.words:
        texts = (_word(setting, before), _word(setting, after))
    elif texts[0] == texts[1]:
        texts = (f"{before:.9g}", f"{after:.9g}")
    low, step = int(moves.low[number]), int(setting.steps[position])
    return NearbyChange(
        name=quoted_name(setting.column),
        since=int(steps[low]) if low < moves.high[number] else step,
        step=step,
        before=texts[0],
        after=texts[1],
        changes_objective=setting.role == "loss_weight"
        or any(map(changes_objective, (setting.column, setting.role.partition("/")[2])))
        or is_part(setting.column),
        is_loss_weight=setting.role == "loss_weight",
        off=off,
        unit=run.unit,
    )


def _word(setting: Series, code: float) -> str:
    return repr(clipped(setting.words[int(code)], _LONGEST))


def quoted_name(column: str) -> str:
    """Return the name of a column, quoted unless it reads as a name."""
    return column if re.fullmatch(rf"[\w./-]{{1,{_LONGEST}}}", column) else repr(clipped(column))
