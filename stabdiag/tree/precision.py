"""§3: fp16 and bf16. Do gradients overflow, does the loss scaler cope, and did a NaN result?"""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.model.findings import Scalar
from stabdiag.model.history import Series
from stabdiag.model.text import num, plural
from stabdiag.stats.standards import MIN_TREND_POINTS
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.causes import MAX_OCCASIONAL
from stabdiag.tree.nan import activation_near_fp16_max, describe_near_fp16_max, require_bad_loss
from stabdiag.tree.scale_falls import is_floor, last_fall
from stabdiag.tree.scaler import (
    Overflows,
    fall_to_floor,
    find_overflows,
    is_averaged,
    stuck_scale,
    tolerated_overflows,
)

# The statement of each series without overflows.
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
    norm = case.overall_grad_norm
    if dtype is None and not shows_overflows(case) and norm is not None:
        return no(f"{_FINE['grad_norm']}, regardless of dtype", measured={"overflows": 0})
    if dtype is None:
        count = 0 if norm is None else len(norm) - len(norm.finite())
        nonfinite = f"{plural(count, 'gradient norm')} not finite, and " if count else ""
        because = f"{nonfinite}the dtype is not in the manifest or the log"
        return unknown(because, measured={"overflows": count} if count else {})
    if dtype not in ("fp16", "bf16"):
        return no(f"the run is in {dtype}: this section covers fp16 and bf16")
    # bf16 needs no loss scale, and some optimizers skip steps for other reasons.
    roles = ("grad_norm", *(("loss_scale", "skipped") if dtype == "fp16" else ()))
    logged = [_FINE[role] for role in roles if case.history.has(role)]
    if not logged:
        because = "the gradient norm and the loss scale were not logged"
        return unknown(because if dtype == "fp16" else "the gradient norm was not logged")
    overflows = find_overflows(case)
    # A mean that falls below the floor is a collapse, with any number of overflows.
    has_fallen = last_fall(scale, case.limits.precision.scale_floor) is not None
    if is_averaged(scale) and not (has_fallen and overflows.count):
        return unknown("the loss scale is logged as a mean, which hides the number of overflows")
    if not overflows.count:
        return no(" and ".join(logged), measured={"overflows": 0})
    first = "" if overflows.count == 1 else "the first "
    because = f"{plural(overflows.count, 'overflow')}, {first}at {case.unit} {int(overflows.at[0])}"
    measured = {"overflows": overflows.count}
    if dtype == "fp16" and not _is_constant(scale):
        because += f"; {overflows.calibrating} while the scaler calibrated at the start"
        measured["while_calibrating"] = overflows.calibrating
    return yes(because, *overflows.first_steps, measured=measured)


def shows_overflows(case: Case) -> bool:
    """Return True if the log has values that may be overflows, depending on the dtype."""
    norm, scaled = case.overall_grad_norm, {"loss_scale", "skipped"}
    finite = norm is None or len(norm.finite()) == len(norm)
    return not finite or not scaled.isdisjoint(case.history.series)


def _what_does_the_scale_show(case: Case) -> Reply:
    scale, overflows = case.history.finite("loss_scale"), find_overflows(case)
    if case.manifest.dtype == "fp16" and len(scale):
        special = _collapsed(case, scale, overflows) or _static(case, scale, overflows)
        if special is not None:
            return special
    return _too_often(case, overflows)


def _collapsed(case: Case, scale: Series, overflows: Overflows) -> Reply | None:
    least = case.limits.precision.scale_floor
    fall = last_fall(scale, least)
    lowest, highest = float(scale.values.min()), float(scale.values.max())
    is_pinned = lowest == highest and is_floor(case, highest)
    # Gradients that overflow at a scale of 0 are not finite themselves.
    # A log of overflows has no losses.
    often = overflows.count > MAX_OCCASIONAL or (
        overflows.count and not (highest and len(case.loss))
    )
    if fall is None and (highest < least or is_pinned) and often:
        # The log may begin after the scale has fallen.
        first = int(overflows.at[0])
        where = f"at {num(lowest)}, the scaler's floor," if is_pinned else f"below {num(least)}"
        least_value = "" if is_pinned else f", {num(lowest)} at the lowest"
        return yes(
            f"the loss scale is {where} throughout{least_value}, with "
            f"{plural(overflows.count, 'overflow')}",
            first,
            branch="collapsed",
            measured={"lowest": lowest, "below_since": int(scale.steps[0])},
        )
    if fall is not None:
        low = f"{num(fall.low)}, below {num(least)} at {case.unit} {fall.since}"
    else:
        fall = fall_to_floor(case, scale, overflows)
        if fall is None:
            return None
        still = " and still overflows" if overflows.after(fall.since) else ""
        low = f"the scaler's floor, {num(fall.low)}, at {case.unit} {fall.since}{still}"
    measured: dict[str, Scalar] = {
        "lowest": fall.low,
        "highest": fall.top,
        "below_since": fall.since,
    }
    return yes(
        f"the loss scale fell from {num(fall.top)} to {low}",
        overflows.first_overflow(fall, case.stride),
        branch="collapsed",
        measured=measured,
    )


