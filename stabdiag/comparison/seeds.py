"""Runs with different seeds: whether they end at the same loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from stabdiag.comparison.kind import span
from stabdiag.comparison.outcomes import SEED_VARIANCE
from stabdiag.comparison.settings import explaining, join_words
from stabdiag.model.comparison import ComparedRun, Comparison, Level
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.text import num
from stabdiag.stats.course import evaluation_level, late_noise, start_level
from stabdiag.stats.means import Spread, mean_and_error, spread
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import CLEAR, CONTEXT_POINTS, MIN_CONSECUTIVE

# A mean at the end of a run needs this many losses.
_MIN_END_POINTS: Final = CONTEXT_POINTS

# At most this many runs are listed individually.
_MAX_LISTED: Final = 3

# Below this, a p-value is rounding error.
_MIN_P_VALUE: Final = 1e-16

# The level of evaluations needs this many, and their noise twice as many.
_LAST_EVALUATIONS: Final = MIN_CONSECUTIVE

# Evaluations differ from this many standard deviations of a single evaluation.
_EVALUATION_SIGMAS: Final = CLEAR

# The evaluation series that are compared, and their names in a sentence.
_EVALUATIONS: Final = {
    "eval_loss": "evaluation losses",
    "eval_accuracy": "evaluation scores",
    "accuracy": "training scores",
    "reward": "rewards",
}


@frozen
class Ends:
    """The final levels of runs up to a step, and the labels of runs that are not finite there.

    ``descent`` is the typical decrease of the loss.
    """

    levels: tuple[Level, ...]
    lost: tuple[str, ...]
    until: int
    descent: float

    @property
    def noise(self) -> float:
        """The typical deviation of a single loss at the end."""
        return median(np.array([level.noise for level in self.levels]))

    @property
    def error(self) -> float:
        """The typical error of a mean at the end."""
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
    index = max(range(len(distances)), key=lambda i: (abs(distances[i]), distances[i]))
    return index, distances[index]


def tolerance(values: Sequence[float], descent: float, fraction: float) -> float:
    """Return the largest distance of final levels that count as equal.

    A fraction of the descent alone would allow any difference after a high start. Levels close to 0
    vary by a factor even in healthy runs, so they may double.
    """
    if min(values) <= 0:
        return fraction * descent
    level = median(np.array(values)) if len(values) > 2 else min(values)
    return max(fraction * min(level, descent), min(level, fraction**2 * descent))


def ends(runs: Sequence[ComparedRun], limits: CompareLimits) -> Ends:
    """Return the final levels of runs, over the last part of their common steps.

    A run with non-finite losses there has no level; it is listed as lost.
    """
    first, until = max(span(run)[0] for run in runs), min(span(run)[1] for run in runs)
    start = until - round(limits.final_fraction * (until - first))
    levels, non_finite, descents = [], [], []
    for run in runs:
        loss = run.history.series["loss"]
        end = loss.between(start, until)
        if len(end) < _MIN_END_POINTS:  # sparse logs
            end = loss.between(first, until)
            if len(end) > _MIN_END_POINTS:
                end = end.between(int(end.steps[-_MIN_END_POINTS]), until)
        finite = end.finite().values
        if 2 * len(finite) < len(end):
            non_finite.append(run.label)
        elif len(finite) >= _MIN_END_POINTS:
            mean = mean_and_error(finite)
            levels.append(
                Level(run=run.label, value=mean.value, error=mean.error, noise=mean.deviation)
            )
            descents.append(start_level(loss.finite().values) - mean.value)
    descent = max(median(np.array(descents)), 0.0) if descents else 0.0
    return Ends(levels=tuple(levels), lost=tuple(non_finite), until=until, descent=descent)


def seed_variance(comparison: Comparison) -> Iterator[Finding]:
    """Find runs whose end differs from the others by more than noise, and enough to matter."""
    limits = comparison.limits.compare
    final = ends(comparison.runs, limits)
    if final.lost:
        yield _non_finite(comparison, final)
        return
    different = list(_loss_differs(comparison, final))
    yield from different or _evaluation_differs(comparison, final)


def _loss_differs(comparison: Comparison, final: Ends) -> Iterator[Finding]:
    limits = comparison.limits.compare
    if len(final.levels) < 2:
        return
    variation, (outlier, distance) = final.spread, final.farthest
    values = [level.value for level in final.levels]
    allowed = max(tolerance(values, final.descent, limits.seed_fraction), final.noise)
    if variation.p_value > limits.seed_significance or abs(distance) <= allowed:
        return
    p_value = (
        f"p = {variation.p_value:.1g}"
        if variation.p_value >= _MIN_P_VALUE
        else f"p < {_MIN_P_VALUE:g}"
    )
    yield SEED_VARIANCE.finding(
        f"{_describe_ends(final)} {_describe_distance(final, outlier, distance)} Noise within a "
        f"run makes each mean uncertain by {num(final.error)}, which does not explain the spread "
        f"({p_value}). {_describe_spread(len(final.levels), variation)}",
        _first_action(comparison, outlier.run),
        measured={
            **_evidence(final, variation),
            "largest_distance": distance,
            "descent": final.descent,
            "compared_until": final.until,
        },
    )


def _evaluation_differs(comparison: Comparison, final: Ends) -> Iterator[Finding]:
    """Find an evaluation series that ends differently although the training losses agree."""
    fraction = comparison.limits.compare.seed_fraction
    for role, name in _EVALUATIONS.items():
        values = {}
        noises, changes = [], []
        for run in comparison.runs:
            series = run.history.get(role)
            points = None if series is None else series.until(final.until).finite().values
            if points is None or len(points) < _LAST_EVALUATIONS:
                break
            values[run.label] = evaluation_level(points)
            changes.append(abs(float(points[0]) - values[run.label]))
            if len(points) >= 2 * _LAST_EVALUATIONS:
                noises.append(late_noise(points))
        if len(values) < len(comparison.runs):
            continue
        i, distance = farthest_from_others([*values.values()])
        change = median(np.array(changes))
        allowed = tolerance([*values.values()], change, fraction)
        # Scores have a ceiling, so their scale is a fraction of their change.
        if role != "eval_loss":
            allowed = fraction * change
        noise = _EVALUATION_SIGMAS * max(noises) if noises else allowed
        if abs(distance) <= max(allowed, noise):
            continue
        outlier = [*values][i]
        ordered = sorted(values.items(), key=lambda item: item[1])
        if len(ordered) > _MAX_LISTED:
            ordered = [ordered[0], ordered[-1]]
        values_text = join_words([f"{num(value)} ({label})" for label, value in ordered])
        yield SEED_VARIANCE.finding(
            f"The training losses end at the same level, but the {name} end at {values_text}. The "
            f"noise of a single evaluation is {num(max(noises)) if noises else 'unknown'}.",
            Action(
                ActionKind.CHECK_EVALUATION,
                f"Check that {outlier} and the others evaluate the same data in evaluation mode, "
                "then compare their training data: equal training losses with unequal evaluations "
                "mean that the runs generalize differently.",
            ),
            title=f"The runs end at different {name}",
            measured={
                "role": role,
                "largest_distance": distance,
                "compared_until": final.until,
                **dict(list(values.items())[:_MAX_LISTED]),
            },
        )
        return


def agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return the summary of runs with equal ends, and its evidence."""
    final = ends(comparison.runs, comparison.limits.compare)
    if len(final.levels) < 2:
        return "The runs have too few losses at the end to compare.", {}
    variation = final.spread
    text = f"{_describe_ends(final)} {_describe_spread(len(final.levels), variation)}"
    return text, _evidence(final, variation)


