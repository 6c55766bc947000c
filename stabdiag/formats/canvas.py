"""Curves drawn with characters, and as SVG, which needs no script.

Braille has two dots per column and four per row. plotext would look the same, but its import takes
as long as the rest of the program, and it does not support NaN regions or ASCII output. The style
sheet of the page sets the colors of the SVG for light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np

from stabdiag.formats.measured import number, visible
from stabdiag.formats.subject import Mark, Plot
from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.text import clipped

DOTS_X, DOTS_Y = 2, 4
BLANK = "\u2800"
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_MIN_LOG_RATIO = 100.0
# A smaller range counts as a single value.
_SMALLEST = 1e-300
_BLOCKS = {False: " ▁▂▃▄▅▆▇█", True: " .:-=+*#@"}

_WIDTH, _LEFT, _RIGHT = 760, 64, 14
_PLOT_WIDTH = _WIDTH - _LEFT - _RIGHT
_TOP, _MAIN, _SMALL, _GAP, _BOTTOM = 34, 220, 64, 24, 24
_TICKS = 7

# Heights are exact to half a unit of the picture, steps to a whole unit.
_Y_RESOLUTION = 2


@frozen
class View:
    """The visible part of the step axis, ``columns`` characters wide."""

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


@frozen
class Scale:
    """The vertical axis: the range of the finite values, logarithmic if it is wide."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Floats) -> Scale:
        """Return a scale that fits all finite values."""
        finite = values[np.isfinite(values)]
        if not finite.size:
            return cls(low=0.0, high=1.0, log=False)
        low, high = float(finite.min()), float(finite.max())
        return cls(low=low, high=high, log=low > 0 and high > low * _MIN_LOG_RATIO)

    def share(self, values: Floats) -> Floats:
        """Return the position of each finite value, from 0 for the lowest to 1 for the highest."""
        # Halve before subtracting: the difference may overflow. Half of the least float is 0.
        half = self.high / 2 - self.low / 2
        if half <= 0:
            return np.full(values.shape, 0.5)
        if self.log:
            fractions = np.log(values) - math.log(self.low)
            fractions /= math.log(self.high) - math.log(self.low)
        else:
            fractions = (values / 2 - self.low / 2) / half
        return np.asarray(np.clip(fractions, 0.0, 1.0), dtype=np.float64)

    def ticks(self, max_count: int) -> list[float]:
        """Return up to ``max_count`` round values within the range."""
        if not self.log:
            return round_numbers(self.low, self.high, max_count)
        powers = round_numbers(math.log10(self.low), math.log10(self.high), max_count)
        return [10.0**power for power in powers if power == int(power)]


