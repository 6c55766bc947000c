"""The ranks of one job: whether one stopped early, and whether all train the same network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from stabdiag.comparison.ends import EndState, find_end
from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.outcomes import RANK_DIED, RANKS_DISAGREE
from stabdiag.comparison.points import (
    CommonPoints,
    base_role,
    divergence_evidence,
    format_values,
    losses,
)
from stabdiag.comparison.settings import join_words
from stabdiag.model.arrays import Floats
from stabdiag.model.comparison import ComparedRun, Comparison, Divergence
from stabdiag.model.events import Event, EventCode
from stabdiag.model.findings import Action, ActionKind, Finding
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import capitalized, clipped, num, plural
from stabdiag.stats.divergence_points import lasting, local_noise, wander

# A quoted message is cut to this many characters.
_MAX_MESSAGE: Final = 140

# Messages of a rank that lost another one.
_PEER_FAILURE_MESSAGES: Final = (
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

# Roles with one value for the whole job, regardless of the rank that logs it.
_GLOBAL: Final = {
    "loss_scale": "loss scales",
    "lr": "learning rates",
    "grad_norm": "gradient norms",
    "weight_norm": "weight norms",
}

# One update changes the weight norm by less than this fraction.
_ONE_UPDATE: Final = 1e-3

# Different networks do not converge again: their losses stay separated for this many averaging
# windows.
_STAY_FACTOR: Final = 5


def rank_died(comparison: Comparison) -> Iterator[Finding]:
    """Find the rank that stopped before the others, or that stopped the others with it.

    If the ranks of a job wait for each other, a dead rank stops all of them at the same step. The
    others report a lost peer; the dead rank does not.
    """
    runs = [run for run in comparison.runs if run.history.get("loss") is not None]
    last = {run.label: span(run)[1] for run in runs}
    end = max(last.values(), default=0)
    early = [run for run in runs if _is_early(comparison, run, end)]
    reporters = [run for run in runs if _reports_lost_peer(run)]
    silent = [run for run in runs if run not in reporters] if reporters else []
    if early:
        dead = min(early, key=lambda run: last[run.label])
        others = f"{plural(end - last[dead.label], 'step')} before the others ({end})"
    elif silent:
        # An error of its own, such as out of memory, identifies the rank.
        dead = max(silent, key=lambda run: len(run.history.messages))
        others = "as do the others"
    else:
        return
    step = last[dead.label]
    yield RANK_DIED.finding(
        f"The log of {dead.label} ends at step {step}, {others}{_seconds(dead, comparison)}. "
        f"{_describe_last_message(dead, silent)} {_describe_reporters(reporters)}".rstrip(),
        Action(
            ActionKind.READ_LOGS,
            f"Read the end of {dead.name} and that rank's standard error, which contain the "
            "original traceback. The errors of the other ranks follow from it.",
        ),
        step=step,
        measured={
            "rank": dead.rank if dead.rank is not None else dead.label,
            "last_step": step,
            "last_step_of_others": end,
            "steps_missing": end - step,
            "ranks_that_ended_early": len(early),
            "ranks_that_lost_a_peer": len(reporters),
            "ranks": len(comparison.runs),
        },
    )


def ranks_disagree(comparison: Comparison) -> Iterator[Finding]:
    """Find ranks with different networks, by values that are equal on all ranks of a good job."""
    limits = comparison.limits.compare
    finding = _not_finite_alone(comparison)
    if finding is not None:
        yield finding
        return
    pairs = {
        run.label: losses(comparison.against.history, run.history) for run in comparison.others
    }
    # The mean loss over the ranks is the same on all of them at first.
    averaged = all(shared.begin_alike(limits, limits.min_points) for shared in pairs.values())
    divergences = [
        divergence
        for divergence in comparison.divergences
        if base_role(divergence.role) in _GLOBAL and _is_disagreement(divergence, comparison)
    ]
    if averaged:
        divergences += comparison.unrounded("loss")
    if divergences:
        yield _disagreement(
            min(
                divergences,
                key=lambda divergence: (divergence.unrounded or 0, divergence.role == "loss"),
            )
        )
        return
    for label, shared in () if averaged else pairs.items():
        index = _find_separation(shared, limits) if len(shared) >= limits.min_points else None
        if index is not None:
            yield _distant_losses(comparison.reference, label, shared, index, limits.min_points)
            return


def _not_finite_alone(comparison: Comparison) -> Finding | None:
    """Find ranks whose loss stays non-finite while another rank stays finite."""
    ends = [find_end(run, comparison.limits) for run in comparison.runs]
    non_finite = [end for end in ends if end.state is EndState.NOT_FINITE and end.step is not None]
    if not non_finite:
        return None
    first = min(non_finite, key=lambda end: end.step or 0)
    step = first.step or 0
    after = [
        (run, run.history.logged("loss").between(step, span(run)[1]).values)
        for run in comparison.runs
    ]
    finite = [run for run, values in after if len(values) > 1 and np.isfinite(values).all()]
    if not finite:
        return None
    labels = [end.run.label for end in non_finite]
    return RANKS_DISAGREE.finding(
        f"{first.described()}, while the loss of {join_words([run.label for run in finite])} stays "
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


def _is_early(comparison: Comparison, run: ComparedRun, end: int) -> bool:
    """Return True if a rank's log ends early; one step is enough if others report a lost peer."""
    others = [other for other in comparison.runs if other is not run]
    is_missed = not _reports_lost_peer(run) and any(map(_reports_lost_peer, others))
    gap = (
        0.0 if is_missed else comparison.limits.compare.rank_gap * max(map(stride, comparison.runs))
    )
    return end - span(run)[1] > gap


