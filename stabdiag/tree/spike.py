"""§2: did the loss jump, did it come back, and what made it jump?"""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

import numpy as np

from stabdiag.model.findings import Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.text import num, plural, sigmas
from stabdiag.stats.abrupt import context_size
from stabdiag.stats.shape import Spike, blowup_start
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.changes import went
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.divergence import no_harm
from stabdiag.tree.panels import before, lr_panel, panels
from stabdiag.tree.recurring import RecurringSpikes

# The tail of the noise is drawn out to where one step of the whole log would lie: so many times as
# far as the largest score that was seen, it tells of the tail's shape and not of the run.
_FAR = 5.0

_HEAVY = "the loss is too heavy-tailed to flag single-step spikes"


def focus(case: Case) -> Spike:
    """Return the spike that the questions are about."""
    if case.focus is None:
        raise LookupError("Q2.2 to Q2.4 are asked of a spike")
    return case.focus


@frozen
class Start:
    """Where a spike began: a step that a sound checkpoint precedes, what it was, and why."""

    step: int
    what: str
    cause: str = ""


def start(case: Case) -> Start:
    """Return where a spike began: at the jump of the learning rate that led to it, or its onset.

    A loss that had exploded before was damaged from there on.
    """
    onset, exploded = case.at(focus(case).onset), exploded_at(case, focus(case).onset)
    panel = lr_panel(case, before(case, onset), case.at(focus(case).peak))
    if not panel.holds and exploded is not None:
        return Start(step=exploded, what=f"the explosion of the loss at {case.numbered(exploded)}")
    if not panel.holds:
        return Start(step=onset, what=f"the spike at {case.numbered(onset)}")
    # The onset is where the loss left its level, and noise may have lifted it a little before.
    jump = panel.steps[0]
    what = f"the jump of the learning rate at {case.numbered(jump)}"
    return Start(step=min(jump, onset), what=what, cause=panel.because)


def exploded_at(case: Case, position: int) -> int | None:
    """Return the step at which the loss had exploded before a position, or None."""
    since = blowup_start(case.loss.values, position)
    return None if since == position else case.at(since)


def time_to_recover(case: Case) -> str:
    """Return how long a spike had to come back, and why that is not what the limit says."""
    if case.by_epoch:
        return plural(case.recovery_steps, "epoch" if case.unit == "step" else case.unit)
    widened = case.recovery_steps > case.limits.spike.recovery_steps
    told = plural(case.recovery_steps, case.unit)
    return told + (" (widened: the log is sparse)" if widened else "")


def _is_there_a_spike(case: Case) -> Reply:
    if case.reward is not None:
        return no_harm(case)
    scan = case.scan
    worst = case.focus or next(iter(case.spikes), None)
    if worst in scan.abrupt:
        return _abrupt(case, worst)
    if not scan.tested:
        return untested(case)
    counted, measured = exceedances(case)
    measured |= {
        "family_size": scan.tested,
        "family_limit": scan.limit,
        "window_points": case.spike_window,
    }
    wide = width(case)
    if worst is None and case.recurring is not None:
        return _recur(case, case.recurring, measured)
    if worst is None:
        return no(
            f"{counted}; {_why_none(case)}{wide}",
            case.at(scan.largest_at),
            measured={"largest_score": scan.largest, **measured},
        )
    if worst.score > scan.limit:
        why = f"; normal variation reaches {sigmas(scan.limit)}"
    else:
        noise = f"single steps vary by up to {sigmas(scan.limit)}"
        if _is_drawn_out(case):
            noise = _HEAVY
        why = f"; {noise}, but here several are high together or a cause was logged just before"
    return risen(case, worst, counted, measured, f"{why}{wide}")


def untested(case: Case) -> Reply:
    """Return that there are too few losses to test for spikes."""
    return unknown(
        f"{plural(len(case.loss), 'finite loss', 'finite losses')}; a test for spikes takes "
        f"{case.fewest_for_spikes}",
        measured={"logged": len(case.loss)},
    )


def risen(case: Case, worst: Spike, counted: str, measured: dict[str, Scalar], why: str) -> Reply:
    """Return that the loss rose: what the original rule counts, the worst spike, and why."""
    # Of the first window the original rule tests nothing: a spike there is none of these.
    before = f"{counted}; " if measured["exceedances"] else ""
    return yes(
        f"{before}{_rose(case, worst)}{why}",
        *(case.at(spike.onset) for spike in case.spikes),
        measured={"spikes": len(case.spikes), "spike_score": worst.score, **measured},
    )


def exceedances(case: Case) -> tuple[str, dict[str, Scalar]]:
    """Return what the tree's original rule counts, and what it would count of noise alone."""
    sigma = case.limits.spike.sigma
    count = int(case.baseline.above.sum())
    tested = int((~np.isnan(case.baseline.mean)).sum())
    expected = tested * (1 - NormalDist().cdf(sigma))
    told = f"no outliers (0 of {tested} above {num(sigma)}σ)"
    if count:
        told = (
            f"{count} of {tested} losses {'lies' if count == 1 else 'lie'} above μ+{num(sigma)}σ "
            f"({expected:.2g} expected by chance)"
        )
    return told, {"exceedances": count, "expected_by_chance": expected, "tested": tested}


def _abrupt(case: Case, spike: Spike) -> Reply:
    """Return that the loss rises as it does nowhere else, which the losses just before tell."""
    beside = context_size(len(case.loss))
    return yes(
        f"{_rose(case, spike)} above the {beside} losses before, and no other rise in the log "
        "comes near",
        *(case.at(spike.onset) for spike in case.spikes),
        measured={
            "spikes": len(case.spikes),
            "spike_score": spike.score,
            "window_points": beside,
        },
    )


