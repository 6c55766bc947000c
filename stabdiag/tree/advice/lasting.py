"""Advice on §2: spikes that lasted, or may yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import back_after_all
from stabdiag.tree.advice.told import STATE, Told, told_of
from stabdiag.tree.advice.words import Advice, batches_at, clip, first_of, inner
from stabdiag.tree.causes import AGAIN, before, lr_panel
from stabdiag.tree.spike import focus, time_to_recover
from stabdiag.tree.words import checkpoint_before, num

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

_KEEP = "Keep the run going"

# Where the loss stands now is the median of so many at least.
_LEVEL = 20

_FULL_COST = "If no checkpoint is older than the onset, the cost is the full re-train."


def persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up, at least for longer than it had."""
    told, back = told_of(case), _back_late(case)
    first = max(min(told.onset - 5, first_of(case, told.onset)), 0)
    last = min(told.onset + case.recovery_steps, int(case.loss.steps[-1]))
    # Nobody skips the batches of whole epochs.
    skip: tuple[str, ...] = (
        f"Skip the batches from step {first} to {last} on the way, "
        "as a bad stretch of data may be to blame.",
        "Stratify the batches before the restart.",
    )
    if case.history.counts_epochs:
        skip = skip[1:]
    restart: tuple[str, ...] = ()
    older = checkpoint_before(case.manifest, told.began).step
    act, remedies, time = told.restart, told.remedies, time_to_recover(case)
    # A cadence that is known tells whether a checkpoint is older, and the first action says it.
    cost = (_FULL_COST,) if older is None else ()
    passed = f"It had not come back within {time}."
    why = "The weights or the optimizer's moments are damaged, or the data changed."
    if back is not None:
        passed, why = f"It came back, but only by step {back}, and not within {time}.", ""
        act, cost = _weighed(case, told, older, back), ()
        restart = (f"If it does, restart {told.how}.",)
        if act.startswith(_KEEP):
            restart = (f"If it happens again, clip the gradient norm at {clip(case)}.",)
            skip, remedies = (), ()
    if told.resumed is not None:
        act = f"Resume at step {told.resumed} once more, and see that it loads {STATE}."
        restart = (f"Should the loss jump again: {inner(told.restart)}",)
    rate = _about_the_rate(case, told)
    if told.cause and told.resumed is None:
        # What the learning rate did is no fault of the data.
        skip = ()
    kept = act.startswith(_KEEP)
    return Advice(
        summary=" ".join(filter(None, (told.what, passed, told.cause or why))),
        first=act,
        then=(*rate, *restart) if kept else (*restart, *skip, *rate, *cost),
        step=told.onset,
        reload=told.reload,
        began=told.began,
        remedies=remedies if told.resumed is None else (),
        back=back,
        title="" if back is None else "Loss spike that recovered late",
    )


def _back_late(case: Case) -> int | None:
    """Return the step by which the loss was back after all, or None."""
    at = back_after_all(case.loss.values, focus(case), case.limits.spike.recovery_sigma)
    return None if at is None else case.at(at)


def _weighed(case: Case, told: Told, older: int | None, back: int) -> str:
    """Return what to do where the loss came back late: to reload costs all the steps since."""
    if older == 0:
        return f"{_KEEP}: no checkpoint is older, and the loss was back by step {back}."
    spike, end = focus(case), int(case.loss.steps[-1])
    last = case.loss.between(back, end).values[-case.points(case.recovery_steps, _LEVEL) :]
    if len(last) >= _LEVEL and (now := median(last)) < spike.base - spike.sigma:
        return (
            f"{_KEEP}: the loss was back by step {back}, and is {num(now)} by now, below the "
            f"{num(spike.base)} from before the spike."
        )
    return (
        f"{told.reload}, only if it evaluates better than the run does now: the loss was back by "
        f"step {back}."
    )


def _about_the_rate(case: Case, told: Told) -> tuple[str, ...]:
    """Return what to ask of the learning rate, unless it was logged and kept to its schedule."""
    if told.cause and told.resumed is None:
        return (
            "Find what raised the learning rate: a resume that set up another schedule, phases "
            "that do not join, a change by hand.",
        )
    panel = lr_panel(case, before(case, told.onset), case.at(focus(case).peak))
    if panel.holds is None:
        return ("Compare the learning rate at the onset with the schedule that was meant.",)
    if panel.because.endswith(AGAIN):
        return (
            "If these jumps of the learning rate are meant, as warm restarts are, the rise is "
            "theirs: nothing needs to be mended.",
        )
    return ()


def unresolved(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A spike too close to the end of the log."""
    told = told_of(case)
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
