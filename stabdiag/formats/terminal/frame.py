"""The frame of a plot at a terminal: the labels at its left, its rows, the axis of the steps."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stabdiag.formats.canvas import View
    from stabdiag.formats.terminal.page import Page

_GUTTER = 13
LABEL = _GUTTER - 3
_FEWEST_COLUMNS = 24
_MOST_COLUMNS = 78


def room(page: Page) -> int | None:
    """Return how many columns a plot may take, or None where the page is too narrow for one."""
    columns = min(page.width, _MOST_COLUMNS) - _GUTTER - 1
    return columns if columns >= _FEWEST_COLUMNS else None


def row(label: str, edge: str, drawn: Text, page: Page) -> Text:
    """Return one row of a plot behind its label and the edge of the frame."""
    name = page.clip(label, LABEL)
    return page.line(" " * (_GUTTER - 1 - len(name)), name, " ", page.text(edge, "dim"), drawn)


def styled(chars: Iterable[tuple[str, str]], page: Page) -> Text:
    """Return characters that were drawn, each with its style, as text."""
    parts = []
    for style, run in groupby(chars, key=lambda char: char[1]):
        drawn = "".join(char for char, _ in run)
        # Braille is made here, not read from a log; in ASCII there is none of it.
        parts.append(page.text(drawn, style) if page.ascii else Text(drawn, style))
    return Text("").join(parts)


def step_axis(
    view: View, event: int | None, page: Page, between: Iterable[int] = ()
) -> Iterator[Text]:
    """Yield the step axis and its labels, the event's first: it is the one that must fit.

    The labels ``between`` the first step and the last stand where there is room.
    """
    line, labels = ["─"] * view.columns, [" "] * view.columns
    ticks = [(step, str(step)) for step in (view.first, view.last, *between)]
    if event is not None:
        ticks.insert(0, (event, f"▲ {event}"))
    for step, label in ticks:
        column = view.column(step)
        begin = column if step == event else column - len(label) // 2
        begin = max(min(begin, view.columns - len(label)), 0)
        if not "".join(labels[max(begin - 2, 0) : begin + len(label) + 2]).strip():
            labels[begin : begin + len(label)] = label
            line[column] = "┴"
    yield row("", "└", page.text("".join(line), "dim"), page)
    yield row("", " ", page.text("".join(labels).rstrip()), page)
