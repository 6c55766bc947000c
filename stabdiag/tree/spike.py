"""§2: did the loss spike, did it recover, and what caused the spike?"""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.findings import Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.text import num, plural, sigmas
from stabdiag.stats.abrupt import context_size
from stabdiag.stats.quantiles import median, normal_tail
from stabdiag.stats.shape import Spike, blowup_start
from stabdiag.stats.standards import FAR_RATIO, MIN_CONSECUTIVE, MIN_TREND_POINTS, NEGLIGIBLE
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.changes import describe_changes
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.divergence import answer_reward_maintained
from stabdiag.tree.panels import lookback_start, lr_panel, panels
from stabdiag.tree.recurring import RecurringSpikes

# The limit is the expected maximum of the noise over the whole log. If it is this many times the
# largest observed score, it reflects the shape of the fitted tail and not the run.
_EXTRAPOLATED = FAR_RATIO

_HEAVY = "the loss is too heavy-tailed to flag single-step spikes"


def focus(case: Case) -> Spike:
    """Return the spike of Q2.2 to Q2.4."""
    if case.focus is None:
        raise LookupError("Q2.2 to Q2.4 require a spike")
    return case.focus


@frozen
class Start:
    """The start of a spike: a step after the last sound checkpoint, its name, and its cause."""

    step: int
    name: str
    cause: str = ""


def start(case: Case) -> Start:
    """Return the start of a spike: the learning-rate jump that caused it, or its onset.

    If the loss had already exploded, the start is the explosion.
    """
    onset, exploded = case.at(focus(case).onset), explosion_step(case, focus(case).onset)
    panel = lr_panel(case, lookback_start(case, onset), case.at(focus(case).peak))
    if not panel.holds and exploded is not None:
        return Start(step=exploded, name=f"the explosion of the loss at {case.describe(exploded)}")
    if not panel.holds:
        return Start(step=onset, name=f"the spike at {case.describe(onset)}")
    # Noise may have raised the loss a little before the jump.
    jump = panel.steps[0]
    name = f"the jump of the learning rate at {case.describe(jump)}"
    return Start(step=min(jump, onset), name=name, cause=panel.because)


def explosion_step(case: Case, position: int) -> int | None:
    """Return the step of an explosion of the loss before a position, or None."""
    since = blowup_start(case.loss.values, position)
    return None if since == position else case.at(since)


def time_to_recover(case: Case) -> str:
    """Describe the time to recover, and why it differs from the limit."""
    if case.by_epoch:
        return plural(case.recovery_steps, "epoch" if case.unit == "step" else case.unit)
    widened = case.recovery_steps > case.limits.spike.recovery_steps
    return plural(case.recovery_steps, case.unit) + (
        " (widened: the log is sparse)" if widened else ""
    )


def _is_there_a_spike(case: Case) -> Reply:
    if case.reward is not None:
        return answer_reward_maintained(case)
    scan = case.scan
    worst = case.focus or next(iter(case.spikes), None)
    if worst in scan.abrupt:
        return _abrupt(case, worst)
    if not scan.tested:
        return _without_rise(case) or untested(case)
    counted, measured = count_outliers(case)
    measured |= {
        "family_size": scan.tested,
        "family_limit": scan.limit,
        "window_points": case.spike_window,
    }
    wide = width(case)
    if worst is None and case.recurring is not None:
        return _recur(case.recurring, measured)
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
        if _is_extrapolated(case):
            noise = _HEAVY
        why = f"; {noise}, but here several are high together or a cause was logged just before"
    return risen(case, worst, counted, measured, f"{why}{wide}")


def _without_rise(case: Case) -> Reply | None:
    """Answer that a log too short to test for spikes has none: the loss falls nearly throughout.

    Any spike would be a rise above the lowest loss so far.
    """
    x = case.loss.values
    if len(x) < MIN_TREND_POINTS or case.loss_kind is not None:
        return None
    lowest = np.minimum.accumulate(x)
    # A single first loss above all others does not show that the loss falls.
    rises, fall = x - lowest, float(median(x[:MIN_CONSECUTIVE]) - lowest[-1])
    rise, at = float(rises.max()), int(rises.argmax())
    if fall <= 0 or rise > NEGLIGIBLE * fall:
        return None
    ends = "never rose"
    if rise:
        ends = f"is at most {num(rise)} above its lowest value so far"
    return no(
        f"the loss fell by {num(fall)} and {ends}",
        *([case.at(at)] if rise else []),
        measured={"logged": len(x), "fall": fall, "largest_rise": rise},
    )


def untested(case: Case) -> Reply:
    """Answer that there are too few losses to test for spikes."""
    return unknown(
        f"{plural(len(case.loss), 'finite loss', 'finite losses')}; a test for spikes requires "
        f"{case.min_losses_for_spikes}",
        measured={"logged": len(case.loss)},
    )


