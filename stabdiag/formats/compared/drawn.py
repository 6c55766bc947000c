"""The overlay of a comparison, drawn with characters: one run as a line, the others by their mark.

It needs no colour: where only the line is seen, the runs are the same.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from stabdiag.formats.terminal.canvas import BLANK, Scale, View, curve, strip
from stabdiag.formats.terminal.page import Page, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.compared.view import Overlay

ROWS = 9
_GUTTER = 13
_LABEL = _GUTTER - 3
_FEWEST_COLUMNS = 24
_MOST_COLUMNS = 78
_STYLES = ("yellow", "magenta", "green", "blue")


def draw(overlay: Overlay, page: Page) -> Iterator[Text]:
    """Yield the lines of the picture; none where the page is too narrow for one."""
    columns = min(page.width, _MOST_COLUMNS) - _GUTTER - 1
    if columns < _FEWEST_COLUMNS:
        return
    view = View(first=overlay.first, last=overlay.last, columns=columns)
    scale = Scale.of(np.concatenate([series.values for _, series in overlay.curves]))
    yield from _legend(overlay, scale, page)
    labels = {0: number(scale.high, 3), ROWS - 1: number(scale.low, 3)}
    for i, row in enumerate(_rows(overlay, view, scale, page)):
        yield _line(labels.get(i, ""), "┤" if i in labels else "│", row, page)
    yield from _axis(overlay, view, page)
    if overlay.gap is not None:
        bars = page.text(strip(overlay.gap, view, ascii=page.ascii), "magenta")
        yield _line("apart by", " ", bars, page)


def _legend(overlay: Overlay, scale: Scale, page: Page) -> Iterator[Text]:
    (mark, _), *others = overlay.curves
    told = f"{overlay.role}{', log scale' if scale.log else ''}: {mark} is the line, "
    told += ", ".join(f"{one} the {one}s" for one, _ in others)
    told += " (where they leave it)" if len(others) == 1 else ""
    if overlay.averaged > 1:
        told += f"; means of {overlay.averaged} points"
    if overlay.gap is not None:
        low, high = overlay.gap.values.min(), overlay.gap.values.max()
        told += f"; apart by {number(float(low), 2)} to {number(float(high), 2)}"
    yield from page.wrap(told, "  ")


def _rows(overlay: Overlay, view: View, scale: Scale, page: Page) -> Iterator[Text]:
    drawn = [curve(series, view, scale, ROWS, ascii=page.ascii) for _, series in overlay.curves]
    event = None if overlay.event is None else view.column(overlay.event)
    for rows in zip(*drawn, strict=True):
        chars = [
            _char(overlay, column, is_event=i == event)
            for i, column in enumerate(zip(*rows, strict=True))
        ]
        parts = []
        for style, run in groupby(chars, key=lambda char: char[1]):
            told = "".join(char for char, _ in run)
            # Braille is made here, not read from a log; in ASCII there is none of it.
            parts.append(page.text(told, style) if page.ascii else Text(told, style))
        yield Text("").join(parts)


def _char(overlay: Overlay, column: tuple[str, ...], *, is_event: bool) -> tuple[str, str]:
    """Return one character and its style: the line's, else the first mark that passes here."""
    line, *others = column
    if line not in (BLANK, " "):
        return line, "cyan"
    for i, other in enumerate(others):
        if other not in (BLANK, " "):
            return overlay.curves[i + 1][0], _STYLES[i % len(_STYLES)]
    return ("┊", "dim") if is_event else (" ", "")


def _line(label: str, edge: str, drawn: Text, page: Page) -> Text:
    name = page.clip(label, _LABEL)
    return page.line(" " * (_GUTTER - 1 - len(name)), name, " ", page.text(edge, "dim"), drawn)


def _axis(overlay: Overlay, view: View, page: Page) -> Iterator[Text]:
    """Yield the step axis and its labels, the event's first: it is the one that must fit."""
    line, labels = ["─"] * view.columns, [" "] * view.columns
    ticks = [(overlay.first, str(overlay.first)), (overlay.last, str(overlay.last))]
    if overlay.event is not None:
        ticks.insert(0, (overlay.event, f"▲ {overlay.event}"))
    for step, label in ticks:
        column = view.column(step)
        begin = column if step == overlay.event else column - len(label) // 2
        begin = max(min(begin, view.columns - len(label)), 0)
        if not "".join(labels[max(begin - 2, 0) : begin + len(label) + 2]).strip():
            labels[begin : begin + len(label)] = label
            line[column] = "┴"
    yield _line("", "└", page.text("".join(line), "dim"), page)
    yield _line("", " ", page.text("".join(labels).rstrip()), page)
