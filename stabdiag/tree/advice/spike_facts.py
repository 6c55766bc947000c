"""What every piece of advice on a spike says: what happened, why, and how to restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.findings import Remedy
from stabdiag.tree.advice.words import Advice, clip
from stabdiag.tree.checkpoint import Checkpoint, checkpoint_before
from stabdiag.tree.lr_over import lr_over
from stabdiag.tree.onset import focus, start
from stabdiag.tree.panels import before
from stabdiag.words import num, plural, sentence, sigmas

if TYPE_CHECKING:
    from stabdiag.tree.case import Case
    from stabdiag.tree.lr_over import LrOver

# What a resume has to bring back.
STATE = "the optimizer's moments, the schedule, the scaler and the place in the data"


@dataclass(frozen=True, kw_only=True)
class SpikeFacts:
    """A spike in words: its onset, what happened, why if that is clear, and ``how`` to restart.

    ``last`` is the checkpoint before ``began``, and ``reload`` names it; ``remedies`` are those of
    a restart.
    ``resumed`` is the step of a resume just before the onset, if there was one and no jump of the
    learning rate; ``rising`` is the learning rate at the onset, if the loss stayed up and nothing
    but its rise until then may be to blame.
    """

    onset: int
    what: str
    cause: str
    resumed: int | None
    rising: float | None
    reload: str
    began: int
    how: str
    restart: str
    remedies: tuple[Remedy, ...]
    last: Checkpoint

    def advice(
        self, told: str, *, first: str, then: tuple[str, ...], remedies: tuple[Remedy, ...]
    ) -> Advice:
        """Return advice on the spike, with the checkpoint from before it began."""
        return Advice(
            summary=f"{self.what} {told}".rstrip(),
            first=first,
            then=then,
            step=self.onset,
            reload=self.reload,
            began=self.began,
            remedies=remedies,
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
    how = f"{'without the jump, ' if began.cause else ''}with the clip threshold at {clip(case)}"
    if rising is not None:
        low = f"the learning rate held below {num(rising.end)}"
        how = f"with {low} and the clip threshold at {clip(case)}"
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
        reload=last.reload(began.what),
        began=began.step,
        how=how,
        remedies=(*((Remedy.RATE,) if began.cause or rising else ()), Remedy.CLIP),
        restart=f"{last.reload(began.what, how)}.",
        last=last,
    )


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
