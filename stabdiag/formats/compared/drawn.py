"""The overlay of a comparison, drawn with characters: one run as a line, the others by their mark.

It needs no colour: where only the line is seen, the runs are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.canvas import BLANK, Scale, View, curve, strip
from stabdiag.formats.measured import number
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import room, row, step_axis, styled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from stabdiag.formats.compared.view import Overlay

ROWS = 9
_STYLES = ("yellow", "magenta", "green", "blue")


def draw(overlay: Overlay, page: Page) -> Iterator[Text]:
    """Yield the lines of the picture; none where the page is too narrow for one."""
    columns = room(page)
    if columns is None:
        return
    view = View(first=overlay.first, last=overlay.last, columns=columns)
    scale = Scale.of(np.concatenate([series.values for _, series in overlay.curves]))
    yield from _legend(overlay, scale, page)
    labels = {0: number(scale.high, 3), ROWS - 1: number(scale.low, 3)}
    for i, drawn in enumerate(_rows(overlay, view, scale, page)):
        yield row(labels.get(i, ""), "┤" if i in labels else "│", drawn, page)
    yield from step_axis(view, overlay.event, page)
    if overlay.gap is not None:
        bars = page.text(strip(overlay.gap, view, ascii=page.ascii), "magenta")
        yield row("apart by", " ", bars, page)


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
        yield styled(chars, page)


def _char(overlay: Overlay, column: tuple[str, ...], *, is_event: bool) -> tuple[str, str]:
    """Return one character and its style: the line's, else the first mark that passes here."""
    line, *others = column
    if line not in (BLANK, " "):
        return line, "cyan"
    for i, other in enumerate(others):
        if other not in (BLANK, " "):
            return overlay.curves[i + 1][0], _STYLES[i % len(_STYLES)]
    return ("┊", "dim") if is_event else (" ", "")
