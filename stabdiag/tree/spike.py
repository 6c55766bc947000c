"""§2: did the loss jump, did it come back, and what made it jump?"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.roles import OF_OPPONENTS
from stabdiag.model.text import num, plural, sigmas
from stabdiag.stats.spikes import BEFORE
from stabdiag.tree.changes import went
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.loss_weight import jumps_by_weight
from stabdiag.tree.onset import focus, start, time_to_recover
from stabdiag.tree.panels import panels
from stabdiag.tree.question import Question, Reply, no, unknown, yes
from stabdiag.tree.ramps import is_on_ramp
from stabdiag.tree.reward import no_harm

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# The tail of the noise is drawn out to where one step of the whole log would lie: so many times as
# far as the largest score that was seen, it tells of the tail's shape and not of the run.
_FAR = 5.0

# Where a loss stood still, or fell from 1e20, deviations have a floor far above its noise: of this
# the scores tell nothing.
_LEAST_NOISE = 1e-3

_HEAVY = "has so heavy a tail that no single step stands out from it"


def _is_there_a_spike(case: Case) -> Reply:
    if case.reward is not None:
        return no_harm(case.reward)
    scan, n = case.scan, len(case.loss)
    worst = case.focus or next(iter(case.spikes), None)
    if worst in scan.abrupt:
        return _abrupt(case, worst)
    if not scan.tested:
        return unknown(
            f"{plural(n, 'finite loss', 'finite losses')}; a baseline, and what is held against "
            f"it, take {case.fewest_for_spikes}",
            measured={"logged": n},
        )
    counted, measured = _exceedances(case)
    if not case.literal and scan.limit >= _LEAST_NOISE:
        measured |= {"family_size": scan.tested, "family_limit": scan.limit}
    measured["window_points"] = case.spike_window
    wide = _width(case)
    if worst is None:
        return no(
            f"{counted}; {_why_none(case)}{wide}",
            case.at(scan.largest_at),
            measured={"largest_score": scan.largest, **measured},
        )
    # Of the first window the letter tests nothing: a spike there is none of these.
    rose = f"{counted}; " if measured["exceedances"] else ""
    rose += _rose(case, worst)
    if case.literal or scan.limit < min(worst.score, _LEAST_NOISE):
        why = ""
    elif worst.score > scan.limit:
        why = f", and this run's own noise reaches {sigmas(scan.limit)}"
    else:
        noise = f"single steps of this run's noise reach {sigmas(scan.limit)}"
        if _is_drawn_out(case):
            noise = f"this run's noise {_HEAVY}"
        why = f"; {noise}, but here several are high together or a cause was logged just before"
    return yes(
        f"{rose}{why}{wide}",
        *(case.at(spike.onset) for spike in case.spikes),
        measured={"spikes": len(case.spikes), "spike_score": worst.score, **measured},
    )


def _exceedances(case: Case) -> tuple[str, dict[str, Scalar]]:
    """Return what the tree's rule counts to the letter, and what it would count of mere noise."""
    sigma = case.limits.spike.sigma
    count = int(case.baseline.above.sum())
    tested = int((~np.isnan(case.baseline.mean)).sum())
    expected = tested * (1 - NormalDist().cdf(sigma))
    told = (
        f"{count} of {tested} losses {'lies' if count == 1 else 'lie'} above μ+{num(sigma)}σ "
        f"({expected:.2g} expected by chance)"
    )
    return told, {"exceedances": count, "expected_by_chance": expected, "tested": tested}


def _abrupt(case: Case, spike: Spike) -> Reply:
    """Return that the loss rises as it does nowhere else, which the losses just before tell."""
    return yes(
        f"{_rose(case, spike)} above the {BEFORE} losses before, and no other rise in the log "
        "comes near",
        *(case.at(spike.onset) for spike in case.spikes),
        measured={
            "spikes": len(case.spikes),
            "spike_score": spike.score,
            "window_points": BEFORE,
        },
    )


