"""Q3.3: does a NaN in fp16 look like an overflow?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.tree.origin import found_bad
from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.scaler import overflows

if TYPE_CHECKING:
    from stabdiag.model.arrays import Mask
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# The signals of an fp16 overflow, in words.
_SIGNALS = {
    "gradient_first": "gradient or activation went non-finite first",
    "scale_halving": "the loss scale was halving before it",
    "forward_finite": "the forward pass was still finite when gradients overflowed",
    "scaling_off": "dynamic loss scaling was not engaged",
}

# What led to a NaN is looked for in so many steps before it.
_LEAD_UP = 100

# Megatron and DeepSpeed let an overflow pass before they lower the scale: so many prove nothing.
_FEW_OVERFLOWS = 2


def is_it_the_fp16_fingerprint(case: Case) -> Reply:
    """Q3.3: does the NaN carry the fingerprint of an fp16 overflow?"""
    bad = found_bad(case)
    signals = {
        "gradient_first": _gradient_first(case, bad.step),
        "scale_halving": _halving(case, bad.step),
        "forward_finite": _forward_finite(case, bad.step),
        "scaling_off": _not_engaged(case),
    }
    words = {True: "yes", False: "no", None: "unknown"}
    because = "; ".join(f"{_SIGNALS[name]}: {words[holds]}" for name, holds in signals.items())
    measured = {name: words[holds] for name, holds in signals.items()}
    first_three = list(signals.values())[:3]
    if any(first_three):
        return yes(because, bad.step, measured=measured)
    probe = _probe(case, bad.step)
    if probe is not None:
        because += f"; the one overflow, at step {probe}, was a probe that the scaler made good"
    if all(holds is False for holds in first_three):
        return no(because, bad.step, measured=measured)
    return unknown(because, bad.step, measured=measured)


def _gradient_first(case: Case, bad: int) -> bool | None:
    """Tell whether a gradient norm or an activation went non-finite before the loss did."""
    logged = _norms(case, bad)
    return any(_leads(series) for series in logged) if logged else None


def _halving(case: Case, bad: int) -> bool | None:
    near = _scale(case, bad)
    if len(near) < 2:
        return None
    fell, twice = _falls(near), 4 * near.values[1:] <= near.values[:-1]
    return bool(fell[-2:].any() or fell.sum() > 1 or (fell & twice).any())


def _forward_finite(case: Case, bad: int) -> bool | None:
    norm = case.history.get("grad_norm")
    if norm is None:
        return None
    near = norm.between(*_lead_up(case, bad))
    overflown = near.steps[~np.isfinite(near.values)]
    return _leads(near) and bool(np.isin(overflown, case.loss.steps).any())


def _not_engaged(case: Case) -> bool | None:
    """Tell whether the loss scale was static: one at rest says nothing until it ought to move."""
    if case.manifest.static_loss_scale is not None:
        return case.manifest.static_loss_scale
    scale = case.history.finite("loss_scale")
    if len(scale) < 2:
        return None
    if np.ptp(scale.values):
        return False
    found, loss = overflows(case), case.history.series["loss"]
    over = np.union1d(found.at, loss.steps[~np.isfinite(loss.values)])
    first, last = int(scale.steps[0]), int(scale.steps[-1])
    unmoved = np.count_nonzero((over > first) & (over < last)) > _FEW_OVERFLOWS
    ungrown = min(last, int(over[0]) if len(over) else last) - first > found.interval
    return True if unmoved or ungrown else None


def _probe(case: Case, bad: int) -> int | None:
    """Return the step of a lone overflow before the NaN, where none led to it, if there was one."""
    over = [near.steps[~np.isfinite(near.values)] for near in _norms(case, bad)]
    scale = _scale(case, bad)
    over.append(scale.steps[1:][_falls(scale)])
    return min((int(steps[0]) for steps in over if len(steps)), default=None)


def _norms(case: Case, bad: int) -> list[Series]:
    """Return the norms of gradients and activations before the NaN."""
    return [
        series.between(*_lead_up(case, bad))
        for role, series in case.history.series.items()
        if role.partition("/")[0] in ("grad_norm", "activation_norm")
    ]


def _scale(case: Case, bad: int) -> Series:
    """Return the loss scale before the NaN and at its step."""
    return case.history.finite("loss_scale").between(_lead_up(case, bad)[0], bad)


def _falls(scale: Series) -> Mask:
    return np.diff(scale.values) < 0


def _leads(near: Series) -> bool:
    """Tell whether overflows led to what comes next: after a lone probe norms are finite again."""
    over = ~np.isfinite(near.values)
    return bool(over[-1:].any() or over.sum() > 1)


def _lead_up(case: Case, bad: int) -> tuple[int, int]:
    """Return the first and the last step of what may have led to a NaN."""
    return bad - max(_LEAD_UP, round(10 * case.stride)), bad - 1
