"""What every piece of advice on a NaN says: what went NaN, and what to reload."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.tree.advice.spike_facts import STATE
from stabdiag.tree.checkpoint import Reload, checkpoint_before

if TYPE_CHECKING:
    from stabdiag.model.findings import Panel
    from stabdiag.model.history import Event
    from stabdiag.tree.advice.words import Advice
    from stabdiag.tree.case import Case
    from stabdiag.tree.origin import FirstBad, Origin


# The level of the loss is the median of so many.
_LEVEL = 20


def reload_before(case: Case, start: Origin) -> Reload:
    """Return the advice to reload the last checkpoint from before the trouble."""
    last = checkpoint_before(case.manifest, start.began, case.stride)
    if start.bad.count == start.bad.total and not last.step:
        if last.step is None:
            return Reload(
                "Reload the last checkpoint from before this log, which holds no finite loss, or "
                "restart from the beginning if there is none",
                joint=", ",
            )
        return Reload(
            "Restart from the beginning, or from before this log (it holds no finite loss)",
            checkpoint=0,
            joint=", ",
        )
    itself = start.began == start.step
    what = "first non-finite value, at" if itself else "trouble that began at"
    return last.reload(f"the {what} step {start.began}")


def what_went_nan(bad: FirstBad) -> str:
    """Return since when the loss is not finite, and how often, as a sentence."""
    good = "" if bad.last_good is None else f" (last finite loss: step {bad.last_good})"
    are = "is" if bad.count == 1 else "are"
    count = f"{bad.count} of {bad.total} logged losses {are} not finite"
    if not bad.for_good:
        return f"The loss is not finite at step {bad.step}{good}, but is again later; {count}."
    rest = "" if bad.count == 1 else f"; {count}"
    if bad.last_good is None and bad.step > 0:
        return f"The loss is not finite at step {bad.step}, the first that was logged{rest}."
    return f"The loss is not finite from step {bad.step} on{good}{rest}."


def came_through(case: Case) -> tuple[Action, ...]:
    """Return that a run need not be set back, if its loss is finite again and as low as before."""
    loss = case.history.series["loss"]
    bad = np.flatnonzero(~np.isfinite(loss.values))
    before, after = loss.values[: bad[0]][-_LEVEL:], loss.values[bad[-1] + 1 :][-_LEVEL:]
    if min(len(before), len(after)) < _LEVEL or median(after) > median(before):
        return ()
    told = (
        "To find the cause, a copy of the run will do: it came through, its loss was "
        f"{num(median(before))} before and is {num(median(after))} by now."
    )
    return (Action(ActionKind.KEEP_GOING, told),)


def fix_schedule(jump: Panel, reload: Reload) -> Action:
    """Return what to do about a jump of the learning rate that led to a NaN."""
    at = jump.steps[0]
    return reload.following(ActionKind.FIX_SCHEDULE, f"Fix the schedule at step {at}", step=at)


def at_resume(resume: Event, look: Advice) -> Advice:
    """Return what to do about a NaN right after a resume, where there had been none before it."""
    return replace(
        look,
        summary=f"It began where the run resumed, at step {resume.step}; the attempt before had "
        f"finite losses from there to step {resume.sound_to}.",
        first=Action(
            ActionKind.RESTORE_STATE,
            f"Resume at step {resume.step} once more, and see that it loads {STATE}.",
            step=resume.step,
        ),
        then=(look.first.after("Should the loss go NaN again:"), *look.then),
    )
