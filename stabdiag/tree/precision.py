"""§3: fp16 and bf16. Do gradients overflow, does the loss scaler cope, and is a NaN theirs?"""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.model.findings import Scalar
from stabdiag.model.history import Series
from stabdiag.model.text import num, plural
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.causes import FEW
from stabdiag.tree.nan import activation_near_fp16_max, describe_near_fp16_max, require_bad_loss
from stabdiag.tree.scaler import (
    Overflows,
    fall_to_floor,
    is_averaged,
    last_fall,
    overflows,
    stuck_scale,
    tolerated_overflows,
)

# What each series says where nothing overflowed.
_FINE = {
    "grad_norm": "every gradient norm is finite",
    "loss_scale": "the loss scale never fell",
    "skipped": "no step was skipped",
}

# The signals of an fp16 overflow, in words.
_SIGNALS = {
    "gradient_first": "gradient or activation non-finite first",
    "scale_halving": "loss scale halving before it",
    "forward_finite": "forward pass still finite",
    "scaling_off": "dynamic loss scaling off",
}


def _is_there_an_overflow(case: Case) -> Reply:
    dtype, scale = case.manifest.dtype, case.history.finite("loss_scale")
    if dtype is None and not shows_overflows(case) and "grad_norm" in case.history.series:
        return no(f"{_FINE['grad_norm']}, in whatever dtype", measured={"overflows": 0})
    if dtype is None:
        norm = case.history.series.get("grad_norm")
        lost = 0 if norm is None else len(norm) - len(norm.finite())
        told = f"{plural(lost, 'gradient norm')} not finite, and " if lost else ""
        why = f"{told}neither the manifest nor the log names the dtype"
        return unknown(why, measured={"overflows": lost} if lost else {})
    if dtype not in ("fp16", "bf16"):
        return no(f"the run is in {dtype}: only fp16 and bf16 are asked")
    # Some optimizers skip steps in bf16, too, and not for overflows; and it has no loss scale.
    roles = ("grad_norm", *(("loss_scale", "skipped") if dtype == "fp16" else ()))
    logged = [_FINE[role] for role in roles if role in case.history.series]
    if not logged:
        lacks = "neither the gradient norm nor the loss scale was logged"
        return unknown(lacks if dtype == "fp16" else "the gradient norm was not logged")
    if is_averaged(scale):
        return unknown("the loss scale is logged as a mean, which hides how many overflows it had")
    found = overflows(case)
    if not found.count:
        return no(" and ".join(logged), measured={"overflows": 0})
    first = "" if found.count == 1 else "the first "
    told = f"{plural(found.count, 'overflow')}, {first}at {case.unit} {int(found.at[0])}"
    measured = {"overflows": found.count}
    if dtype == "fp16" and not _is_constant(scale):
        told += f"; {found.calibrating} while the scaler calibrated at the start"
        measured["while_calibrating"] = found.calibrating
    return yes(told, *found.at[:20].tolist(), measured=measured)


def shows_overflows(case: Case) -> bool:
    """Tell whether the log holds what is an overflow in one dtype and nothing in another."""
    norm, scaled = case.history.get("grad_norm"), {"loss_scale", "skipped"}
    finite = norm is None or len(norm.finite()) == len(norm)
    return not finite or not scaled.isdisjoint(case.history.series)


def _what_does_the_scale_show(case: Case) -> Reply:
    scale, found = case.history.finite("loss_scale"), overflows(case)
    if case.manifest.dtype == "fp16" and len(scale):
        special = _collapsed(case, scale, found) or _static(case, scale, found)
        if special is not None:
            return special
    return _too_often(case, found)


def _collapsed(case: Case, scale: Series, found: Overflows) -> Reply | None:
    least = case.limits.precision.scale_floor
    fall = last_fall(scale, least)
    if fall is None and float(scale.values.max()) < least and found.count > FEW:
        # What is printed of such a run may begin when its scale is down already.
        first, lowest = int(found.at[0]), float(scale.values.min())
        return yes(
            f"the loss scale is below {num(least)} throughout, {num(lowest)} at the lowest, with "
            f"{plural(found.count, 'overflow')}",
            first,
            branch="collapsed",
            measured={"lowest": lowest, "below_since": int(scale.steps[0])},
        )
    if fall is not None:
        told = f"{num(fall.low)}, below {num(least)} at {case.unit} {fall.since}"
    else:
        fall = fall_to_floor(case, scale, found)
        if fall is None:
            return None
        still = " and still overflows" if found.after(fall.since) else ""
        told = f"the scaler's floor, {num(fall.low)}, at {case.unit} {fall.since}{still}"
    measured: dict[str, Scalar] = {
        "lowest": fall.low,
        "highest": fall.top,
        "below_since": fall.since,
    }
    return yes(
        f"the loss scale fell from {num(fall.top)} to {told}",
        found.began(fall, case.stride),
        branch="collapsed",
        measured=measured,
    )


def _static(case: Case, scale: Series, found: Overflows) -> Reply | None:
    if not _is_constant(scale) or not (scale.steps > found.at[0]).any():
        return None
    value, count = float(scale.values[0]), found.count
    told = f"the loss scale stayed at {num(value)} through {plural(count, 'overflow')}"
    measured = {"scale": value, "overflows": count}
    # Those up to its first record may have moved it.
    seen = found.after(int(scale.steps[0]))
    if seen <= tolerated_overflows(case) or (seen == 1 and _is_in_spike(case, int(found.at[-1]))):
        return no(f"{told}: too few to judge", measured=measured)
    because = f"{told}: dynamic scaling is off"
    return yes(because, int(found.at[0]), branch="static", measured=measured)


