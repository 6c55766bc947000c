"""Runs that differ in their seed: do they end alike, as far as so many seeds can tell?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.comparison.ends import farthest, spread_of
from stabdiag.comparison.settings import joined
from stabdiag.comparison.study import Study, finding
from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.comparison.ends import Ends
    from stabdiag.model.comparison import Level
    from stabdiag.model.findings import Finding, Scalar
    from stabdiag.stats.means import Spread

# The ends of so many seeds are told one by one.
_LISTED = 3


_THEN = (
    Action(
        ActionKind.RERUN,
        "Fix the seeds and look whether the same seed does it again: then it is the start or the "
        "order of the data, else a race.",
    ),
    Action(
        ActionKind.CHECK_RANKS,
        "Check that all runs accumulate gradients over the same number of batches, and that the "
        "loader and the ranks follow the seed.",
    ),
    Action(
        ActionKind.LOWER_LR,
        "Lower the peak learning rate or warm up longer: near the edge of what a network stands, "
        "the seed decides.",
        also=(ActionKind.ADD_WARMUP,),
        setting="peak_lr",
    ),
    Action(
        ActionKind.CLIP_GRADIENTS,
        "Clip the gradient's norm.",
    ),
    Action(
        ActionKind.RERUN,
        "Report the median and the range over seeds, not the best one.",
    ),
)


def seed_variance(study: Study) -> Iterator[Finding]:
    """Find seeds that end elsewhere than the others, by more than noise and by enough to matter."""
    found, limits = study.ends, study.limits.compare
    if found.lost:
        yield _lost(study, found)
        return
    if len(found.levels) < 2:
        return
    between = spread_of(found)
    odd, off = farthest(found)
    matters = max(limits.seed_share * found.descent, _noise_within(found))
    if between.p_value > limits.seed_significance or abs(off) <= matters:
        return
    count = len(found.levels)
    run = study.run(odd.run)
    yield finding(
        "seed-variance",
        because=f"{_told(found)} {_standing(found, odd, off)} {_noise(found, between)} "
        f"{_what_n_shows(count, between)}",
        first=Action(
            ActionKind.SEE_FINDING,
            f"Run stabdiag diagnose {run.name} for the run that stands out, and look for where it "
            "left the others.",
        )
        if count > 2
        else Action(
            ActionKind.RERUN,
            "Run a third seed, better five: of two that differ, neither is the usual one.",
        ),
        then=_THEN,
        measured={
            **_measured(found, between),
            "farthest_off": off,
            "descent": found.descent,
            "compared_up_to": found.until,
        },
    )


def _lost(study: Study, found: Ends) -> Finding:
    rest = [level.run for level in found.levels]
    alone = f"; {joined(rest)} ended finite" if rest else ""
    first = study.run(found.lost[0])
    return finding(
        "seed-variance",
        because=f"Of {len(study.runs)} seeds {joined(found.lost)} ended with a loss that is not "
        f"finite{alone}.",
        first=Action(
            ActionKind.SEE_FINDING,
            f"Run stabdiag diagnose {first.name} to see when it was lost, and by what.",
        ),
        then=_THEN,
        measured={"seeds": len(study.runs), "lost": len(found.lost)},
    )


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
    odds = f"with p = {between.p_value:.1g}" if between.p_value >= 1e-16 else "with p below 1e-16"
    return (
        f"The noise within a run makes such a mean uncertain by {num(error)}, and explains the "
        f"spread {odds}."
    )


def _what_n_shows(count: int, between: Spread) -> str:
    """Return what this many seeds show of the spread between seeds, and what they cannot."""
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
    found = study.ends
    if len(found.levels) < 2:
        return "The seeds have too few losses at the end to compare.", {}
    between = spread_of(found)
    count = len(found.levels)
    return f"{_told(found)} {_what_n_shows(count, between)}", _measured(found, between)


def _measured(found: Ends, between: Spread) -> dict[str, Scalar]:
    return {
        "seeds": len(found.levels),
        "deviation_between_seeds": between.deviation,
        "noise_within_a_run": _noise_within(found),
        "p_value": between.p_value,
    }


def _noise_within(found: Ends) -> float:
    """Return the usual deviation of a single loss at the end of a run."""
    return median(np.array([level.noise for level in found.levels]))
