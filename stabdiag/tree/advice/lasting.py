"""Advice on §2: spikes that did not recover in time, or have not yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import back_after_all
from stabdiag.tree.advice.spike_facts import STATE, SpikeFacts, spike_facts
from stabdiag.tree.advice.words import Advice, batches_at, clip, first_of
from stabdiag.tree.onset import focus, time_to_recover
from stabdiag.tree.panels import AGAIN, before, lr_panel
from stabdiag.words import num, uncapitalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer, Remedy
    from stabdiag.tree.case import Case

_LOWER_PEAK = (
    "Check warm-up and total steps against the manifest, and lower the peak of the learning rate "
    "if its rise is intended."
)
_FULL_COST = "If no checkpoint is older than the onset, train again from the start."

# A loss still rises if it has done so over three thirds of so many losses at least, by so much.
_THIRD = 3
_RISES = 1.2

# Where the loss stands now is the median of so many at least.
_LEVEL = 20


@dataclass(frozen=True, kw_only=True)
class _Course:
    """What to do about a loss that stayed up: at once, then, and with which settings."""

    act: str
    then: tuple[str, ...]
    remedies: tuple[Remedy, ...] = ()


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, or came back only after its time was over."""
    facts, back = spike_facts(case), _back_late(case)
    if back is not None:
        course = _late(case, facts, back)
    elif facts.resumed is not None:
        course = _resumed(case, facts)
    else:
        then = (*_skipped(case, facts), *_about_the_rate(case, facts), *_cost(facts))
        course = _Course(act=facts.restart, then=then, remedies=facts.remedies)
    time = time_to_recover(case)
    passed = f"It had not come back within {time}."
    why = "The weights or the optimizer's moments are damaged, or the data changed."
    if back is not None:
        passed, why = f"It came back, but only by step {back}, and not within {time}.", ""
    advice = facts.advice(
        f"{passed} {facts.cause or why}",
        first=course.act,
        then=course.then,
        remedies=course.remedies,
    )
    title = "" if back is None else "Loss spike that recovered late"
    return replace(advice, back=back, title=title)


def _back_late(case: Case) -> int | None:
    """Return the step by which the loss was back after all, or None."""
    at = back_after_all(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    return None if at is None else case.at(at)


def _late(case: Case, facts: SpikeFacts, back: int) -> _Course:
    """Return what to do where the loss came back late: to reload costs all the steps since."""
    rate = _about_the_rate(case, facts)
    why = _kept(case, facts, back)
    if why:
        again = f"If it happens again, clip the gradient norm at {clip(case)}."
        return _Course(act=f"Keep the run going{why}", then=(*rate, again))
    return _Course(
        act=f"{facts.reload}, only if it evaluates better than the run does now: the loss was back "
        f"by step {back}.",
        then=(f"If it does, restart {facts.how}.", *_skipped(case, facts), *rate),
        remedies=facts.remedies,
    )


def _kept(case: Case, facts: SpikeFacts, back: int) -> str:
    """Return why a run is not to be set back, as the rest of a sentence; empty if it may be."""
    was = f"the loss was back by step {back}"
    if facts.resumed is not None:
        return f", and see that the next resume loads {STATE}: {was}."
    if facts.last.step == 0:
        return f": no checkpoint is older, and {was}."
    spike, end = focus(case), int(case.loss.steps[-1])
    last = case.loss.between(back, end).values[-case.points(case.recovery_steps, _LEVEL) :]
    if len(last) >= _LEVEL and (now := median(last)) < spike.level - spike.sigma:
        return (
            f": {was}, and is {num(now)} by now, below the {num(spike.level)} from before the "
            "spike."
        )
    return ""


def _resumed(case: Case, facts: SpikeFacts) -> _Course:
    """Return what to do about a loss that jumped where the run resumed, and stayed up."""
    return _Course(
        act=f"Resume at step {facts.resumed} once more, and see that it loads {STATE}.",
        then=(
            f"Should the loss jump again: {uncapitalised(facts.restart)}",
            *_skipped(case, facts),
            *_about_the_rate(case, facts),
            *_cost(facts),
        ),
    )


def _cost(facts: SpikeFacts) -> tuple[str, ...]:
    """Return what it costs to have no checkpoint: a known cadence tells whether there is one."""
    return (_FULL_COST,) if facts.last.step is None else ()


def _skipped(case: Case, facts: SpikeFacts) -> tuple[str, ...]:
    """Return what to do about the batches on the way; nobody skips those of whole epochs."""
    if facts.cause and facts.resumed is None:
        return ()  # What the learning rate did is no fault of the data.
    first = max(min(facts.onset - 5, first_of(case, facts.onset)), 0)
    last = min(facts.onset + case.recovery_steps, int(case.loss.steps[-1]))
    skip = (
        f"Skip the batches from step {first} to {last} on the way, "
        "as a bad stretch of data may be to blame.",
        "Stratify the batches before the restart.",
    )
    return skip[1:] if case.history.counts_epochs else skip


def _about_the_rate(case: Case, facts: SpikeFacts) -> tuple[str, ...]:
    """Return what to ask of the learning rate, unless it was logged and kept to its schedule."""
    if facts.rising is not None:
        return (_LOWER_PEAK,)
    if facts.cause and facts.resumed is None:
        return (
            "Find what raised the learning rate: a resume that set up another schedule, phases "
            "that do not join, a change by hand.",
        )
    panel = lr_panel(case, before(case, facts.onset), case.at(focus(case).peak))
    if panel.holds is None:
        return ("Compare the learning rate at the onset with the intended schedule.",)
    if panel.because.endswith(AGAIN):
        return (
            "If these jumps of the learning rate are intended, as in warm restarts, the rise is "
            "theirs: nothing needs to be fixed.",
        )
    return ()


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
        if _still_rises(case):
            end = f"The log ends at step {last}, with the loss still rising."
        elif planned is None or planned > enough:
            first = (
                f"Run on to step {enough} if the run still can, and diagnose again; else: "
                f"{uncapitalised(first)}"
            )
    return facts.advice(
        f"{end} {facts.cause}",
        first=first,
        then=(
            *((_LOWER_PEAK,) if facts.rising is not None else ()),
            f"Look at {batches_at(case, facts.onset, and_before=True)}.",
        ),
        remedies=facts.remedies,
    )


def _still_rises(case: Case) -> bool:
    """Tell whether the loss climbs on from its jump up to the end: then to run on is no help."""
    spike = focus(case)
    after = case.loss.values[spike.onset :] - spike.level
    third = len(after) // 3
    if third < _THIRD:
        return False
    begun, then, now = (median(after[at : at + third]) for at in (0, third, len(after) - third))
    return now > _RISES * then > _RISES * begun
