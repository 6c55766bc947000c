"""Advice on §2: spikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.findings import Remedy
from stabdiag.tree.advice.words import (
    Advice,
    batches_at,
    clip,
    first_of,
    inner,
    sentence,
    shown,
    to_log,
)
from stabdiag.tree.causes import before
from stabdiag.tree.spike import focus, start, time_to_recover
from stabdiag.tree.words import checkpoint_before, num, plural, sigmas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

# What a resume has to bring back.
_STATE = "the optimizer's moments, the schedule, the scaler and the place in the data"


@dataclass(frozen=True, kw_only=True)
class _Told:
    """A spike in words: its onset, what happened, why if that is clear, and how to restart.

    ``reload`` names the checkpoint, from before ``began``; ``remedies`` are those of a restart.
    ``resumed`` is the step of a resume just before the onset, if there was one and no jump of the
    learning rate.
    """

    onset: int
    what: str
    cause: str
    resumed: int | None
    reload: str
    began: int
    restart: str
    remedies: tuple[Remedy, ...]


def _told(case: Case) -> _Told:
    spike = focus(case)
    onset = case.at(spike.onset)
    began = start(case)
    how = f"{'without the jump, ' if began.cause else ''}with the clip threshold at {clip(case)}"
    last = checkpoint_before(case.manifest, began.step)
    resumed = None if began.cause else _resumed(case, onset)
    others = len(case.spikes) - 1
    also = f" {plural(others, 'more spike')} in this log." if others else ""
    back = ""
    if spike.recovered:
        back = f" and was back after {plural(case.at(spike.end) - onset, 'step')}"
    return _Told(
        onset=onset,
        what=f"The loss rose from {num(spike.base)} to {num(spike.base + spike.height)} at step "
        f"{case.at(spike.peak)} ({sigmas(spike.score)}){back}.{also}",
        cause=sentence(began.cause) if began.cause else _at_resume(resumed),
        resumed=resumed,
        reload=last.reload(began.what),
        began=began.step,
        remedies=(*((Remedy.RATE,) if began.cause else ()), Remedy.CLIP),
        restart=f"{last.reload(began.what, how)}.",
    )


def _resumed(case: Case, onset: int) -> int | None:
    """Return the step of the last resume shortly before an onset, or None."""
    since = before(case, onset)
    return max((step for step in case.history.resumes if since <= step <= onset), default=None)


def _at_resume(step: int | None) -> str:
    return "" if step is None else f"It began where the run resumed, at step {step}."


def long_tail(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike with a gradient norm far above its mean."""
    told = _told(case)
    ratio = shown(answers["Q2.3"].measured.get("grad_ratio"))
    return Advice(
        summary=f"{told.what} The gradient norm was {ratio} x its rolling mean there.",
        first=f"Look at {batches_at(case, told.onset)} for a long-tail sample, and clip the "
        f"gradient norm at {clip(case)}.",
        then=(
            "Stratify or filter the batches so that no step is made of outliers alone.",
            "Write a post-mortem: the same data may not spike from another checkpoint.",
            "If spikes grow frequent, skip steps whose gradient norm is far above its mean.",
        ),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=(Remedy.DATA, Remedy.CLIP),
    )


def lr_jump(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike after a jump of the learning rate."""
    told, answer = _told(case), answers["Q2.3"]
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    at = answer.steps[0]
    return Advice(
        summary=f"{told.what} The learning rate had jumped from {before} to {after} at step {at}.",
        first=f"Fix the schedule at step {at}, where the learning rate jumps from {before} to "
        f"{after}.",
        then=(
            "Plot the learning rate of every step against the schedule that was meant.",
            "Check that a resume restores the scheduler's state, and that phases join without a "
            "step.",
            "If the jump is meant (a warm restart), restart lower or warm up again.",
        ),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=(Remedy.RATE,),
    )


def duplicate(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike at or after a repeated batch."""
    told = _told(case)
    at = answers["Q2.3"].steps[0]
    return Advice(
        summary=f"{told.what} The batch of step {at} had been seen shortly before.",
        first=f"Fix the data loader: log its order around step {at}, where a batch comes again.",
        then=(
            "Check the sampler's seed per epoch and per worker (set_epoch in distributed runs).",
            "On a resume, restore the loader's position, or the same data is seen again.",
        ),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=(Remedy.DATA,),
    )


def recovered(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike without a logged cause."""
    told = _told(case)
    look = f"look at {batches_at(case, told.onset, and_before=True)}"
    if told.resumed is not None:
        look = f"see that the next resume loads {_STATE}"
    return Advice(
        summary=f"{told.what} {told.cause or 'None of the logged series shows why.'}",
        first=f"Keep the run going, and {look}.",
        then=(
            f"If it happens again, clip the gradient norm at {clip(case)}.",
            *to_log(case, ("grad_norm", "lr", "batch_id")),
        ),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=(Remedy.DATA,) if told.resumed is None else (),
    )


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up."""
    told = _told(case)
    first = max(min(told.onset - 5, first_of(case, told.onset)), 0)
    last = min(told.onset + case.recovery_steps, int(case.loss.steps[-1]))
    why = told.cause or "The weights or the optimizer's moments are damaged, or the data changed."
    # Nobody skips the batches of whole epochs.
    skip: tuple[str, ...] = (
        f"Skip the batches from step {first} to {last} on the way, "
        "as a bad stretch of data may be to blame.",
        "Stratify the batches before the restart.",
    )
    if case.history.counts_epochs:
        skip = skip[1:]
    restart: tuple[str, ...] = ()
    act = told.restart
    if told.resumed is not None:
        act = f"Resume at step {told.resumed} once more, and see that it loads {_STATE}."
        restart = (f"Should the loss jump again: {inner(told.restart)}",)
    return Advice(
        summary=f"{told.what} It had not come back within {time_to_recover(case)}. {why}",
        first=act,
        then=(
            *restart,
            *skip,
            "Find what raised the learning rate: a resume that set up another schedule, phases "
            "that do not join, a change by hand."
            if told.cause and told.resumed is None
            else "Compare the learning rate at the onset with the schedule that was meant.",
            "If no checkpoint is older than the onset, the cost is the full re-train.",
        ),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=told.remedies if told.resumed is None else (),
    )


def unresolved(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A spike too close to the end of the log."""
    told = _told(case)
    last = int(case.loss.steps[-1])
    # Records may come so far apart that there are too few of them in that time.
    enough = max(told.onset + case.recovery_steps, last + round(case.stride))
    planned, first = case.manifest.total_steps, told.restart
    if case.before_nan:
        end = f"It had not recovered when the loss went NaN after step {last}."
    else:
        end = f"The log ends at step {last}, too early to tell whether it recovers."
        if planned is None or planned > enough:
            first = (
                f"Run on to step {enough} if the run still can, and diagnose again; else: "
                f"{inner(first)}"
            )
    return Advice(
        summary=" ".join(filter(None, (told.what, end, told.cause))),
        first=first,
        then=(f"Look at {batches_at(case, told.onset, and_before=True)}.",),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=told.remedies,
    )
