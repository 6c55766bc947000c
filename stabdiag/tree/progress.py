"""The progress of a run: its loss, evaluations, scores and reward at the start and the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Scalar
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.names import is_perplexity
from stabdiag.model.text import capitalized, listed, num
from stabdiag.stats.course import (
    early_high,
    end_level,
    evaluation_level,
    late_spread,
    level_error,
    outer_levels,
    second_half,
    start_level,
)
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import diff_sigma, median, normal_quantile, quantiles
from stabdiag.stats.smoothing import find_average
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    COMPLETE,
    FAR_RATIO,
    FIFTH,
    MAX_CHANCE_OF_MANY,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    QUARTERS,
    RELATIVE_EPS,
    RELATIVE_TOLERANCE,
    SUBSAMPLE_SIZE,
    TENTHS,
    TWENTIETHS,
)
from stabdiag.stats.trend import kendall_score, mann_kendall
from stabdiag.tree.case import Case
from stabdiag.tree.once import once_per_case
from stabdiag.tree.pretraining import chance_loss
from stabdiag.tree.scores import CLEAR_CHANGE, scores

# The first of 20 levels are compared with the last 10. A t of 4.3 with nine degrees of freedom and
# a trend of 3.1 standard deviations each have a chance of 1 in 1,000. The first three of 40 levels
# exceed each of the last 20 with a chance of 1 in 1,771.
_EARLY_LEVELS: Final = 2
_T_LEVELS: Final = 4.3
_TREND_SIGMAS: Final = normal_quantile(MAX_CHANCE_OF_MANY)

# A start is above the later losses if its first three values are in the highest twentieth of the
# second half (chance 1 in 8,000). The distance in standard deviations guards against
# autocorrelated noise.
_HIGHEST: Final = 1 - NEGLIGIBLE
_FAR_SIGMAS: Final = BEYOND_CHANCE

# A single first value has to exceed the whole second half, by more standard deviations.
_ONE_FAR: Final = CLEAR

# Maximum p-value of a trend.
_TREND_BY_CHANCE: Final = MAX_CHANCE_OF_MANY

# Maximum number of scores with figures in a report.
SHOWN_SCORES: Final = 2


@frozen
class ProgressChange:
    """A quantity at the start and the end of a log.

    ``better`` is True if it improved beyond its noise, and None if too little was logged.
    """

    role: str
    name: str
    first: float
    last: float
    better: bool | None

    @property
    def is_score(self) -> bool:
        """Whether it is a score or a reward, not a loss."""
        return self.role not in ("loss", "eval_loss")

    @property
    def is_visible(self) -> bool:
        """Whether the change shows in the digits of a report."""
        return num(self.first) != num(self.last)

    @property
    def text(self) -> str:
        """The change in words, without a verb."""
        return f"from {num(self.first)} to {num(self.last)}"


@frozen
class Progress:
    """The progress of a run.

    ``done`` is the number of steps at the end of the log, ``planned`` the number in the manifest.
    """

    changes: tuple[ProgressChange, ...]
    done: int
    planned: int | None
    unit: str

    @property
    def better(self) -> bool | None:
        """Whether anything improved; None if that is unknown."""
        answers = {change.better for change in self.changes}
        return True if True in answers else False if False in answers else None

    def role_change(self, role: str) -> ProgressChange | None:
        """Return the change of a role, if it was logged."""
        return next((change for change in self.changes if change.role == role), None)

    @property
    def is_stopped_early(self) -> bool:
        """Whether the log ends clearly before the planned number of steps."""
        return self.planned is not None and self.done < COMPLETE * self.planned

    @property
    def sentence(self) -> str:
        """The figures as a sentence."""
        moved = [(change.name, change.text) for change in self.changes if change.is_visible]
        still = [
            (change.name, f"at {num(change.last)}")
            for change in self.changes
            if not change.is_visible
        ]
        clauses = [_clause(parts, verb) for parts, verb in ((moved, "went"), (still, "stayed"))]
        figures = capitalized("; ".join(filter(None, clauses)))
        figures += "." * bool(figures)
        return " ".join(filter(None, (figures, self._length)))

    @property
    def _length(self) -> str:
        if self.planned is None:
            return ""
        if self.is_stopped_early:
            return f"The log ends after {self.done} of {self.planned} planned {self.unit}s."
        return f"All {self.planned} planned {self.unit}s are done."

    @property
    def measured(self) -> dict[str, Scalar]:
        """The figures by name."""
        figures: dict[str, Scalar] = {}
        for change in self.changes:
            figures |= {f"{change.role}_first": change.first, f"{change.role}_last": change.last}
        if self.planned is not None:
            figures |= {"steps_done": self.done, "planned_steps": self.planned}
        return figures


def _clause(parts: Sequence[tuple[str, str]], verb: str) -> str:
    """Return an enumeration of quantities and what they did; the first one has the verb."""
    texts = [f"{name} {text}" for name, text in parts]
    if texts:
        name, text = parts[0]
        texts[0] = f"{name} {verb} {text}"
    return listed(texts) if texts else ""


@once_per_case
def find_progress(case: Case) -> Progress:
    """Return the progress of a run in its loss, evaluations, scores and reward."""
    first, last = case.history.first_step, case.history.last_step or 0
    return Progress(
        changes=tuple(_changes(case)),
        # Steps are counted from 0 or from 1.
        done=last + 1 if first == 0 else last,
        planned=case.manifest.total_steps,
        unit=case.unit,
    )


def improved_score(case: Case) -> ProgressChange | None:
    """Return a score or reward that ends better than it began, beyond its noise, or None."""
    changes = find_progress(case).changes
    return next((change for change in changes if change.is_score and change.better), None)


def learns_clearly(case: Case, progress: Progress) -> bool:
    """Return True if a run improved and its loss fell well below the loss of an untrained model.

    A fall from far above the chance level down to it is not learning. The recovery from a rise in
    the first steps is not, either.
    """
    loss = progress.role_change("loss")
    if not progress.better or loss is None or loss.first <= 0 or loss.last < 0:
        return bool(progress.better)
    start = min(loss.first, float(case.loss.values[0]), chance_loss(case) or loss.first)
    return start - loss.last >= case.limits.learning.small_fall * start


def _changes(case: Case) -> Iterator[ProgressChange]:
    loss = _loss_change(case) if len(case.loss) else None
    if loss is not None:
        yield loss
    eval_loss = case.history.finite("eval_loss")
    if len(eval_loss) > 1:
        change = _eval_change(eval_loss)
        # Without a fall of the training loss, a tiny one of the evaluation loss is not learning.
        is_tiny = change.first - change.last < RELATIVE_TOLERANCE * abs(change.first)
        if loss is not None and loss.better is False:
            is_none = is_tiny or _only_recovers(case.loss, eval_loss)
            change = replace(change, better=change.better and not is_none)
        yield change
    for score in scores(case)[:SHOWN_SCORES]:
        values = score.series.values
        gain = score.gain(score.goodness[:1], score.goodness[1:][-MIN_CONSECUTIVE:])
        # As for the evaluation loss: no score explains what the loss does not show.
        # A guess of the mean has an R² of 0, so a rise to 0 from below is not a gain.
        below = max(-float(values[0]), 0.0) if score.explains_variance else 0.0
        is_tiny = gain is not None and 0 < gain < CLEAR_CHANGE * score.scale + below
        is_unshown = is_tiny and loss is not None and loss.better is False
        yield ProgressChange(
            role=score.series.role,
            name=repr(score.name),
            first=float(values[0]),
            last=float(values[-1]),
            better=None if gain is None else gain > 0 and not is_unshown,
        )
    reward = case.history.finite("reward")
    if len(reward) >= MIN_TREND_POINTS:
        yield _reward_change(reward)


def _only_recovers(loss: Series, evaluations: Series) -> bool:
    """Return True if evaluations began while the loss was high, and end where the loss began.

    A model that a rise in the first steps made worse than untrained recovers without learning.
    """
    x = loss.values
    at = int(np.searchsorted(loss.steps, evaluations.steps[0], side="right")) - 1
    is_high = at > 0 and x[at] - x[0] > _FAR_SIGMAS * late_spread(x)
    return is_high and evaluations.values[-1] >= x[0]


def _loss_change(case: Case) -> ProgressChange:
    """Return the change of the loss."""
    x = case.loss.values
    is_comparable = case.loss_kind is None and "reward" not in case.history.series
    # The loss of an epoch is a mean, and falls far within the first few; so do the losses of a log
    # that is too short for levels.
    is_coarse = case.history.counts_epochs or len(x) < TWENTIETHS
    first = float(x[0]) if is_coarse else start_level(x)
    last = end_level(x)
    better = _loss_falls(case) if is_comparable and len(x) >= MIN_TREND_POINTS else None
    if better is not None and not case.objective_changes and case.ramp is None:
        noise = _FAR_SIGMAS * late_spread(x)
        # Recovery from a rise in the first steps is not progress: the untrained model is the start.
        start = float(x[0])
        if last <= start and _rises_at_start(x, noise):
            first, better = start, better and start - last > min(noise, FIFTH * start)
        better = better and last - first <= noise
    name = "the perplexity" if is_perplexity(case.loss.column) else "the loss"
    return ProgressChange(role="loss", name=name, first=first, last=last, better=better)


def _rises_at_start(x: Floats, noise: float) -> bool:
    """Return True if the first twentieth of the losses rises above the first loss, beyond noise.

    Losses of few examples vary in proportion to their level, so the factor counts as well.
    """
    early = x[: max(len(x) // TWENTIETHS, MIN_SAMPLE)]
    if len(early) < MIN_SAMPLE or early.min() <= 0:
        return False
    highest, first = early_high(x, len(early) - 1)[0], float(x[0])
    sigma = diff_sigma(np.log(early))
    return highest - first > noise and math.log(highest / first) > _FAR_SIGMAS * sigma


def _loss_falls(case: Case) -> bool | None:
    """Return True if the loss falls or, if its objective changed, any part of it does.

    A changed objective may hide earlier learning, so the lowest level also counts as an end.
    """
    x = case.loss.values
    cuts = sorted(
        {case.comparable_range.start, *(change.spike.onset for change in case.objective_changes)}
        - {0}
    )
    if not cuts and case.ramp is None:
        return falls(x)
    lowest = levels(x, TENTHS).argmin()
    parts = [*np.split(x, cuts), x[: (int(lowest) + 1) * len(x) // TENTHS]]
    testable = [part for part in parts if len(part) >= MIN_TREND_POINTS]
    if any(map(falls, testable)):
        return True
    return False if case.ramp is None and testable else None


def falls(x: Floats) -> bool:
    """Return True if a series ends lower than it began, beyond its noise.

    Args:
        x: shape (n,), finite, n at least 4.

    Its first values or levels are far above its second half, or it has a falling trend. The values
    of a moving average are not independent: it falls if it loses far more than a single value
    varies, or if the single values fall.
    """
    if not _is_lower_at_end(x):
        return False
    # No single value of usual noise, with which an average may begin, is that far above its mean.
    if 0 < end_level(x) < float(x[0]) / FAR_RATIO:
        return True
    average = find_average(x)
    if average is None or float(x[0]) - end_level(x) > _FAR_SIGMAS * average.value_sigma:
        return True
    return _is_lower_at_end(average.values)


def _is_lower_at_end(x: Floats) -> bool:
    """Return True if independent values end lower than they began."""
    every = max(len(x) // SUBSAMPLE_SIZE, 1)
    late, last = second_half(x)[::every], end_level(x)
    sigma = late_spread(x)
    high = float(quantiles(late, (_HIGHEST,))[0])
    start = float(x[:MIN_CONSECUTIVE].min())
    if start > high and start - last > _FAR_SIGMAS * sigma:
        return True
    highest = late.max()
    if x[0] > highest and x[0] - last > _ONE_FAR * sigma:
        return True
    parts = levels(x, TWENTIETHS)
    fine = levels(x, 2 * TWENTIETHS) if len(x) >= QUARTERS * TWENTIETHS else parts[:0]
    if _levels_fall(parts, fine) or mann_kendall(-x) < _TREND_BY_CHANCE:
        return True
    # The noise of a positive loss is often proportional to its level.
    if parts.min() > 0 and _levels_fall(np.log(parts), fine):
        return True
    return _starts_higher(x)


def _starts_higher(x: Floats) -> bool:
    """Return True if the first tenth is above the second half, by more than its noise.

    Neighboring values that are alike count for fewer: n (1 - r) / (1 + r) of n values with the
    autocorrelation r are independent (Bayley and Hammersley 1946, doi:10.2307/2983560).
    """
    early, late = x[: max(len(x) // TENTHS, MIN_SAMPLE)], second_half(x)
    if len(late) < QUARTERS * MIN_SAMPLE:
        return False
    centered = late - late.mean()
    variance = float(np.mean(centered**2))
    if variance <= 0:
        return False
    alike = min(max(float(np.mean(centered[1:] * centered[:-1])) / variance, 0.0), 1 - NEGLIGIBLE)
    sigma = math.sqrt(variance * (1 + alike) / (1 - alike))
    return median(early) - median(late) > _T_LEVELS * level_error(sigma, len(early), len(late))


def _levels_fall(parts: Floats, fine: Floats) -> bool:
    """Return True if the first levels of a series are above the later ones, or levels have a trend.

    Args:
        parts: the levels of 20 stretches, of fewer in a short log.
        fine: the levels of 40 stretches; empty in a short log.
    """
    early, later = parts[:_EARLY_LEVELS], parts[len(parts) // 2 :]
    error = float(later.std(ddof=1)) * (1 / len(early) + 1 / len(later)) ** 0.5
    smallest = RELATIVE_EPS * float(np.abs(parts).max())
    if float(early.mean() - later.mean()) > _T_LEVELS * max(error, smallest):
        return True
    if len(fine) and fine[:MIN_CONSECUTIVE].min() > fine[len(fine) // 2 :].max():
        return True
    score, variance = kendall_score(-parts)
    return score > _TREND_SIGMAS * math.sqrt(variance)


def _eval_change(series: Series) -> ProgressChange:
    x = series.values
    last = evaluation_level(x[1:])
    least = CLEAR_CHANGE * abs(float(x[0]))
    clear = (
        max(BEYOND_CHANCE * diff_sigma(x), RELATIVE_EPS * least) if len(x) >= MIN_SAMPLE else least
    )
    return ProgressChange(
        role="eval_loss",
        name="the evaluation loss",
        first=float(x[0]),
        last=float(x[-1]),
        better=float(x[0]) - last > clear or mann_kendall(-x) < _TREND_BY_CHANCE,
    )


def _reward_change(series: Series) -> ProgressChange:
    """Return the change of the reward; a reward at its maximum does not have to rise."""
    x = series.values
    first, last = outer_levels(x)
    is_highest = x.max() > 0 and median(x) >= x.max()
    return ProgressChange(
        role="reward",
        name=repr(series.column),
        first=first,
        last=last,
        better=is_highest or falls(-x),
    )