def _non_finite(comparison: Comparison, final: Ends) -> Finding:
    finite = [level.run for level in final.levels]
    others = f"; {join_words(finite)} ended finite" if finite else ""
    return SEED_VARIANCE.finding(
        f"{len(final.lost)} of {len(comparison.runs)} runs ended with a non-finite loss: "
        f"{join_words(final.lost)}{others}.",
        Action(
            ActionKind.SEE_FINDING,
            f"Run stabdiag diagnose {comparison.run(final.lost[0]).name} to see when and why.",
        ),
        measured={"seeds": len(comparison.runs), "lost": len(final.lost)},
    )


def _first_action(comparison: Comparison, outlier: str) -> Action:
    suspects = [difference.key for difference in explaining(comparison.differences)]
    if suspects:
        return Action(
            ActionKind.CHECK_SETTINGS,
            f"Give the runs the same {join_words(suspects)} first: the seed is not the only "
            "difference.",
            setting=suspects[0],
        )
    if len(comparison.runs) == 2:
        return Action(
            ActionKind.RERUN,
            "Run at least three seeds, ideally five: with two, it is unclear which one is the "
            "outlier.",
        )
    return Action(
        ActionKind.SEE_FINDING,
        f"Run stabdiag diagnose {comparison.run(outlier).name}, the outlier, and find where it "
        "leaves the others.",
    )


def _describe_ends(final: Ends) -> str:
    ordered = sorted(final.levels, key=lambda level: level.value)
    if len(ordered) > _MAX_LISTED:
        low, high = ordered[0], ordered[-1]
        text = f"between {num(low.value)} ({low.run}) and {num(high.value)} ({high.run})"
    else:
        text = f"at {join_words([f'{num(level.value)} ({level.run})' for level in ordered])}"
    return f"The {len(ordered)} runs end {text}, measured up to step {final.until}."


def _describe_distance(final: Ends, outlier: Level, distance: float) -> str:
    extent = (
        "and neither run made progress" if len(final.levels) == 2 else "and no run made progress"
    )
    if final.descent:
        extent = f"{abs(distance) / final.descent:.2g} of the loss's decrease"
    lowest = min(level.value for level in final.levels)
    if lowest > 0 and abs(distance) >= lowest:
        extent = f"{num((lowest + abs(distance)) / lowest, 2)} times the lowest"
    if len(final.levels) == 2:
        return f"They differ by {num(abs(distance))}, {extent}."
    side = "above" if distance > 0 else "below"
    return f"{outlier.run} is {num(abs(distance))} {side} the median of the others, {extent}."


def _describe_spread(count: int, variation: Spread) -> str:
    """Describe the spread between runs and its 95% interval."""
    low, high = num(variation.low), num(variation.high)
    if count == 2:
        return (
            "Two runs say little about the variation between seeds: their standard deviation of "
            f"{num(variation.deviation)} has a 95% interval of {low} to {high}."
        )
    return (
        f"The standard deviation over {count} runs is {num(variation.deviation)} (95% interval "
        f"{low} to {high})."
    )


def _evidence(final: Ends, variation: Spread) -> dict[str, Scalar]:
    return {
        "seeds": len(final.levels),
        "deviation_between_seeds": variation.deviation,
        "noise_within_a_run": final.noise,
        "p_value": variation.p_value,
    }
