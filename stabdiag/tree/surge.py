"""What the gradient norms did just before a NaN: whether they surged, or why that is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# A surge shows in one of so many gradient norms before the NaN.
_NEAR = 5

# A norm that was logged after clipping lies no farther beyond the threshold, as rounding goes.
_CLIPPED = 0.01


@dataclass(frozen=True, kw_only=True)
class Surge:
    """The largest gradient norm shortly before a NaN, over the mean before it, and at which step.

    ``of`` is the gradient norm in words: that of all, or of one layer where the norm of all was not
    logged. ``since`` is the step of the first norm so large that it surged; None if none was.
    """

    ratio: float
    step: int
    since: int | None
    of: str


def surge_before(case: Case, step: int) -> Surge | None:
    """Return the largest gradient norm just before a step; None if the log does not show it.

    Where the norm of all gradients was not logged, the layer's that surged most stands for it; that
    some layers were calm does not tell of the others.
    """
    norm = case.history.get("grad_norm")
    if norm is not None:
        return None if _is_clipped(case, norm, step) else _largest(case, norm, step)
    layers = (_largest(case, one, step) for one in case.history.group("grad_norm").values())
    surged = (one for one in layers if one is not None and one.since is not None)
    return max(surged, key=lambda one: one.ratio, default=None)


def why_not_known(case: Case, step: int) -> str:
    """Return why the gradient norms do not show what led up to a NaN."""
    norm = case.history.get("grad_norm")
    if norm is None:
        layers = ", and those of layers were calm" if case.history.group("grad_norm") else ""
        return f"no {'total ' if layers else ''}gradient norm was logged{layers}"
    if _is_clipped(case, norm, step):
        return "the gradient norm was logged after clipping"
    few = len(norm.finite().until(step)) < 2 * _NEAR
    return "too few finite gradient norms were logged" if few else "the gradient norm was 0"


def _largest(case: Case, norm: Series, step: int) -> Surge | None:
    norm = norm.finite().until(step)
    if len(norm) < 2 * _NEAR:
        return None
    near = norm.values[-_NEAR:]
    usual = float(np.mean(norm.values[max(len(norm) - 100 - _NEAR, 0) : -_NEAR]))
    if usual <= 0:
        return None
    steps, at = norm.steps[-_NEAR:], int(np.argmax(near))
    surging = steps[near / usual > case.limits.nan.grad_surge]
    since = int(surging[0]) if len(surging) else None
    layer = norm.role.partition("/")[2]
    of = f"the gradient norm of {layer!r}" if layer else "the gradient norm"
    return Surge(ratio=float(near[at]) / usual, step=int(steps[at]), since=since, of=of)


def _is_clipped(case: Case, norm: Series, step: int) -> bool:
    """Tell whether norms just before a step were cut off at the threshold of clipping."""
    clip, logged = case.manifest.grad_clip, norm.finite().until(step).values
    if not clip or not len(logged):
        return False
    near = float(logged[-_NEAR:].max())
    return near >= clip * (1 - _CLIPPED) and float(logged.max()) <= clip * (1 + _CLIPPED)
