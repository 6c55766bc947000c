"""Advice on §2: spikes."""

from __future__ import annotations

from collections.abc import Mapping

from stabdiag.model.findings import Action, ActionKind, Answer, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.text import capitalised, num, plural, sentence, sigmas, typed
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import late_recovery
from stabdiag.tree.advice.rates import lowered
from stabdiag.tree.advice.shared import (
    LEVEL,
    RESTORE_SCHEDULE,
    STATE,
    Advice,
    batches_at,
    clip,
    clip_next_time,
    first_of,
    logging_advice,
    shown,
)
from stabdiag.tree.case import Case
from stabdiag.tree.changes import near_spike
from stabdiag.tree.checkpoint import Checkpoint, Reload, checkpoint_before
from stabdiag.tree.drivers import LrOver, lr_over
from stabdiag.tree.panels import lookback_start, lr_panel
from stabdiag.tree.spike import focus, start, time_to_recover

_LOWER_PEAK = Action(
    ActionKind.CHECK_SETTINGS,
    "Check warm-up and total steps; lower the peak learning rate if its rise is intended.",
    also=(ActionKind.LOWER_LR,),
)
# A spike that came back so often is no single bad batch.
_OFTEN = 3

_FULL_COST = Action(
    ActionKind.RERUN, "If no checkpoint is older than the onset, train again from the start."
)


@frozen
class _Spike:
    """A spike in words: its onset, what happened, why if that is clear, and how to restart.

    ``last`` is the checkpoint before ``began``, and ``reload`` names it. ``resumed`` is the step of
    a resume just before the onset, if the learning rate did not jump. ``rising`` is the learning
    rate's rise up to the onset, if the loss stayed up and nothing else may be to blame.
    """

    onset: int
    what: str
    cause: str
    resumed: int | None
    rising: LrOver | None
    reload: Reload
    began: int
    jumped: bool
    last: Checkpoint

    @property
    def by_rate(self) -> bool:
        """Whether a jump of the learning rate or its rise is to blame, and no resume."""
        return bool(self.cause) and self.resumed is None

    def advice(
        self,
        told: str,
        *,
        first: Action,
        then: tuple[Action, ...],
        back: int | None = None,
        title: str = "",
        severity: Severity | None = None,
    ) -> Advice:
        """Return advice on the spike, with the checkpoint from before it began."""
        return Advice(
            summary=f"{self.what} {told}".rstrip(),
            first=first,
            then=then,
            step=self.onset,
            reload=self.reload.clause,
            began=self.began,
            back=back,
            title=title,
            severity=severity,
        )


