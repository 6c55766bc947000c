"""The overlay of a comparison, drawn with characters: one run as a line, the others by their mark.

It needs no colour: where only the line is seen, the runs are the same.
"""

from __future__ import annotations

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
    told = f"loss{', log scale' if scale.log else ''}: {mark} is the line, "
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
    for at in range(ROWS):
        row = Text("")
        for column in range(view.columns):
            row.append_text(_cell(overlay, drawn, at, column, page, is_event=column == event))
        yield row


def _cell(
    overlay: Overlay,
    drawn: list[list[str]],
    at: int,
    column: int,
    page: Page,
    *,
    is_event: bool,
) -> Text:
    """Return one character: the line's, else the first mark whose curve passes here."""
    line = drawn[0][at][column]
    if line not in (BLANK, " "):
        return page.text(line, "cyan") if page.ascii else Text(line, "cyan")
    for i, rows in enumerate(drawn[1:]):
        if rows[at][column] not in (BLANK, " "):
            return page.text(overlay.curves[i + 1][0], _STYLES[i % len(_STYLES)])
    return page.text("┊", "dim") if is_event else Text(" ")


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
