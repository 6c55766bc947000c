"""Curves drawn with characters: arrays in, rows of characters out.

Braille gives two dots a column and four a row, drawn here and not by plotext: compared as
pictures the two read alike, but importing plotext costs as long as the whole rest of the
program's start, and it knows neither NaN regions nor output without Unicode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.history import Series


DOTS_X, DOTS_Y = 2, 4
BLANK = "\u2800"
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_LOG_FROM = 100.0
# A smaller range counts as one value.
_SMALLEST = 1e-300
_BLOCKS = {False: " ▁▂▃▄▅▆▇█", True: " .:-=+*#@"}


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """The part of the step axis that a plot shows, ``columns`` characters wide."""

    first: int
    last: int
    columns: int

    def dots(self, steps: Ints) -> Ints:
        """Return the horizontal dot of each step."""
        width = self.columns * DOTS_X - 1
        span = max(self.last - self.first, 1)
        return np.rint((steps - self.first) / span * width).astype(np.int64)

    def column(self, step: int) -> int:
        """Return the column of one step."""
        return int(self.dots(np.array([step]))[0]) // DOTS_X


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The vertical axis: the finite range of the values, logarithmic where it is wide."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Floats) -> Scale:
        """Return the scale on which all finite values fit."""
        good = values[np.isfinite(values)]
        if not good.size:
            return cls(low=0.0, high=1.0, log=False)
        low, high = float(good.min()), float(good.max())
        return cls(low=low, high=high, log=low > 0 and high > low * _LOG_FROM)

    def share(self, values: Floats) -> Floats:
        """Return the position of each finite value between the lowest, 0, and the highest, 1."""
        if self.high <= self.low:
            return np.full(values.shape, 0.5)
        if self.log:
            shares = np.log(values) - math.log(self.low)
            shares /= math.log(self.high) - math.log(self.low)
        else:
            # Halved before the difference is taken: the range of two floats may be no float.
            shares = (values / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return np.asarray(np.clip(shares, 0.0, 1.0), dtype=np.float64)

    def ticks(self, most: int) -> list[float]:
        """Return up to ``most`` round values within the range."""
        if not self.log:
            return round_numbers(self.low, self.high, most)
        powers = round_numbers(math.log10(self.low), math.log10(self.high), most)
        return [10.0**power for power in powers if power == int(power)]


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Return up to ``most`` round numbers within a range: multiples of 1, 2 or 5 of a decade."""
    span = high - low
    if not _SMALLEST < span < math.inf:
        return []
    decade = 10.0 ** math.floor(math.log10(span / most))
    step = next(step for times in (1, 2, 5, 10, 20) if span / (step := times * decade) < most)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def curve(series: Series, view: View, scale: Scale, rows: int, *, ascii: bool) -> list[str]:
    """Draw a series as a line: ``rows`` strings of ``view.columns`` characters, top first.

    It is drawn in braille, or with stars for terminals that know ASCII alone.
    """
    if ascii:
        cells = np.full((rows, view.columns), " ")
        for x, y in _line(*thinned(series, view, scale, rows - 1)):
            cells[rows - 1 - y, x // DOTS_X] = "*"
        return ["".join(row) for row in cells]
    bits = np.zeros((rows, view.columns), dtype=np.int64)
    for x, y in _line(*thinned(series, view, scale, rows * DOTS_Y - 1)):
        down = rows * DOTS_Y - 1 - y
        bits[down // DOTS_Y, x // DOTS_X] |= _BITS[x % DOTS_X][down % DOTS_Y]
    return ["".join(chr(ord(BLANK) + int(cell)) for cell in row) for row in bits]


def strip(series: Series, view: View, *, ascii: bool) -> str:
    """Draw a series as one row of bars, each as high as the highest point in its column."""
    finite = series.finite()
    marks = _BLOCKS[ascii]
    share = Scale.of(finite.values).share(finite.values)
    height = np.full(view.columns, -1, dtype=np.int64)
    np.maximum.at(
        height,
        view.dots(finite.steps) // DOTS_X,
        1 + np.rint(share * (len(marks) - 2)).astype(np.int64),
    )
    return "".join(marks[h] if h > 0 else " " for h in _held(height, view, finite.steps))


def bad_columns(series: Series, view: View) -> Mask:
    """Return which columns hold a NaN or infinite point."""
    bad = np.zeros(view.columns, dtype=np.bool_)
    bad[view.dots(series.steps[~np.isfinite(series.values)]) // DOTS_X] = True
    return bad


def _held(height: Ints, view: View, steps: Ints) -> Ints:
    """Fill the gaps of a sparse strip with the bar before them."""
    if not steps.size:
        return height
    last = int(view.dots(steps[-1:])[0]) // DOTS_X
    seen = np.where(height >= 0, np.arange(height.size), -1)
    before = np.maximum.accumulate(seen)
    held = np.where(before >= 0, height[np.maximum(before, 0)], -1)
    held[last + 1 :] = -1
    return held


def thinned(series: Series, view: View, scale: Scale, top: int) -> tuple[Ints, Ints]:
    """Return dots to connect: of each dot column the first, lowest, highest and last point.

    A spike of one step among a million survives this; a mean or a stride would lose it. A gap
    of NaN is a dot of height -1, where the line breaks.
    """
    x = view.dots(series.steps)
    bad = ~np.isfinite(series.values)
    share = scale.share(np.where(bad, scale.low, series.values))
    y = np.where(bad, -1, np.rint(share * top).astype(np.int64))
    keep: list[int] = []
    edges = np.flatnonzero(np.diff(x, prepend=-1, append=-1))
    for low, high in pairwise(edges.tolist()):
        part = y[low:high]
        keep += sorted({low, low + int(part.argmin()), low + int(part.argmax()), high - 1})
    return x[keep], y[keep]


def _line(x: Ints, y: Ints) -> set[tuple[int, int]]:
    """Return the dots of the line through the points, broken where a height is negative."""
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    dots = {(a, b) for a, b in points if b >= 0}
    for (a, b), (c, d) in pairwise(points):
        if b >= 0 and d >= 0:
            reach = max(abs(c - a), abs(d - b))
            dots |= {
                (a + round((c - a) * i / reach), b + round((d - b) * i / reach))
                for i in range(1, reach)
            }
    return dots
