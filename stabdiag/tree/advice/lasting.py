"""Advice on §2: spikes that did not recover in time, or have not yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import back_after_all
from stabdiag.tree.advice.spike_facts import STATE, SpikeFacts, spike_facts
from stabdiag.tree.advice.words import Advice, batches_at, clip, first_of, going_on
from stabdiag.tree.panels import before, lr_panel
from stabdiag.tree.spike import focus, time_to_recover

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case

_LOWER_PEAK = Action(
    ActionKind.CHECK_SETTINGS,
    "Check warm-up and total steps against the manifest, and lower the peak of the learning rate "
    "if its rise is intended.",
    also=(ActionKind.LOWER_LR,),
)
_FULL_COST = Action(
    ActionKind.RERUN, "If no checkpoint is older than the onset, train again from the start."
)

# A loss still rises if it has done so over three thirds of so many losses at least, by so much.
_THIRD = 3
_RISES = 1.2

# Where the loss stands now is the median of so many at least.
_LEVEL = 20


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, or came back only after its time was over."""
    facts, back = spike_facts(case), _back_late(case)
    if back is not None:
        first, then = _late(case, facts, back)
    elif facts.resumed is not None:
        first, then = _resumed(case, facts)
    else:
        then = (*_skipped(case, facts), *_about_the_rate(case, facts), *_cost(facts))
        first = facts.restart
    time = time_to_recover(case)
    passed = f"It had not come back within {time}."
    why = "The weights or the optimizer's moments are damaged, or the data changed."
    if back is not None:
        passed, why = f"It came back, but only by step {back}, and not within {time}.", ""
    advice = facts.advice(
        f"{passed} {facts.cause or why}",
        first=first,
        then=then,
    )
    title = "" if back is None else "Loss spike that recovered late"
    return replace(advice, back=back, title=title)


def _back_late(case: Case) -> int | None:
    """Return the step by which the loss was back after all, or None."""
    at = back_after_all(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    return None if at is None else case.at(at)


def _late(case: Case, facts: SpikeFacts, back: int) -> tuple[Action, tuple[Action, ...]]:
    """Return what to do where the loss came back late: to reload costs all the steps since."""
    rate = _about_the_rate(case, facts)
    kept = _kept(case, facts, back)
    if kept is not None:
        threshold = clip(case)
        again = Action(
            ActionKind.CLIP_GRADIENTS,
            f"If it happens again, clip the gradient norm at {threshold}.",
            **threshold.change,
        )
        return kept, (*rate, again)
    first = Action(
        ActionKind.RELOAD_CHECKPOINT,
        f"{facts.reload}, only if it evaluates better than the run does now: the loss was back by "
        f"step {back}.",
        also=facts.restart.kinds,
        step=back,
        checkpoint=facts.reload.checkpoint,
    )
    restart = facts.restart.by_itself().after("If it does,")
    return first, (restart, *_skipped(case, facts), *rate)


def _kept(case: Case, facts: SpikeFacts, back: int) -> Action | None:
    """Return the action to keep a run going, where it is not to be set back, with the reason."""
    was = f"the loss was back by step {back}"
    if facts.resumed is not None:
        see = f"See that the next resume loads {STATE}: {was}."
        return going_on(Action(ActionKind.RESTORE_STATE, see, step=back))
    if facts.last.step == 0:
        told = f"Keep the run going: no checkpoint is older, and {was}."
        return Action(ActionKind.KEEP_GOING, told, step=back)
    spike, end = focus(case), int(case.loss.steps[-1])
    last = case.loss.between(back, end).values[-case.points(case.recovery_steps, _LEVEL) :]
    if len(last) >= _LEVEL and (now := median(last)) < spike.level - spike.sigma:
        told = (
            f"Keep the run going: {was}, and is {num(now)} by now, below the {num(spike.level)} "
            "from before the spike."
        )
        return Action(ActionKind.KEEP_GOING, told, step=back)
    return None


def _resumed(case: Case, facts: SpikeFacts) -> tuple[Action, tuple[Action, ...]]:
    """Return what to do about a loss that jumped where the run resumed, and stayed up."""
    first = Action(
        ActionKind.RESTORE_STATE,
        f"Resume at step {facts.resumed} once more, and see that it loads {STATE}.",
        step=facts.resumed,
    )
    return first, (
        facts.restart.after("Should the loss jump again:"),
        *_skipped(case, facts),
        *_about_the_rate(case, facts),
        *_cost(facts),
    )


def _cost(facts: SpikeFacts) -> tuple[Action, ...]:
    """Return what it costs to have no checkpoint: a known cadence tells whether there is one."""
    return (_FULL_COST,) if facts.last.step is None else ()


def _skipped(case: Case, facts: SpikeFacts) -> tuple[Action, ...]:
    """Return what to do about the batches on the way; nobody skips those of whole epochs."""
    if facts.cause and facts.resumed is None:
        return ()  # What the learning rate did is no fault of the data.
    first = max(min(facts.onset - 5, first_of(case, facts.onset)), 0)
    last = min(facts.onset + case.recovery_steps, int(case.loss.steps[-1]))
    skip = Action(
        ActionKind.SKIP_BATCHES,
        f"Skip the batches from step {first} to {last} on the way, as a bad stretch of data may be "
        "to blame.",
        step=first,
    )
    stratify = Action(ActionKind.SHUFFLE_DATA, "Stratify the batches before the restart.")
    return (stratify,) if case.history.counts_epochs else (skip, stratify)


def _about_the_rate(case: Case, facts: SpikeFacts) -> tuple[Action, ...]:
    """Return what to ask of the learning rate, unless it was logged and kept to its schedule."""
    if facts.rising is not None:
        return (_LOWER_PEAK,)
    if facts.cause and facts.resumed is None:
        find = (
            "Find what raised the learning rate: a resume that set up another schedule, phases "
            "that do not join, a change by hand."
        )
        return (Action(ActionKind.FIX_SCHEDULE, find),)
    panel = lr_panel(case, before(case, facts.onset), case.at(focus(case).peak))
    if panel.holds is None:
        compare = "Compare the learning rate at the onset with the intended schedule."
        return (Action(ActionKind.FIX_SCHEDULE, compare),)
    if panel.usual:
        leave = (
            "If these jumps of the learning rate are intended, as in warm restarts, the rise is "
            "theirs: nothing needs to be fixed."
        )
        return (Action(ActionKind.DO_NOTHING, leave),)
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
            first = replace(
                first.after(
                    f"Run on to step {enough} if the run still can, and diagnose again; else:"
                ),
                kind=ActionKind.KEEP_GOING,
                also=first.kinds,
                step=enough,
            )
    return facts.advice(
        f"{end} {facts.cause}",
        first=first,
        then=(
            *((_LOWER_PEAK,) if facts.rising is not None else ()),
            Action(
                ActionKind.INSPECT_DATA,
                f"Look at {batches_at(case, facts.onset, and_before=True)}.",
                step=facts.onset,
            ),
        ),
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