def round_numbers(low: float, high: float, max_count: int) -> list[float]:
    """Return up to ``max_count`` multiples of 1, 2 or 5 times a power of ten within a range."""
    span = high - low
    if not _SMALLEST < span < math.inf:
        return []
    decade = 10.0 ** math.floor(math.log10(span / max_count))
    step = next(step for times in (1, 2, 5, 10, 20) if span / (step := times * decade) < max_count)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def curve(series: Series, view: View, scale: Scale, rows: int, *, ascii: bool) -> list[str]:
    """Draw a series as a line: ``rows`` strings of ``view.columns`` characters, top first.

    It consists of braille, or of stars for terminals that support only ASCII.
    """
    if ascii:
        cells = np.full((rows, view.columns), " ")
        for x, y in _line(*thinned(series, view, scale, rows - 1)):
            cells[rows - 1 - y, x // DOTS_X] = "*"
        return ["".join(row) for row in cells]
    bits = np.zeros((rows, view.columns), dtype=np.int64)
    for x, y in _line(*thinned(series, view, scale, rows * DOTS_Y - 1)):
        row_from_top = rows * DOTS_Y - 1 - y
        bits[row_from_top // DOTS_Y, x // DOTS_X] |= _BITS[x % DOTS_X][row_from_top % DOTS_Y]
    return ["".join(chr(ord(BLANK) + int(cell)) for cell in row) for row in bits]


def strip(series: Series, view: View, *, ascii: bool) -> str:
    """Draw a series as one row of bars; each shows the highest point in its column."""
    finite = series.finite()
    marks = _BLOCKS[ascii]
    share = Scale.of(finite.values).share(finite.values)
    height = np.full(view.columns, -1, dtype=np.int64)
    np.maximum.at(
        height,
        view.dots(finite.steps) // DOTS_X,
        1 + np.rint(share * (len(marks) - 2)).astype(np.int64),
    )
    return "".join(marks[h] if h > 0 else " " for h in _fill_gaps(height, view, finite.steps))


def bad_columns(series: Series, view: View) -> Mask:
    """Return a mask of the columns with a NaN or infinite point, or between two of them."""
    bad = np.zeros(view.columns, dtype=np.bool_)
    columns, is_bad = view.dots(series.steps) // DOTS_X, ~np.isfinite(series.values)
    bad[columns[is_bad]] = True
    # In a sparse log, an empty column may be between two points that are not finite.
    for first, last in pairwise(np.flatnonzero(is_bad).tolist()):
        if last == first + 1:
            bad[columns[first] : columns[last]] = True
    return bad


def step_labels(
    view: View, event: int | None, between: Iterable[int] = ()
) -> tuple[str, list[int]]:
    """Return the labels below a step axis, and the columns of the steps that have one.

    The event has priority because its label must fit, then the first step, the last step, and the
    steps in ``between`` if there is room.
    """
    labels, columns = [" "] * view.columns, []
    ticks = [(step, str(step)) for step in (view.first, view.last, *between)]
    if event is not None:
        ticks.insert(0, (event, f"▲ {event}"))
    for step, label in ticks:
        column = view.column(step)
        begin = column if step == event else column - len(label) // 2
        begin = max(min(begin, view.columns - len(label)), 0)
        if not "".join(labels[max(begin - 2, 0) : begin + len(label) + 2]).strip():
            labels[begin : begin + len(label)] = label
            columns.append(column)
    return "".join(labels), columns


def _fill_gaps(height: Ints, view: View, steps: Ints) -> Ints:
    """Fill the gaps in a sparse strip with the preceding bar."""
    if not steps.size:
        return height
    last = int(view.dots(steps[-1:])[0]) // DOTS_X
    columns = np.where(height >= 0, np.arange(height.size), -1)
    sources = np.maximum.accumulate(columns)
    filled = np.where(sources >= 0, height[np.maximum(sources, 0)], -1)
    filled[last + 1 :] = -1
    return filled


def thinned(series: Series, view: View, scale: Scale, top: int) -> tuple[Ints, Ints]:
    """Return the dots to connect: the first, lowest, highest and last point of each dot column.

    A spike of a single step among a million stays visible; a mean or a stride would lose it. NaN is
    a dot of height -1, where the line breaks.
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
    """Return the dots of the line through the points, with gaps where a height is negative."""
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    dots = {(a, b) for a, b in points if b >= 0}
    for (a, b), (c, d) in pairwise(points):
        if b >= 0 and d >= 0:
            length = max(abs(c - a), abs(d - b))
            dots |= {
                (a + round((c - a) * i / length), b + round((d - b) * i / length))
                for i in range(1, length)
            }
    return dots


def titled(series: Series, scale: Scale) -> str:
    """Return the title of a curve: its role, its column if the name differs, its scale."""
    column = "" if series.column == series.role else f" ({series.column})"
    return f"{series.role}{column}{', log scale' if scale.log else ''}"


def svg_chart(plot: Plot, marks: Sequence[Mark]) -> str:
    """Return the chart as one SVG element for an HTML page."""
    view = View(first=plot.first, last=plot.last, columns=_PLOT_WIDTH // DOTS_X)
    top = _TOP
    panels: list[str] = []
    for series in (plot.series, *plot.companions):
        high = _SMALL if panels else _MAIN
        panels += _panel(series, view, top, high)
        top += high + _GAP
    bottom = top - _GAP
    shown = [mark for mark in marks if plot.first <= mark.step <= plot.last]
    parts = [*_steps(view, bottom), *panels, *_marks(shown, view, bottom)]
    label = _escaped(f"{plot.series.role}, steps {plot.first} to {plot.last}")
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img" '
        f'aria-label="{label}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _x(view: View, step: float) -> float:
    return round(_LEFT + (step - view.first) / max(view.last - view.first, 1) * _PLOT_WIDTH, 1)


def _panel(series: Series, view: View, top: int, high: int) -> Iterator[str]:
    """Yield one series: frame, axis, non-finite regions and line."""
    scale = Scale.of(series.values)
    yield f'<rect class="frame" x="{_LEFT}" y="{top}" width="{_PLOT_WIDTH}" height="{high}"/>'
    yield _text(_LEFT, top - 6, clipped(titled(series, scale), 75), "name")
    for value in _values(scale, ends_only=high < _MAIN):
        y = round(top + high * (1 - float(scale.share(np.array([value]))[0])), 1)
        yield f'<path class="grid" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>'
        yield _text(_LEFT - 6, y + 4, number(value, 3), "value")
    x, y_up = thinned(series, view, scale, high * _Y_RESOLUTION)
    across = np.round(_LEFT + x * (_PLOT_WIDTH / (view.columns * DOTS_X - 1)), 1)
    points = list(zip(across.tolist(), y_up.tolist(), strict=True))
    for bad, run in groupby(points, key=lambda point: point[1] < 0):
        stretch = list(run)
        left, extent = stretch[0][0], max(stretch[-1][0] - stretch[0][0], 1)
        if bad:
            yield f'<rect class="bad" x="{left}" y="{top}" width="{extent}" height="{high}"/>'
        else:
            line = " ".join(f"{a:g},{top + high - b / _Y_RESOLUTION:g}" for a, b in stretch)
            yield f'<polyline class="line" points="{line}"/>'


def _values(scale: Scale, *, ends_only: bool) -> list[float]:
    ends = [scale.low, scale.high]
    if scale.high <= scale.low:
        return ends[:1]
    return ends if ends_only else scale.ticks(_TICKS) or ends


def _steps(view: View, bottom: int) -> Iterator[str]:
    """Yield the step axis below all panels."""
    for step in round_numbers(view.first, view.last, _TICKS) or [view.first]:
        if step == int(step):
            yield f'<path class="grid" d="M{_x(view, step)} {_TOP}V{bottom}"/>'
            yield _text(_x(view, step), bottom + 16, f"{int(step)}", "step")


def _marks(marks: Sequence[Mark], view: View, bottom: int) -> Iterator[str]:
    """Yield the marked steps, with labels on the side that has room."""
    for row, mark in enumerate(sorted(marks, key=lambda mark: mark.step)):
        x = _x(view, mark.step)
        yield f'<path class="mark {mark.kind}" d="M{x} {_TOP}V{bottom}"/>'
        right = x < _LEFT + _PLOT_WIDTH * 0.7
        side = "after" if right else "before"
        y = _TOP + 14 + 15 * row
        yield _text(x + (5 if right else -5), y, f"{mark.label} {mark.step}", f"label {side}")


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{_escaped(words)}</text>'


def _escaped(words: str) -> str:
    # A plot in a terminal has no HTML, and the names of all its entities would be imported.
    import html

    return html.escape(visible(words))