def _static(case: Case, scale: Series, overflows: Overflows) -> Reply | None:
    if not _is_constant(scale) or not (scale.steps > overflows.at[0]).any():
        return None
    value, count = float(scale.values[0]), overflows.count
    because = f"the loss scale stayed at {num(value)} through {plural(count, 'overflow')}"
    measured = {"scale": value, "overflows": count}
    # Overflows up to the first record may have changed the scale.
    later = overflows.after(int(scale.steps[0]))
    if later <= tolerated_overflows(case) or (
        later == 1 and _is_in_spike(case, int(overflows.at[-1]))
    ):
        return no(f"{because}: too few to judge", measured=measured)
    return yes(
        f"{because}: dynamic scaling is off",
        int(overflows.at[0]),
        branch="static",
        measured=measured,
    )


def _is_in_spike(case: Case, step: int) -> bool:
    """Return True if a step is within a spike: a single overflow there belongs to the spike."""
    margin = case.stride
    return not case.stops_early and any(
        case.at(spike.onset) - margin <= step <= case.at(spike.end) + margin
        for spike in case.spikes
    )


def _is_constant(scale: Series) -> bool:
    return len(scale) > 0 and np.ptp(scale.values) == 0


def _too_often(case: Case, overflows: Overflows) -> Reply:
    factor = case.limits.precision.overflow_factor
    measured: dict[str, Scalar] = {"overflows": overflows.count}
    if case.manifest.dtype == "bf16":
        because = f"{plural(overflows.count, 'overflow')} in bf16, where no loss scale absorbs them"
        return yes(because, *overflows.first_steps, branch="overflow", measured=measured)
    measured |= {
        "while_calibrating": overflows.calibrating,
        "later": overflows.later,
        "expected_probes": overflows.expected,
        "growth_interval": overflows.interval,
    }
    expected = round(overflows.expected, 1)
    because = (
        f"{plural(overflows.later, 'overflow')} after calibration; probing every "
        f"{num(overflows.interval)} steps ({overflows.interval_from}) explains "
        f"{num(expected) if expected else 'none'}"
    )
    soon = overflows.too_soon(factor)
    crowded = soon > max(overflows.expected, MAX_OCCASIONAL)
    if crowded:
        because += f", and {soon} came too soon after the one before"
    if crowded or overflows.later > max(factor * overflows.expected, MAX_OCCASIONAL):
        first = overflows.first_unexplained(factor)
        return yes(because, first, branch="overflow", measured=measured)
    scale = case.history.finite("loss_scale")
    stuck = stuck_scale(scale, overflows) if len(scale) else None
    if stuck is not None:
        because += (
            f"; the loss scale stays at {num(stuck.value)} for {plural(stuck.steps, case.unit)} "
            f"after {case.unit} {stuck.since} and never grows again"
        )
        return no(because, measured={**measured, "stuck_since": stuck.since})
    if len(scale):
        return no(f"{because}: the scaler works", measured=measured)
    return no(f"{because}: few enough for a working scaler", measured=measured)


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
    """Whether a gradient norm or an activation went non-finite before the loss."""
    logged = [
        series.between(*_lead_up(case, bad))
        for role, series in case.history.series.items()
        if role.partition("/")[0] in ("grad_norm", "activation_norm")
    ]
    return any(_reaches_end(series) for series in logged) if logged else None


def _halving(case: Case, bad: int) -> bool | None:
    """Whether the loss scale fell just before the NaN, or more than once."""
    scale = case.history.finite("loss_scale").between(_lead_up(case, bad)[0], bad)
    if len(scale) < 2:
        return None
    fell: Mask = np.diff(scale.values) < 0
    twice = 2**2 * scale.values[1:] <= scale.values[:-1]
    return bool(fell[-2:].any() or fell.sum() > 1 or (fell & twice).any())


def _forward_finite(case: Case, bad: int) -> bool | None:
    """Whether the loss was still finite where gradients overflowed."""
    norm = case.overall_grad_norm
    if norm is None:
        return None
    norm = norm.between(*_lead_up(case, bad))
    overflown = norm.steps[~np.isfinite(norm.values)]
    return _reaches_end(norm) and bool(np.isin(overflown, case.loss.steps).any())


def _scaling_off(case: Case) -> bool | None:
    """Whether the loss scale was static; None while no event should have changed it."""
    if case.manifest.static_loss_scale is not None:
        return case.manifest.static_loss_scale
    scale = case.history.finite("loss_scale")
    if len(scale) < 2:
        return None
    if np.ptp(scale.values):
        return False
    overflows, loss = find_overflows(case), case.history.series["loss"]
    over = np.union1d(overflows.at, loss.steps[~np.isfinite(loss.values)])
    first, last = int(scale.steps[0]), int(scale.steps[-1])
    is_unmoved = np.count_nonzero((over > first) & (over < last)) > tolerated_overflows(case)
    is_ungrown = min(last, int(over[0]) if len(over) else last) - first > overflows.interval
    return True if is_unmoved or is_ungrown else None


def _reaches_end(series: Series) -> bool:
    """Return True if overflows reach the end or repeat; a single probe does not."""
    over = ~np.isfinite(series.values)
    return bool(over[-1:].any() or over.sum() > 1)


def _lead_up(case: Case, bad: int) -> tuple[int, int]:
    """Return the first and last step of the lead-up to a NaN."""
    return bad - max(case.limits.spike.window, round(MIN_TREND_POINTS * case.stride)), bad - 1


ANSWERS: Final = {
    "Q3.1": _is_there_an_overflow,
    "Q3.2": _what_does_the_scale_show,
    "Q3.3": _is_it_an_fp16_overflow,
}