def long_tail(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike with a gradient norm far above its mean."""
    spike, threshold = _spike(case), clip(case)
    ratio = shown(answers["Q2.3"].measured.get("grad_ratio"))
    return spike.advice(
        f"The gradient norm reached {ratio} x its rolling mean.",
        first=Action(
            ActionKind.INSPECT_DATA,
            f"Check {batches_at(case, spike.onset)} for a long-tail sample, and clip the gradient "
            f"norm at {threshold}.",
            also=(ActionKind.CLIP_GRADIENTS,),
            step=spike.onset,
            **threshold.change,
        ),
        then=(
            Action(
                ActionKind.SHUFFLE_DATA,
                "Shuffle or filter the data to keep batches of pure outliers out.",
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
    return _spike(case).advice(
        f"The learning rate jumped from {low} to {high} at {case.unit} {at}.",
        first=Action(
            ActionKind.FIX_SCHEDULE,
            f"Fix the schedule at {case.unit} {at}, where the learning rate jumps from {low} to "
            f"{high}.",
            step=at,
        ),
        then=(
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
    return _spike(case).advice(
        f"The batch of {case.unit} {at} is a repeat of a recent one.",
        first=Action(
            ActionKind.FIX_LOADER,
            f"Fix the data loader: log its order around {case.unit} {at}, where a batch repeats.",
            step=at,
        ),
        then=(
            Action(
                ActionKind.FIX_LOADER,
                "Check the sampler's seed per epoch and worker (set_epoch in distributed runs).",
            ),
            Action(ActionKind.FIX_LOADER, "Restore the loader's position on a resume."),
        ),
    )


def recovered(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike without a logged cause."""
    spike, measured = _spike(case), answers["Q2.3"].measured
    look = Action(
        ActionKind.INSPECT_DATA,
        f"Check {batches_at(case, spike.onset, and_before=True)}.",
        step=spike.onset,
    )
    if spike.resumed is not None:
        text = f"Check that the next resume restores {STATE}."
        look = Action(ActionKind.RESTORE_STATE, text)
    back = plural(case.at(focus(case).end) - spike.onset, case.unit)
    go_on = Action(ActionKind.KEEP_GOING, f"Keep the run going: the loss recovered within {back}.")
    actions = (go_on, look, clip_next_time(case))
    # Whoever has not clipped yet, and saw it several times, need not wait for the next.
    if spike.resumed is None and len(case.spikes) >= _OFTEN and not case.manifest.grad_clip:
        actions = (_clip_now(case), go_on, look)
    other = "else " if near_spike(case, focus(case)) else ""
    why = f"Nothing {other}logged explains it."
    overflowed = measured.get("grad_nonfinite")
    if overflowed is not None:
        why = f"The gradients overflowed at {case.unit} {overflowed}."
    return spike.advice(
        spike.cause or why,
        first=actions[0],
        then=(
            *actions[1:],
            *logging_advice(case, ("grad_norm", "lr", "batch_id"), densely=("grad_norm",)),
        ),
    )


def _clip_now(case: Case) -> Action:
    cut, count = clip(case), len(case.spikes)
    text = f"Clip the gradient norm at {cut}: the loss spiked {count} times."
    return Action(ActionKind.CLIP_GRADIENTS, text, **cut.change)


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, or came back only after its time was over."""
    spike, time = _spike(case), time_to_recover(case)
    at = late_recovery(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    if at is not None:
        return _late(case, spike, case.at(at), time)
    actions = (_restart(case, spike), *_skipped(case, spike), *_about_the_rate(case, spike))
    if spike.resumed is not None:
        again = Action(
            ActionKind.RESTORE_STATE,
            f"Resume at {case.unit} {spike.resumed} again, and check that it restores {STATE}.",
            step=spike.resumed,
        )
        actions = (again, *actions)
    if spike.last.step is None:  # a known cadence tells whether there is one
        actions = (*actions, _FULL_COST)
    why = spike.cause or "The weights or the optimizer's moments are damaged, or the data changed."
    told = f"It did not recover within {time}. {why}"
    return spike.advice(told, first=actions[0], then=actions[1:])


def unresolved(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A spike too close to the end of the log."""
    spike = _spike(case)
    last = int(case.loss.steps[-1])
    # Records may come so far apart that there are too few of them in that time.
    enough = max(spike.onset + case.recovery_steps, last + round(case.stride))
    planned = case.manifest.total_steps
    wait: tuple[Action, ...] = ()
    if case.before_nan:
        end = f"It had not recovered when the loss went NaN after {case.unit} {last}."
    elif focus(case).peak == len(case.loss) - 1:
        # To run on is no help where the loss still climbs.
        end = f"The log ends at {case.unit} {last}, with the loss at its highest."
    else:
        end = f"The log ends at {case.unit} {last}, too early to tell whether it recovers."
        if planned is None or planned > enough:
            wait = (_wait(case, spike, enough),)
    batches = batches_at(case, spike.onset, and_before=True)
    look = Action(ActionKind.INSPECT_DATA, f"Check {batches}.", step=spike.onset)
    peak = (_LOWER_PEAK,) if spike.rising is not None else ()
    actions = (*wait, _restart(case, spike), *peak, look)
    return spike.advice(f"{end} {spike.cause}", first=actions[0], then=actions[1:])


def _wait(case: Case, spike: _Spike, until: int) -> Action:
    """Return to secure the checkpoint from before the spike while the run goes on."""
    run_on = f"run on to {case.unit} {until} if you still can, and diagnose again"
    saved = spike.last.step
    if saved == 0:
        text = f"{capitalised(run_on)}: no checkpoint precedes the spike."
        return Action(ActionKind.SEE_FINDING, text, also=(ActionKind.KEEP_GOING,), step=until)
    which = "the last checkpoint from before the spike"
    if saved is not None:
        which = f"the checkpoint of {case.unit} {saved}"
    return Action(
        ActionKind.KEEP_CHECKPOINT,
        f"Keep {which}, {run_on}.",
        also=(ActionKind.KEEP_GOING,),
        step=until,
        checkpoint=saved,
    )


def _spike(case: Case) -> _Spike:
    """Return what all advice says of the spike that the questions are about."""
    spike, began = focus(case), start(case)
    onset = case.at(spike.onset)
    last = checkpoint_before(case, began.step, case.stride)
    resumed = None if began.cause else _resumed(case, onset)
    may_rise = not began.cause and resumed is None and not spike.recovered
    rising = _rising(case, onset) if may_rise else None
    reload = last.reload(began.name)
    cause = sentence(began.cause) if began.cause else ""
    lr = lr_panel(case, lookback_start(case, onset), case.at(spike.peak))
    if not cause and "lr_fell_at" in lr.measured:
        cause = sentence(lr.because)
    if resumed is not None:
        cause = f"It began where the run resumed, at {case.unit} {resumed}."
    if rising is not None:
        low, high = num(rising.begin), num(rising.end)
        cause = f"The learning rate had risen from {low} to {high}, its highest so far."
    others, peak = len(case.spikes) - 1, case.at(spike.peak)
    # A level that had exploded before is what later points were held against.
    onset = onset if began.cause else began.step
    since = f"from {case.unit} {onset} on, " if peak != onset else ""
    also = f" {plural(others, 'more spike')} in this log." if others else ""
    back = plural(case.at(spike.end) - onset, case.unit)
    recovered = f" and recovered within {back}" if spike.recovered else ""
    return _Spike(
        onset=onset,
        what=f"The loss rose {since}from {num(spike.level)} to {num(spike.base + spike.height)} at "
        f"{case.unit} {peak} ({sigmas(spike.score)}){recovered}.{also}",
        cause=cause,
        resumed=resumed,
        rising=rising,
        reload=reload,
        began=began.step,
        jumped=bool(began.cause),
        last=last,
    )


def _restart(case: Case, spike: _Spike, only_if: str = "") -> Action:
    """Return how to restart: gradients clipped, and what raised the rate fixed or data looked at.

    ``only_if`` is a clause that says under what condition.
    """
    threshold, reload = clip(case), spike.reload
    cut, also = f"the clip threshold at {threshold}", (ActionKind.CLIP_GRADIENTS,)
    if spike.rising is not None:
        half = lowered(case, spike.rising.end, 2)
        of = ", half of what it had risen to" if half == typed(spike.rising.end / 2) else ""
        rate = f"a peak learning rate of {num(half)}{of}"
        how = f"with {rate}, and {cut}{only_if}"
        return reload.restart(ActionKind.LOWER_LR, how, also=also, setting="peak_lr", to=half)
    if spike.jumped:
        how = f"without the jump, with {cut}{only_if}"
        return reload.restart(ActionKind.FIX_SCHEDULE, how, also=also, **threshold.change)
    if spike.resumed is not None or case.history.counts_epochs:
        how = f"with {cut}{only_if}"
        return reload.restart(ActionKind.CLIP_GRADIENTS, how, **threshold.change)
    since = first_of(case, spike.onset)
    how = f"with {cut}, after a look at the batches from {case.unit} {since} on{only_if}"
    also = (ActionKind.INSPECT_DATA,)
    return reload.restart(ActionKind.CLIP_GRADIENTS, how, also=also, **threshold.change)


def _resumed(case: Case, onset: int) -> int | None:
    """Return the step of the last resume shortly before an onset, or None."""
    since = lookback_start(case, onset)
    return max((step for step in case.history.resumes if since <= step <= onset), default=None)


def _rising(case: Case, onset: int) -> LrOver | None:
    """Return how the learning rate rose up to an onset, if by as much as a jump would be."""
    lr = lr_over(case, onset - case.limits.divergence.window, onset)
    if lr is None or not lr.rises or lr.end < case.limits.spike.lr_jump * lr.begin:
        return None
    return lr


def _late(case: Case, spike: _Spike, back: int, time: str) -> Advice:
    """Return what to do where the loss came back late: to reload costs all the steps since."""
    rate = _about_the_rate(case, spike)
    why = _worth_keeping(case, spike, back)
    actions: tuple[Action, ...]
    if why is not None:
        go_on = f"Keep the run going: the loss recovered by {case.unit} {back}{why}."
        actions = (Action(ActionKind.KEEP_GOING, go_on, step=back), *rate, clip_next_time(case))
        if spike.resumed is not None:
            see = f"Check that the next resume restores {STATE}."
            actions = (actions[0], Action(ActionKind.RESTORE_STATE, see), *actions[1:])
    else:
        better = (
            ", but only if the checkpoint evaluates better than the run does now (the loss "
            f"recovered by {case.unit} {back})"
        )
        actions = (_restart(case, spike, better), *_skipped(case, spike), *rate)
    return spike.advice(
        f"It recovered by {case.unit} {back}, but not within {time}. {spike.cause}",
        first=actions[0],
        then=actions[1:],
        back=back,
        title="Loss spike that recovered late",
        # A run that is worth keeping is not an error.
        severity=None if why is None else Severity.WARNING,
    )


def _worth_keeping(case: Case, spike: _Spike, back: int) -> str | None:
    """Return why a run that recovered late is not to be set back, beside that; else None."""
    if spike.resumed is not None:
        return ""
    if spike.last.step == 0:
        return ", and no checkpoint is older"
    found, end = focus(case), int(case.loss.steps[-1])
    last = case.loss.between(back, end).values[-case.points(case.recovery_steps, LEVEL) :]
    if len(last) >= LEVEL and (now := median(last)) < found.level - found.sigma:
        return f" and is now {num(now)}, below the {num(found.level)} from before the spike"
    return None


def _skipped(case: Case, spike: _Spike) -> tuple[Action, ...]:
    """Return what to do about the data; nobody skips the batches of whole epochs."""
    if spike.by_rate:
        return ()
    first = max(min(spike.onset - 5, first_of(case, spike.onset)), 0)
    last = min(spike.onset + case.recovery_steps, int(case.loss.steps[-1]))
    skip = Action(
        ActionKind.SKIP_BATCHES,
        f"Skip the batches of {case.unit}s {first} to {last}: the data there may be bad.",
        step=first,
    )
    mix = Action(ActionKind.SHUFFLE_DATA, "Reshuffle or rebalance the data first.")
    return (mix,) if case.history.counts_epochs else (skip, mix)


def _about_the_rate(case: Case, spike: _Spike) -> tuple[Action, ...]:
    """Return what to ask of the learning rate, unless it was logged and kept to its schedule."""
    if spike.rising is not None:
        return (_LOWER_PEAK,)
    if spike.by_rate:
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
