"""The scores of a run, signed so that higher is better."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation, name_words, normal, without_evaluation
from stabdiag.model.roles.scores import (
    PERCENT,
    Direction,
    full_scale,
    is_training_score,
    score_direction,
)
from stabdiag.stats.course import level_error
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.standards import BEYOND_CHANCE, HALF, MIN_CONSECUTIVE, NEGLIGIBLE, TWICE
from stabdiag.tree.run import Run

# With fewer values the noise is unknown, and a change has to exceed this fraction of the value.
MIN_VALUES = 2 * MIN_CONSECUTIVE
CLEAR_CHANGE = 0.02

# An error rate counts insertions, so it may exceed 1 as a fraction.
_HIGHEST_FRACTION = TWICE

_DETERMINATION = lazy_pattern(
    r"(?i)(?<![a-z0-9])(r2|r_?squared|r\^2)(?![a-z0-9]|_?adj)(?:_?score)?"
)

# Names of the area under the ROC curve.
_AREA_NAMES: Final = frozenset({"auc", "auroc", "rocauc", "aucroc"})


@frozen
class Score:
    """One score: its series, which direction is better, and where it was measured."""

    series: Series
    direction: Direction
    is_heldout: bool

    @property
    def name(self) -> str:
        """The column, as the log names it."""
        return self.series.column

    @property
    def goodness(self) -> Floats:
        """The values with the sign that makes higher ones better."""
        return self.series.values * float(self.direction)

    @property
    def starts_perfect(self) -> bool:
        """Whether the first value cannot be improved."""
        first = self.goodness[0]
        return bool(first == 0 if self.direction < 0 else first in (1, PERCENT))

    @property
    def scale(self) -> float:
        """The range of the score: 1 or 100, judging by its values, or 0 if unknown."""
        highest = float(np.abs(self.series.values).max())
        if highest <= _HIGHEST_FRACTION:
            return 1.0
        return float(PERCENT) if highest <= PERCENT else 0.0

    @property
    def explains_variance(self) -> bool:
        """Whether it is a coefficient of determination, 0 for a guess of the mean."""
        return _DETERMINATION.search(self.name) is not None

    @property
    def guess_value(self) -> float:
        """The value that one answer for all examples gets: 0 unless it is an area under a ROC."""
        words = {*name_words(self.name)}
        if not words & _AREA_NAMES or "pr" in words:
            return 0.0
        return HALF * full_scale(float(self.series.values.max()))

    @property
    def best_position(self) -> int:
        """The position of the best value."""
        return int(np.argmax(self.goodness))

    def gain(self, before: Floats, after: Floats) -> float | None:
        """Return the improvement between two stretches of ``goodness``.

        It is 0 if the difference may be noise, and None if a stretch is empty.
        """
        if not len(before) or not len(after):
            return None
        change = median(after) - median(before)
        values = self.goodness
        if len(values) >= MIN_VALUES:
            # If most evaluations are equal, the others show the noise.
            sigma = diff_sigma(values) or float(np.diff(values).std()) / math.sqrt(2)
            least = BEYOND_CHANCE * level_error(sigma, len(before), len(after))
        else:
            least = CLEAR_CHANGE * float(np.abs(values).max())
        return change if abs(change) > least else 0.0

    def later_gain(self, step: int) -> float | None:
        """Return the improvement of the last values over those up to a step, or 0 within noise.

        A score improves fast at first, so before the third value only the last one counts.
        """
        until = len(self.series.until(step))
        width = MIN_CONSECUTIVE if until >= MIN_CONSECUTIVE else 1
        before = self.goodness[:until][-width:]
        return self.gain(before, self.goodness[until:][-MIN_CONSECUTIVE:])

    def is_material(self, gain: float) -> bool:
        """Return True if a gain is more than a twentieth of the distance to a perfect score.

        Any gain is material for a score whose best value is unknown, such as a PSNR in decibels.
        """
        is_fraction = self.scale == 1 or self.series.role in ("accuracy", "eval_accuracy")
        if not is_fraction or self.direction is not Direction.HIGHER:
            return gain > 0
        return gain > NEGLIGIBLE * (self.scale - float(self.goodness.max()))


def scores(run: Run) -> tuple[Score, ...]:
    """Return the scores of a run, the held-out ones first."""
    history = run.history
    candidates = [
        (history.finite("eval_accuracy"), Direction.HIGHER, True),
        (history.finite("accuracy"), Direction.HIGHER, False),
    ]
    columns = [series.column for series in history.series.values()]
    evaluated = {without_evaluation(column) for column in columns if is_evaluation(column)}
    for series in history.group("score").values():
        direction = score_direction(series.column)
        if direction is not None:
            # Next to val_mse, mse belongs to the training data.
            is_trained = is_training_score(series.column) or normal(series.column) in evaluated
            is_heldout = is_evaluation(series.column) or not is_trained
            candidates.append((series.finite(), direction, is_heldout))
    logged = [
        Score(series=series, direction=direction, is_heldout=is_heldout)
        for series, direction, is_heldout in candidates
        if len(series)
    ]
    return tuple(sorted(logged, key=lambda score: not score.is_heldout))


def heldout_scores(run: Run) -> tuple[Score, ...]:
    """Return the scores that were measured on held-out data."""
    return tuple(score for score in scores(run) if score.is_heldout)
