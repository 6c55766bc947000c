"""What every piece of advice on a climb says: what happened, since when, and what to reload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num, sentence
from stabdiag.stats.quantiles import diff_sigma, medians
from stabdiag.tree.advice.words import Advice
from stabdiag.tree.changes import changes_near
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.divergence import best_step, climb, found_rise, what_ended

if TYPE_CHECKING:
    from stabdiag.model.findings import Answer
    from stabdiag.stats.rise import Rise
    from stabdiag.tree.case import Case
    from stabdiag.tree.changes import Change
    from stabdiag.tree.checkpoint import Reload


# A level is the median of so many losses, and the noise is taken from so many before the best.
_LEVEL = 21
_NOISE = 200


@dataclass(frozen=True, kw_only=True)
class ClimbFacts:
    """A climb in words: what happened, since when, and which checkpoint to reload.

    ``first`` is the step at which the loss began to climb, ``began`` that at which its cause did;
    the checkpoint is from before ``unsound``, by which the loss may have left its best level.
    """

    first: int
    began: int
    unsound: int
    what: str
    reload: Reload

    @property
    def check_data(self) -> str:
        """An imperative clause: check the data."""
        return f"check the data from step {self.first} on: order, labels, sources"

    def check(self) -> Action:
        """Return the action to check the data."""
        return Action(ActionKind.INSPECT_DATA, sentence(self.check_data), step=self.first)

    def advice(self, summary: str, *, first: Action, then: tuple[Action, ...]) -> Advice:
        """Return advice on the climb, with the checkpoint from before it and its cause."""
        return Advice(
            summary=f"{self.what} {summary}",
            first=first,
            then=then,
            step=self.began,
            reload=str(self.reload),
            began=self.unsound,
        )


def _ended(case: Case, rise: Rise) -> str:
    """Return where a climb led to: the level at the end, or before the jump that it ended in."""
    ended = f"at {'a level of ' if rise.points > 1 else ''}{num(rise.last_level)}"
    if case.settled.stop == len(case.loss):
        return f"ends {ended}"
    return f"stood {ended} before {what_ended(case)}"


def climb_facts(case: Case, cause: str = "", answer: Answer | None = None) -> ClimbFacts:
    """Tell of a climb, and of the series behind it if that shows when it turned."""
    first, last = climb(case)
    if case.literal:
        every = "step" if case.stride == 1 else "logged step"
        what = f"The loss rose at every {every} from {first} to {last}."
    else:
        rise = found_rise(case)
        what = (
            f"The loss climbed from step {first} on and {_ended(case, rise)}, {num(rise.amount)} "
            f"above its best level ({num(rise.best_level)} near step {best_step(case)})."
        )
    since = f"the climb from {first} on"
    turned = answer.measured.get("turned") if answer else None
    if isinstance(turned, int):
        # By the time that the loss climbs, the weights have long been going wrong.
        since = f"{cause} from {turned} on" if turned < first else since
        unsound = min(turned, first)
        reload = checkpoint_before(case.manifest, unsound, case.stride).reload(since)
        return ClimbFacts(first=first, began=turned, unsound=unsound, what=what, reload=reload)
    unsound, sound = first, checkpoint_before(case.manifest, first, case.stride)
    if not case.literal:
        left = _left_its_best(case)
        # One from within a slow climb is no sound checkpoint; where it began is not told closer.
        named = first if sound.step is None else sound.step
        if left + _LEVEL * case.stride < named:
            sound, unsound = checkpoint_before(case.manifest, left), left
            since = f"the loss left its best level near step {left}"
    reload = sound.reload(since)
    return ClimbFacts(first=first, began=first, unsound=unsound, what=what, reload=reload)


def _left_its_best(case: Case) -> int:
    """Return the last step before a climb was told at which the loss was no higher than its best.

    A climb is told once it stands out from all the run's ups and downs; a slow one has come a good
    way by then. Here a level is high if it lies above the best by a deviation of single losses.
    """
    rise, x = found_rise(case), case.loss.values
    before = x[max(rise.best - _NOISE, case.settled.start) : rise.best + 1]
    if rise.onset - rise.best < _LEVEL or len(before) < 2:
        return case.at(rise.onset)
    smooth = medians(np.lib.stride_tricks.sliding_window_view(x[rise.best : rise.onset], _LEVEL))
    low = np.flatnonzero(smooth <= rise.best_level + diff_sigma(before))
    last = rise.best + (int(low[-1]) + _LEVEL // 2 if len(low) else 0)
    return case.at(last)


def near_climb(case: Case, began: int, first: int) -> tuple[Change, ...]:
    """Return the settings that changed where a climb began.

    That is somewhere between ``began``, where the loss left its best level or its cause turned, and
    ``first``, where it stands out; medians of so many losses know both to half as many.
    """
    slack = round(_LEVEL // 2 * case.stride)
    return changes_near(case, min(began, first) - slack, max(began, first) + slack)
