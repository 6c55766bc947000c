"""The common parts of the advice on spikes: the summary, the cause, the checkpoint."""

from __future__ import annotations

from stabdiag.model.findings import Action, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num, plural, sentence, sigmas
from stabdiag.tree.advice.shared import (
    Advice,
)
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import Checkpoint, Reload, earlier_checkpoint
from stabdiag.tree.drivers import LrOver, climb_rates
from stabdiag.tree.panels import leading_layer, lookback_start, lr_panel
from stabdiag.tree.spike import focus, start


@frozen
class SpikeFacts:
    """A spike: its onset, a summary, its cause if known, and the checkpoint for a restart.

    ``last`` is the checkpoint before ``began``, and ``reload`` is the instruction to reload it.
    ``resumed`` is the step of a resume just before the onset, if the learning rate did not jump.
    ``rising`` is the rise of the learning rate up to the onset, if the loss stayed up and no other
    cause is known. ``layer`` is a sentence on the layer whose gradient rose most.
    """

    onset: int
    summary: str
    cause: str
    resumed: int | None
    rising: LrOver | None
    reload: Reload
    began: int
    jumped: bool
    last: Checkpoint
    layer: str

    @property
    def is_caused_by_lr(self) -> bool:
        """Whether a jump or rise of the learning rate is the cause, and not a resume."""
        return bool(self.cause) and self.resumed is None

    def advice(
        self,
        detail: str,
        *,
        first: Action,
        next_actions: tuple[Action, ...],
        back: int | None = None,
        title: str = "",
        severity: Severity | None = None,
    ) -> Advice:
        """Return advice on the spike, with the checkpoint before it."""
        return Advice(
            summary=" ".join(filter(None, (self.summary, detail.strip(), self.layer))),
            first=first,
            next_actions=next_actions,
            step=self.onset,
            reload=self.reload.clause,
            began=self.began,
            back=back,
            title=title,
            severity=severity,
        )


def spike_facts(case: Case) -> SpikeFacts:
    """Return the parts of the advice that are common to all leaves of §2."""
    spike, began = focus(case), start(case)
    onset = case.at(spike.onset)
    last = earlier_checkpoint(case, began.step, case.stride)
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
    # If the loss exploded earlier, the spike is relative to the exploded level.
    onset = onset if began.cause else began.step
    since = f"from {case.unit} {onset} on, " if peak != onset else ""
    other_spikes = f" {plural(others, 'more spike')} in this log." if others else ""
    back = plural(case.at(spike.end) - onset, case.unit)
    recovered = f" and recovered within {back}" if spike.recovered else ""
    return SpikeFacts(
        onset=onset,
        summary=f"The loss rose {since}from {num(spike.level)} to "
        f"{num(spike.base + spike.height)} at {case.unit} {peak} "
        f"({sigmas(spike.score)}){recovered}.{other_spikes}",
        cause=cause,
        resumed=resumed,
        rising=rising,
        reload=reload,
        began=began.step,
        jumped=bool(began.cause),
        last=last,
        layer=_describe_layer(case),
    )


def _describe_layer(case: Case) -> str:
    """Return a sentence on the layer whose gradient norm rose most at the spike, or ""."""
    leading = leading_layer(case, focus(case))
    if leading is None:
        return ""
    name, ratio = leading
    return f"The gradient norm of {name!r} rose most, to {num(ratio)} x its median."


def _resumed(case: Case, onset: int) -> int | None:
    """Return the step of the last resume shortly before an onset, or None."""
    since = lookback_start(case, onset)
    return max((step for step in case.history.resumes if since <= step <= onset), default=None)


def _rising(case: Case, onset: int) -> LrOver | None:
    """Return the rise of the learning rate up to an onset if it is as large as a jump, or None."""
    lr = climb_rates(case, onset - case.limits.divergence.window, onset)
    if lr is None or not lr.rises or lr.end < case.limits.spike.lr_jump * lr.begin:
        return None
    return lr
