"""The climb that advice on §4 is about: its start, its summary and the checkpoint before it."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, ActionKind, Answer
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num, sentence
from stabdiag.stats.course import moving_medians, start_level
from stabdiag.stats.quantiles import diff_sigma
from stabdiag.stats.shape import BLOWUP_RATIO
from stabdiag.stats.standards import TWICE
from stabdiag.tree.advice.shared import (
    LEVEL,
    STATE,
    Advice,
)
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import Reload, earlier_checkpoint
from stabdiag.tree.divergence import best_step, climb_steps, describe_range_end, require_rise
from stabdiag.tree.spike import explosion_step


@frozen
class ClimbAdvice:
    """A climb: a summary, its start and the checkpoint to reload.

    ``first`` is the step where the loss began to climb, and ``began`` the step where its cause
    began. The checkpoint precedes ``damage_start``, where the loss may have left its best level.
    ``resumed`` is the step of a resume just before that.
    """

    first: int
    began: int
    damage_start: int
    summary: str
    reload: Reload
    unit: str
    resumed: int | None = None

    @property
    def check_data(self) -> str:
        """An imperative clause: check the data."""
        return f"check the data from {self.unit} {self.first} on: order, labels, sources"

    def check(self) -> Action:
        """Return the action to check the data."""
        return Action(ActionKind.INSPECT_DATA, sentence(self.check_data), step=self.first)

    def after_resume(
        self, actions: tuple[Action, ...], detail: str
    ) -> tuple[tuple[Action, ...], str]:
        """Return the actions and the detail; if a resume preceded the climb, it comes first."""
        if self.resumed is None:
            return actions, detail
        check = Action(
            ActionKind.RESTORE_STATE,
            f"Resume at {self.unit} {self.resumed} again, and check that it restores {STATE}.",
            step=self.resumed,
        )
        began = f"It began after the run resumed, at {self.unit} {self.resumed}."
        return (check, *actions), f"{began} {detail}"

    def advice(self, detail: str, *, first: Action, next_actions: tuple[Action, ...]) -> Advice:
        """Return advice on the climb, with the checkpoint before it and its cause."""
        return Advice(
            summary=f"{self.summary} {detail}",
            first=first,
            next_actions=next_actions,
            step=self.began,
            reload=self.reload.clause,
            began=self.damage_start,
        )


def find_climb(case: Case, cause: str = "", answer: Answer | None = None) -> ClimbAdvice:
    """Return the climb; ``answer`` is about the series that caused it, if any."""
    first, _ = climb_steps(case)
    rise = require_rise(case)
    ended = f"ended at {num(rise.last_level)}"
    if case.comparable_range.stop != len(case.loss):
        ended = f"was at {num(rise.last_level)} before {describe_range_end(case)}"
    summary = (
        f"The loss climbed from {case.unit} {first} on and {ended}, {num(rise.amount)} above its "
        f"best level ({num(rise.best_level)} near {case.unit} {best_step(case)})."
    )
    start = start_level(case.loss.values)
    if rise.best_level > BLOWUP_RATIO * start > 0 and case.loss.steps[0] <= case.stride:
        # It exploded before any level could be measured.
        begin = case.at(_explosion_start(case.loss.values, start))
        summary = f"The loss exploded in the first {case.unit}s, from {num(start)}, and {ended}."
        return _explosion(case, begin, summary, f"from {case.unit} {begin} on")
    since, exploded = f"the climb from {case.unit} {first} on", explosion_step(case, rise.onset)
    turned = answer.measured.get("turning_step") if answer else None
    if exploded is not None and not (isinstance(turned, int) and turned < exploded):
        summary = f"The loss exploded at {case.unit} {exploded}, and {ended}."
        return _explosion(case, exploded, summary, f"at {case.describe(exploded)}")
    if isinstance(turned, int):
        # The cause began long before the loss climbed.
        since = f"{cause} from {case.unit} {turned} on" if turned < first else since
        damage_start = min(turned, first)
        reload = earlier_checkpoint(case, damage_start, case.stride).reload(since)
        return ClimbAdvice(
            first=first,
            began=turned,
            damage_start=damage_start,
            summary=summary,
            reload=reload,
            unit=case.unit,
        )
    damage_start, checkpoint = first, earlier_checkpoint(case, first, case.stride)
    if checkpoint.step is None:  # the loss may have been best at the beginning
        checkpoint = earlier_checkpoint(case, best_step(case))
    last_best = _last_best_step(case)
    # A checkpoint from within a slow climb is not sound.
    chosen = first if checkpoint.step is None else checkpoint.step
    if last_best + LEVEL * case.stride < chosen:
        checkpoint, damage_start = earlier_checkpoint(case, last_best), last_best
        since = f"the loss left its best level near {case.unit} {last_best}"
    reload = checkpoint.reload(since)
    return ClimbAdvice(
        first=first,
        began=first,
        damage_start=damage_start,
        summary=summary,
        reload=reload,
        unit=case.unit,
        resumed=_resumed(case, min(damage_start, last_best), first),
    )


def _resumed(case: Case, damage_start: int, first: int) -> int | None:
    """Return the last resume between the best level and a climb, or None.

    A climb that begins more than a window after it has another cause.
    """
    since = max(damage_start - 2 * LEVEL * case.stride, first - case.limits.divergence.window)
    return max((step for step in case.history.resumes if since <= step <= first), default=None)


def _last_best_step(case: Case) -> int:
    """Return the last step before a climb with the loss at its best level.

    A climb is detected once it exceeds the normal variation, and a slow climb is far advanced by
    then. Here a level is high if it exceeds the best one by a standard deviation of single losses.
    """
    rise, x = require_rise(case), case.loss.values
    before = x[max(rise.best - case.rise_window, case.comparable_range.start) : rise.best + 1]
    if rise.onset - rise.best < LEVEL or len(before) < 2:
        return case.at(rise.onset)
    smooth = moving_medians(x[rise.best : rise.onset], LEVEL)
    low = np.flatnonzero(smooth <= rise.best_level + diff_sigma(before))
    last = rise.best + (int(low[-1]) + LEVEL // 2 if len(low) else 0)
    return case.at(last)


def _explosion(case: Case, step: int, summary: str, where: str) -> ClimbAdvice:
    """Return the climb of a loss that exploded at a step."""
    reload = earlier_checkpoint(case, step, case.stride).reload(
        f"the explosion of the loss {where}"
    )
    return ClimbAdvice(
        first=step,
        began=step,
        damage_start=step,
        summary=summary,
        reload=reload,
        unit=case.unit,
    )


def _explosion_start(losses: Floats, start: float) -> int:
    """Return the position of the first of the losses that lead to an explosion."""
    exploded = int(np.argmax(losses > BLOWUP_RATIO * start))
    calm = np.flatnonzero(losses[:exploded] <= TWICE * start)
    return int(calm[-1]) + 1 if len(calm) else 0
