"""The ranks of one job: did one stop early, and do all hold the same network?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.points import losses
from stabdiag.comparison.reruns import close, measured
from stabdiag.comparison.settings import joined
from stabdiag.comparison.study import Study, finding
from stabdiag.history import EventKind
from stabdiag.stats.parting import lasting, local_noise
from stabdiag.tree.words import num, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.compared import Parting, Run
    from stabdiag.findings import Finding

# What is one number for the whole job, on whichever rank it is logged.
_GLOBAL: Final = ("loss_scale", "lr", "grad_norm", "weight_norm")

# What another rank's death makes a rank say.
_AFTERMATH: Final = (
    "collective communication",
    "connection closed by peer",
    "connection reset by peer",
    "connectionerror",
    "broken pipe",
    "disterror",
    "distbackenderror",
    "distnetworkerror",
    "childfailederror",
    "heartbeat",
    "remote process exited",
)

_THEN_DIED: Final = (
    "Look into the kernel's log and the scheduler's of its node for out of memory (exit 137), a "
    "node that was taken away, a GPU that fell off the bus.",
    "export NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL, which name the collective that the "
    "others waited in.",
    "Restart from the last checkpoint; checkpoint often enough that a node's failure costs little.",
)

_THEN_DISAGREE: Final = (
    "Compare the norm of the weights on all ranks after the first step: they have to be the same to "
    "the last bit.",
    "Look for parameters that are outside of DDP, frozen on some ranks, or updated before the "
    "gradients were averaged.",
    "Share the found-overflow flag of the loss scaler between the ranks, so that all of them skip "
    "a step or none does.",
)


def rank_died(study: Study) -> Iterator[Finding]:
    """Find ranks whose log ends before those of the others."""
    last = {run.label: span(run)[1] for run in study.runs}
    end = max(last.values())
    usual = max(stride(run) for run in study.runs)
    early = [run for run in study.runs if end - last[run.label] > _gap(study, run, end) * usual]
    if not early or len(early) == len(study.runs):
        return
    dead = min(early, key=lambda run: last[run.label])
    step = last[dead.label]
    lost = end - step
    yield finding(
        "rank-died",
        because=f"The log of {dead.label} ends at step {step}, {plural(lost, 'step')} before the "
        f"others' ({end}){_seconds(dead, study)}. {_said(dead)} {_rest(study, dead)}".rstrip(),
        first=f"Read the end of {dead.name} and what stood on its standard error: the real "
        "traceback is that rank's; what the others say follows from it.",
        then=_THEN_DIED,
        step=step,
        measured={
            "rank": dead.rank if dead.rank is not None else dead.label,
            "last_step": step,
            "last_step_of_others": end,
            "steps_missing": lost,
            "ranks_that_ended_early": len(early),
            "ranks": len(study.runs),
            **_messages(study, dead),
        },
    )


def _gap(study: Study, run: Run, end: int) -> float:
    """Return how many logged steps a rank may end early.

    In a job that waits for all of them a rank that dies takes the others along within a step. There
    any step tells, if the job ended before its time or others complain of a peer.
    """
    planned = study.reference.manifest.total_steps
    broken = planned is not None and end < planned - 2 * stride(run)
    mourned = any(_complains(other) for other in study.runs if other is not run)
    return 0.0 if (broken or mourned) and not _complains(run) else study.limits.compare.rank_gap


def _complains(run: Run) -> bool:
    """Tell whether a rank says that it lost another."""
    return any(word in message.lower() for message in _last_words(run) for word in _AFTERMATH)


def _last_words(run: Run) -> list[str]:
    return [one.message for one in run.history.events if one.kind is EventKind.MESSAGE]


def _said(dead: Run) -> str:
    words = _last_words(dead)
    if not words:
        return "It says nothing of why, as a process that was killed."
    return f"Its last words: {words[-1]}."


def _rest(study: Study, dead: Run) -> str:
    mourners = [run for run in study.runs if run is not dead and _complains(run)]
    if not mourners:
        return ""
    words = next(w for w in _last_words(mourners[0]) if any(a in w.lower() for a in _AFTERMATH))
    verb = "says" if len(mourners) == 1 else "say"
    return f"{joined([run.label for run in mourners]).capitalize()} then {verb}: {words}."


def _messages(study: Study, dead: Run) -> dict[str, str]:
    words, others = _last_words(dead), [run for run in study.runs if run is not dead]
    said = next((_last_words(run)[-1] for run in others if _last_words(run)), None)
    told = {"last_words": words[-1]} if words else {}
    return told | ({"others_say": said} if said else {})


def _seconds(dead: Run, study: Study) -> str:
    """Return how long before the others a rank stopped, where the logs tell the time."""
    clocks = {run.label: run.history.get("clock") for run in study.runs}
    ends = {
        label: float(clock.finite().values[-1])
        for label, clock in clocks.items()
        if clock is not None and len(clock.finite())
    }
    if dead.label not in ends or len(ends) < 2:
        return ""
    before = max(ends.values()) - ends[dead.label]
    return f" and {num(round(before, 1))} seconds" if before > 0 else ""


def ranks_disagree(study: Study) -> Iterator[Finding]:
    """Find ranks that hold another network, by what is the same on all of them in a sound job."""
    limits = study.limits.compare
    found = [one for role in _roles(study) for one in study.of(role) if _parts(one, study)]
    averaged = _are_averaged(study)
    if averaged:
        found += [one for one in study.of("loss") if one.unrounded is not None]
    if found:
        first = min(found, key=lambda one: (one.unrounded or 0, one.role == "loss"))
        yield _disagreement(study, first, averaged=averaged)
        return
    if averaged:
        return
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
                first=f"Compare the norm of the weights of {study.reference.label} and {run.label} "
                f"at step {step}: it tells whether the network or the data differ.",
                then=_THEN_DISAGREE,
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
    averaged; those that were the same at first, and are not later, are of other networks.
    """
    if one.unrounded is None:
        return False
    if one.role in ("loss_scale", "lr"):
        return True
    return one.unrounded > int(study.reference.history.series[one.role].steps[0])


