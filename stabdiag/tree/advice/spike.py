"""Advice on §2: spikes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Answer, Scalar, Severity
from stabdiag.model.text import capitalized, num, plural, typed
from stabdiag.stats.course import start_level
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import late_recovery
from stabdiag.stats.standards import CONTEXT_POINTS, FEW_EVENTS, FIFTH, TENFOLD, TWICE
from stabdiag.tree.advice.probed import saved_batch_suffix
from stabdiag.tree.advice.rates import lowered, tenth_lr
from stabdiag.tree.advice.shared import (
    LEVEL,
    RESTORE_SCHEDULE,
    STATE,
    Advice,
    clip,
    clip_next_time,
    describe_batches,
    first_covered_step,
    logging_advice,
    shown,
)
from stabdiag.tree.advice.spike_facts import SpikeFacts, spike_facts
from stabdiag.tree.case import Case
from stabdiag.tree.changes import near_spike
from stabdiag.tree.panels import lookback_start, lr_panel
from stabdiag.tree.spike import explosion_step, focus, time_to_recover

_LOWER_PEAK = Action(
    ActionKind.CHECK_SETTINGS,
    "Check warm-up and total steps; lower the peak learning rate if its rise is intended.",
    also=(ActionKind.LOWER_LR,),
)
# At this many spikes, a single bad batch is not the cause.
_MIN_FREQUENT = FEW_EVENTS

_FULL_COST = Action(
    ActionKind.RERUN, "If no checkpoint is older than the onset, train again from the start."
)


def long_tail(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike with a gradient norm far above its mean."""
    spike, threshold = spike_facts(case), clip(case)
    ratio = shown(answers["Q2.3"].measured.get("grad_ratio"))
    return spike.advice(
        f"The gradient norm reached {ratio} x its rolling mean.",
        first=Action(
            ActionKind.INSPECT_DATA,
            f"Check {describe_batches(case, spike.onset)}{saved_batch_suffix(case, spike.onset)} "
            f"for a long-tail sample, and clip the gradient norm at {threshold}.",
            also=(ActionKind.CLIP_GRADIENTS,),
            step=spike.onset,
            **threshold.change,
        ),
        next_actions=(
            Action(
                ActionKind.SHUFFLE_DATA,
                "Stratify the batches, or filter the data, so that no batch is all outliers.",
            ),
            Action(
                ActionKind.SEE_FINDING,
                "Write a post-mortem (stabdiag postmortem): the same data may not spike from "
                "another checkpoint.",
            ),
            Action(
                ActionKind.SKIP_BATCHES,
                "If spikes become frequent, skip steps whose gradient norm is far above its mean.",
            ),
        ),
    )


