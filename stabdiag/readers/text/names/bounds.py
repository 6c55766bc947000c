"""Change the sign of a log-probability, or of a bound on it, whose negative is a loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.readers.columns import Columns
from stabdiag.readers.text.lines.grammar import is_a_loss


def negate_bounds(columns: Columns, *, rises: bool = False) -> tuple[Columns, str]:
    """Return the columns with losses negated if they are a rising bound, and a note about it.

    The logarithm of a probability, or a bound of it, is below zero. The logarithm of a density may
    be above: ``rises`` means that it is known to rise.
    """
    bounds = [name for name in columns.names if is_a_loss(name)]
    values = [columns.load(name).logged for name in bounds]
    if not rises and not any(
        len(logged) and 2 * np.count_nonzero(logged < 0) > len(logged) for logged in values
    ):
        return columns, ""

    negated = columns.with_changed(
        lambda name, column: replace(column, values=-column.values) if name in bounds else column
    )
    return negated, "with its sign turned: a higher value is better"


def rises_above_zero(columns: Columns) -> bool:
    """Return True if a loss rises and is above zero: this may be a failure, or a bound."""
    values = [columns.load(name).logged for name in columns.names if is_a_loss(name)]
    return any(len(logged) > 1 and logged[-1] > logged[0] for logged in values)
