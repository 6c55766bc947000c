"""§3: fp16 and bf16. Do gradients overflow, and does the loss scaler cope?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.tree.nan import found_bad
from stabdiag.tree.question import Question, Reply, no, unknown, yes
from stabdiag.tree.scale import fall_to_floor, is_averaged, last_fall
from stabdiag.tree.scaler import Overflows, overflows
from stabdiag.tree.words import num, plural

if TYPE_CHECKING:
    from stabdiag.findings import Scalar
    from stabdiag.history import Series
    from stabdiag.tree.case import Case

# Once or twice is nothing to be alarmed by, however short the log.
_FEW_OVERFLOWS = 2

# What each series says where nothing overflowed.
_FINE = {
    "grad_norm": "every gradient norm is finite",
    "loss_scale": "the loss scale never fell",
    "skipped": "no step was skipped",
}

# The signals of an fp16 overflow, in words.
_SIGNALS = {
    "gradient_first": "gradient or activation went non-finite first",
    "scale_halving": "the loss scale was halving before it",
    "forward_finite": "the forward pass was still finite when gradients overflowed",
    "scaling_off": "dynamic loss scaling was not engaged",
}

# What led to a NaN is looked for in so many steps before it.
_LEAD_UP = 100


def _is_there_an_overflow(case: Case) -> Reply:
    dtype, scale = case.manifest.dtype, case.history.get("loss_scale")
    if dtype is None:
        return unknown("neither the manifest nor the log tells whether this run was fp16 or bf16")
    if dtype not in ("fp16", "bf16"):
        return no(f"the run was in {dtype}: the question does not arise")
    # Some optimizers skip steps in bf16, too, and not for overflows.
    roles = ("grad_norm", "loss_scale", *(("skipped",) if dtype == "fp16" else ()))
    logged = [_FINE[role] for role in roles if role in case.history.series]
    if not logged:
        return unknown("neither the gradient norm nor the loss scale was logged")
    if scale is not None and is_averaged(scale):
        return unknown(
            "the loss scale was logged as a mean over many steps: one overflow, which is normal, "
            "cannot be told from many"
        )
    found = overflows(case)
    if not len(found.steps):
        return no(" and ".join(logged), measured={"overflows": 0})
    told = f"{plural(len(found.steps), 'overflow')}, the first at step {int(found.steps[0])}"
    measured = {"overflows": len(found.steps)}
    if dtype == "fp16" and not (scale is not None and _is_constant(scale.finite())):
        told += f"; {found.calibrating} while the scaler was calibrating at the start"
        measured["while_calibrating"] = found.calibrating
    return yes(told, *found.steps[:20].tolist(), measured=measured)


def _what_does_the_scale_show(case: Case) -> Reply:
    scale = case.history.get("loss_scale")
    found = overflows(case)
    finite = scale.finite() if scale is not None else None
    if case.manifest.dtype == "fp16" and finite is not None and len(finite):
        special = _collapsed(case, finite, found) or _static(finite, found)
        if special is not None:
            return special
    return _too_often(case, found, scale)


def _collapsed(case: Case, scale: Series, found: Overflows) -> Reply | None:
    least = case.limits.precision.scale_floor
    fall = last_fall(scale, least)
    if fall is not None:
        told = f"to {num(fall.low)} and below {num(least)} at step {fall.since}"
        if fall.top < least:
            told = f"to {num(fall.low)} from step {fall.since} on, all of it below {num(least)}"
        if fall.back is not None:
            told += f", and was half of the way back at step {fall.back}"
    else:
        fall = fall_to_floor(scale, case.manifest.loss_scale_min)
        if fall is None or not (found.steps >= fall.since).any():
            return None
        told = f"to the scaler's floor, {num(fall.low)}, at step {fall.since} and overflows went on"
    measured: dict[str, Scalar] = {
        "lowest": fall.low,
        "highest": fall.top,
        "below_since": fall.since,
    }
    if fall.back is not None:
        measured["back_at"] = fall.back
    return yes(
        f"the loss scale fell from {num(fall.top)} {told}",
        found.began(fall.since, case.stride),
        branch="collapsed",
        measured=measured,
    )


def _static(scale: Series, found: Overflows) -> Reply | None:
    if not _is_constant(scale) or not (scale.steps > found.steps[0]).any():
        return None
    scale_value, count = float(scale.values[0]), len(found.steps)
    told = f"the loss scale stayed at {num(scale_value)} through {plural(count, 'overflow')}"
    measured = {"scale": scale_value, "overflows": count}
    if count <= _FEW_OVERFLOWS:
        return no(f"{told}: too few to speak of", measured=measured)
    because = f"{told}: dynamic scaling is not engaged"
    return yes(because, int(found.steps[0]), branch="static", measured=measured)


def _is_constant(scale: Series) -> bool:
    return len(scale) > 0 and np.ptp(scale.values) == 0


def _too_often(case: Case, found: Overflows, scale: Series | None) -> Reply:
    factor = case.limits.precision.overflow_factor
    measured: dict[str, Scalar] = {"overflows": len(found.steps)}
    if case.manifest.dtype == "bf16":
        count = plural(len(found.steps), "overflow")
        because = f"{count} in bf16, which has no loss scale to absorb them"
        return yes(because, *found.steps[:20].tolist(), branch="overflow", measured=measured)
    measured |= {
        "while_calibrating": found.calibrating,
        "later": found.later,
        "expected_probes": found.expected,
        "growth_interval": found.interval,
    }
    allowed = max(factor * found.expected, _FEW_OVERFLOWS)
    told = (
        f"{plural(found.later, 'overflow')} after the calibration, where a probe every "
        f"{num(found.interval)} steps ({found.interval_from}) explains {num(found.expected)}"
    )
    soon = len(found.too_soon(factor))
    crowded = soon > max(found.expected, _FEW_OVERFLOWS)
    if crowded:
        told += f"; {soon} of them were followed by the next within a fraction of that"
    if found.later > allowed or crowded:
        first = found.first_unexplained(factor)
        return yes(told, first, branch="overflow", measured=measured)
    return no(f"{told}: the scaler is working", measured=measured)


def _is_it_the_fp16_fingerprint(case: Case) -> Reply:
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
    if all(holds is False for holds in first_three):
        return no(because, bad.step, measured=measured)
    return unknown(because, bad.step, measured=measured)


def _gradient_first(case: Case, bad: int) -> bool | None:
    """Tell whether a gradient norm or an activation went non-finite before the loss did."""
    logged = [
        series.between(*_lead_up(case, bad))
        for role, series in case.history.series.items()
        if role.partition("/")[0] in ("grad_norm", "activation_norm")
    ]
    if not logged:
        return None
    return any(bool((~np.isfinite(series.values)).any()) for series in logged)


def _halving(case: Case, bad: int) -> bool | None:
    scale = case.history.get("loss_scale")
    if scale is None:
        return None
    near = scale.finite().between(_lead_up(case, bad)[0], bad)
    return bool((np.diff(near.values) < 0).any()) if len(near) > 1 else None


def _forward_finite(case: Case, bad: int) -> bool | None:
    norm = case.history.get("grad_norm")
    if norm is None:
        return None
    near = norm.between(*_lead_up(case, bad))
    overflown = near.steps[~np.isfinite(near.values)]
    return bool(np.isin(overflown, case.loss.steps).any())


def _lead_up(case: Case, bad: int) -> tuple[int, int]:
    """Return the first and the last step of what may have led to a NaN."""
    return bad - max(_LEAD_UP, round(10 * case.stride)), bad - 1


def _not_engaged(case: Case) -> bool | None:
    if case.manifest.static_loss_scale is not None:
        return case.manifest.static_loss_scale
    scale = case.history.get("loss_scale")
    values = scale.finite().values if scale is not None else np.empty(0)
    return None if len(values) < 2 else bool(np.ptp(values) == 0)


QUESTIONS: tuple[Question, ...] = (
    Question(
        id="Q3.1",
        asks="Is there a step with an infinite or NaN gradient norm?",
        answer=_is_there_an_overflow,
    ),
    Question(
        id="Q3.2",
        asks="What does the loss-scale history show?",
        answer=_what_does_the_scale_show,
        limits=(
            "precision.scale_floor",
            "precision.growth_interval",
            "precision.overflow_factor",
        ),
    ),
    Question(
        id="Q3.3",
        asks="Does the NaN carry the fingerprint of an fp16 overflow?",
        answer=_is_it_the_fp16_fingerprint,
    ),
)
