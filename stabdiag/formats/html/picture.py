"""A plot as SVG, which needs no script: the series and its companions over the same steps.

It has no colours of its own: the page's style sheet gives them, for light, dark and paper.
"""

from __future__ import annotations

import html
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.canvas import Scale, View, round_numbers, thinned
from stabdiag.formats.measured import number
from stabdiag.formats.visible import visible
from stabdiag.model.text import clipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.formats.subject import Mark, Plot
    from stabdiag.model.history import Series

_WIDTH, _LEFT, _RIGHT = 760, 64, 14
_TOP, _MAIN, _SMALL, _GAP, _BOTTOM = 34, 220, 64, 24, 24
_TICKS = 7

# What is drawn is exact to half a unit of the picture.
_FINE = 2


def chart(plot: Plot, marks: Sequence[Mark]) -> str:
    """Return the chart as one SVG element, to stand in an HTML page."""
    view = View(first=plot.first, last=plot.last, columns=_WIDTH - _LEFT - _RIGHT)
    top = _TOP
    panels: list[str] = []
    for series in (plot.series, *plot.companions):
        high = _SMALL if panels else _MAIN
        panels += _panel(series, view, top, high)
        top += high + _GAP
    bottom = top - _GAP
    shown = [mark for mark in marks if plot.first <= mark.step <= plot.last]
    parts = [*_steps(view, bottom), *panels, *_marks(shown, view, bottom)]
    named = html.escape(visible(f"{plot.series.role}, steps {plot.first} to {plot.last}"))
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img" '
        f'aria-label="{named}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _x(view: View, step: float) -> float:
    return round(_LEFT + (step - view.first) / max(view.last - view.first, 1) * view.columns, 1)


def _panel(series: Series, view: View, top: int, high: int) -> Iterator[str]:
    """Yield one series: its frame, its axis, where it is not finite, and its line."""
    scale = Scale.of(series.values)
    yield f'<rect class="frame" x="{_LEFT}" y="{top}" width="{view.columns}" height="{high}"/>'
    name = series.role if series.column == series.role else f"{series.role} ({series.column})"
    log = ", log scale" if scale.log else ""
    yield _text(_LEFT, top - 6, f"{clipped(name, 60)}{log}", "name")
    for value in _values(scale, few=high < _MAIN):
        y = round(top + high * (1 - float(scale.share(np.array([value]))[0])), 1)
        yield f'<path class="grid" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>'
        yield _text(_LEFT - 6, y + 4, number(value, 3), "value")
    x, y_up = thinned(series, view, scale, high * _FINE)
    points = list(zip((_LEFT + x / _FINE).tolist(), y_up.tolist(), strict=True))
    for bad, run in groupby(points, key=lambda point: point[1] < 0):
        stretch = list(run)
        begin, wide = stretch[0][0], max(stretch[-1][0] - stretch[0][0], 1)
        if bad:
            yield f'<rect class="bad" x="{begin}" y="{top}" width="{wide}" height="{high}"/>'
        else:
            line = " ".join(f"{a:g},{top + high - b / _FINE:g}" for a, b in stretch)
            yield f'<polyline class="line" points="{line}"/>'


def _values(scale: Scale, *, few: bool) -> list[float]:
    """Return the values at which a vertical axis is marked."""
    ends = [scale.low, scale.high]
    if scale.high <= scale.low:
        return ends[:1]
    return ends if few else scale.ticks(_TICKS) or ends


def _steps(view: View, bottom: int) -> Iterator[str]:
    """Yield the axis of the steps, below all panels."""
    for step in round_numbers(view.first, view.last, _TICKS) or [view.first]:
        if step == int(step):
            yield f'<path class="grid" d="M{_x(view, step)} {_TOP}V{bottom}"/>'
            yield _text(_x(view, step), bottom + 16, f"{int(step)}", "step")


def _marks(marks: Sequence[Mark], view: View, bottom: int) -> Iterator[str]:
    """Yield the marked steps; their labels stand on the side where there is room."""
    for row, mark in enumerate(sorted(marks, key=lambda mark: mark.step)):
        x = _x(view, mark.step)
        yield f'<path class="mark {mark.kind}" d="M{x} {_TOP}V{bottom}"/>'
        right = x < _LEFT + view.columns * 0.7
        side = "after" if right else "before"
        y = _TOP + 14 + 15 * row
        yield _text(x + (5 if right else -5), y, f"{mark.label} {mark.step}", f"label {side}")


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{html.escape(visible(words))}</text>'
