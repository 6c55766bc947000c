"""The points that runs have in common, and where the runs diverge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.comparison import Parting, Run
from stabdiag.model.findings import Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import num
from stabdiag.stats.parting import part

# Time and everything that depends on it differ between identical runs.
_CLOCKS: Final = frozenset(
    {"clock", "step_time", "tokens_per_second", "mfu", "memory", "epoch", "skipped"}
)

# Values that are set, not measured: any difference counts.
_EXACT: Final = frozenset({"batch_id", "loss_scale", "setting"})

# A loss has moved once it has changed by this share: enough to leave the chance level.
_MOVED: Final = 0.01

# Among roles that part at the same step, the one that acts earlier in a training step comes first.
_ORDER: Final = ("batch_id", "loss", "loss_scale", "grad_norm", "lr")


def base(role: str) -> str:
    """Return a role without its group: ``weight_norm`` of ``weight_norm/mlp``."""
    return role.partition("/")[0]


@frozen
class Common:
    """The values of two series at the steps that both have."""

    steps: Ints
    one: Floats
    other: Floats

    def __len__(self) -> int:
        return len(self.steps)

    def begin_alike(self, limits: CompareLimits, least: int) -> bool:
        """Return True if the values agree up to rounding from the start until they have moved.

        The first losses may agree for any seed and batch: a zero-initialized head starts at chance.
        At least ``least`` values have to agree.
        """
        moved = np.abs(self.one - self.one[:1]) > _MOVED * np.abs(self.one[:1])
        if len(self) < least or not moved.any():
            return False
        until = max(int(np.argmax(moved)) + 1, least)
        one, other = self.one[:until], self.other[:until]
        return bool(np.allclose(one, other, rtol=limits.rounding, atol=0.0, equal_nan=True))


def common(one: Series, other: Series) -> Common:
    """Return the points at the steps of both series."""
    if np.array_equal(one.steps, other.steps):
        return Common(steps=one.steps, one=one.values, other=other.values)
    steps, here, there = np.intersect1d(
        one.steps, other.steps, assume_unique=True, return_indices=True
    )
    return Common(steps=steps, one=one.values[here], other=other.values[there])


def losses(one: History, other: History) -> Common:
    """Return the losses that two runs have in common."""
    return common(one.logged("loss"), other.logged("loss"))


def partings(one: Run, other: Run, limits: CompareLimits) -> list[Parting]:
    """Return the divergence of each role that both runs logged, the earliest first.

    Series of words are left out: each log numbers its words separately.
    """
    found = [
        _parting(series, there, (one.label, other.label), limits)
        for role, series in one.history.series.items()
        if base(role) not in _CLOCKS
        and not series.words
        and (there := other.history.get(role)) is not None
    ]
    return sorted((one for one in found if one.points), key=_first)


def _parting(one: Series, other: Series, runs: tuple[str, str], limits: CompareLimits) -> Parting:
    both, role = common(one, other), one.role
    exact = base(role) in _EXACT
    found = part(
        both.one,
        both.other,
        rounding=0.0 if exact else limits.rounding,
        sigmas=limits.noise_sigma,
        points=limits.sustained_points,
        coarse=not exact,
    )
    if found is None:
        return Parting(role=role, runs=runs, points=len(both))

    def step(at: int | None) -> int | None:
        return None if at is None else int(both.steps[at])

    def values(at: int | None) -> tuple[float, float] | None:
        return None if at is None else (float(both.one[at]), float(both.other[at]))

    size = abs(float(both.one[found.largest]) - float(both.other[found.largest]))
    return Parting(
        role=role,
        runs=runs,
        points=len(both),
        step=step(found.first),
        values=values(found.first),
        unrounded=step(found.unrounded),
        unrounded_values=values(found.unrounded),
        lasting=step(found.lasting),
        lasting_values=values(found.lasting),
        noise=found.noise,
        largest=math.inf if math.isnan(size) else size,
        largest_step=step(found.largest),
    )


def _first(one: Parting) -> tuple[bool, int, int]:
    place = _ORDER.index(one.role) if one.role in _ORDER else len(_ORDER)
    return one.step is None, one.step or 0, place


def first_unrounded(found: Iterable[Parting]) -> int | None:
    """Return the first step at which any of these differs by more than rounding."""
    return min((one.unrounded for one in found if one.unrounded is not None), default=None)


def measured(one: Parting) -> dict[str, Scalar]:
    """Return the numbers of a divergence, by name."""
    x, y = one.values or (math.nan, math.nan)
    return {
        "first_difference_at": one.step,
        "first_difference": abs(x - y),
        "beyond_rounding_from": one.unrounded,
        "beyond_noise_from": one.lasting,
        "noise": one.noise,
        "largest_difference": one.largest,
        "largest_at": one.largest_step,
        "common_points": one.points,
    }


def where(one: Parting) -> str:
    """Return a sentence on the first difference."""
    a, b = one.runs
    x, y = one.values or (math.nan, math.nan)
    gap = f", a difference of {num(abs(x - y))}" if math.isfinite(x - y) else ""
    return f"The losses of {a} and {b} first differ at step {one.step}: {close(one.values)}{gap}."


def largest(one: Parting) -> str:
    """Return the largest difference and its step."""
    if not math.isfinite(one.largest):
        return f"one is not finite at step {one.largest_step}"
    return f"at most {num(one.largest)}, at step {one.largest_step}"


def close(values: tuple[float, float] | None) -> str:
    """Return two values with as many digits as tell them apart, whole numbers whole."""
    x, y = values or (math.nan, math.nan)
    if not math.isfinite(x - y):
        return f"{num(x)} against {num(y)}"
    if x.is_integer() and y.is_integer() and max(abs(x), abs(y)) < 1e15:
        return f"{int(x)} against {int(y)}"
    for digits in range(4, 17):
        one, other = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if one != other:
            return f"{one} against {other}"
    return f"{x!r} against {y!r}"