def lr_jump(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike after a jump of the learning rate."""
    answer = answers["Q2.3"]
    low, high = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    at = answer.steps[0]
    return spike_facts(case).advice(
        f"The learning rate jumped from {low} to {high} at {case.unit} {at}.",
        first=Action(
            ActionKind.FIX_SCHEDULE,
            f"Fix the schedule at {case.unit} {at}, where the learning rate jumps from {low} to "
            f"{high}.",
            step=at,
        ),
        next_actions=(
            Action(ActionKind.LOG_MORE, "Plot the learning rate against the intended schedule."),
            RESTORE_SCHEDULE,
            Action(
                ActionKind.LOWER_LR,
                "If the jump is intended (a warm restart), restart lower or warm up again.",
                also=(ActionKind.ADD_WARMUP,),
            ),
        ),
    )


def duplicate(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike at or after a repeated batch."""
    at = answers["Q2.3"].steps[0]
    return spike_facts(case).advice(
        f"The batch of {case.unit} {at} is a repeat of a recent one.",
        first=Action(
            ActionKind.FIX_LOADER,
            f"Fix the data loader: log its order around {case.unit} {at}, where a batch repeats.",
            step=at,
        ),
        next_actions=(
            Action(
                ActionKind.FIX_LOADER,
                "Check the sampler's seed per epoch and worker (set_epoch in distributed runs).",
            ),
            Action(ActionKind.FIX_LOADER, "Restore the loader's position on a resume."),
        ),
    )


def recovered(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike without a logged cause."""
    spike, measured = spike_facts(case), answers["Q2.3"].measured
    check = Action(
        ActionKind.INSPECT_DATA,
        f"Check {describe_batches(case, spike.onset, and_before=True)}.",
        step=spike.onset,
    )
    if spike.resumed is not None:
        text = f"Check that the next resume restores {STATE}."
        check = Action(ActionKind.RESTORE_STATE, text)
    back = plural(case.at(focus(case).end) - spike.onset, case.unit)
    keep_going = Action(
        ActionKind.KEEP_GOING, f"Keep the run going: the loss recovered within {back}."
    )
    actions = (keep_going, *_check_fall(case, measured), check, clip_next_time(case))
    # After several spikes without clipping, clip now.
    if spike.resumed is None and len(case.spikes) >= _MIN_FREQUENT and not case.manifest.grad_clip:
        actions = (_clip_now(case), keep_going, check)
    other = "else " if near_spike(case, focus(case)) else ""
    why = f"Nothing {other}logged explains it."
    overflowed = measured.get("grad_nonfinite")
    if overflowed is not None:
        why = f"The gradients overflowed at {case.unit} {overflowed}."
    return spike.advice(
        spike.cause or why,
        first=actions[0],
        next_actions=(
            *actions[1:],
            *logging_advice(case, ("grad_norm", "lr", "batch_id"), densely=("grad_norm",)),
        ),
    )


def _check_fall(case: Case, measured: Mapping[str, Scalar]) -> tuple[Action, ...]:
    """Return the action for a learning rate that fell at the onset, or nothing."""
    at = measured.get("lr_fell_at")
    if not isinstance(at, int):
        return ()
    low, high = (shown(measured.get(key)) for key in ("lr_after", "lr_before"))
    text = (
        f"Check the schedule at {case.unit} {at}, where the learning rate falls from {high} to "
        f"{low}."
    )
    return (Action(ActionKind.FIX_SCHEDULE, text, step=at),)


def _clip_now(case: Case) -> Action:
    threshold, count = clip(case), len(case.spikes)
    text = f"Clip the gradient norm at {threshold}: the loss spiked {count} times."
    return Action(ActionKind.CLIP_GRADIENTS, text, **threshold.change)


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, or recovered too late."""
    spike, time = spike_facts(case), time_to_recover(case)
    at = late_recovery(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    if at is not None:
        return _late(case, spike, case.at(at), time)
    restart = _restart(case, spike)
    lowers = restart.kind is ActionKind.LOWER_LR
    rate = (_tenth_of_rate(case),) if focus(case).is_blowup and not lowers else ()
    actions = (restart, *rate, *_skip_batches(case, spike), *_check_lr(case, spike))
    if spike.resumed is not None:
        resume = Action(
            ActionKind.RESTORE_STATE,
            f"Resume at {case.unit} {spike.resumed} again, and check that it restores {STATE}.",
            step=spike.resumed,
        )
        actions = (resume, *actions)
    if spike.last.step is None:  # with a known cadence, this is known too
        actions = (*actions, _FULL_COST)
    why = spike.cause or "The weights or the optimizer's moments are damaged, or the data changed."
    detail = f"It did not recover within {time}. {why}"
    return spike.advice(detail, first=actions[0], next_actions=actions[1:])


def _tenth_of_rate(case: Case) -> Action:
    """Return the action for a loss that exploded: a tenth of the rate."""
    rate = tenth_lr(case, case.at(focus(case).onset))
    text = f"If it explodes again, {rate}."
    return Action(ActionKind.LOWER_LR, text, **rate.change)


def unresolved(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A spike too close to the end of the log."""
    spike = spike_facts(case)
    last = int(case.loss.steps[-1])
    # On a sparse log, wait for at least one more record.
    wait_until = max(spike.onset + case.recovery_steps, last + round(case.stride))
    planned = case.manifest.total_steps
    wait: tuple[Action, ...] = ()
    if case.before_nan:
        end = f"It had not recovered when the loss went NaN after {case.unit} {last}."
    elif focus(case).peak == len(case.loss) - 1:
        # Waiting does not help while the loss still climbs.
        end = f"The log ends at {case.unit} {last}, with the loss at its highest."
    else:
        end = f"The log ends at {case.unit} {last}, too early to see a recovery."
        if planned is None or planned > wait_until:
            wait = (_wait(case, spike, wait_until),)
    batches = describe_batches(case, spike.onset, and_before=True)
    check = Action(ActionKind.INSPECT_DATA, f"Check {batches}.", step=spike.onset)
    peak = (_LOWER_PEAK,) if spike.rising is not None else ()
    actions = (*wait, _restart(case, spike), *peak, check)
    return spike.advice(f"{end} {spike.cause}", first=actions[0], next_actions=actions[1:])


def _wait(case: Case, spike: SpikeFacts, until: int) -> Action:
    """Return the action to keep the checkpoint before the spike and continue the run."""
    continue_run = f"run on to {case.unit} {until} if you still can, and diagnose again"
    saved = spike.last.step
    if saved == 0:
        text = f"{capitalized(continue_run)}: no checkpoint precedes the spike."
        return Action(ActionKind.SEE_FINDING, text, also=(ActionKind.KEEP_GOING,), step=until)
    checkpoint = "the last checkpoint from before the spike"
    if saved is not None:
        checkpoint = f"the checkpoint of {case.unit} {saved}"
    return Action(
        ActionKind.KEEP_CHECKPOINT,
        f"Keep {checkpoint}, {continue_run}.",
        also=(ActionKind.KEEP_GOING,),
        step=until,
        checkpoint=saved,
    )


def _restart(case: Case, spike: SpikeFacts, condition: str = "") -> Action:
    """Return the action to restart with clipping, after fixing the rate or checking the data.

    ``condition`` is a clause that limits the action.
    """
    threshold, reload = clip(case), spike.reload
    clipping, other_kinds = f"the clip threshold at {threshold}", (ActionKind.CLIP_GRADIENTS,)
    exploded = _has_exploded(case)
    if spike.rising is not None:
        divisor, part = (TENFOLD, "a tenth") if exploded else (TWICE, "half")
        lower = lowered(case, spike.rising.end, divisor)
        is_part = lower == typed(spike.rising.end / divisor)
        rate = f"a peak learning rate of {num(lower)}"
        if is_part:
            rate = f"{rate}, {part} of what it had risen to"
        manner = f"with {rate}, and {clipping}{condition}"
        return reload.restart(
            ActionKind.LOWER_LR, manner, also=other_kinds, setting="peak_lr", to=lower
        )
    if spike.jumped:
        manner = f"without the jump, with {clipping}{condition}"
        return reload.restart(ActionKind.FIX_SCHEDULE, manner, also=other_kinds, **threshold.change)
    # A sudden jump, however high, is rather due to a damaged state or to the data.
    is_gradual = explosion_step(case, focus(case).onset) is not None
    if exploded and is_gradual and spike.resumed is None:
        tenth = tenth_lr(case, spike.onset, as_noun=True)
        manner = f"with {tenth} and {clipping}{condition}"
        return reload.restart(ActionKind.LOWER_LR, manner, also=other_kinds, **tenth.change)
    if spike.resumed is not None or case.history.counts_epochs:
        manner = f"with {clipping}{condition}"
        return reload.restart(ActionKind.CLIP_GRADIENTS, manner, **threshold.change)
    since = first_covered_step(case, spike.onset)
    manner = f"with {clipping}, after a look at the batches from {case.unit} {since} on{condition}"
    other_kinds = (ActionKind.INSPECT_DATA,)
    return reload.restart(ActionKind.CLIP_GRADIENTS, manner, also=other_kinds, **threshold.change)


def _has_exploded(case: Case) -> bool:
    """Return True if the loss grew many times, to more than it began with."""
    spike, began = focus(case), start_level(case.loss.values)
    return spike.is_blowup and spike.base + spike.height > began


def _late(case: Case, spike: SpikeFacts, back: int, time: str) -> Advice:
    """Return advice on a late recovery, where reloading costs all the steps since."""
    rate = _check_lr(case, spike)
    why = _worth_keeping(case, spike, back)
    actions: tuple[Action, ...]
    if why is not None:
        text = f"Keep the run going: the loss recovered by {case.unit} {back}{why}."
        actions = (Action(ActionKind.KEEP_GOING, text, step=back), *rate, clip_next_time(case))
        if spike.resumed is not None:
            check = f"Check that the next resume restores {STATE}."
            actions = (actions[0], Action(ActionKind.RESTORE_STATE, check), *actions[1:])
    else:
        condition = (
            ", but only if the checkpoint evaluates better than the run does now (the loss "
            f"recovered by {case.unit} {back})"
        )
        actions = (_restart(case, spike, condition), *_skip_batches(case, spike), *rate)
    return spike.advice(
        f"It recovered by {case.unit} {back}, but not within {time}. {spike.cause}",
        first=actions[0],
        next_actions=actions[1:],
        back=back,
        title="Loss spike that recovered late",
        # A run worth keeping is not an error, and neither is one that survived at a small cost.
        severity=Severity.WARNING if why is not None or _cost_little(case, spike, back) else None,
    )


def _cost_little(case: Case, spike: SpikeFacts, back: int) -> bool:
    """Return True if the loss was high for at most a fifth of the log."""
    return bool(back - spike.onset <= FIFTH * np.ptp(case.loss.steps))


def _worth_keeping(case: Case, spike: SpikeFacts, back: int) -> str | None:
    """Return a further reason to keep a run that recovered late; None to set it back."""
    if spike.resumed is not None:
        return ""
    if spike.last.step == 0:
        return ", and no checkpoint is older"
    worst, end = focus(case), int(case.loss.steps[-1])
    last = case.loss.between(back, end).values[-case.points(case.recovery_steps, LEVEL) :]
    if len(last) >= LEVEL and (now := median(last)) < worst.level - worst.sigma:
        return f" and is now {num(now)}, below the {num(worst.level)} from before the spike"
    return None


def _skip_batches(case: Case, spike: SpikeFacts) -> tuple[Action, ...]:
    """Return the actions on the data; batches of whole epochs are not skipped."""
    if spike.is_caused_by_lr:
        return ()
    first = max(min(spike.onset - CONTEXT_POINTS, first_covered_step(case, spike.onset)), 0)
    last = min(spike.onset + case.recovery_steps, int(case.loss.steps[-1]))
    skip = Action(
        ActionKind.SKIP_BATCHES,
        f"Skip the batches of {case.unit}s {first} to {last}: the data there may be bad.",
        step=first,
    )
    mix = Action(
        ActionKind.SHUFFLE_DATA, "Stratify the batches, or reshuffle the data, before the restart."
    )
    return (mix,) if case.history.counts_epochs else (skip, mix)


def _check_lr(case: Case, spike: SpikeFacts) -> tuple[Action, ...]:
    """Return the action on the learning rate, unless it was logged and followed its schedule."""
    if spike.rising is not None:
        return (_LOWER_PEAK,)
    if spike.is_caused_by_lr:
        find = (
            "Find what raised the learning rate: another schedule after a resume, phases that do "
            "not join, or a manual change."
        )
        return (Action(ActionKind.FIX_SCHEDULE, find),)
    panel = lr_panel(case, lookback_start(case, spike.onset), case.at(focus(case).peak))
    if panel.holds is None:
        compare = "Compare the learning rate at the onset with the intended schedule."
        return (Action(ActionKind.FIX_SCHEDULE, compare),)
    if panel.usual:
        leave = "If these learning-rate jumps are intended, as in warm restarts, do nothing."
        return (Action(ActionKind.DO_NOTHING, leave),)
    return ()
