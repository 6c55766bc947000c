"""The end of each run, from its loss: sound, not finite, diverged, or without progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final

import numpy as np

from stabdiag.model.comparison import ComparedRun
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits
from stabdiag.model.text import num
from stabdiag.stats.course import late_noise, measure_course, start_level
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    HALF,
    NEARLY_ALL,
    QUARTER,
    TENTH,
    THIRD,
    TWENTIETHS,
)
from stabdiag.tree.case import Case

# A run has diverged if it lost half of its decrease, and is sound if it kept three quarters.
_DIVERGED_FRACTION: Final = HALF
_SOUND_FRACTION: Final = 1 - QUARTER

# A rise or a decrease counts from this many standard deviations of a single loss.
_LEVEL_CHANGE_SIGMAS: Final = BEYOND_CHANCE

# A run learns less than another if it decreases by less than this fraction of its decrease, over
# about the same steps.
_LAGGING_FRACTION: Final = 2 * THIRD
_SAME_LENGTH: Final = NEARLY_ALL

# A run makes no progress if it decreases by less than this fraction of a sound run's decrease.
_NO_PROGRESS: Final = TENTH


class EndState(Enum):
    """The state of a run at its end."""

    SOUND = auto()
    NOT_FINITE = auto()
    DIVERGED = auto()
    FLAT = auto()
    UNKNOWN = auto()


@frozen
class FinalLevel:
    """The state of a run at its end, and the losses that show it.

    ``step`` is the first step with a non-finite loss, or the one where a run that diverged begins
    to rise; ``best_step`` is the step of its best level.
    """

    run: ComparedRun
    state: EndState
    start: float = float("nan")
    best: float = float("nan")
    last: float = float("nan")
    step: int | None = None
    best_step: int | None = None

    def described(self) -> str:
        """Describe the end of the run."""
        name = self.run.label
        if self.state is EndState.NOT_FINITE:
            return f"{name} has a non-finite loss from step {self.step} on"
        if self.state is EndState.DIVERGED:
            best = f"its best level {num(self.best)} (near step {self.best_step})"
            return f"{name} diverges from step {self.step} on, from {best} to {num(self.last)}"
        if self.state is EndState.FLAT:
            return f"{name} makes no progress ({num(self.start)} to {num(self.last)})"
        return f"{name} decreases from {num(self.start)} to {num(self.last)}"


def find_end(run: ComparedRun, limits: Limits) -> FinalLevel:
    """Return the end of a run; with too few losses it is unknown unless non-finite."""
    loss = run.history.logged("loss")
    is_bad = ~np.isfinite(loss.values)
    tail = max(len(loss) // TWENTIETHS, 1)
    if len(loss) and (is_bad[-1] or is_bad[-tail:].mean() >= _DIVERGED_FRACTION):
        finite_positions = np.flatnonzero(~is_bad)
        # The non-finite losses at the end count, not a skipped step long before.
        first = (
            int(finite_positions[-1]) + 1
            if is_bad[-1] and len(finite_positions)
            else int(np.argmax(is_bad))
        )
        return FinalLevel(run=run, state=EndState.NOT_FINITE, step=int(loss.steps[first]))
    finite = loss.finite()
    if len(finite) < max(limits.compare.min_points, TWENTIETHS):
        return FinalLevel(run=run, state=EndState.UNKNOWN)
    values = finite.values
    parts = measure_course(values)
    best_part = int(np.argmin(parts.levels))
    best_step = int(finite.steps[parts.middles[best_part]])
    start, best, last = (
        start_level(values),
        float(parts.levels[best_part]),
        float(parts.levels[-1]),
    )
    decrease = start - best
    noise_floor = _LEVEL_CHANGE_SIGMAS * late_noise(values)
    state = EndState.UNKNOWN
    if last - best > max(_DIVERGED_FRACTION * decrease, noise_floor):
        state = EndState.DIVERGED
    elif decrease <= noise_floor:
        state = EndState.FLAT
    elif start - last >= _SOUND_FRACTION * decrease:
        state = EndState.SOUND
    end = FinalLevel(
        run=run, state=state, start=start, best=best, last=last, step=best_step, best_step=best_step
    )
    return _as_diagnosed(end, limits) if state is EndState.DIVERGED else end


def _as_diagnosed(end: FinalLevel, limits: Limits) -> FinalLevel:
    """Return the end of a diverged run with the levels and steps that its diagnosis reports.

    It is unchanged if the diagnosis measures no rise up to the end, for example after a jump.
    """
    with np.errstate(all="ignore"):  # losses may be infinite or huge
        case = Case(history=end.run.history, manifest=end.run.manifest, limits=limits)
        rise, stop = case.rise, case.comparable_range.stop
    if rise is None or rise.amount <= 0 or stop < len(case.loss):
        return end
    return replace(
        end,
        best=rise.best_level,
        last=rise.last_level,
        step=case.at(rise.onset),
        best_step=case.at(rise.best),
    )


def split_by_decrease(
    runs: Sequence[ComparedRun], limits: Limits
) -> tuple[list[FinalLevel], list[FinalLevel]]:
    """Return the sound runs that decrease clearly less than the best one, and the others."""
    ends = [find_end(run, limits) for run in runs]
    sound = [end for end in ends if end.state is EndState.SOUND]
    if len(sound) < len(ends) or _last_step(runs, min) < _SAME_LENGTH * _last_step(runs, max):
        return [], []
    largest_fall = max(end.start - end.last for end in sound)
    lagging = [end for end in sound if end.start - end.last < _LAGGING_FRACTION * largest_fall]
    return lagging, [end for end in sound if end not in lagging]


def _last_step(runs: Sequence[ComparedRun], choose: Callable[[Iterable[int]], int]) -> int:
    return choose(run.history.last_step or 0 for run in runs)


def split_by_end(
    runs: Sequence[ComparedRun], limits: Limits
) -> tuple[list[FinalLevel], list[FinalLevel]]:
    """Return the runs that fail and the runs that are sound.

    A flat loss is a failure only next to a run that decreases far more: a finetune may be flat.
    """
    ends = [find_end(run, limits) for run in runs]
    sound = [end for end in ends if end.state is EndState.SOUND]
    if not sound:
        return [], []
    usual = median(np.array([end.start - end.last for end in sound]))
    failed = [
        end
        for end in ends
        if end.state in (EndState.NOT_FINITE, EndState.DIVERGED)
        or (end.state is EndState.FLAT and end.start - end.last < _NO_PROGRESS * usual)
    ]
    return failed, sound
