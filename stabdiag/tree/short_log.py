"""The sentences about a log that is too short to be tested: what its few values show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.roles.loss_kinds import GENERATOR, LossKind
from stabdiag.model.roles.names import is_evaluation, is_perplexity, name_words
from stabdiag.model.text import EXACT_FIGURES, capitalized, listed, num, percent
from stabdiag.stats.course import position_after
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, robust_sigma
from stabdiag.stats.standards import (
    CLEAR,
    CONTEXT_POINTS,
    FIFTH,
    MIN_CONSECUTIVE,
    RELATIVE_TOLERANCE,
    TENTH,
    TENTHS,
    TWICE,
)
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import USUAL_CLASSES, has_chance_level
from stabdiag.tree.progress import SHOWN_SCORES
from stabdiag.tree.scores import CLEAR_CHANGE, heldout_scores

# The series reported for a short log.
_COURSES = {
    "reward": "the reward",
    "loss": "the loss",
    "eval_loss": "the evaluation loss",
    "accuracy": "the accuracy",
    "eval_accuracy": "the evaluation accuracy",
    "grad_norm": "the gradient norm",
}

# Other scores are reported only in a log without these.
_MEASURES = ("reward", "accuracy", "eval_accuracy")

# The series reported for a log without a loss.
_SIZES = ("activation_norm", "max_attention_logit", "amax")

# The largest numbers of fp16 (IEEE 754) and of e4m3 (Micikevicius et al. 2022, arXiv:2209.05433).
_FP16, _FP8 = float(np.finfo(np.float16).max), 448.0


def describe_short_log(case: Case) -> str:
    """Describe the courses of the series, and values that need no test to be remarkable."""
    sentences = (
        describe_course(case),
        _lost_rewards(case),
        _near_chance(case),
        _activation_near_limit(case),
    )
    return " ".join(filter(None, sentences))


def describe_course(case: Case) -> str:
    """Describe the first and last value of each series, and the highest loss if it is unusual.

    If the loss ends above its start, its lowest value is added. A series may have only one value.
    """
    courses: list[str] = []
    verb = ""
    for name, x in _logged_series(case):
        if len(x):
            previous, (verb, values) = verb, _first_to_last(x)
            courses.append(f"{name}{'' if verb == previous else verb} {values}")
    evaluations = case.history.finite("eval_loss")
    x = evaluations.values
    if len(x) and x.min() < min(x[0], x[-1]):
        best_step = int(evaluations.steps[x.argmin()])
        courses[-1] += (
            f"; the lowest evaluation loss was {num(x.min())}, at {case.unit} {best_step}"
        )
    courses[-1:] = [f"{course}{_best_score(case)}" for course in courses[-1:]]
    text = f"{capitalized(listed(courses))}." if courses else ""
    return text + _extreme_losses(case)


def _best_score(case: Case) -> str:
    """Describe the best value of the first held-out score that ends clearly below it.

    In a log without a loss, any better value is described.
    """
    least = CLEAR_CHANGE if len(case.loss) else 0.0
    for score in heldout_scores(case):
        if is_perplexity(score.name):  # it follows from the loss
            continue
        values, best = score.goodness, score.best_position
        worse = values[best] - max(values[0], values[-1])
        if worse > least * float(np.abs(values).max()):
            step = int(score.series.steps[best])
            best_value = num(float(score.series.values[best]))
            return f"; the best {score.name!r} was {best_value}, at {case.unit} {step}"
    return ""


def _logged_series(case: Case) -> list[tuple[str, Floats]]:
    """Return the names and values of the series to describe; a series may be empty."""
    series = ((name, case.history.finite(role)) for role, name in _COURSES.items())
    logged = [(_named(name, values.column), values.values) for name, values in series]
    # Single rewards vary far more than losses.
    if len(logged[0][1]) >= case.min_losses_for_spikes:
        logged[0] = ("the reward (medians of tenths)", levels(logged[0][1], TENTHS))
    logged += () if len(case.loss) else _largest_growth(case)
    logged += _rivals(case)
    if not len(case.loss) or not any(len(case.history.finite(role)) for role in _MEASURES):
        logged += _scores(case)
    else:
        # The model finds nothing, though most of the picture or of the examples is right.
        logged += ((name, x) for name, x in _scores(case) if len(x) and x[-1] == 0)
    return logged


def _extreme_losses(case: Case) -> str:
    """Describe an unusually high loss, and the lowest loss of a run that ends above its start."""
    steps, x = case.loss.steps, case.loss.values
    if not len(x):
        return ""
    text = ""
    top, low = int(x.argmax()), int(x.argmin())
    ends = max(abs(float(x[0])), abs(float(x[-1])))
    is_beyond = x[top] - median(x) > CLEAR * robust_sigma(x) or x[top] > TWICE * ends
    is_high = 0 < top < len(x) - 1 and is_beyond
    if is_high and num(x[top]) not in (num(x[0]), num(x[-1])):
        text += f" The highest loss was {num(x[top])}, at {case.unit} {int(steps[top])}."
    elif (rebound := _rebound(x)) is not None:
        text += f" It was {num(x[rebound])} again at {case.unit} {int(steps[rebound])}."
    if x[low] < x[0] < x[-1] and num(x[low]) != num(x[0]):
        text += f" The lowest loss was {num(x[low])}, at {case.unit} {int(steps[low])}."
    return text


def _rebound(x: Floats) -> int | None:
    """Return the position of a high loss between low ones, after the first fall to the median."""
    begin = int((x <= median(x)).argmax())
    later = x[begin:]
    at = int(later.argmax())
    if begin == 0 or len(later) <= CONTEXT_POINTS or not 0 < at < len(later) - 1:
        return None
    usual = median(later)
    is_clear = later[at] - usual > CLEAR * robust_sigma(later) and later[at] > 2 * usual > 0
    return begin + at if is_clear else None


def _named(name: str, column: str) -> str:
    """Return the name of a series in a report.

    A perplexity, or the loss of an evaluation, may be logged instead of a training loss.
    """
    name = _COURSES["eval_loss"] if name == _COURSES["loss"] and is_evaluation(column) else name
    return name.replace("loss", "perplexity") if is_perplexity(column) else name


def _first_to_last(x: Floats) -> tuple[str, str]:
    """Return the verb and the values that describe the course of a series."""
    if len(x) == 1:
        return " was", num(x[0])
    first, last = num(x[0]), num(x[-1])
    if first != last:
        return " went", f"from {first} to {last}"
    farthest = float(x[np.abs(x - x[0]).argmax()])
    if abs(farthest - x[0]) > FIFTH * abs(x[0]):
        return " went", f"from {first} to {num(farthest)} and back to {last}"
    return " stayed", f"{'near' if np.ptp(x) else 'at'} {first}"


def _rivals(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield the column and values of a generator's loss if the loss is its discriminator's."""
    if case.loss_kind is LossKind.ADVERSARIAL:
        others = case.history.group("other_loss").values()
        rivals = (series for series in others if GENERATOR & {*name_words(series.column)})
        yield from ((repr(series.column), series.finite().values) for series in islice(rivals, 1))