def _are_averaged(study: Study) -> bool:
    """Tell whether the logged loss is the mean over the ranks: it is the same on all at first."""
    wanted = study.limits.compare.min_points
    for run in study.others:
        both = losses(study.reference.history, run.history)
        one, other = both.one[:wanted], both.other[:wanted]
        if len(one) < wanted or not np.allclose(
            one, other, rtol=study.limits.compare.rounding, atol=0.0, equal_nan=True
        ):
            return False
    return True


def _far_apart(x: np.ndarray, y: np.ndarray, sigmas: float, width: int) -> int | None:
    """Return from where on the smoothed losses lie farther apart than their noise allows."""
    noise = np.sqrt((local_noise(x) ** 2 + local_noise(y) ** 2) / 2)
    gap = np.where(np.isfinite(x) & np.isfinite(y), x - y, 0.0)
    total = np.concatenate(([0.0], np.cumsum(gap)))
    smooth = np.abs(total[width:] - total[:-width]) / width
    return lasting(smooth > sigmas * noise[: len(smooth)], width)


def _mean(x: np.ndarray, at: int, width: int) -> float:
    part = x[at : at + width]
    part = part[np.isfinite(part)]
    return float(part.mean()) if len(part) else math.nan


def _disagreement(study: Study, one: Parting, *, averaged: bool) -> Finding:
    x, y = one.values or (math.nan, math.nan)
    what = {
        "loss": "the losses, which are averaged over the ranks,",
        "loss_scale": "the loss scales",
        "lr": "the learning rates",
        "grad_norm": "the norms of the gradient",
    }.get(one.role.partition("/")[0], f"the norms of the weights ({one.role})")
    return finding(
        "ranks-disagree",
        because=f"At step {one.unrounded} {what} of {one.runs[0]} and {one.runs[1]} part: "
        f"{close(x, y)}. In a job that is in step they are one number on all ranks.",
        first=_remedy(one),
        then=_THEN_DISAGREE,
        step=one.unrounded,
        measured={"role": one.role, **measured(one)},
    )


def _remedy(one: Parting) -> str:
    role = one.role.partition("/")[0]
    if role == "loss_scale":
        return (
            "Give all ranks one loss scale: average the gradients before they are unscaled, so that "
            "an overflow on one rank is one on all."
        )
    if role == "lr":
        return "Let every rank step the schedule by the job's steps, not by its own batches."
    return (
        f"Check that the gradients are averaged over the ranks, and that all of them start from the "
        f"same weights; the networks part by step {one.unrounded}."
    )
