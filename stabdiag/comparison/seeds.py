"""Runs that differ in their seed: do they end alike, as far as so many seeds can tell?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.compared import Level
from stabdiag.comparison.kind import span
from stabdiag.comparison.settings import joined
from stabdiag.comparison.study import Study, finding
from stabdiag.stats.between import Spread, mean_and_error, spread
from stabdiag.stats.quantiles import median
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.compared import Run
    from stabdiag.findings import Finding, Scalar
    from stabdiag.limits.compare import CompareLimits

# Fewer losses at the end than this have no mean to speak of.
_FEWEST = 5

# A run begins at the mean of so many losses.
_FIRST = 3

# The ends of so many seeds are told one by one.
_LISTED = 3


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Where the runs end: their levels up to a step, and those that were lost before it."""

    levels: tuple[Level, ...]
    lost: tuple[str, ...]
    until: int
    descent: float


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
            last = last.between(int(last.steps[-min(_FEWEST, len(last))]), until)
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


def seed_variance(study: Study) -> Iterator[Finding]:
    """Find seeds that end elsewhere than the others, by more than noise and by enough to matter."""
    found, limits = ends(study.runs, study.limits.compare), study.limits.compare
    if found.lost:
        yield _lost(study, found)
        return
    if len(found.levels) < 2:
        return
    between = _spread(found)
    odd, off = _farthest(found)
    material = limits.seed_share * found.descent
    if between.p_value > limits.seed_significance or abs(off) <= max(material, odd.noise):
        return
    count = len(found.levels)
    run = study.run(odd.run)
    yield finding(
        "seed-variance",
        because=f"{_told(found)} {_standing(found, odd, off)} {_noise(found, between)} "
        f"{what_n_shows(count, between)}",
        first=f"Run stabdiag diagnose {run.name} for the run that stands out, and look for where "
        "it left the others."
        if count > 2
        else "Run a third seed, better five: of two that differ, neither is the usual one.",
        then=_THEN,
        measured={
            "seeds": count,
            "deviation_between_seeds": between.deviation,
            "noise_within_a_run": median(np.array([level.noise for level in found.levels])),
            "p_value": between.p_value,
            "farthest_off": off,
            "descent": found.descent,
            "compared_up_to": found.until,
        },
    )


_THEN = (
    "Fix the seeds and look whether the same seed does it again: then it is the start or the order "
    "of the data, else a race.",
    "Lower the peak learning rate or warm up longer: near the edge of what a network stands, the "
    "seed decides.",
    "Clip the gradient's norm.",
    "Report the median and the range over seeds, not the best one.",
)


def _lost(study: Study, found: Ends) -> Finding:
    rest = [level.run for level in found.levels]
    alone = f"; {joined(rest)} ended finite" if rest else ""
    first = study.run(found.lost[0])
    return finding(
        "seed-variance",
        because=f"Of {len(study.runs)} seeds {joined(found.lost)} ended with a loss that is not "
        f"finite{alone}.",
        first=f"Run stabdiag diagnose {first.name} to see when it was lost, and by what.",
        then=_THEN,
        measured={"seeds": len(study.runs), "lost": len(found.lost)},
    )


def _spread(found: Ends) -> Spread:
    values = np.array([level.value for level in found.levels])
    errors = np.array([max(level.error, 1e-12) for level in found.levels])
    return spread(values, errors)


def _farthest(found: Ends) -> tuple[Level, float]:
    """Return the run that ends farthest from the median of the others, and how far, with sign."""
    values = np.array([level.value for level in found.levels])
    offs = [float(values[i]) - median(np.delete(values, i)) for i in range(len(values))]
    at = max(range(len(offs)), key=lambda i: (abs(offs[i]), offs[i]))
    return found.levels[at], offs[at]


def _told(found: Ends) -> str:
    ordered = sorted(found.levels, key=lambda level: level.value)
    if len(ordered) > _LISTED:
        low, high = ordered[0], ordered[-1]
        told = f"between {num(low.value)} ({low.run}) and {num(high.value)} ({high.run})"
    else:
        told = f"at {joined([f'{num(level.value)} ({level.run})' for level in ordered])}"
    return f"Up to step {found.until} the {len(ordered)} seeds end {told}."


def _standing(found: Ends, odd: Level, off: float) -> str:
    if len(found.levels) == 2:
        return f"They differ by {num(abs(off))}, {_share(off, found)}."
    where = "above" if off > 0 else "below"
    return f"{odd.run} lies {num(abs(off))} {where} the median of the others, {_share(off, found)}."


def _share(off: float, found: Ends) -> str:
    if not found.descent:
        return "and none of them learned"
    return f"{abs(off) / found.descent:.0%} of the way that the loss came down"


def _noise(found: Ends, between: Spread) -> str:
    error = median(np.array([level.error for level in found.levels]))
    odds = f"with p = {between.p_value:.1g}" if between.p_value >= 1e-300 else "with p = 0"
    return (
        f"The noise within a run makes such a mean uncertain by {num(error)}, and explains the "
        f"spread {odds}."
    )


def what_n_shows(count: int, between: Spread) -> str:
    """Return what so many seeds tell of the spread between seeds, and what they cannot."""
    if count == 2:
        return (
            "Two seeds tell that these two differ or not, but hardly how much seeds differ: their "
            f"standard deviation of {num(between.deviation)} could be anything from "
            f"{num(between.low)} to {num(between.high)} (95%)."
        )
    return (
        f"The standard deviation between the {count} seeds is {num(between.deviation)}; of seeds "
        f"at large it lies between {num(between.low)} and {num(between.high)} (95%)."
    )


def healthy_words(study: Study) -> tuple[str, dict[str, Scalar]]:
    """Return what is to be said of seeds that end alike, and its numbers."""
    found = ends(study.runs, study.limits.compare)
    if len(found.levels) < 2:
        return "The seeds have too few losses at the end to compare.", {}
    between = _spread(found)
    count = len(found.levels)
    return f"{_told(found)} {what_n_shows(count, between)}", {
        "seeds": count,
        "deviation_between_seeds": between.deviation,
        "noise_within_a_run": median(np.array([level.noise for level in found.levels])),
        "p_value": between.p_value,
    }