def _reports_lost_peer(run: ComparedRun) -> bool:
    """Return True if a rank reports a lost peer."""
    return any(map(_is_peer_failure, run.history.messages))


def _is_peer_failure(event: Event) -> bool:
    message = event.quote.lower()
    return event.code is EventCode.COLLECTIVE_FAILED or any(
        word in message for word in _PEER_FAILURE_MESSAGES
    )


def _describe_last_message(dead: ComparedRun, silent: list[ComparedRun]) -> str:
    """Describe the last message of the dead rank, or name other ranks without a message."""
    messages = dead.history.messages
    if messages:
        return f"Its last message: {clipped(messages[-1].message, _MAX_MESSAGE)}."
    silent_labels = [run.label for run in silent if not run.history.messages]
    if len(silent_labels) > 1 and dead.label in silent_labels:
        others = join_words([label for label in silent_labels if label != dead.label])
        return f"It logs no reason, and neither does {others}."
    return "It logs no reason: a killed process cannot."


def _describe_reporters(reporters: list[ComparedRun]) -> str:
    if not reporters:
        return ""
    message = next(
        event.message for event in reporters[0].history.messages if _is_peer_failure(event)
    )
    verb = "reports" if len(reporters) == 1 else "report"
    labels = join_words([run.label for run in reporters])
    return f"{capitalized(labels)} {verb} a lost peer: {clipped(message, _MAX_MESSAGE)}"


def _seconds(dead: ComparedRun, comparison: Comparison) -> str:
    """Return the seconds between the end of a rank and the end of the others, if logged."""
    clocks = {run.label: run.history.finite("clock").values for run in comparison.runs}
    ends = {label: float(clock[-1]) for label, clock in clocks.items() if len(clock)}
    if dead.label not in ends or len(ends) < 2:
        return ""
    before = max(ends.values()) - ends[dead.label]
    return f" and {num(round(before, 1))} seconds" if before > 0 else ""