def _is_in_spike(case: Case, step: int) -> bool:
    """Return True if a step is within a spike: a single overflow there belongs to the spike."""
    margin = case.stride
    return not case.stops_early and any(
        case.at(spike.onset) - margin <= step <= case.at(spike.end) + margin
        for spike in case.spikes
    )


def _is_constant(scale: Series) -> bool:
    return len(scale) > 0 and np.ptp(scale.values) == 0


def _too_often(case: Case, found: Overflows) -> Reply:
    factor = case.limits.precision.overflow_factor
    measured: dict[str, Scalar] = {"overflows": found.count}
    if case.manifest.dtype == "bf16":
        because = f"{plural(found.count, 'overflow')} in bf16, where no loss scale absorbs them"
        return yes(because, *found.at[:20].tolist(), branch="overflow", measured=measured)
    measured |= {
        "while_calibrating": found.calibrating,
        "later": found.later,
        "expected_probes": found.expected,
        "growth_interval": found.interval,
    }
    told = (
        f"{plural(found.later, 'overflow')} after calibration; probing every "
        f"{num(found.interval)} steps ({found.interval_from}) explains "
        f"{num(round(found.expected, 1))}"
    )
    soon = found.too_soon(factor)
    crowded = soon > max(found.expected, FEW)
    if crowded:
        told += f", and {soon} came too soon after the one before"
    if crowded or found.later > max(factor * found.expected, FEW):
        first = found.first_unexplained(factor)
        return yes(told, first, branch="overflow", measured=measured)
    scale = case.history.finite("loss_scale")
    stuck = stuck_scale(scale, found) if len(scale) else None
    if stuck is not None:
        told += (
            f"; the loss scale stays at {num(stuck.value)} for {plural(stuck.steps, case.unit)} "
            f"after {case.unit} {stuck.since} and never grows again"
        )
        return no(told, measured={**measured, "stuck_since": stuck.since})
    if len(scale):
        return no(f"{told}: the scaler works", measured=measured)
    return no(f"{told}: normal for a working scaler", measured=measured)


def _is_it_an_fp16_overflow(case: Case) -> Reply:
    bad = require_bad_loss(case).step
    signals = {
        "gradient_first": _gradient_first(case, bad),
        "scale_halving": _halving(case, bad),
        "forward_finite": _forward_finite(case, bad),
        "scaling_off": _scaling_off(case),
    }
    words = {True: "yes", False: "no", None: "unknown"}
    because = "; ".join(f"{_SIGNALS[name]}: {words[holds]}" for name, holds in signals.items())
    measured: dict[str, Scalar] = {name: words[holds] for name, holds in signals.items()}
    first_three = list(signals.values())[:3]
    peak = activation_near_fp16_max(case.history, bad)
    if peak is not None:
        because += f"; {describe_near_fp16_max(peak, case.unit)}"
        measured["largest_activation"] = peak.value
    if peak is not None or any(first_three):
        return yes(because, bad, measured=measured)
    if all(holds is False for holds in first_three):
        return no(because, bad, measured=measured)
    return unknown(because, bad, measured=measured)


def _gradient_first(case: Case, bad: int) -> bool | None:
    """Tell whether a gradient norm or an activation went non-finite before the loss did."""
    logged = [
        series.between(*_lead_up(case, bad))
        for role, series in case.history.series.items()
        if role.partition("/")[0] in ("grad_norm", "activation_norm")
    ]
    return any(_leads(series) for series in logged) if logged else None


def _halving(case: Case, bad: int) -> bool | None:
    """Tell whether the loss scale fell just before the NaN, or more than once."""
    near = case.history.finite("loss_scale").between(_lead_up(case, bad)[0], bad)
    if len(near) < 2:
        return None
    fell: Mask = np.diff(near.values) < 0
    twice = 4 * near.values[1:] <= near.values[:-1]
    return bool(fell[-2:].any() or fell.sum() > 1 or (fell & twice).any())


def _forward_finite(case: Case, bad: int) -> bool | None:
    """Tell whether the loss was still finite where gradients overflowed."""
    norm = case.history.get("grad_norm")
    if norm is None:
        return None
    near = norm.between(*_lead_up(case, bad))
    overflown = near.steps[~np.isfinite(near.values)]
    return _leads(near) and bool(np.isin(overflown, case.loss.steps).any())


def _scaling_off(case: Case) -> bool | None:
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
    unmoved = np.count_nonzero((over > first) & (over < last)) > tolerated_overflows(case)
    ungrown = min(last, int(over[0]) if len(over) else last) - first > found.interval
    return True if unmoved or ungrown else None


def _leads(near: Series) -> bool:
    """Tell whether overflows led to what comes next: after a lone probe norms are finite again."""
    over = ~np.isfinite(near.values)
    return bool(over[-1:].any() or over.sum() > 1)


def _lead_up(case: Case, bad: int) -> tuple[int, int]:
    """Return the first and the last step of what may have led to a NaN."""
    return bad - max(case.limits.spike.window, round(10 * case.stride)), bad - 1


ANSWERS: Final = {
    "Q3.1": _is_there_an_overflow,
    "Q3.2": _what_does_the_scale_show,
    "Q3.3": _is_it_an_fp16_overflow,
}
