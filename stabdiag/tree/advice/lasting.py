"""Advice on §2: spikes that did not recover in time, or have not yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.stats.shape import back_after_all
from stabdiag.tree.advice.spike_facts import STATE, SpikeFacts, spike_facts
from stabdiag.tree.advice.words import Advice, batches_at, clip, first_of
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.onset import focus, time_to_recover
from stabdiag.words import uncapitalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer, Remedy
    from stabdiag.tree.case import Case

_FULL_COST = "If no checkpoint is older than the onset, the cost is the full re-train."


@dataclass(frozen=True, kw_only=True)
class _Course:
    """What to do about a loss that stayed up: at once, then, and with which settings."""

    act: str
    then: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, or came back only after its time was over."""
    facts, back = spike_facts(case), _back_late(case)
    older = checkpoint_before(case.manifest, facts.began).step
    if facts.resumed is None:
        course = _course(case, facts, older, back)
    else:
        course = _after_resume(case, facts, back)
    time = time_to_recover(case)
    passed = f"It had not come back within {time}."
    why = "The weights or the optimizer's moments are damaged, or the data changed."
    if back is not None:
        passed, why = f"It came back, but only by step {back}, and not within {time}.", ""
    return Advice(
        summary=" ".join(filter(None, (facts.what, passed, facts.cause or why))),
        first=course.act,
        then=(
            *course.then,
            "Find what raised the learning rate: a resume that set up another schedule, phases "
            "that do not join, a change by hand."
            if facts.cause and facts.resumed is None
            else "Compare the learning rate at the onset with the schedule that was meant.",
            # A cadence that is known tells whether a checkpoint is older: the first action says it.
            *((_FULL_COST,) if older is None else ()),
        ),
        step=facts.onset,
        reload=facts.reload,
        began=facts.began,
        remedies=course.remedies,
        back=back,
        title="" if back is None else "Loss spike that recovered late",
    )


def _course(case: Case, facts: SpikeFacts, older: int | None, back: int | None) -> _Course:
    """Return what to do: to reload, or to weigh that where the loss came back late."""
    if back is None:
        return _Course(act=facts.restart, then=_skipped(case, facts), remedies=facts.remedies)
    if older == 0:
        act = f"Keep the run going: no checkpoint is older, and the loss was back by step {back}."
        return _Course(act=act, then=(_again(case),))
    return _Course(
        act=f"{facts.reload}, only if it evaluates better than the run does now: the loss was back "
        f"by step {back}.",
        then=(f"If it does, restart {facts.how}.", *_skipped(case, facts)),
        remedies=facts.remedies,
    )


def _after_resume(case: Case, facts: SpikeFacts, back: int | None) -> _Course:
    """Return what to do about a loss that jumped where the run resumed."""
    if back is not None:
        act = f"Keep the run going, and see that the next resume loads {STATE}: the loss was back "
        return _Course(act=f"{act}by step {back}.", then=(_again(case),))
    return _Course(
        act=f"Resume at step {facts.resumed} once more, and see that it loads {STATE}.",
        then=(
            f"Should the loss jump again: {uncapitalised(facts.restart)}",
            *_skipped(case, facts),
        ),
    )


def _again(case: Case) -> str:
    return f"If it happens again, clip the gradient norm at {clip(case)}."


def _skipped(case: Case, facts: SpikeFacts) -> tuple[str, ...]:
    """Return what to do about the batches on the way; nobody skips those of whole epochs."""
    first = max(min(facts.onset - 5, first_of(case, facts.onset)), 0)
    last = min(facts.onset + case.recovery_steps, int(case.loss.steps[-1]))
    skip = (
        f"Skip the batches from step {first} to {last} on the way, "
        "as a bad stretch of data may be to blame.",
        "Stratify the batches before the restart.",
    )
    return skip[1:] if case.history.counts_epochs else skip


def _back_late(case: Case) -> int | None:
    """Return the step by which the loss was back after all, or None."""
    at = back_after_all(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    return None if at is None else case.at(at)


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
