"""The end of each run, from its loss: sound, not finite, diverged, or without progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final

import numpy as np

from stabdiag.model.comparison import ComparedRun
from stabdiag.model.frozen import frozen
from stabdiag.model.limits.checks import CompareLimits
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

    ``step`` is the first step with a non-finite loss, or the step of the best level of a run that
    diverged.
    """

    run: ComparedRun
    state: EndState
    start: float = float("nan")
    best: float = float("nan")
    last: float = float("nan")
    step: int | None = None

    def described(self) -> str:
        """Describe the end of the run."""
        name = self.run.label
        if self.state is EndState.NOT_FINITE:
            return f"{name} has a non-finite loss from step {self.step} on"
        if self.state is EndState.DIVERGED:
            best = f"its best level {num(self.best)} (step {self.step})"
            return f"{name} diverges from {best} to {num(self.last)}"
        if self.state is EndState.FLAT:
            return f"{name} makes no progress ({num(self.start)} to {num(self.last)})"
        return f"{name} decreases from {num(self.start)} to {num(self.last)}"


def find_end(run: ComparedRun, limits: CompareLimits) -> FinalLevel:
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
    if len(finite) < max(limits.min_points, TWENTIETHS):
        return FinalLevel(run=run, state=EndState.UNKNOWN)
    values = finite.values
    parts = measure_course(values)
    best_part = int(np.argmin(parts.levels))
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
    step = int(finite.steps[parts.middles[best_part]])
    return FinalLevel(run=run, state=state, start=start, best=best, last=last, step=step)


def split_by_decrease(
    runs: Sequence[ComparedRun], limits: CompareLimits
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
    runs: Sequence[ComparedRun], limits: CompareLimits
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
