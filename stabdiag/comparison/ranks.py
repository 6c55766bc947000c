"""The ranks of one job: did one stop before the others, and do all train the same network?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from stabdiag.comparison.ends import State, end_of
from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.outcomes import RANK_DIED, RANKS_DISAGREE
from stabdiag.comparison.points import Common, base, close, losses, measured
from stabdiag.comparison.settings import joined
from stabdiag.model.arrays import Floats
from stabdiag.model.comparison import Comparison, Parting, Run
from stabdiag.model.findings import Action, ActionKind, Finding
from stabdiag.model.history import Event, EventCode
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import capitalised, clipped, num, plural
from stabdiag.stats.parting import lasting, local_noise, wander

# A quoted message is cut to this many characters.
_LONGEST: Final = 140

# Words by which a rank says that it lost another one.
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

# Roles that are one number for the whole job, on whichever rank it is logged.
_GLOBAL: Final = {
    "loss_scale": "loss scales",
    "lr": "learning rates",
    "grad_norm": "gradient norms",
    "weight_norm": "weight norms",
}

# One update changes the weight norm by less than this share.
_ONE_UPDATE: Final = 1e-3

# Networks that differ do not converge again: their losses stay apart for this many times the points
# that are averaged.
_STAYS: Final = 5


def rank_died(comparison: Comparison) -> Iterator[Finding]:
    """Find the rank that stopped before the others, or that took them along when it did.

    In a job that waits for all of its ranks, one that dies stops the others at the same step. They
    complain of a lost peer; the one that does not complain is the dead one.
    """
    runs = [run for run in comparison.runs if run.history.get("loss") is not None]
    last = {run.label: span(run)[1] for run in runs}
    end = max(last.values(), default=0)
    early = [run for run in runs if _is_early(comparison, run, end)]
    mourners = [run for run in runs if _mourns(run)]
    silent = [run for run in runs if run not in mourners] if mourners else []
    if early:
        dead = min(early, key=lambda run: last[run.label])
        others = f"{plural(end - last[dead.label], 'step')} before the others ({end})"
    elif silent:
        # An error of its own, such as out of memory, sets it apart from ranks that log none.
        dead = max(silent, key=lambda run: len(run.history.messages))
        others = "as do the others"
    else:
        return
    step = last[dead.label]
    yield RANK_DIED.found(
        f"The log of {dead.label} ends at step {step}, {others}{_seconds(dead, comparison)}. "
        f"{_said(dead, silent)} {_mourning(mourners)}".rstrip(),
        Action(
            ActionKind.READ_LOGS,
            f"Read the end of {dead.name} and that rank's standard error, which contain the "
            f"original "
            "traceback. The errors of the other ranks follow from it.",
        ),
        step=step,
        measured={
            "rank": dead.rank if dead.rank is not None else dead.label,
            "last_step": step,
            "last_step_of_others": end,
            "steps_missing": end - step,
            "ranks_that_ended_early": len(early),
            "ranks_that_lost_a_peer": len(mourners),
            "ranks": len(comparison.runs),
        },
    )


def ranks_disagree(comparison: Comparison) -> Iterator[Finding]:
    """Find ranks with different networks, by values that are equal on all ranks of a sound job."""
    limits = comparison.limits.compare
    lone = _not_finite_alone(comparison)
    if lone is not None:
        yield lone
        return
    pairs = {
        run.label: losses(comparison.against.history, run.history) for run in comparison.others
    }
    # A loss that is the mean over the ranks is the same on all of them at first.
    averaged = all(both.begin_alike(limits, limits.min_points) for both in pairs.values())
    found = [
        one for one in comparison.partings if base(one.role) in _GLOBAL and _parts(one, comparison)
    ]
    if averaged:
        found += comparison.unrounded("loss")
    if found:
        yield _disagreement(min(found, key=lambda one: (one.unrounded or 0, one.role == "loss")))
        return
    for label, both in () if averaged else pairs.items():
        at = _far_apart(both, limits) if len(both) >= limits.min_points else None
        if at is not None:
            yield _far_from_each_other(comparison.reference, label, both, at, limits.min_points)
            return


def _not_finite_alone(comparison: Comparison) -> Finding | None:
    """Return the finding on ranks whose loss stays non-finite while another rank's stays finite."""
    ends = [end_of(run, comparison.limits.compare) for run in comparison.runs]
    bad = [end for end in ends if end.state is State.NOT_FINITE and end.step is not None]
    if not bad:
        return None
    first = min(bad, key=lambda end: end.step or 0)
    step = first.step or 0
    after = [
        (run, run.history.logged("loss").between(step, span(run)[1]).values)
        for run in comparison.runs
    ]
    finite = [run for run, values in after if len(values) > 1 and np.isfinite(values).all()]
    if not finite:
        return None
    labels = [end.run.label for end in bad]
    return RANKS_DISAGREE.found(
        f"{first.described()}, while the loss of {joined([run.label for run in finite])} stays "
        "finite. If gradients were averaged, all ranks would become NaN within a step.",
        Action(
            ActionKind.CHECK_RANKS,
            f"Check that gradients are averaged over the ranks, and look at the batch of "
            f"{first.run.label} at step {step}.",
            also=(ActionKind.INSPECT_DATA,),
            step=step,
        ),
        step=step,
        measured={"role": "loss", "first_step": step, "ranks": ", ".join(labels)},
    )


def _is_early(comparison: Comparison, run: Run, end: int) -> bool:
    """Return True if a rank's log ends early; one step is enough if others report a lost peer."""
    others = [other for other in comparison.runs if other is not run]
    mourned = not _mourns(run) and any(map(_mourns, others))
    gap = 0.0 if mourned else comparison.limits.compare.rank_gap * max(map(stride, comparison.runs))
    return end - span(run)[1] > gap


