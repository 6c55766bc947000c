"""A loss that oscillates: in slow waves, or wildly about a level above where it began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import quantiles, typical
from stabdiag.stats.smooth import count_waves
from stabdiag.symptoms.losses import from_the_start, is_distance
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.words import clip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case

# Waves are counted on so many levels, as far as there are points: the more, the faster they may be.
# Slower ones than the fewest show are the run itself.
_LEVELS = (100, 400, 1600)

# A loss that stays high swings by less than a factor: again and again it loses this share of what
# it had gained, if that is not next to nothing beside its level.
_OF_GAINED = 0.5
_LEAST = 0.1

# The beginning of a log is its first tenth.
_FIRST = 10
_FALLEN = 0.8


def loss_oscillating(case: Case) -> Evidence | None:
    """Does the loss swing up and down, in waves or above where it began?"""
    if not is_distance(case) or len(case.loss) < case.limits.learning.min_points:
        return None
    return _waves(case) or (_above_start(case) if from_the_start(case) else None)


def _waves(case: Case) -> Evidence | None:
    limits, x = case.limits.learning, case.loss.values
    found = [
        wave
        for count in _LEVELS
        if count <= max(len(x), _LEVELS[0])
        for wave in _counted(levels(x, count), limits.swing)
    ]
    waves, by, smooth = max(found, key=lambda wave: wave[0])
    if waves < limits.swings or _is_cyclic(case):
        return None
    first, last = int(case.loss.steps[0]), int(case.loss.steps[-1])
    low, high = (float(value) for value in (smooth.min(), smooth[1:].max()))
    return Evidence(
        because=f"The loss went up by {by}, and down again, {waves} times in slow waves between "
        f"steps {first} and {last}, from {num(low)} to {num(high)}.",
        step=first,
        measured={"waves": waves, "low": low, "high": high},
        first=_first(case),
        then=_then(case),
    )


def _counted(smooth: Floats, swing: float) -> Iterator[tuple[int, str, Floats]]:
    """Yield how many waves there are by a factor, and by what the run has gained."""
    yield count_waves(np.log(smooth), float(np.log(swing))), f"{swing:g} x or more", smooth
    gained = _OF_GAINED * float(smooth[0] - smooth.min())
    if gained > _LEAST * typical(smooth):
        yield count_waves(smooth, gained), "half of what it had gained or more", smooth


def _above_start(case: Case) -> Evidence | None:
    limits, x = case.limits.learning, case.loss.values
    late = x[len(x) // 2 :]
    began, level = float(x[0]), typical(late)
    if level < limits.above_start * began:
        return None
    low, high = quantiles(late, (0.1, 0.9)).tolist()
    # A first batch may have been a lucky one: then the loss has fallen since.
    has_fallen = level < _FALLEN * typical(x[: len(x) // _FIRST])
    # A loss that climbs all the time diverges, which the tree tells.
    climbs = level >= limits.swing * typical(x[len(x) // 4 : len(x) // 2])
    if low <= began or has_fallen or climbs or high < limits.swing * low:
        return None
    step = int(case.loss.steps[len(x) // 2])
    return Evidence(
        because=f"The loss began at {num(began)}, and from step {step} on it swings about "
        f"{num(level)}, mostly between {num(low)} and {num(high)}: worse than before any training.",
        step=int(case.loss.steps[0]),
        measured={"first_loss": began, "level": level, "low": low, "high": high},
        first=_first(case),
        then=_then(case),
    )


def _is_cyclic(case: Case) -> bool:
    """Tell whether the learning rate itself goes up and down, as with warm restarts."""
    rises = np.diff(case.history.finite("lr").values) > 0
    return int((rises[1:] & ~rises[:-1]).sum()) > 1


def _first(case: Case) -> Action:
    lr = case.history.finite("lr")
    peak = lr.values.max() if len(lr) else case.manifest.peak_lr
    now = f" (from {num(float(peak))} to {num(float(peak) / 5)})" if peak else ""
    return Action(
        ActionKind.LOWER_LR,
        f"Divide the peak learning rate by 5{now} and restart with a warm-up.",
        also=(ActionKind.ADD_WARMUP,),
        setting="peak_lr",
        from_=float(peak) if peak else None,
        to=float(peak) / 5 if peak else None,
    )


def _then(case: Case) -> tuple[Action, ...]:
    threshold = clip(case)
    return (
        Action(
            ActionKind.FIX_SCHEDULE,
            "Take a gentler schedule: linear or cosine decay instead of steps.",
        ),
        Action(
            ActionKind.CHANGE_OPTIMIZER, "Lower the momentum, or the beta2 of Adam towards 0.95."
        ),
        Action(
            ActionKind.CLIP_GRADIENTS,
            f"Clip the gradient by its global norm at {threshold}.",
            **threshold.change,
        ),
        Action(ActionKind.TEST_LR, "Run a learning-rate range test: too high bounces."),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="loss-oscillating",
        severity=Severity.WARNING,
        family="learning",
        title="The loss oscillates",
        check=loss_oscillating,
        needs=("loss",),
        limits=("learning.swing", "learning.swings", "learning.above_start", "learning.min_points"),
        explained_by=("nan",),
        enough=(at_least("learning.min_points", "loss"),),
    ),
)