def _rose(case: Case, spike: Spike) -> str:
    return (
        f"from step {case.at(spike.onset)} on the loss rose to {num(spike.height + spike.base)} "
        f"from {num(spike.level)}, {sigmas(spike.score)}"
    )


def _width(case: Case) -> str:
    """Return how wide the window is if not what the limit says, as the end of a sentence."""
    if case.by_epoch:
        return f"; the window is {plural(case.spike_window, 'epoch')} wide"
    if case.spike_window > round(case.limits.spike.window / case.stride):
        return f"; the window is {case.spike_window} points wide, as the log is sparse"
    return ""


def _why_none(case: Case) -> str:
    """Return why the largest score is no spike: noise, a habit, or a part of something slower."""
    scan = case.scan
    if scan.largest <= 0:
        return "none lies above the steps just before it"
    highest = (
        f"the highest, at step {case.at(scan.largest_at)}, is {sigmas(scan.largest)} above the "
        "steps just before it"
    )
    if case.literal:
        return highest
    if scan.largest <= scan.limit:
        reach = _HEAVY if _is_drawn_out(case) else f"reaches {sigmas(scan.limit)}"
        return f"{highest}; this run's own noise {reach}"
    if scan.spikes and case.history.contested == OF_OPPONENTS:
        return f"{highest}: the loss is {OF_OPPONENTS}, and may shift as they learn"
    if any(jumps_by_weight(case, spike) for spike in scan.spikes):
        column = case.history.series["loss_weight"].column
        return f"{highest}: there {column!r} grew, by which a part of the loss is weighed"
    if any(is_on_ramp(case, spike) for spike in scan.spikes):
        return f"{highest}: it belongs to a rise that goes with what the loss is measured on"
    if case.shifts:
        return (
            f"{highest}; the loss rose for good where {went(case.shifts[0].changes)}: it is "
            "measured on something else since, and not comparable"
        )
    if scan.spikes:
        return f"{highest}: it belongs to a climb, which section 4 is asked about"
    return f"{highest}, but does not stand apart from what else this run does"


def _is_drawn_out(case: Case) -> bool:
    return case.scan.limit > _FAR * max(case.scan.largest, case.limits.spike.sigma)


def _did_it_recover(case: Case) -> Reply:
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
            f"the smoothed loss was back below {level} after {plural(took, 'step')}",
            onset,
            case.at(spike.end),
            measured={"recovered_after": took, **measured},
        )
    left = int(case.loss.steps[-1]) - onset
    if spike.recovered is None:
        return unknown(
            f"the log ends {plural(left, 'step')} after the onset, before the loss stayed below "
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
    last = checkpoint_before(case.manifest, began.step)
    if last.step is None:
        because = "the manifest does not tell how often a checkpoint is written"
        return unknown(because, began.step)
    if last.step == 0:
        cadence = f" ({last.cadence})" if last.every else ""
        return no(f"no checkpoint was written before {began.what}{cadence}", began.step)
    return yes(
        f"the last checkpoint before {began.what} is that of step {last.step}",
        last.step,
        measured={"checkpoint": last.step},
    )


QUESTIONS: tuple[Question, ...] = (
    Question(
        id="Q2.1",
        asks="Is there a step with the loss above μ+{spike.sigma}σ of the steps before?",
        answer=_is_there_a_spike,
        needs=("loss",),
        limits=(
            "spike.sigma",
            "spike.window",
            "spike.min_points",
            "spike.false_alarm",
            "spike.min_rise",
        ),
    ),
    Question(
        id="Q2.2",
        asks="Did the loss recover within {spike.recovery_steps} steps?",
        answer=_did_it_recover,
        needs=("loss",),
        limits=("spike.recovery_sigma", "spike.recovery_steps"),
    ),
    Question(
        id="Q2.3",
        asks="What caused the spike?",
        answer=_what_caused_it,
        limits=("spike.lr_jump", "spike.lookback", "spike.batch_lookback", "spike.grad_ratio"),
    ),
    Question(
        id="Q2.4",
        asks="Which checkpoint precedes the elevation?",
        answer=_which_checkpoint,
    ),
)
