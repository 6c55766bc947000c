"""Rises of the loss that lasted long and recovered."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num, plural
from stabdiag.stats.drawup import RecoveredRise, recovered_rise
from stabdiag.stats.levels import beginning
from stabdiag.stats.quantiles import diff_sigma
from stabdiag.stats.standards import CLEAR, FIFTH, MIN_LONG_LOG
from stabdiag.symptoms.losses import not_comparable
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.drivers import lr_over

# Levels are medians over these fractions of the window of §4: short for fast rises, long for slow
# ones.
_SHARES: Final = (0.04, 0.1)

# A rise is worth a note from this many standard deviations of a level, and from this fraction of
# the progress before it. It is reported for 1 in 20 healthy labeled runs; the data of most of
# these change in blocks.
_RECOVERED_SIGMAS: Final = 10.0
_PROGRESS: Final = FIFTH


@Symptom(
    slug="rise-recovered",
    severity=Severity.NOTE,
    family="spikes",
    title="The loss rose for a while and recovered",
    needs=("loss",),
    explained_by=("nan", "divergence", "spike", "loss-scale"),
    yields_to=("loss-oscillating", "epoch-boundary-jump", "no-progress", "lr-too-high"),
    preconditions=(at_least(MIN_LONG_LOG, "loss"), not_comparable),
    next_actions=(
        Action(Do.INSPECT_DATA, "Compare the data of these steps with the data before them."),
        Action(Do.LOG_MORE, "Log the gradient norm and the batch id at every step."),
    ),
)
def rise_recovered(case: Case) -> Evidence | None:
    """Did the loss rise far above its noise for a while, and come back?"""
    rise = _highest(case)
    if rise is None:
        return None
    x = case.loss.values
    progress = max(beginning(x) - rise.low, 0.0)
    bar = max(_RECOVERED_SIGMAS * rise.noise, CLEAR * diff_sigma(x), _PROGRESS * progress)
    first, crest, end = (case.at(position) for position in (rise.foot, rise.crest, rise.end))
    if rise.height <= bar or _lr_rises(case, first, crest):
        return None
    return Evidence(
        because=f"The loss rose from {num(rise.low)} at {case.unit} {first} to {num(rise.high)} at "
        f"{case.unit} {crest} and was back by {case.unit} {end}: "
        f"{plural(end - first, case.unit)} were lost.",
        step=first,
        measured={"from": rise.low, "to": rise.high, "crest": crest, "end": end},
        first=Action(
            Do.INSPECT_DATA,
            f"Find out what changed at {case.unit} {first}: the data order, a setting, a restart.",
        ),
    )


def _highest(case: Case) -> RecoveredRise | None:
    """Return the recovered rise that is highest in units of its noise, over two block sizes."""
    window = min(case.rise_window, len(case.loss))
    sizes = {max(round(window * share), 2) for share in _SHARES}
    rises = (recovered_rise(case.loss.values, size) for size in sizes)
    clear = (rise for rise in rises if rise is not None)
    return max(clear, key=lambda rise: rise.height / rise.noise if rise.noise else 0, default=None)


def _lr_rises(case: Case, first: int, last: int) -> bool:
    """Return True if the learning rate was raised during the rise, as in a warm restart."""
    rates = case.history.finite("lr").between(first, last).values
    over = lr_over(case, first, last)
    raised = len(rates) > 1 and rates.max() > case.limits.divergence.lr_rise * rates[0]
    return bool(raised or (over is not None and over.rises))
