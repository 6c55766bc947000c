"""The common points of runs, and where the runs diverge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.comparison import ComparedRun, Divergence
from stabdiag.model.findings import Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import num
from stabdiag.stats.divergence_points import find_divergence_points

# Time and everything that depends on it differ between identical runs.
_CLOCKS: Final = frozenset(
    {"clock", "step_time", "tokens_per_second", "mfu", "memory", "epoch", "skipped"}
)

# Values that are set, not measured: any difference counts.
_EXACT_ROLES: Final = frozenset({"batch_id", "loss_scale", "setting"})

# A loss has moved once it changed by this fraction, enough to leave the level of guessing.
_MOVED: Final = 0.01

# Order of roles that diverge at the same step: by when they act in a training step.
_ROLE_ORDER: Final = ("batch_id", "loss", "loss_scale", "grad_norm", "lr")


def base_role(role: str) -> str:
    """Return a role without its group: ``weight_norm`` of ``weight_norm/mlp``."""
    return role.partition("/")[0]


@frozen
class CommonPoints:
    """The values of two series at their common steps."""

    steps: Ints
    left: Floats
    right: Floats

    def __len__(self) -> int:
        return len(self.steps)

    def begin_alike(self, limits: CompareLimits, min_points: int) -> bool:
        """Return True if the values agree up to rounding from the start until they have moved.

        The first losses may agree for any seed and batch: a zero-initialized head starts at the
        loss of guessing. At least ``min_points`` values have to agree.
        """
        moved = np.abs(self.left - self.left[:1]) > _MOVED * np.abs(self.left[:1])
        if len(self) < min_points or not moved.any():
            return False
        stop = max(int(np.argmax(moved)) + 1, min_points)
        left, right = self.left[:stop], self.right[:stop]
        return bool(np.allclose(left, right, rtol=limits.rounding, atol=0.0, equal_nan=True))


def common(series: Series, other: Series) -> CommonPoints:
    """Return the values of two series at their common steps."""
    if np.array_equal(series.steps, other.steps):
        return CommonPoints(steps=series.steps, left=series.values, right=other.values)
    steps, left, right = np.intersect1d(
        series.steps, other.steps, assume_unique=True, return_indices=True
    )
    return CommonPoints(steps=steps, left=series.values[left], right=other.values[right])


def losses(history: History, other: History) -> CommonPoints:
    """Return the common losses of two runs."""
    return common(history.logged("loss"), other.logged("loss"))


def find_divergences(
    reference: ComparedRun, other: ComparedRun, limits: CompareLimits
) -> list[Divergence]:
    """Return the divergence of each role that both runs logged, the earliest first.

    Series of words are left out: each log numbers its words separately.
    """
    labels = (reference.label, other.label)
    divergences = [
        _divergence(series, counterpart, labels, limits)
        for role, series in reference.history.series.items()
        if base_role(role) not in _CLOCKS
        and not series.words
        and (counterpart := other.history.get(role)) is not None
    ]
    return sorted((divergence for divergence in divergences if divergence.points), key=_order)


def _divergence(
    series: Series, other: Series, runs: tuple[str, str], limits: CompareLimits
) -> Divergence:
    shared, role = common(series, other), series.role
    is_exact = base_role(role) in _EXACT_ROLES
    result = find_divergence_points(
        shared.left,
        shared.right,
        rounding=0.0 if is_exact else limits.rounding,
        sigmas=limits.noise_sigma,
        points=limits.sustained_points,
        coarse=not is_exact,
    )
    if result is None:
        return Divergence(role=role, runs=runs, points=len(shared))

    def step(index: int | None) -> int | None:
        return None if index is None else int(shared.steps[index])

    def values(index: int | None) -> tuple[float, float] | None:
        return None if index is None else (float(shared.left[index]), float(shared.right[index]))

    size = abs(float(shared.left[result.largest]) - float(shared.right[result.largest]))
    return Divergence(
        role=role,
        runs=runs,
        points=len(shared),
        step=step(result.first),
        values=values(result.first),
        unrounded=step(result.unrounded),
        unrounded_values=values(result.unrounded),
        lasting=step(result.lasting),
        lasting_values=values(result.lasting),
        noise=result.noise,
        largest=math.inf if math.isnan(size) else size,
        largest_step=step(result.largest),
    )


def _order(divergence: Divergence) -> tuple[bool, int, int]:
    priority = (
        _ROLE_ORDER.index(divergence.role) if divergence.role in _ROLE_ORDER else len(_ROLE_ORDER)
    )
    return divergence.step is None, divergence.step or 0, priority


def first_unrounded(divergences: Iterable[Divergence]) -> int | None:
    """Return the first step where a divergence exceeds rounding."""
    return min(
        (divergence.unrounded for divergence in divergences if divergence.unrounded is not None),
        default=None,
    )


def divergence_evidence(divergence: Divergence) -> dict[str, Scalar]:
    """Return the numbers of a divergence by name."""
    x, y = divergence.values or (math.nan, math.nan)
    return {
        "first_difference_at": divergence.step,
        "first_difference": abs(x - y),
        "beyond_rounding_from": divergence.unrounded,
        "beyond_noise_from": divergence.lasting,
        "noise": divergence.noise,
        "largest_difference": divergence.largest,
        "largest_at": divergence.largest_step,
        "common_points": divergence.points,
    }


def describe_first(divergence: Divergence) -> str:
    """Describe the first difference in a sentence."""
    a, b = divergence.runs
    x, y = divergence.values or (math.nan, math.nan)
    gap = f", a difference of {num(abs(x - y))}" if math.isfinite(x - y) else ""
    values = format_values(divergence.values)
    return f"The losses of {a} and {b} first differ at step {divergence.step}: {values}{gap}."


def describe_largest(divergence: Divergence) -> str:
    """Describe the largest difference and its step."""
    if not math.isfinite(divergence.largest):
        return f"one is not finite at step {divergence.largest_step}"
    return f"at most {num(divergence.largest)}, at step {divergence.largest_step}"


def format_values(values: tuple[float, float] | None) -> str:
    """Format two values with enough digits to distinguish them; whole numbers in full."""
    x, y = values or (math.nan, math.nan)
    if not math.isfinite(x - y):
        return f"{num(x)} against {num(y)}"
    if x.is_integer() and y.is_integer() and max(abs(x), abs(y)) < 1e15:
        return f"{int(x)} against {int(y)}"
    for digits in range(4, 17):
        left, right = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if left != right:
            return f"{left} against {right}"
    return f"{x!r} against {y!r}"
