"""Runs that differ in their seed: do they end alike, as far as this number of runs can show?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from stabdiag.comparison.kind import span
from stabdiag.comparison.outcomes import SEED_VARIANCE
from stabdiag.comparison.settings import explaining, joined
from stabdiag.model.comparison import Comparison, Level, Run
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import num
from stabdiag.stats.means import Spread, mean_and_error, spread
from stabdiag.stats.quantiles import diff_sigma, median

# A mean at the end of a run needs this many losses; the start is the mean of this many.
_MIN_END_POINTS: Final = 5
_START_POINTS: Final = 3

# At most this many runs are listed one by one.
_LISTED: Final = 3

# Below this, a p-value is rounding error.
_LEAST_P: Final = 1e-16

# Evaluations are few: a run's end is the median of this many, and the noise needs twice as many.
_LAST_EVALUATIONS: Final = 3

# Ends of evaluations differ from this many standard deviations of a single evaluation.
_EVALUATION_SIGMAS: Final = 4.0

# The evaluation series that are compared, and what a sentence calls them.
_EVALUATIONS: Final = {
    "eval_loss": "evaluation losses",
    "eval_accuracy": "evaluation scores",
    "accuracy": "training scores",
    "reward": "rewards",
}


@frozen
class Ends:
    """The final levels of runs up to a step, and the labels of runs that are not finite there.

    ``descent`` is the usual decrease of the loss.
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
        """The spread of the final levels of at least two runs."""
        return spread(
            np.array([level.value for level in self.levels]),
            np.array([level.error for level in self.levels]),
        )

    @property
    def farthest(self) -> tuple[Level, float]:
        """The run that ends farthest from the median of the others, and its signed distance."""
        values = [level.value for level in self.levels]
        i, distance = farthest_from_others(values)
        return self.levels[i], distance


def farthest_from_others(values: Sequence[float]) -> tuple[int, float]:
    """Return the index of the value farthest from the median of the others, and its distance."""
    array = np.array(values)
    distances = [float(array[i]) - median(np.delete(array, i)) for i in range(len(array))]
    at = max(range(len(distances)), key=lambda i: (abs(distances[i]), distances[i]))
    return at, distances[at]


def tolerance(values: Sequence[float], descent: float, fraction: float) -> float:
    """Return the distance up to which final levels count as equal, on the scale of the levels.

    A fraction of the descent alone would allow any difference after a high start. Levels that are
    almost 0 compared with the descent differ by a factor among healthy runs, so they may double.
    """
    if min(values) <= 0:
        return fraction * descent
    level = median(np.array(values)) if len(values) > 2 else min(values)
    return max(fraction * min(level, descent), min(level, fraction**2 * descent))


def ends(runs: Sequence[Run], limits: CompareLimits) -> Ends:
    """Return the final levels of runs, over the last part of the steps that all of them have.

    A run whose losses are not finite there has no level; it is listed as lost.
    """
    first, until = max(span(run)[0] for run in runs), min(span(run)[1] for run in runs)
    begin = until - round(limits.final_fraction * (until - first))
    levels, lost, descents = [], [], []
    for run in runs:
        loss = run.history.series["loss"]
        last = loss.between(begin, until)
        if len(last) < _MIN_END_POINTS:  # sparse logs
            last = loss.between(first, until)
            if len(last) > _MIN_END_POINTS:
                last = last.between(int(last.steps[-_MIN_END_POINTS]), until)
        finite = last.finite().values
        if 2 * len(finite) < len(last):
            lost.append(run.label)
        elif len(finite) >= _MIN_END_POINTS:
            mean = mean_and_error(finite)
            levels.append(
                Level(run=run.label, value=mean.value, error=mean.error, noise=mean.deviation)
            )
            descents.append(float(loss.finite().values[:_START_POINTS].mean()) - mean.value)
    descent = max(median(np.array(descents)), 0.0) if descents else 0.0
    return Ends(levels=tuple(levels), lost=tuple(lost), until=until, descent=descent)


def seed_variance(comparison: Comparison) -> Iterator[Finding]:
    """Find runs that end away from the others, by more than noise and by enough to matter."""
    limits = comparison.limits.compare
    found = ends(comparison.runs, limits)
    if found.lost:
        yield _lost(comparison, found)
        return
    different = list(_loss_differs(comparison, found))
    yield from different or _evaluation_differs(comparison, found)


def _loss_differs(comparison: Comparison, found: Ends) -> Iterator[Finding]:
    limits = comparison.limits.compare
    if len(found.levels) < 2:
        return
    between, (odd, distance) = found.spread, found.farthest
    values = [level.value for level in found.levels]
    allowed = max(tolerance(values, found.descent, limits.seed_fraction), found.noise)
    if between.p_value > limits.seed_significance or abs(distance) <= allowed:
        return
    p_value = f"p = {between.p_value:.1g}" if between.p_value >= _LEAST_P else f"p < {_LEAST_P:g}"
    yield SEED_VARIANCE.found(
        f"{_described(found)} {_distance(found, odd, distance)} Noise within a run makes each mean "
        f"uncertain by {num(found.error)}, which does not explain the spread ({p_value}). "
        f"{_precision(len(found.levels), between)}",
        _first_action(comparison, odd.run),
        measured={
            **_measured(found, between),
            "farthest_off": distance,
            "descent": found.descent,
            "compared_up_to": found.until,
        },
    )