def risen(case: Case, worst: Spike, counted: str, measured: dict[str, Scalar], why: str) -> Reply:
    """Answer that the loss spiked: the outlier count, the worst spike, and why it counts."""
    # The outlier rule does not test the first window, so the count may be 0.
    before = f"{counted}; " if measured["outliers"] else ""
    return yes(
        f"{before}{_rose(case, worst)}{why}",
        *(case.at(spike.onset) for spike in case.spikes),
        measured={"spikes": len(case.spikes), "spike_score": worst.score, **measured},
    )


def count_outliers(case: Case) -> tuple[str, dict[str, Scalar]]:
    """Count the outliers of the literal rule, and the number expected from noise alone."""
    sigma = case.limits.spike.sigma
    count = int(case.baseline.above.sum())
    tested = int((~np.isnan(case.baseline.mean)).sum())
    expected = tested * normal_tail(sigma)
    text = f"no outliers (0 of {tested} above {num(sigma)}σ)"
    if count:
        text = (
            f"{count} of {tested} losses {'is' if count == 1 else 'are'} above μ+{num(sigma)}σ "
            f"({expected:.2g} expected by chance)"
        )
    return text, {"outliers": count, "expected_by_chance": expected, "tested": tested}


def _abrupt(case: Case, spike: Spike) -> Reply:
    """Answer that the loss rises more than anywhere else, compared with the losses just before."""
    count = context_size(len(case.loss))
    return yes(
        f"{_rose(case, spike)} above the {count} losses before, and no other rise in the log "
        "comes near",
        *(case.at(spike.onset) for spike in case.spikes),
        measured={
            "spikes": len(case.spikes),
            "spike_score": spike.score,
            "window_points": count,
        },
    )


def _rose(case: Case, spike: Spike) -> str:
    return (
        f"from {case.unit} {case.at(spike.onset)} on the loss rose to "
        f"{num(spike.height + spike.base)} from {num(spike.level)}, {sigmas(spike.score)}"
    )


def width(case: Case) -> str:
    """Describe the window if it differs from the limit, as the end of a sentence."""
    if case.by_epoch:
        return f"; the window is {plural(case.spike_window, 'epoch')} wide"
    if case.spike_window > round(case.limits.spike.window / case.stride):
        return f"; the window is {case.spike_window} points wide, as the log is sparse"
    return ""


def highest(case: Case) -> str:
    """Describe the largest score that is not a spike."""
    scan = case.scan
    if scan.largest <= 0:
        return "none is above the steps just before it"
    return (
        f"the highest, at {case.unit} {case.at(scan.largest_at)}, is {sigmas(scan.largest)} above "
        "the steps just before it"
    )


def _recur(recurring: RecurringSpikes, measured: dict[str, Scalar]) -> Reply:
    """Answer that spikes recur; they are judged as a group."""
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
    """Return the reason that no score is a spike: noise, recurrence, or a slower rise."""
    scan, score = case.scan, highest(case)
    if scan.largest <= 0:
        return score
    if scan.largest <= scan.limit:
        reach = f"normal variation reaches {sigmas(scan.limit)}"
        return f"{score}; {_HEAVY if _is_extrapolated(case) else reach}"
    if scan.spikes and case.history.loss_kind is LossKind.ADVERSARIAL:
        return f"{score}: the loss is {LossKind.ADVERSARIAL.about}, and may shift as they learn"
    if case.ramp is not None and any(map(case.ramp.contains, scan.spikes)):
        return f"{score}: it belongs to a rise caused by a change of the objective"
    if case.objective_changes:
        return (
            f"{score}; the loss rose permanently where "
            f"{describe_changes(case.objective_changes[0].changes)}: it is not comparable since"
        )
    if scan.spikes:
        return f"{score}: it belongs to a climb (see section 4)"
    return f"{score}, but peaks like it recur in this run"


def _is_extrapolated(case: Case) -> bool:
    return case.scan.limit > _EXTRAPOLATED * max(case.scan.largest, case.limits.spike.sigma)


def did_it_recover(case: Case) -> Reply:
    """Answer Q2.2: did the loss recover in time?"""
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
    candidates = panels(case, spike)
    measured = {key: value for panel in candidates for key, value in panel.measured.items()}
    because = "; ".join(panel.because for panel in candidates)
    for panel in candidates:
        if panel.holds:
            return yes(because, *panel.steps, branch=panel.branch, measured=measured)
    if all(panel.holds is None for panel in candidates):
        return unknown(because, measured=measured)
    return no(because, measured=measured)


def _which_checkpoint(case: Case) -> Reply:
    began = start(case)
    last = earlier_checkpoint(case, began.step)
    if last.step is None:
        because = "the manifest does not say how often a checkpoint is written"
        return unknown(because, began.step)
    if last.step == 0:
        cadence = f" ({last.cadence})" if last.cadence else ""
        return no(f"no checkpoint was written before {began.name}{cadence}", began.step)
    return yes(
        f"the last checkpoint before {began.name} is the one of {case.unit} {last.step}",
        last.step,
        measured={"checkpoint": last.step},
    )


ANSWERS: Final = {
    "Q2.1": _is_there_a_spike,
    "Q2.2": did_it_recover,
    "Q2.3": _what_caused_it,
    "Q2.4": _which_checkpoint,
}
