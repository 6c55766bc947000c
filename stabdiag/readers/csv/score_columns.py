"""Find the score among the columns of a table without names, and the running mean of the score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stabdiag.readers.unnamed import is_rate, may_be_losses, may_be_steps

# A running mean may be rounded: its error is at most this fraction of the range of its values.
_MAX_ERROR_OF_MEANS: Final = 0.01


def find_score(columns: Sequence[Sequence[float]]) -> int | None:
    """Return the position of the column of scores, or None.

    It is the one with its running mean behind it, else the first that cannot have counts or rates.
    The only column of whole numbers may be a score, too, such as a reward that never changes.
    """
    others = [at for at, column in enumerate(columns) if not _is_setting(column)]
    with_mean = (
        at for at in others if any(is_running_mean(of, columns[at]) for of in columns[at + 1 :])
    )
    uncounted = (at for at in others if may_be_losses(columns[at]) or min(columns[at]) < 0)
    score = next(with_mean, next(uncounted, None))
    if score is not None:
        return score
    whole = [at for at in others if not may_be_steps(columns[at])]
    if len(whole) > 1:
        whole = [at for at in whole if not _is_constant_count(columns[at])]
    return whole[0] if len(whole) == 1 else None


def is_running_mean(numbers: Sequence[float], scores: Sequence[float]) -> bool:
    """Return True if numbers may be means of the scores so far: within their range, and smoother.

    A mean of the last scores is one of them, and so is a moving average.
    """
    lowest = highest = scores[0]
    error = _MAX_ERROR_OF_MEANS * (max(scores) - min(scores))
    for number, score in zip(numbers, scores, strict=True):
        lowest, highest = min(lowest, score), max(highest, score)
        if not lowest - error <= number <= highest + error:
            return False
    changes, own_changes = (
        sum(abs(after - before) for before, after in pairwise(column))
        for column in (scores, numbers)
    )
    return own_changes < changes or changes == own_changes == 0


def _is_setting(column: Sequence[float]) -> bool:
    """Return True for rates and epsilons, but not for a reward that is always 0, or negative."""
    is_always_whole = len({*column}) == 1 and column[0].is_integer()
    return is_rate(column) and column[-1] >= 0 and not is_always_whole


def _is_constant_count(column: Sequence[float]) -> bool:
    return len({*column}) == 1 and column[0] > 0
