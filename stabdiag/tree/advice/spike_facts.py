"""What every piece of advice on a spike says: what happened, why, and how to restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num, plural, sentence, sigmas
from stabdiag.tree.advice.words import Advice, Setting, clip
from stabdiag.tree.checkpoint import Checkpoint, Reload, checkpoint_before
from stabdiag.tree.drivers import lr_over
from stabdiag.tree.panels import before
from stabdiag.tree.spike import focus, start

if TYPE_CHECKING:
    from stabdiag.tree.case import Case
    from stabdiag.tree.drivers import LrOver

# What a resume has to bring back.
STATE = "the optimizer's moments, the schedule, the scaler and the place in the data"


@dataclass(frozen=True, kw_only=True)
class SpikeFacts:
    """A spike in words: its onset, what happened, why if that is clear, and how to restart.

    ``last`` is the checkpoint before ``began``, and ``reload`` names it.
    ``resumed`` is the step of a resume just before the onset, if there was one and no jump of the
    learning rate; ``rising`` is the learning rate at the onset, if the loss stayed up and nothing
    but its rise until then may be to blame.
    """

    onset: int
    what: str
    cause: str
    resumed: int | None
    rising: float | None
    reload: Reload
    began: int
    restart: Action
    last: Checkpoint

    def advice(self, told: str, *, first: Action, then: tuple[Action, ...]) -> Advice:
        """Return advice on the spike, with the checkpoint from before it began."""
        return Advice(
            summary=f"{self.what} {told}".rstrip(),
            first=first,
            then=then,
            step=self.onset,
            reload=str(self.reload),
            began=self.began,
        )


def spike_facts(case: Case) -> SpikeFacts:
    """Return these facts about the spike that the questions are about."""
    spike = focus(case)
    onset = case.at(spike.onset)
    began = start(case)
    last = checkpoint_before(case.manifest, began.step, case.stride)
    resumed = None if began.cause else _resumed(case, onset)
    may_rise = not began.cause and resumed is None and not spike.recovered
    rising = _rising(case, onset) if may_rise else None
    reload = last.reload(began.what)
    restart = _restart(reload, clip(case), rising, jumped=bool(began.cause))
    others = len(case.spikes) - 1
    also = f" {plural(others, 'more spike')} in this log." if others else ""
    back = ""
    if spike.recovered:
        back = f" and was back after {plural(case.at(spike.end) - onset, 'step')}"
    return SpikeFacts(
        onset=onset,
        what=f"The loss rose from {num(spike.level)} to {num(spike.base + spike.height)} at step "
        f"{case.at(spike.peak)} ({sigmas(spike.score)}){back}.{also}",
        cause=sentence(began.cause) if began.cause else _at_resume(resumed) or _told(rising),
        resumed=resumed,
        rising=rising.end if rising is not None else None,
        reload=reload,
        began=began.step,
        restart=restart,
        last=last,
    )


def _restart(reload: Reload, threshold: Setting, rising: LrOver | None, *, jumped: bool) -> Action:
    """Return how to restart: with gradients clipped, and with what raised the rate mended."""
    cut = f"with the clip threshold at {threshold}"
    also = (ActionKind.CLIP_GRADIENTS,)
    if rising is not None:
        low = f"with the learning rate held below {num(rising.end)} and the clip threshold at "
        return reload.restart(
            ActionKind.LOWER_LR, f"{low}{threshold}", also=also, setting="peak_lr", to=rising.end
        )
    if jumped:
        return reload.restart(
            ActionKind.FIX_SCHEDULE, f"without the jump, {cut}", also=also, **threshold.change
        )
    return reload.restart(ActionKind.CLIP_GRADIENTS, cut, **threshold.change)


def _resumed(case: Case, onset: int) -> int | None:
    """Return the step of the last resume shortly before an onset, or None."""
    since = before(case, onset)
    return max((step for step in case.history.resumes if since <= step <= onset), default=None)


def _at_resume(step: int | None) -> str:
    return "" if step is None else f"It began where the run resumed, at step {step}."


def _rising(case: Case, onset: int) -> LrOver | None:
    """Return how the learning rate rose up to an onset, if by as much as a jump would be."""
    lr = lr_over(case, onset - case.limits.divergence.window, onset)
    if lr is None or not lr.rises or lr.end < case.limits.spike.lr_jump * lr.begin:
        return None
    return lr


def _told(rising: LrOver | None) -> str:
    if rising is None:
        return ""
    return (
        f"The learning rate rose until then, from {num(rising.begin)} to {num(rising.end)}, higher "
        "than ever before."
    )
