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
    outer_levels,
    start_level,
)
from stabdiag.stats.falls import falls
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.smoothing import find_average
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    COMPLETE,
    FIFTH,
    MAX_CHANCE_OF_MANY,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    RELATIVE_EPS,
    RELATIVE_TOLERANCE,
    TENTHS,
    TWENTIETHS,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.case import Case
from stabdiag.tree.once import once_per_case
from stabdiag.tree.pretraining import chance_loss
from stabdiag.tree.scores import CLEAR_CHANGE, scores

# A change within this many standard deviations may be noise, also if neighboring values are alike.
_FAR_SIGMAS: Final = BEYOND_CHANCE

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
            is_none = is_tiny or _only_recovers(case, eval_loss)
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


def _only_recovers(case: Case, evaluations: Series) -> bool:
    """Return True if evaluations began while the loss was high, and end where the loss began.

    A model that a rise in the first steps made worse than untrained recovers without learning.
    """
    x = case.loss.values
    at = int(np.searchsorted(case.loss.steps, evaluations.steps[0], side="right")) - 1
    is_high = at > 0 and x[at] - x[0] > _FAR_SIGMAS * case.late_spread
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
        noise = _FAR_SIGMAS * case.late_spread
        # Recovery from a rise in the first steps is not progress: the untrained model is the start.
        start = float(x[0])
        if last <= start and _rises_at_start(x, noise):
            first, better = start, better and start - last > min(noise, FIFTH * start)
        better = better and last - first <= noise
    if _falls_at_start(case):
        first = float(x[0])
    name = "the perplexity" if is_perplexity(case.loss.column) else "the loss"
    return ProgressChange(role="loss", name=name, first=first, last=last, better=better)


def _falls_at_start(case: Case) -> bool:
    """Return True if the first losses fall from one to the next, beyond noise."""
    x = case.loss.values[:MIN_CONSECUTIVE]
    if len(case.loss) < MIN_TREND_POINTS or not (np.diff(x) < 0).all():
        return False
    return float(x[0] - x[-1]) > _FAR_SIGMAS * case.late_spread


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
        return falls(x, case.average, case.late_spread)
    lowest = levels(x, TENTHS).argmin()
    parts = [*np.split(x, cuts), x[: (int(lowest) + 1) * len(x) // TENTHS]]
    testable = [part for part in parts if len(part) >= MIN_TREND_POINTS]
    if any(map(_falls, testable)):
        return True
    return False if case.ramp is None and testable else None


def _falls(x: Floats) -> bool:
    return falls(x, find_average(x), late_spread(x, diff_sigma(x)))


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
        better=float(x[0]) - last > clear or mann_kendall(-x) < MAX_CHANCE_OF_MANY,
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
        better=is_highest or _falls(-x),
    )
