"""Where runs part, in words and in numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stabdiag.model.text import num

if TYPE_CHECKING:
    from stabdiag.model.comparison import Parting
    from stabdiag.model.findings import Scalar

# The values of two runs that do not part.
_NOTHING = (math.nan, math.nan)


def where(one: Parting) -> str:
    """Return a sentence on the first difference, and on how many losses before it are equal."""
    a, b = one.runs
    x, y = one.values or _NOTHING
    gap = f", a difference of {num(abs(x - y))}" if math.isfinite(x - y) else ""
    return f"The losses of {a} and {b} first differ at step {one.step}: {close(one.values)}{gap}."


def largest(one: Parting) -> str:
    """Return how large the difference becomes, and where."""
    if not math.isfinite(one.largest):
        return f"without measure at step {one.largest_step}, where one is not finite"
    return f"{num(one.largest)} at most, at step {one.largest_step}"


def close(values: tuple[float, float] | None) -> str:
    """Return two values with as many digits as tell them apart, whole ones whole."""
    x, y = values or _NOTHING
    if not math.isfinite(x - y):
        return f"{num(x)} against {num(y)}"
    if x.is_integer() and y.is_integer() and max(abs(x), abs(y)) < 1e15:
        return f"{int(x)} against {int(y)}"
    for digits in range(4, 17):
        one, other = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if one != other:
            return f"{one} against {other}"
    return f"{x!r} against {y!r}"


def measured(one: Parting) -> dict[str, Scalar]:
    """Return what a parting measures, by name."""
    x, y = one.values or _NOTHING
    return {
        "first_difference_at": one.step,
        "first_difference": abs(x - y),
        "beyond_rounding_from": one.unrounded,
        "beyond_noise_from": one.lasting,
        "noise": one.noise,
        "largest_difference": one.largest,
        "largest_at": one.largest_step,
        "common_points": one.points,
    }
