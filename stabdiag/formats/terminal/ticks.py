"""Lists to tick, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.model.checks import State
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.checks import Sheet, Tick, TickList

_MARKS = {State.TICKED: "✓", State.CROSSED: "✗", State.UNKNOWN: "?"}
_ASCII_MARKS = {State.TICKED: "+", State.CROSSED: "x", State.UNKNOWN: "?"}
_STYLES = {State.TICKED: "green", State.CROSSED: "yellow", State.UNKNOWN: "dim"}
_INDENT = "    "


def ticks_page(sheet: Sheet, page: Page) -> Iterator[Text]:
    """Yield the lists, line by line."""
    yield from page.wrap(
        page.line(page.text(sheet.name.upper(), "bold"), page.text(f"  {sheet.subject}", "dim"))
    )
    yield from page.wrap(sheet.summary)
    for one in sheet.lists:
        yield from page.heading(one.title, _counts(one))
        for tick in one.ticks:
            yield from _item(tick, one, page)


def _counts(one: TickList) -> str:
    """Return how many lines stand how: ``3 done, 2 not done``."""
    counts = [(one.count(state), one.words[state]) for state in State]
    return ", ".join(f"{count} {word}" for count, word in counts if count)


def _item(tick: Tick, one: TickList, page: Page) -> Iterator[Text]:
    style = "bold red" if _is_error(tick) else _STYLES[tick.state]
    mark = (_ASCII_MARKS if page.ascii else _MARKS)[tick.state]
    head = page.line(page.text(f"  {mark} ", style))
    head.pad_right(len(_INDENT) - head.cell_len)
    title = page.text(tick.title, "bold" if tick.state is State.CROSSED else "")
    here = page.text("  begin here", "bold cyan") if tick.slug == one.begin else Text("")
    level = page.text(f"  {tick.severity.value}", style) if _is_grave(tick) else Text("")
    yield from page.wrap(page.line(title, level, here), head, _INDENT)
    yield from page.wrap(page.text(tick.because, "dim"), _INDENT)
    for action in tick.do:
        yield from page.wrap(action, f"{_INDENT}▸ ", f"{_INDENT}  ")


def _is_grave(tick: Tick) -> bool:
    return tick.state is State.CROSSED and tick.severity.rank < Severity.NOTE.rank


def _is_error(tick: Tick) -> bool:
    return tick.state is State.CROSSED and tick.severity is Severity.ERROR
