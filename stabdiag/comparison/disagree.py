"""The ranks of one job: do all of them hold the same network?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.comparison.points import begin_alike, losses
from stabdiag.comparison.study import Study, finding
from stabdiag.comparison.words import close, measured
from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.parting import lasting, local_noise, wander

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.arrays import Floats
    from stabdiag.model.comparison import Parting
    from stabdiag.model.findings import Finding

# What is one number for the whole job, on whichever rank it is logged.
_GLOBAL: Final = ("loss_scale", "lr", "grad_norm", "weight_norm")

# The norm of the weights changes by less than this share in the first update.
_ONE_UPDATE: Final = 1e-3

# So many times the points that are averaged they have to stay apart.
_STAYS: Final = 5

_THEN: Final = (
    Action(
        ActionKind.CHECK_RANKS,
        "Compare the norm of the weights on all ranks after the first step: it has to be the same "
        "to the last bit.",
    ),
    Action(
        ActionKind.CHECK_RANKS,
        "Look for parameters that are outside of DDP, frozen on some ranks, or updated before the "
        "gradients were averaged.",
    ),
    Action(
        ActionKind.DYNAMIC_LOSS_SCALE,
        "Share the found-overflow flag of the loss scaler between the ranks, so that all of them "
        "skip a step or none does.",
        also=(ActionKind.CHECK_RANKS,),
    ),
)


def ranks_disagree(study: Study) -> Iterator[Finding]:
    """Find ranks that hold different networks, by what is equal on all ranks of a sound job."""
    found = [one for role in _roles(study) for one in study.of(role) if _parts(one, study)]
    averaged = _are_averaged(study)
    if averaged:
        found += study.unrounded("loss")
    if found:
        first = min(found, key=lambda one: (one.unrounded or 0, one.role == "loss"))
        yield _disagreement(first)
        return
    if not averaged:
        yield from _far_from_each_other(study)


def _far_from_each_other(study: Study) -> Iterator[Finding]:
    """Find ranks whose own losses lie farther apart than other batches explain."""
    limits = study.limits.compare
    for run in study.others:
        both = losses(study.reference.history, run.history)
        if len(both) < limits.min_points:
            continue
        at = _far_apart(both.one, both.other, limits.rank_sigma, limits.min_points)
        if at is not None:
            step = int(both.steps[at])
            x, y = _mean(both.one, at, limits.min_points), _mean(both.other, at, limits.min_points)
            yield finding(
                "ranks-disagree",
                because=f"Each rank logs the loss of its own batch, and from step {step} on those "
                f"of {study.reference.label} and {run.label} lie farther apart than other batches "
                f"explain: {num(x)} against {num(y)} over {limits.min_points} losses.",
                first=Action(
                    ActionKind.CHECK_RANKS,
                    f"Compare the norm of the weights of {study.reference.label} and {run.label} "
                    f"at step {step}: it tells whether the network or the data differ.",
                    step=step,
                ),
                then=_THEN,
                step=step,
                measured={"first_step": step, "one": x, "other": y},
            )
            return


def _roles(study: Study) -> list[str]:
    """Return the logged roles that are one number for the whole job."""
    roles = dict.fromkeys(role for found in study.partings.values() for role in found)
    return [role for role in roles if role.partition("/")[0] in _GLOBAL]


def _parts(one: Parting, study: Study) -> bool:
    """Tell whether ranks part in what is one number for all of them.

    Norms that differ from the first on are those of shards, or of gradients before they are
    averaged, and so are those of other groups; norms that were the same at first, and are not
    later, are of other networks.
    """
    if one.unrounded is None:
        return False
    if one.role in ("loss_scale", "lr"):
        return True
    return one.unrounded > _start(study, one) and not any(
        _is_shard(study, other)
        for other in study.partings[one.runs[1]].values()
        if other.role.partition("/")[0] == one.role.partition("/")[0]
    )


def _is_shard(study: Study, one: Parting) -> bool:
    """Tell whether a norm differs at its first point already, by more than one update does."""
    x, y = one.values or (0.0, 0.0)
    apart = abs(x - y) > _ONE_UPDATE * max(abs(x), abs(y))
    return one.unrounded == _start(study, one) and apart


def _start(study: Study, one: Parting) -> int:
    return int(study.reference.history.series[one.role].steps[0])


def _are_averaged(study: Study) -> bool:
    """Tell whether the logged loss is the mean over the ranks: it is the same on all at first."""
    limits = study.limits.compare
    pairs = (losses(study.reference.history, run.history) for run in study.others)
    return all(begin_alike(both, limits, limits.min_points) for both in pairs)


def _far_apart(x: Floats, y: Floats, sigmas: float, width: int) -> int | None:
    """Return from where on the smoothed losses lie farther apart than their noise allows.

    They have to stay apart: networks that differ do not find back to each other, and noise that was
    smoothed before it was logged does.
    """
    gap = np.where(np.isfinite(x) & np.isfinite(y), x - y, 0.0)
    longer = _STAYS * width
    wide = wander(gap, longer if len(gap) >= 2 * _STAYS * longer else width)
    noise = np.maximum(np.maximum(local_noise(x), local_noise(y)), 2 * wide)
    total = np.concatenate(([0.0], np.cumsum(gap)))
    smooth = np.abs(total[width:] - total[:-width]) / width
    rest = np.abs(total[-1] - total[:-1]) / (len(gap) - np.arange(len(gap)))
    far = np.minimum(smooth, rest[: len(smooth)]) > sigmas * noise[: len(smooth)]
    far[max(len(gap) - longer, 0) :] = False
    return lasting(far, width)


def _mean(x: Floats, at: int, width: int) -> float:
    part = x[at : at + width]
    part = part[np.isfinite(part)]
    return float(part.mean()) if len(part) else math.nan


def _disagreement(one: Parting) -> Finding:
    what = {
        "loss": "the losses, which are averaged over the ranks,",
        "loss_scale": "the loss scales",
        "lr": "the learning rates",
        "grad_norm": "the norms of the gradient",
    }.get(one.role.partition("/")[0], f"the norms of the weights ({one.role})")
    return finding(
        "ranks-disagree",
        because=f"At step {one.unrounded} {what} of {one.runs[0]} and {one.runs[1]} part: "
        f"{close(one.unrounded_values)}. In a job that is in step they are one number on all "
        "ranks.",
        first=_remedy(one),
        then=_THEN,
        step=one.unrounded,
        measured={"role": one.role, **measured(one)},
    )


def _remedy(one: Parting) -> Action:
    role = one.role.partition("/")[0]
    if role == "loss_scale":
        return Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Give all ranks one loss scale: average the gradients before they are unscaled, so "
            "that an overflow on one rank is one on all.",
            also=(ActionKind.CHECK_RANKS,),
        )
    if role == "lr":
        return Action(
            ActionKind.FIX_SCHEDULE,
            "Let every rank step the schedule by the job's steps, not by its own batches.",
            also=(ActionKind.CHECK_RANKS,),
        )
    return Action(
        ActionKind.CHECK_RANKS,
        "Check that the gradients are averaged over the ranks, and that all of them start from "
        f"the same weights; the networks part by step {one.unrounded}.",
        step=one.unrounded,
    )
