"""The thresholds in force, for a terminal: the quick reference, then every limit."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.limits import ROWS, bounds, filled, source
from stabdiag.formats.measured import number
from stabdiag.formats.terminal.page import GAP, columns, printed
from stabdiag.model.limits.declare import TREE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.limits import LimitInfo, Limits

_NARROW = 4
_LEGEND = "FROM: tree = the decision tree, ours = calibrated here. All limits follow."


def render(limits: Limits, *, width: int = 80, color: bool = False, encoding: str = "utf-8") -> str:
    """Return the thresholds as text for a terminal."""
    return printed(partial(_page, limits), width=width, color=color, encoding=encoding)


def _page(limits: Limits, page: Page) -> Iterator[Text]:
    yield from _reference(limits, page)
    yield from _declared(limits, page)


def _reference(limits: Limits, page: Page) -> Iterator[Text]:
    """Yield the quick reference as a table; FROM says where each threshold is from."""
    third = (page.width - 2 * _NARROW - 4 * GAP) // 3
    widths = (_NARROW, third, third, third, _NARROW)
    head = ("NODE", "SYMPTOM", "THRESHOLD", "FIRST ACTION", "FROM")
    yield from columns(head, widths, page, "bold")
    for row in ROWS:
        said = "tree" if TREE in source(row, limits) else "ours"
        cells = (row.node, row.symptom, filled(row, limits), row.first_action, said)
        yield from columns(cells, widths, page)
    yield Text("")
    yield from page.wrap(page.text(_LEGEND, "dim"))


def _declared(limits: Limits, page: Page) -> Iterator[Text]:
    """Yield every limit by section: its name, its value, and why it is so."""
    for section, group in groupby(limits.items(), key=lambda info: info.name.partition(".")[0]):
        infos = list(group)
        yield from page.heading(f"[{section}]")
        for info in infos:
            yield from _limit(info, page)


def _limit(info: LimitInfo, page: Page) -> Iterator[Text]:
    value = page.text(number(info.value), "bold yellow" if info.overridden else "bold")
    changed = f"  (default {number(info.default)})" if info.overridden else ""
    yield from page.wrap(
        page.line(f"{info.name} = ", value, f" {info.about.unit}{changed}"), "  ", "    "
    )
    facts = f"{info.why} [{bounds(info)}; {info.about.source}]"
    yield from page.wrap(page.text(facts, "dim"), "      ")