def _is_disagreement(divergence: Divergence, comparison: Comparison) -> bool:
    """Return True if a divergence means that the ranks have different networks.

    Norms that differ from the start are norms of shards, or of gradients before averaging. Norms
    that are equal at first and diverge later come from different networks.
    """
    if divergence.unrounded is None:
        return False
    if divergence.role in ("loss_scale", "lr"):
        return True
    series = comparison.against.history.series
    if divergence.unrounded <= series[divergence.role].steps[0]:
        return False
    for other in comparison.of(divergence.runs[1]).values():
        x, y = other.values or (0.0, 0.0)
        from_start = other.unrounded == series[other.role].steps[0]
        is_shard = from_start and abs(x - y) > _ONE_UPDATE * max(abs(x), abs(y))
        if is_shard and base_role(other.role) == base_role(divergence.role):
            return False
    return True


def _disagreement(divergence: Divergence) -> Finding:
    quantity = _GLOBAL.get(base_role(divergence.role), "losses, which are averaged over the ranks,")
    group = "" if divergence.role == base_role(divergence.role) else f" ({divergence.role})"
    first, second = divergence.runs
    return RANKS_DISAGREE.finding(
        f"At step {divergence.unrounded} the {quantity} of {first} and {second} diverge{group}: "
        f"{format_values(divergence.unrounded_values)}. In a healthy job they are equal on all "
        "ranks.",
        _fix(divergence),
        step=divergence.unrounded,
        measured={"role": divergence.role, **divergence_evidence(divergence)},
    )


def _fix(divergence: Divergence) -> Action:
    if divergence.role == "loss_scale":
        return Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Use one loss scale on all ranks: average gradients before unscaling, so that an "
            "overflow on one rank reaches all.",
            also=(ActionKind.CHECK_RANKS,),
        )
    if divergence.role == "lr":
        return Action(
            ActionKind.FIX_SCHEDULE,
            "Advance the schedule on every rank by the steps of the job, not by its own batches.",
            also=(ActionKind.CHECK_RANKS,),
        )
    return Action(
        ActionKind.CHECK_RANKS,
        "Check that gradients are averaged over the ranks, and that all ranks start from the same "
        f"weights: the networks differ by step {divergence.unrounded}.",
        step=divergence.unrounded,
    )


def _distant_losses(
    reference: str, other: str, shared: CommonPoints, index: int, width: int
) -> Finding:
    step = int(shared.steps[index])
    x, y = _mean(shared.left[index : index + width]), _mean(shared.right[index : index + width])
    return RANKS_DISAGREE.finding(
        "Each rank logs the loss of its own batch. From step "
        f"{step} on, {reference} and {other} differ by more than different batches explain: "
        f"{num(x)} against {num(y)} over {width} losses.",
        Action(
            ActionKind.CHECK_RANKS,
            f"Compare the weight norms of {reference} and {other} at step {step}. If they are "
            "equal, the data differs; otherwise the networks differ.",
            step=step,
        ),
        step=step,
        measured={"first_step": step, "value": x, "other_value": y},
    )


def _find_separation(shared: CommonPoints, limits: CompareLimits) -> int | None:
    """Return the index where the smoothed losses start to differ by more than their noise.

    They have to stay separated: noise that was smoothed before logging returns.
    """
    x, y, width = shared.left, shared.right, limits.min_points
    gap = np.where(np.isfinite(x) & np.isfinite(y), x - y, 0.0)
    long_width = _STAY_FACTOR * width
    drift = wander(gap, long_width if len(gap) >= 2 * _STAY_FACTOR * long_width else width)
    noise = np.maximum(np.maximum(local_noise(x), local_noise(y)), 2 * drift)
    total = np.concatenate(([0.0], np.cumsum(gap)))
    smooth = np.abs(total[width:] - total[:-width]) / width
    to_end = np.abs(total[-1] - total[:-1]) / (len(gap) - np.arange(len(gap)))
    is_separated = (
        np.minimum(smooth, to_end[: len(smooth)]) > limits.rank_sigma * noise[: len(smooth)]
    )
    is_separated[max(len(gap) - long_width, 0) :] = False
    return lasting(is_separated, width)


def _mean(part: Floats) -> float:
    part = part[np.isfinite(part)]
    return float(part.mean()) if len(part) else math.nan