def _largest_growth(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield the column and values that grew most, for each kind of size inside the network."""
    for role in _SIZES:
        groups = [series.finite() for series in case.history.group(role).values()]
        sizes = [series for series in groups if len(series) and series.values[0] > 0]
        if sizes:
            largest = max(sizes, key=lambda series: float(series.values[-1] / series.values[0]))
            yield repr(largest.column), largest.values


def _scores(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield the column and values of the first scores."""
    for series in islice(case.history.group("score").values(), SHOWN_SCORES):
        yield repr(series.column), series.finite().values


def _lost_rewards(case: Case) -> str:
    """Describe rewards that are not finite at the end: they are means over episodes that ended."""
    reward = case.history.get("reward")
    if reward is None or np.isfinite(reward.values[-2:]).any():
        return ""
    first = position_after(np.isfinite(reward.values))
    since = f" from {case.unit} {reward.steps[first]} on" if len(reward) > 1 else ""
    return (
        f"The reward {reward.column!r} is not finite{since}: no episode ended, the environment "
        "does not record episodes (Monitor), or the policy is NaN."
    )


def _near_chance(case: Case) -> str:
    """Describe losses that are all near the loss of a guess among a usual number of classes.

    For another small number of classes they have to be ten times nearer. Two classes are left out:
    the losses of pairs settle at log 2.
    """
    x = case.loss.values
    if len(x) < MIN_CONSECUTIVE or not has_chance_level(case):
        return ""
    for classes in (*USUAL_CLASSES, *range(2 + 1, min(USUAL_CLASSES))):
        cost = math.log(classes)
        tolerance = RELATIVE_TOLERANCE * (1 if classes in USUAL_CLASSES else TENTH)
        if np.abs(x - cost).max() <= tolerance * cost:
            summary = f"All losses are within {percent(tolerance)} of {num(cost)}"
            return f"{summary}, the loss of a guess among {classes} classes."
    return ""


def _activation_near_limit(case: Case) -> str:
    """Describe an activation near the fp16 or fp8 limit in a log without a loss.

    Near means within a factor of 2 of the fp16 maximum, or exactly at the fp8 clipping value.
    """
    logged = () if len(case.loss) else case.history.group("activation_norm").values()
    for series in (activation.finite() for activation in logged):
        peak = float(np.max(series.values, initial=0))
        is_near_fp16 = case.manifest.dtype in (None, "fp16") and _FP16 / 2 < peak <= _FP16
        if is_near_fp16 or peak == _FP8:
            step = int(series.steps[np.argmax(series.values)])
            dtype, limit = ("fp16", _FP16) if is_near_fp16 else ("fp8 (e4m3)", _FP8)
            text = f"{series.column!r} reached {num(peak, EXACT_FIGURES)} by {case.unit} {step}"
            return f"{text}: the maximum of {dtype} is {num(limit, EXACT_FIGURES)}."
    return ""