def _mourns(run: Run) -> bool:
    """Return True if a rank reports a lost peer."""
    return any(map(_is_aftermath, run.history.messages))


def _is_aftermath(event: Event) -> bool:
    said = event.said.lower()
    return event.code is EventCode.COLLECTIVE_FAILED or any(word in said for word in _AFTERMATH)


def _said(dead: Run, silent: list[Run]) -> str:
    """Return the last message of the dead rank, or the other ranks without a message."""
    words = dead.history.messages
    if words:
        return f"Its last words: {clipped(words[-1].message, _LONGEST)}."
    among = [run.label for run in silent if not run.history.messages]
    if len(among) > 1 and dead.label in among:
        rest = joined([label for label in among if label != dead.label])
        return f"It logs no reason, and neither does {rest}."
    return "It logs no reason: a killed process cannot."


def _mourning(mourners: list[Run]) -> str:
    if not mourners:
        return ""
    words = next(one.message for one in mourners[0].history.messages if _is_aftermath(one))
    verb = "reports" if len(mourners) == 1 else "report"
    told = joined([run.label for run in mourners])
    return f"{capitalised(told)} {verb} a lost peer: {clipped(words, _LONGEST)}"


def _seconds(dead: Run, comparison: Comparison) -> str:
    """Return the seconds between the end of a rank and the end of the others, if logged."""
    clocks = {run.label: run.history.finite("clock").values for run in comparison.runs}
    ends = {label: float(clock[-1]) for label, clock in clocks.items() if len(clock)}
    if dead.label not in ends or len(ends) < 2:
        return ""
    before = max(ends.values()) - ends[dead.label]
    return f" and {num(round(before, 1))} seconds" if before > 0 else ""


def _parts(one: Parting, comparison: Comparison) -> bool:
    """Tell whether ranks part in what is one number for all of them.

    Norms that differ from the first on are those of shards, or of gradients before they are
    averaged, and so are those of other groups; norms that were the same at first, and are not
    later, are of other networks.
    """
    if one.unrounded is None:
        return False
    if one.role in ("loss_scale", "lr"):
        return True
    series = comparison.against.history.series
    if one.unrounded <= series[one.role].steps[0]:
        return False
    for other in comparison.of(one.runs[1]).values():
        x, y = other.values or (0.0, 0.0)
        at_once = other.unrounded == series[other.role].steps[0]
        is_shard = at_once and abs(x - y) > _ONE_UPDATE * max(abs(x), abs(y))
        if is_shard and base(other.role) == base(one.role):
            return False
    return True


def _disagreement(one: Parting) -> Finding:
    what = _GLOBAL.get(base(one.role), "losses, which are averaged over the ranks,")
    group = "" if one.role == base(one.role) else f" ({one.role})"
    return RANKS_DISAGREE.found(
        f"At step {one.unrounded} the {what} of {one.runs[0]} and {one.runs[1]} diverge{group}: "
        f"{close(one.unrounded_values)}. In a healthy job they are equal on all ranks.",
        _remedy(one),
        step=one.unrounded,
        measured={"role": one.role, **measured(one)},
    )


def _remedy(one: Parting) -> Action:
    if one.role == "loss_scale":
        return Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Use one loss scale on all ranks: average gradients before unscaling, so that an "
            "overflow on one rank reaches all.",
            also=(ActionKind.CHECK_RANKS,),
        )
    if one.role == "lr":
        return Action(
            ActionKind.FIX_SCHEDULE,
            "Advance the schedule on every rank by the steps of the job, not by its own batches.",
            also=(ActionKind.CHECK_RANKS,),
        )
    return Action(
        ActionKind.CHECK_RANKS,
        "Check that gradients are averaged over the ranks, and that all ranks start from the same "
        f"weights: the networks differ by step {one.unrounded}.",
        step=one.unrounded,
    )


def _far_from_each_other(one: str, other: str, both: Common, at: int, width: int) -> Finding:
    step = int(both.steps[at])
    x, y = _mean(both.one[at : at + width]), _mean(both.other[at : at + width])
    return RANKS_DISAGREE.found(
        "Each rank logs the loss of its own batch. From step "
        f"{step} on, {one} and {other} differ by more than different batches explain: {num(x)} "
        f"against {num(y)} over {width} losses.",
        Action(
            ActionKind.CHECK_RANKS,
            f"Compare the weight norms of {one} and {other} at step {step}. If they are equal, the "
            "data differs; otherwise the networks differ.",
            step=step,
        ),
        step=step,
        measured={"first_step": step, "one": x, "other": y},
    )


def _far_apart(both: Common, limits: CompareLimits) -> int | None:
    """Return from where on the smoothed losses lie farther apart than their noise allows.

    They have to stay apart: noise that was smoothed before it was logged finds back.
    """
    x, y, width = both.one, both.other, limits.min_points
    gap = np.where(np.isfinite(x) & np.isfinite(y), x - y, 0.0)
    longer = _STAYS * width
    wide = wander(gap, longer if len(gap) >= 2 * _STAYS * longer else width)
    noise = np.maximum(np.maximum(local_noise(x), local_noise(y)), 2 * wide)
    total = np.concatenate(([0.0], np.cumsum(gap)))
    smooth = np.abs(total[width:] - total[:-width]) / width
    rest = np.abs(total[-1] - total[:-1]) / (len(gap) - np.arange(len(gap)))
    far = np.minimum(smooth, rest[: len(smooth)]) > limits.rank_sigma * noise[: len(smooth)]
    far[max(len(gap) - longer, 0) :] = False
    return lasting(far, width)


def _mean(part: Floats) -> float:
    part = part[np.isfinite(part)]
    return float(part.mean()) if len(part) else math.nan