def _evaluation_differs(comparison: Comparison, found: Ends) -> Iterator[Finding]:
    """Find an evaluation series with different ends although the training losses agree."""
    fraction = comparison.limits.compare.seed_fraction
    for role, name in _EVALUATIONS.items():
        values = {}
        noises, changes = [], []
        for run in comparison.runs:
            series = run.history.get(role)
            points = None if series is None else series.until(found.until).finite().values
            if points is None or len(points) < _LAST_EVALUATIONS:
                break
            values[run.label] = median(points[-_LAST_EVALUATIONS:])
            changes.append(abs(float(points[0]) - values[run.label]))
            if len(points) >= 2 * _LAST_EVALUATIONS:
                noises.append(diff_sigma(points[len(points) // 2 :]))
        if len(values) < len(comparison.runs):
            continue
        i, distance = farthest_from_others([*values.values()])
        change = median(np.array(changes))
        allowed = tolerance([*values.values()], change, fraction)
        # Scores have a ceiling, so a share of their change is the scale; so is a loss that rose.
        if role != "eval_loss":
            allowed = fraction * change
        noise = _EVALUATION_SIGMAS * max(noises) if noises else allowed
        if abs(distance) <= max(allowed, noise):
            continue
        odd = [*values][i]
        ordered = sorted(values.items(), key=lambda item: item[1])
        if len(ordered) > _LISTED:
            ordered = [ordered[0], ordered[-1]]
        listed = joined([f"{num(value)} ({label})" for label, value in ordered])
        yield SEED_VARIANCE.found(
            f"The training losses end alike, but the {name} end at {listed}. The noise of a single "
            f"evaluation is {num(max(noises)) if noises else 'unknown'}.",
            Action(
                ActionKind.CHECK_EVALUATION,
                f"Check that {odd} and the others evaluate the same data in evaluation mode, then "
                "compare their training data: equal training losses with unequal evaluations mean "
                "that the runs generalize differently.",
            ),
            title=f"The runs end at different {name}",
            measured={
                "role": role,
                "farthest_off": distance,
                "compared_up_to": found.until,
                **dict(list(values.items())[:_LISTED]),
            },
        )
        return


def agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return the summary of runs that end alike, and its numbers."""
    found = ends(comparison.runs, comparison.limits.compare)
    if len(found.levels) < 2:
        return "The runs have too few losses at the end to compare.", {}
    between = found.spread
    text = f"{_described(found)} {_precision(len(found.levels), between)}"
    return text, _measured(found, between)


def _lost(comparison: Comparison, found: Ends) -> Finding:
    rest = [level.run for level in found.levels]
    others = f"; {joined(rest)} ended finite" if rest else ""
    return SEED_VARIANCE.found(
        f"{len(found.lost)} of {len(comparison.runs)} runs ended with a non-finite loss: "
        f"{joined(found.lost)}{others}.",
        Action(
            ActionKind.SEE_FINDING,
            f"Run stabdiag diagnose {comparison.run(found.lost[0]).name} to see when and why.",
        ),
        measured={"seeds": len(comparison.runs), "lost": len(found.lost)},
    )


def _first_action(comparison: Comparison, odd: str) -> Action:
    suspects = [one.key for one in explaining(comparison.differences)]
    if suspects:
        return Action(
            ActionKind.CHECK_SETTINGS,
            f"Give the runs the same {joined(suspects)} first: they differ in more than the seed.",
            setting=suspects[0],
        )
    if len(comparison.runs) == 2:
        return Action(
            ActionKind.RERUN,
            "Run at least three seeds, ideally five: with two you cannot tell which one is the "
            "outlier.",
        )
    return Action(
        ActionKind.SEE_FINDING,
        f"Run stabdiag diagnose {comparison.run(odd).name}, the outlier, and find where it leaves "
        "the others.",
    )


def _described(found: Ends) -> str:
    ordered = sorted(found.levels, key=lambda level: level.value)
    if len(ordered) > _LISTED:
        low, high = ordered[0], ordered[-1]
        text = f"between {num(low.value)} ({low.run}) and {num(high.value)} ({high.run})"
    else:
        text = f"at {joined([f'{num(level.value)} ({level.run})' for level in ordered])}"
    return f"The {len(ordered)} runs end {text}, measured up to step {found.until}."


def _distance(found: Ends, odd: Level, distance: float) -> str:
    share = (
        "and neither run made progress" if len(found.levels) == 2 else "and no run made progress"
    )
    if found.descent:
        share = f"{abs(distance) / found.descent:.2g} of the loss's decrease"
    low = min(level.value for level in found.levels)
    if low > 0 and abs(distance) >= low:
        share = f"{num((low + abs(distance)) / low, 2)} times the lowest"
    if len(found.levels) == 2:
        return f"They differ by {num(abs(distance))}, {share}."
    where = "above" if distance > 0 else "below"
    return f"{odd.run} is {num(abs(distance))} {where} the median of the others, {share}."


def _precision(count: int, between: Spread) -> str:
    """Return a sentence on the spread between runs and its 95% interval."""
    low, high = num(between.low), num(between.high)
    if count == 2:
        return (
            "Two runs say little about the variation between seeds: their standard deviation of "
            f"{num(between.deviation)} has a 95% interval of {low} to {high}."
        )
    return (
        f"The standard deviation over {count} runs is {num(between.deviation)} (95% interval {low} "
        f"to {high})."
    )


def _measured(found: Ends, between: Spread) -> dict[str, Scalar]:
    return {
        "seeds": len(found.levels),
        "deviation_between_seeds": between.deviation,
        "noise_within_a_run": found.noise,
        "p_value": between.p_value,
    }
