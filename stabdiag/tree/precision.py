"""§3: fp16 and bf16. Do gradients overflow, and does the loss scaler cope?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.text import num, plural
from stabdiag.tree.fingerprint import is_it_the_fp16_fingerprint
from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.scale import fall_to_floor, is_averaged, last_fall, went_on
from stabdiag.tree.scaler import Overflows, overflows

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# Once or twice is nothing to be alarmed by, however short the log.
_FEW_OVERFLOWS = 2

# What each series says where nothing overflowed.
_FINE = {
    "grad_norm": "every gradient norm is finite",
    "loss_scale": "the loss scale never fell",
    "skipped": "no step was skipped",
}


def _is_there_an_overflow(case: Case) -> Reply:
    dtype, scale = case.manifest.dtype, case.history.finite("loss_scale")
    if dtype is None:
        return unknown("neither the manifest nor the log tells whether this run was fp16 or bf16")
    if dtype not in ("fp16", "bf16"):
        return no(f"the run was in {dtype}: the question does not arise")
    # Some optimizers skip steps in bf16, too, and not for overflows; and it has no loss scale.
    roles = ("grad_norm", *(("loss_scale", "skipped") if dtype == "fp16" else ()))
    logged = [_FINE[role] for role in roles if role in case.history.series]
    moves = _scale_in_bf16(case)
    if not logged:
        lacks = "neither the gradient norm nor the loss scale was logged"
        return unknown(lacks if dtype == "fp16" else f"the gradient norm was not logged{moves}")
    if is_averaged(scale):
        return unknown(
            "the loss scale was logged as a mean over many steps: one overflow, which is normal, "
            "cannot be told from many"
        )
    found = overflows(case)
    if not found.count:
        return no(" and ".join(logged) + moves, measured={"overflows": 0})
    first = "" if found.count == 1 else "the first "
    told = f"{plural(found.count, 'overflow')}, {first}at step {int(found.at[0])}"
    measured = {"overflows": found.count}
    if dtype == "fp16" and not _is_constant(scale):
        told += f"; {found.calibrating} while the scaler was calibrating at the start"
        measured["while_calibrating"] = found.calibrating
    return yes(told, *found.at[:20].tolist(), measured=measured)


def _scale_in_bf16(case: Case) -> str:
    """Return what to say of a loss scale that moves where the run is said to be in bf16."""
    values = case.history.finite("loss_scale").values
    if case.manifest.dtype != "bf16" or not len(values) or not np.ptp(values):
        return ""
    return "; but the logged loss scale moves, which is no bf16 run's: check the dtype"


def _what_does_the_scale_show(case: Case) -> Reply:
    scale, found = case.history.finite("loss_scale"), overflows(case)
    if case.manifest.dtype == "fp16" and len(scale):
        special = _collapsed(case, scale, found) or _static(scale, found)
        if special is not None:
            return special
    return _too_often(case, found)


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
        why = None if fall is None else went_on(case, scale, found, fall)
        if fall is None or why is None:
            return None
        told = f"to the scaler's floor, {num(fall.low)}, at step {fall.since} and {why}"
    measured: dict[str, Scalar] = {
        "lowest": fall.low,
        "highest": fall.top,
        "below_since": fall.since,
    }
    if fall.back is not None:
        measured["back_at"] = fall.back
    return yes(
        f"the loss scale fell from {num(fall.top)} {told}",
        found.began(fall, case.stride),
        branch="collapsed",
        measured=measured,
    )


def _static(scale: Series, found: Overflows) -> Reply | None:
    if not _is_constant(scale) or not (scale.steps > found.at[0]).any():
        return None
    scale_value, count = float(scale.values[0]), found.count
    told = f"the loss scale stayed at {num(scale_value)} through {plural(count, 'overflow')}"
    measured = {"scale": scale_value, "overflows": count}
    # Those up to its first record may have moved it.
    if found.after(int(scale.steps[0])) <= _FEW_OVERFLOWS:
        return no(f"{told}: too few to speak of", measured=measured)
    because = f"{told}: dynamic scaling is not engaged"
    return yes(because, int(found.at[0]), branch="static", measured=measured)


def _is_constant(scale: Series) -> bool:
    return len(scale) > 0 and np.ptp(scale.values) == 0


def _too_often(case: Case, found: Overflows) -> Reply:
    factor = case.limits.precision.overflow_factor
    measured: dict[str, Scalar] = {"overflows": found.count}
    if case.manifest.dtype == "bf16":
        count, moves = plural(found.count, "overflow"), _scale_in_bf16(case)
        because = f"{count} in bf16, which has no loss scale to absorb them{moves}"
        measured |= {"scale_moves": True} if moves else {}
        return yes(because, *found.at[:20].tolist(), branch="overflow", measured=measured)
    measured |= {
        "while_calibrating": found.calibrating,
        "later": found.later,
        "expected_probes": found.expected,
        "growth_interval": found.interval,
    }
    allowed = max(factor * found.expected, _FEW_OVERFLOWS)
    told = (
        f"{plural(found.later, 'overflow')} after the calibration, where a probe every "
        f"{num(found.interval)} steps ({found.interval_from}) explains "
        f"{num(round(found.expected, 1))}"
    )
    soon = found.too_soon(factor)
    crowded = soon > max(found.expected, _FEW_OVERFLOWS)
    if crowded:
        told += f"; {soon} of them were followed by the next within a fraction of that"
    if found.later > allowed or crowded:
        first = found.first_unexplained(factor)
        return yes(told, first, branch="overflow", measured=measured)
    if "loss_scale" in case.history.series:
        return no(f"{told}: the scaler is working", measured=measured)
    return no(f"{told}: no more than a working scaler has", measured=measured)


ANSWERS: Final = {
    "Q3.1": _is_there_an_overflow,
    "Q3.2": _what_does_the_scale_show,
    "Q3.3": is_it_the_fp16_fingerprint,
}
