"""Advice on §2: spikes that did not recover in time, or have not yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.stats.shape import back_after_all
from stabdiag.tree.advice.spike_facts import STATE, SpikeFacts, spike_facts
from stabdiag.tree.advice.words import Advice, batches_at, clip, first_of
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.onset import focus, time_to_recover
from stabdiag.words import uncapitalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

_FULL_COST = "If no checkpoint is older than the onset, the cost is the full re-train."


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, or came back only after its time was over."""
    facts, back = spike_facts(case), _back_late(case)
    first = max(min(facts.onset - 5, first_of(case, facts.onset)), 0)
    last = min(facts.onset + case.recovery_steps, int(case.loss.steps[-1]))
    # Nobody skips the batches of whole epochs.
    skip: tuple[str, ...] = (
        f"Skip the batches from step {first} to {last} on the way, "
        "as a bad stretch of data may be to blame.",
        "Stratify the batches before the restart.",
    )
    if case.history.counts_epochs:
        skip = skip[1:]
    restart: tuple[str, ...] = ()
    older = checkpoint_before(case.manifest, facts.began).step
    act, remedies, time = facts.restart, facts.remedies, time_to_recover(case)
    # A cadence that is known tells whether a checkpoint is older, and the first action says it.
    cost = (_FULL_COST,) if older is None else ()
    passed = f"It had not come back within {time}."
    why = "The weights or the optimizer's moments are damaged, or the data changed."
    if back is not None:
        passed, why = f"It came back, but only by step {back}, and not within {time}.", ""
        act = _weighed(facts, older, back)
        restart = (f"If it does, restart {facts.how}.",)
        if older == 0:
            restart = (f"If it happens again, clip the gradient norm at {clip(case)}.",)
            skip, remedies = (), ()
    if facts.resumed is not None:
        act = f"Resume at step {facts.resumed} once more, and see that it loads {STATE}."
        restart = (f"Should the loss jump again: {uncapitalised(facts.restart)}",)
    return Advice(
        summary=" ".join(filter(None, (facts.what, passed, facts.cause or why))),
        first=act,
        then=(
            *restart,
            *skip,
            "Find what raised the learning rate: a resume that set up another schedule, phases "
            "that do not join, a change by hand."
            if facts.cause and facts.resumed is None
            else "Compare the learning rate at the onset with the schedule that was meant.",
            *cost,
        ),
        step=facts.onset,
        reload=facts.reload,
        began=facts.began,
        remedies=remedies if facts.resumed is None else (),
        back=back,
        title="" if back is None else "Loss spike that recovered late",
    )


def _back_late(case: Case) -> int | None:
    """Return the step by which the loss was back after all, or None."""
    at = back_after_all(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    return None if at is None else case.at(at)


def _weighed(facts: SpikeFacts, older: int | None, back: int) -> str:
    """Return what to do where the loss came back late: to reload costs all the steps since."""
    if older == 0:
        return f"Keep the run going: no checkpoint is older, and the loss was back by step {back}."
    return (
        f"{facts.reload}, only if it evaluates better than the run does now: the loss was back by "
        f"step {back}."
    )


def unresolved(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A spike too close to the end of the log."""
    facts = spike_facts(case)
    last = int(case.loss.steps[-1])
    # Records may come so far apart that there are too few of them in that time.
    enough = max(facts.onset + case.recovery_steps, last + round(case.stride))
    planned, first = case.manifest.total_steps, facts.restart
    if case.before_nan:
        end = f"It had not recovered when the loss went NaN after step {last}."
    else:
        end = f"The log ends at step {last}, too early to tell whether it recovers."
        if planned is None or planned > enough:
            first = (
                f"Run on to step {enough} if the run still can, and diagnose again; else: "
                f"{uncapitalised(first)}"
            )
    return Advice(
        summary=" ".join(filter(None, (facts.what, end, facts.cause))),
        first=first,
        then=(f"Look at {batches_at(case, facts.onset, and_before=True)}.",),
        step=facts.onset,
        reload=facts.reload,
        began=facts.began,
        remedies=facts.remedies,
    )
