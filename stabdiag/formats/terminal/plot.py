"""Plots in a terminal: frame, curve, event, level, NaN region and companion series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
from rich.text import Text

from stabdiag.formats.canvas import (
    BLANK,
    Scale,
    View,
    bad_columns,
    curve,
    round_numbers,
    step_labels,
    strip,
    titled,
)
from stabdiag.formats.measured import number, span
from stabdiag.formats.subject import Plot, group, range_with_band
from stabdiag.formats.terminal.page import Page
from stabdiag.model.arrays import Floats, Mask

_GUTTER = 13
_AXIS_LABEL_WIDTH = _GUTTER - 3
_MIN_COLUMNS = 24
_MAX_PLOT_WIDTH = 78
ROWS = 6
_MAX_LABELS = 5


def draw(plot: Plot, page: Page) -> Iterator[Text]:
    """Yield the lines of a plot, or none if the page is too narrow."""
    columns = room(page)
    if columns is None:
        return
    view = View(first=plot.first, last=plot.last, columns=columns)
    edges = _edges(plot, view)
    scale = Scale.of(np.concatenate([plot.series.values, *edges]))
    titles = [titled(plot.series, scale)]
    titles += ["dots: the band of the good runs"] * bool(len(edges))
    titles += [f"{series.role} {span(series.finite().values)}" for series in plot.companions]
    yield from page.wrap("; ".join(titles), "  ")
    yield from _body(plot, view, scale, page, edges)
    rounds = round_numbers(plot.first, plot.last, _MAX_LABELS)
    yield from step_axis(view, plot.event, page, map(int, rounds))
    for companion in plot.companions:
        bars = strip(companion, view, ascii=page.ascii)
        role = companion.role
        label = role if len(role) <= _AXIS_LABEL_WIDTH else group(role)
        yield row(label, " ", page.text(bars, "magenta"), page)


def _edges(plot: Plot, view: View) -> tuple[Floats, ...]:
    """Return the edges of the band of earlier good runs by column; NaN far outside of the values.

    An edge like that would flatten the curve.
    """
    values = plot.series.finite().values
    if plot.band is None or not len(values) or not len(plot.band.band_steps):
        return ()
    steps = np.linspace(plot.first, plot.last, view.columns)
    band_steps = np.log(np.maximum(plot.band.band_steps, 1))
    column_steps = np.log(np.maximum(steps, 1))
    low, high = range_with_band(values, plot.band)
    margin = high - low or abs(high)
    edges = []
    for edge in (plot.band.band_high, plot.band.band_low):
        values_by_column = np.interp(column_steps, band_steps, edge, left=np.nan, right=np.nan)
        is_visible = (values_by_column > low - margin) & (values_by_column < high + margin)
        edges.append(np.where(is_visible, values_by_column, np.nan))
    return tuple(edges)


def _body(
    plot: Plot, view: View, scale: Scale, page: Page, edges: Sequence[Floats]
) -> Iterator[Text]:
    bad = bad_columns(plot.series, view)
    event = None if plot.event is None else view.column(plot.event)
    labels, level = _labels(plot, scale)
    for i, drawn in enumerate(curve(plot.series, view, scale, ROWS, ascii=page.ascii)):
        background = dict.fromkeys(range(view.columns), ("┈", "dim")) if i == level else {}
        for edge in edges:
            inside = np.isfinite(edge) & (edge >= scale.low) & (edge <= scale.high)
            columns = np.flatnonzero(inside & (_rows(edge, scale) == i)).tolist()
            background |= dict.fromkeys(columns, ("·", "green"))
        background |= _background(bad, event, "NaN" if i == ROWS // 2 else "")
        yield row(
            labels.get(i, ""), "┤" if i in labels else "│", _marked(drawn, background, page), page
        )


def _labels(plot: Plot, scale: Scale) -> tuple[dict[int, str], int | None]:
    """Return the labels of the vertical axis by row, and the row of the level, if any.

    The extremes always have labels; the level and round numbers get one if there is room.
    """
    labels = {0: number(scale.high, 3), ROWS - 1: number(scale.low, 3)}
    level = None
    name, value = plot.level or ("", math.nan)
    if scale.low < value < scale.high and (index := _row_index(value, scale)) not in labels:
        level = index  # unless it is too close to an extreme
        labels[index] = f"{name} {number(value, 3)}"
    for round_value in scale.ticks(_MAX_LABELS):
        index = _row_index(round_value, scale)
        if not labels.keys() & {index - 1, index, index + 1}:
            labels[index] = number(round_value, 3)
    return labels, level


def _row_index(value: float, scale: Scale) -> int:
    """Return the row of a value: the first for the highest, the last for the lowest."""
    return round((1 - float(scale.share(np.array([value]))[0])) * (ROWS - 1))


def _rows(values: Floats, scale: Scale) -> Floats:
    """Return the row of each value; NaN stays NaN."""
    return np.round((1 - scale.share(values)) * (ROWS - 1))


def _background(bad: Mask, event: int | None, name: str) -> dict[int, tuple[str, str]]:
    """Return the background of the curve by column: NaN region, its name, event."""
    columns = np.flatnonzero(bad).tolist()
    marks = dict.fromkeys(columns, ("░", "red"))
    if columns:
        start = next(c for c in reversed(range(columns[-1] + 1)) if c == 0 or not bad[c - 1])
        spare = columns[-1] + 1 - start - len(name)
        if spare >= 2:
            marks |= {start + spare // 2 + i: (c, "bold red") for i, c in enumerate(name)}
    if event is not None:
        marks[event] = ("┊", "yellow")
    return marks


def _marked(drawn: str, marks: dict[int, tuple[str, str]], page: Page) -> Text:
    chars = [
        marks.get(column, (" ", "")) if char in (BLANK, " ") else (char, "cyan")
        for column, char in enumerate(drawn)
    ]
    return styled(chars, page)


def room(page: Page) -> int | None:
    """Return the number of columns for a plot, or None if the page is too narrow."""
    columns = min(page.width, _MAX_PLOT_WIDTH) - _GUTTER - 1
    return columns if columns >= _MIN_COLUMNS else None


def row(label: str, edge: str, drawn: Text, page: Page) -> Text:
    """Return one row of a plot with its label and the edge of the frame."""
    name = page.clip(label, _AXIS_LABEL_WIDTH)
    return page.line(" " * (_GUTTER - 1 - len(name)), name, " ", page.text(edge, "dim"), drawn)


def styled(chars: Iterable[tuple[str, str]], page: Page) -> Text:
    """Join drawn characters, each with its style, to text."""
    parts = []
    for style, run in groupby(chars, key=lambda char: char[1]):
        drawn = "".join(char for char, _ in run)
        # Braille comes from the plot, not from a log. ASCII output has none.
        parts.append(page.text(drawn, style) if page.ascii else Text(drawn, style))
    return Text("").join(parts)


def step_axis(
    view: View, event: int | None, page: Page, between: Iterable[int] = ()
) -> Iterator[Text]:
    """Yield the step axis and its labels."""
    labels, marked = step_labels(view, event, between)
    line = "".join("┴" if column in marked else "─" for column in range(view.columns))
    yield row("", "└", page.text(line, "dim"), page)
    yield row("", " ", page.text(labels.rstrip()), page)
