"""The points that two runs have in common, and where they part in each role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.comparison import Parting, Run
from stabdiag.stats.parting import part

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.history import History, Series
    from stabdiag.model.limits.checks import CompareLimits

# What differs between two runs of the same: the time, and what depends on it.
_CLOCKS: Final = frozenset(
    {"clock", "step_time", "tokens_per_second", "mfu", "memory", "epoch", "skipped"}
)

# Values that are chosen, not measured: any difference is one.
_EXACT: Final = frozenset({"batch_id", "loss_scale", "setting"})

# A loss has moved when it has changed by this share.
_MOVED: Final = 0.01

# Of roles that part at the same step, the earlier in a training step come first.
_ORDER: Final = ("batch_id", "loss", "loss_scale", "grad_norm", "lr")


@dataclass(frozen=True, kw_only=True, eq=False)
class Common:
    """The values of two series at the steps that both have."""

    steps: Ints
    one: Floats
    other: Floats

    def __len__(self) -> int:
        return len(self.steps)


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
    first, second = one.get("loss"), other.get("loss")
    if first is None or second is None:
        nothing = np.empty(0)
        return Common(steps=np.empty(0, np.int64), one=nothing, other=nothing)
    return common(first, second)


def begin_alike(both: Common, limits: CompareLimits, least: int) -> bool:
    """Tell whether two runs have the same losses, up to rounding, until these have moved.

    At the very start they may be the same whatever the seed and the batch: a head of zeros begins
    at chance. So many at least have to be the same.
    """
    moved = np.abs(both.one - both.one[:1]) > _MOVED * np.abs(both.one[:1])
    if len(both) < least or not moved.any():
        return False
    until = max(int(np.argmax(moved)) + 1, least)
    one, other = both.one[:until], both.other[:until]
    return bool(np.allclose(one, other, rtol=limits.rounding, atol=0.0, equal_nan=True))


def partings(one: Run, other: Run, limits: CompareLimits) -> list[Parting]:
    """Return for every role that both runs logged where they part, the earliest first.

    Words were given numbers in each log by itself.
    """
    found = [
        parting(series, there, (one.label, other.label), limits)
        for role, series in one.history.series.items()
        if role.partition("/")[0] not in _CLOCKS
        and not series.words
        and (there := other.history.get(role)) is not None
    ]
    return sorted((p for p in found if p.points), key=_first)


def parting(one: Series, other: Series, runs: tuple[str, str], limits: CompareLimits) -> Parting:
    """Return where two series of a role part."""
    both, role = common(one, other), one.role
    exact = role.partition("/")[0] in _EXACT
    found = part(
        both.one,
        both.other,
        rounding=0.0 if exact else limits.rounding,
        sigmas=limits.noise_sigma,
        points=limits.lasting,
        coarse=not exact,
    )
    if found is None:
        return Parting(role=role, runs=runs, points=len(both))

    def step(at: int | None) -> int | None:
        return None if at is None else int(both.steps[at])

    def values(at: int | None) -> tuple[float, float] | None:
        return None if at is None else (float(both.one[at]), float(both.other[at]))

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
        largest=_size(both, found.largest),
        largest_step=step(found.largest),
    )


def _size(both: Common, at: int) -> float:
    size = abs(float(both.one[at]) - float(both.other[at]))
    return float("inf") if np.isnan(size) else size


def _first(one: Parting) -> tuple[bool, int, int]:
    place = _ORDER.index(one.role) if one.role in _ORDER else len(_ORDER)
    return one.step is None, one.step or 0, place


def before_the_loss(found: list[Parting]) -> Parting | None:
    """Return the role that parts by more than rounding before the loss does, if one does.

    A learning rate acts on the next loss, so that it has to part earlier; a batch acts on its own.
    """
    loss = next((one for one in found if one.role == "loss"), None)
    if loss is None or loss.unrounded is None:
        return None
    causes = [
        one
        for one in found
        if one.unrounded is not None
        and (
            (one.role in ("lr", "loss_scale") and one.unrounded < loss.unrounded)
            or (one.role == "batch_id" and one.unrounded <= loss.unrounded)
        )
    ]
    return min(causes, key=lambda one: one.unrounded or 0, default=None)
