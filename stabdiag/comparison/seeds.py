"""Runs that differ in their seed: do they end alike, as far as this number of seeds can tell?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from stabdiag.comparison.kind import span
from stabdiag.comparison.outcomes import SEED_VARIANCE
from stabdiag.comparison.settings import joined
from stabdiag.model.comparison import Comparison, Level, Run
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import num
from stabdiag.stats.means import Spread, mean_and_error, spread
from stabdiag.stats.quantiles import median

# A mean at the end takes so many losses at least; one at the beginning is of so many.
_FEWEST: Final = 5
_FIRST: Final = 3

# At most this many seeds are listed one by one.
_LISTED: Final = 3

# Below this, a p-value is rounding error.
_LEAST_P: Final = 1e-16


@frozen
class Ends:
    """Where runs end: their levels up to a step, and the labels of those lost before it.

    ``descent`` is how far the loss usually came down.
    """

    levels: tuple[Level, ...]
    lost: tuple[str, ...]
    until: int
    descent: float

    @property
    def noise(self) -> float:
        """The usual deviation of a single loss at the end."""
        return median(np.array([level.noise for level in self.levels]))

    @property
    def error(self) -> float:
        """The usual error of a mean at the end."""
        return median(np.array([level.error for level in self.levels]))

    @property
    def spread(self) -> Spread:
        """How far the ends of at least two runs lie apart."""
        return spread(
            np.array([level.value for level in self.levels]),
            np.array([level.error for level in self.levels]),
        )

    @property
    def farthest(self) -> tuple[Level, float]:
        """The run that ends farthest from the median of the others, and how far, with sign."""
        values = np.array([level.value for level in self.levels])
        offs = [float(values[i]) - median(np.delete(values, i)) for i in range(len(values))]
        at = max(range(len(offs)), key=lambda i: (abs(offs[i]), offs[i]))
        return self.levels[at], offs[at]


def ends(runs: Sequence[Run], limits: CompareLimits) -> Ends:
    """Return where runs end, over the last part of the steps that all of them have.

    A run whose losses are not finite there is lost: it has no level.
    """
    first, until = max(span(run)[0] for run in runs), min(span(run)[1] for run in runs)
    begin = until - round(limits.final_share * (until - first))
    levels, lost, descents = [], [], []
    for run in runs:
        loss = run.history.series["loss"]
        last = loss.between(begin, until)
        if len(last) < _FEWEST:  # sparse logs
            last = loss.between(first, until)
            if len(last) > _FEWEST:
                last = last.between(int(last.steps[-_FEWEST]), until)
        finite = last.finite().values
        if 2 * len(finite) < len(last):
            lost.append(run.label)
        elif len(finite) >= _FEWEST:
            mean = mean_and_error(finite)
            levels.append(
                Level(run=run.label, value=mean.value, error=mean.error, noise=mean.deviation)
            )
            descents.append(float(loss.finite().values[:_FIRST].mean()) - mean.value)
    descent = max(median(np.array(descents)), 0.0) if descents else 0.0
    return Ends(levels=tuple(levels), lost=tuple(lost), until=until, descent=descent)


def seed_variance(comparison: Comparison) -> Iterator[Finding]:
    """Find seeds that end away from the others, by more than noise and by enough to matter."""
    limits = comparison.limits.compare
    found = ends(comparison.runs, limits)
    if found.lost:
        yield _lost(comparison, found)
        return
    if len(found.levels) < 2:
        return
    between, (odd, off) = found.spread, found.farthest
    matters = max(limits.seed_share * found.descent, found.noise)
    if between.p_value > limits.seed_significance or abs(off) <= matters:
        return
    odds = f"p = {between.p_value:.1g}" if between.p_value >= _LEAST_P else f"p < {_LEAST_P:g}"
    yield SEED_VARIANCE.found(
        f"{_told(found)} {_standing(found, odd, off)} Noise within a run makes each mean uncertain "
        f"by {num(found.error)}, which does not explain the spread ({odds}). "
        f"{_what_n_shows(len(found.levels), between)}",
        _first(comparison, odd),
        measured={
            **_measured(found, between),
            "farthest_off": off,
            "descent": found.descent,
            "compared_up_to": found.until,
        },
    )


def agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return what to say of seeds that end alike, and its numbers."""
    found = ends(comparison.runs, comparison.limits.compare)
    if len(found.levels) < 2:
        return "The seeds have too few losses at the end to compare.", {}
    between = found.spread
    told = f"{_told(found)} {_what_n_shows(len(found.levels), between)}"
    return told, _measured(found, between)


def _lost(comparison: Comparison, found: Ends) -> Finding:
    rest = [level.run for level in found.levels]
    alone = f"; {joined(rest)} ended finite" if rest else ""
    return SEED_VARIANCE.found(
        f"Of {len(comparison.runs)} seeds, {joined(found.lost)} ended with a non-finite loss"
        f"{alone}.",
        Action(
            ActionKind.SEE_FINDING,
            f"Run stabdiag diagnose {comparison.run(found.lost[0]).name} to see when and why.",
        ),
        measured={"seeds": len(comparison.runs), "lost": len(found.lost)},
    )


def _first(comparison: Comparison, odd: Level) -> Action:
    if len(comparison.runs) == 2:
        return Action(
            ActionKind.RERUN,
            "Run a third seed, better five: of two that differ, neither is the usual one.",
        )
    return Action(
        ActionKind.SEE_FINDING,
        f"Run stabdiag diagnose {comparison.run(odd.run).name}, the outlier, and find where it "
        "left the others.",
    )


def _told(found: Ends) -> str:
    ordered = sorted(found.levels, key=lambda level: level.value)
    if len(ordered) > _LISTED:
        low, high = ordered[0], ordered[-1]
        told = f"between {num(low.value)} ({low.run}) and {num(high.value)} ({high.run})"
    else:
        told = f"at {joined([f'{num(level.value)} ({level.run})' for level in ordered])}"
    return f"The {len(ordered)} seeds end {told}, measured up to step {found.until}."


def _standing(found: Ends, odd: Level, off: float) -> str:
    share = "and none of them learned"
    if found.descent:
        share = f"{abs(off) / found.descent:.0%} of the loss's descent"
    if len(found.levels) == 2:
        return f"They differ by {num(abs(off))}, {share}."
    where = "above" if off > 0 else "below"
    return f"{odd.run} lies {num(abs(off))} {where} the median of the others, {share}."


def _what_n_shows(count: int, between: Spread) -> str:
    """Return what this many seeds show of the spread between seeds, and what they cannot."""
    low, high = num(between.low), num(between.high)
    if count == 2:
        return (
            "Two seeds hardly show how much seeds vary: their standard deviation of "
            f"{num(between.deviation)} could be {low} to {high} (95%)."
        )
    return (
        f"The standard deviation over {count} seeds is {num(between.deviation)}; over seeds in "
        f"general it is {low} to {high} (95%)."
    )


def _measured(found: Ends, between: Spread) -> dict[str, Scalar]:
    return {
        "seeds": len(found.levels),
        "deviation_between_seeds": between.deviation,
        "noise_within_a_run": found.noise,
        "p_value": between.p_value,
    }