def _rose(case: Case, spike: Spike) -> str:
    return (
        f"from {case.unit} {case.at(spike.onset)} on the loss rose to "
        f"{num(spike.height + spike.base)} from {num(spike.level)}, {sigmas(spike.score)}"
    )


def width(case: Case) -> str:
    """Return how wide the window is if not what the limit says, as the end of a sentence."""
    if case.by_epoch:
        return f"; the window is {plural(case.spike_window, 'epoch')} wide"
    if case.spike_window > round(case.limits.spike.window / case.stride):
        return f"; the window is {case.spike_window} points wide, as the log is sparse"
    return ""


def highest(case: Case) -> str:
    """Return how high the largest score is, where it is no spike."""
    scan = case.scan
    if scan.largest <= 0:
        return "none lies above the steps just before it"
    return (
        f"the highest, at {case.unit} {case.at(scan.largest_at)}, is {sigmas(scan.largest)} above "
        "the steps just before it"
    )


def _recur(case: Case, recurring: RecurringSpikes, measured: dict[str, Scalar]) -> Reply:
    """Return that spikes recur: they are judged together, not one by one."""
    return yes(
        f"the loss spiked {len(recurring)} times and recovered each time, by "
        f"{sigmas(recurring.scores.min())} to {sigmas(recurring.scores.max())}; all other steps "
        f"stay within {sigmas(recurring.noise)}",
        *recurring.steps.tolist(),
        branch="recurring",
        measured={
            "spikes": len(recurring),
            "spike_score": float(recurring.scores.max()),
            **measured,
        },
    )


def _why_none(case: Case) -> str:
    """Return why the largest score is no spike: noise, recurring, or a part of something slower."""
    scan, told = case.scan, highest(case)
    if scan.largest <= 0:
        return told
    if scan.largest <= scan.limit:
        reach = f"normal variation reaches {sigmas(scan.limit)}"
        return f"{told}; {_HEAVY if _is_drawn_out(case) else reach}"
    if scan.spikes and case.history.loss_kind is LossKind.ADVERSARIAL:
        return f"{told}: the loss is {LossKind.ADVERSARIAL.about}, and may shift as they learn"
    if case.ramp is not None and any(map(case.ramp.holds, scan.spikes)):
        return f"{told}: it belongs to a rise that goes with what the loss is measured on"
    if case.shifts:
        return (
            f"{told}; the loss rose for good where {went(case.shifts[0].changes)}: it is not "
            "comparable since"
        )
    if scan.spikes:
        return f"{told}: it belongs to a climb (see section 4)"
    return f"{told}, but peaks like it recur in this run"


def _is_drawn_out(case: Case) -> bool:
    return case.scan.limit > _FAR * max(case.scan.largest, case.limits.spike.sigma)


def did_it_recover(case: Case) -> Reply:
    """Answer Q2.2: was the loss back within its bounds in time?"""
    spike, limits = focus(case), case.limits.spike
    bound = spike.base + limits.recovery_sigma * spike.sigma
    measured = {
        "base": spike.base,
        "sigma": spike.sigma,
        "bound": bound,
        "peak": spike.height + spike.base,
    }
    if case.recovery_steps != limits.recovery_steps:
        measured["recovery_steps"] = case.recovery_steps
    onset, time = case.at(spike.onset), time_to_recover(case)
    level = f"μ+{num(limits.recovery_sigma)}σ = {num(bound)}"
    if spike.recovered:
        took = case.at(spike.end) - onset
        return yes(
            f"the loss was back below {level} after {plural(took, case.unit)}",
            onset,
            case.at(spike.end),
            measured={"recovered_after": took, **measured},
        )
    left = int(case.loss.steps[-1]) - onset
    if spike.recovered is None:
        ends = "the last finite loss is" if case.before_nan else "the log ends"
        return unknown(
            f"{ends} {plural(left, case.unit)} after the onset, before the loss stayed below "
            f"{level}; {time} are needed to tell",
            onset,
            measured={"steps_left": left, **measured},
        )
    return no(
        f"the loss was not back below {level} within {time} of the onset at {onset}",
        onset,
        measured=measured,
    )


def _what_caused_it(case: Case) -> Reply:
    spike = focus(case)
    asked = panels(case, spike)
    measured = {key: value for panel in asked for key, value in panel.measured.items()}
    because = "; ".join(panel.because for panel in asked)
    for panel in asked:
        if panel.holds:
            return yes(because, *panel.steps, branch=panel.branch, measured=measured)
    if all(panel.holds is None for panel in asked):
        return unknown(because, measured=measured)
    return no(because, measured=measured)


def _which_checkpoint(case: Case) -> Reply:
    began = start(case)
    last = checkpoint_before(case, began.step)
    if last.step is None:
        because = "the manifest does not tell how often a checkpoint is written"
        return unknown(because, began.step)
    if last.step == 0:
        cadence = f" ({last.cadence})" if last.cadence else ""
        return no(f"no checkpoint was written before {began.what}{cadence}", began.step)
    return yes(
        f"the last checkpoint before {began.what} is that of {case.unit} {last.step}",
        last.step,
        measured={"checkpoint": last.step},
    )


ANSWERS: Final = {
    "Q2.1": _is_there_a_spike,
    "Q2.2": did_it_recover,
    "Q2.3": _what_caused_it,
    "Q2.4": _which_checkpoint,
}
