"""The comparison for a terminal.

The overlay consists of characters: the reference is a line, the others are marks. It works without
color: where only the line is visible, the runs are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from rich.text import Text

from stabdiag.formats import compared as view
from stabdiag.formats.canvas import BLANK, Scale, View, curve, strip
from stabdiag.formats.measured import number
from stabdiag.formats.terminal import sections
from stabdiag.formats.terminal.page import Page, fitted
from stabdiag.formats.terminal.plot import room, row, step_axis, styled
from stabdiag.model.comparison import Comparison

_PLOT_ROWS: Final = 9
_CURVE_STYLES: Final = ("yellow", "magenta", "green", "blue")
_CURVE_MARKS: Final = ("x", "o", "+", "*")


def lines(comparison: Comparison, page: Page) -> Iterator[Text]:
    """Yield the comparison for a terminal, line by line."""
    yield from sections.head(comparison, page)
    yield from sections.actions(comparison, page)
    yield from _where(comparison, page)
    if comparison.levels:
        yield from page.heading("Where they end")
        yield from fitted(view.LEVEL_HEADINGS, view.levels(comparison), page)
    yield from sections.also_found(comparison, page)
    yield from _settings(comparison, page)
    yield from page.heading(f"Compared as {comparison.kind.words}", comparison.why)
    yield from fitted(view.RUNS, view.runs(comparison), page)
    yield from _foot(comparison, page)


def _where(comparison: Comparison, page: Page) -> Iterator[Text]:
    picture, rows = view.overlay(comparison), view.divergence_rows(comparison)
    if not rows:
        return
    note = f"compared with {comparison.reference}, at common steps"
    yield from page.heading("Where they diverge", note)
    drawn = [] if picture is None else list(_drawn(picture, page))
    if drawn:
        yield from drawn
        yield Text("")
    yield from fitted(view.DIVERGENCES, rows, page)


def _drawn(overlay: view.Overlay, page: Page) -> Iterator[Text]:
    """Yield the lines of the picture, or none if the page is too narrow."""
    columns = room(page)
    if columns is None:
        return
    window = View(first=overlay.first, last=overlay.last, columns=columns)
    scale = Scale.of(np.concatenate([series.values for _, series in overlay.curves]))
    yield from _legend(overlay, scale, page)
    labels = {0: number(scale.high, 3), _PLOT_ROWS - 1: number(scale.low, 3)}
    event = None if overlay.event is None else window.column(overlay.event)
    curves = (
        curve(series, window, scale, _PLOT_ROWS, ascii=page.ascii) for _, series in overlay.curves
    )
    for i, lines in enumerate(zip(*curves, strict=True)):
        chars = [
            _char(column, is_event=index == event)
            for index, column in enumerate(zip(*lines, strict=True))
        ]
        yield row(labels.get(i, ""), "┤" if i in labels else "│", styled(chars, page), page)
    yield from step_axis(window, overlay.event, page)
    if overlay.gap is not None:
        bars = page.text(strip(overlay.gap, window, ascii=page.ascii), "magenta")
        yield row("difference", " ", bars, page)


def _legend(overlay: view.Overlay, scale: Scale, page: Page) -> Iterator[Text]:
    first, *others = (label for label, _ in overlay.curves)
    log = ", log scale" if scale.log else ""
    marks = ", ".join(f"{mark} {label}" for mark, label in zip(_CURVE_MARKS, others, strict=False))
    where = " where it leaves the line" if len(others) == 1 else ""
    parts = [f"{overlay.role}{log}: {first} is the line, {marks}{where}"]
    if overlay.averaged > 1:
        parts.append(f"means of {overlay.averaged} points")
    if overlay.gap is not None:
        low, high = overlay.gap.values.min(), overlay.gap.values.max()
        parts.append(f"difference {number(float(low), 2)} to {number(float(high), 2)}")
    yield from page.wrap("; ".join(parts), "  ")


def _char(column: tuple[str, ...], *, is_event: bool) -> tuple[str, str]:
    """Return a character and its style: the line, else the first mark in this column."""
    line, *others = column
    if line not in (BLANK, " "):
        return line, "cyan"
    for i, other in enumerate(others):
        if other not in (BLANK, " "):
            return _CURVE_MARKS[i % len(_CURVE_MARKS)], _CURVE_STYLES[i % len(_CURVE_STYLES)]
    return ("┊", "dim") if is_event else (" ", "")


def _settings(comparison: Comparison, page: Page) -> Iterator[Text]:
    """Yield the settings that differ; settings without an effect share one line."""
    if not comparison.differences:
        return
    yield from page.heading("Settings that differ")
    for difference in comparison.differences:
        if page.verbose or difference.relevance not in view.IDLE:
            yield from page.wrap(
                view.setting(difference), page.text(f"  {difference.relevance:<14}  ", "dim")
            )
    for relevance, name in () if page.verbose else view.IDLE.items():
        keys = [
            difference.key
            for difference in comparison.differences
            if difference.relevance is relevance
        ]
        if keys:
            yield from page.wrap(page.text(f"{name}: {', '.join(keys)}", "dim"), "  ", "    ")


def _foot(comparison: Comparison, page: Page) -> Iterator[Text]:
    commands = ["--verbose"] * (not page.verbose) + [
        f"stabdiag explain {comparison.diagnosis.slug}"
    ]
    yield Text("")
    yield from page.wrap(page.text("; ".join(view.facts(comparison)), "dim"))
    yield from page.wrap(page.text(f"more: {'; '.join(commands)}", "dim"))
