"""The overview for a person at a terminal: counts, the worst runs, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from stabdiag.formats.canvas import View, strip
from stabdiag.formats.scans import words
from stabdiag.formats.terminal.page import console_for, fitted, page_for, unbroken, written
from stabdiag.formats.terminal.sections import ACCENT, BADGE
from stabdiag.model.findings import Severity
from stabdiag.model.history import Series
from stabdiag.model.text import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.scan import Overview, Row

_CURVE = 12
_MOST = 5


@dataclass(frozen=True, kw_only=True)
class OverviewPage:
    """An overview that rich can print, in the width and the characters of the console at hand."""

    overview: Overview
    width: int = 80

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the page, line by line."""
        yield from unbroken(_lines(self.overview, page_for(options, self.width)))


def render(
    overview: Overview, *, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return the overview as text, with terminal colours or without."""
    console = console_for(width, color=color, encoding=encoding)
    console.print(OverviewPage(overview=overview, width=width))
    return written(console)


def _lines(overview: Overview, page: Page) -> Iterator[Text]:
    yield from _head(overview, page)
    yield from _counts(overview, page)
    yield from _worst(overview, page)
    yield from _groups(overview, page)
    yield from _common(overview, page)
    yield from _changes(overview, page)
    yield from _unread(overview, page)
    yield from _foot(overview, page)


def _head(overview: Overview, page: Page) -> Iterator[Text]:
    found = next((one.severity for one in overview.counts if one.severity), None)
    badge = page.text("UNREAD", "reverse")
    if found is not None:
        badge = page.text(found.upper(), BADGE[Severity(found)])
    told = page.text(sentence(words.summary(overview)), "bold")
    yield from page.wrap(told, Text("").join([badge, Text("  ")]) if overview.runs else "")


def _counts(overview: Overview, page: Page) -> Iterator[Text]:
    if not overview.runs:
        return
    yield from page.heading("Outcomes")
    rows = [
        (one.severity or "", one.outcome, str(one.runs), str(one.lost_steps or ""))
        for one in overview.counts
    ]
    styles = [_accent(one.severity) for one in overview.counts]
    yield from fitted(("", "outcome", "runs", "steps lost"), rows, page, styles)


def _accent(severity: str | None) -> str:
    return "dim" if severity is None else ACCENT[Severity(severity)]


def _worst(overview: Overview, page: Page) -> Iterator[Text]:
    if not overview.worst:
        return
    bad = overview.of("error") + overview.of("warning")
    rest = f"{len(overview.worst)} of {bad}" if bad > len(overview.worst) else ""
    yield from page.heading("Worst runs", rest)
    rows = [
        (
            words.name(row, overview),
            row.outcome,
            "" if row.step is None else str(row.step),
            "" if row.lost_steps is None else str(row.lost_steps),
            _curve(row, page),
        )
        for row in overview.worst
    ]
    styles = [_accent(row.severity) for row in overview.worst]
    yield from fitted(("run", "outcome", "step", "lost", "loss"), rows, page, styles)


def _curve(row: Row, page: Page) -> str:
    values = np.asarray(row.curve, dtype=np.float64)
    if not np.isfinite(values).any():
        return ""
    series = Series(role="loss", column="", steps=np.arange(len(values)), values=values)
    return strip(series, View(first=0, last=len(values) - 1, columns=_CURVE), ascii=page.ascii)


def _groups(overview: Overview, page: Page) -> Iterator[Text]:
    if not overview.groups:
        return
    yield from page.heading("Kinds of failure")
    for one in overview.groups[:_MOST]:
        yield from page.wrap(words.group(one), page.text("  • ", _accent(one.severity)))
        if one.worst.action:
            yield from page.wrap(
                page.line(
                    page.text(f"{words.name(one.worst, overview)}: ", "dim"),
                    page.text(one.worst.action),
                ),
                "    ",
            )
    yield from _more(len(overview.groups) - _MOST, "kind", page)


def _common(overview: Overview, page: Page) -> Iterator[Text]:
    if not words.has_common(overview):
        return
    yield from page.heading(
        "What the failed runs have in common", words.NO_CAUSE if overview.common else ""
    )
    for one in overview.common[:_MOST]:
        yield from page.wrap(page.text(words.statement(one), "bold"), "  • ")
        if one.along:
            yield from page.wrap(words.along(one), "    ")
    yield from _more(len(overview.common) - _MOST, "statement", page)
    yield from page.wrap(page.text(words.compared(overview), "dim"), "  ")


def _changes(overview: Overview, page: Page) -> Iterator[Text]:
    if overview.changes is None:
        return
    yield from page.heading("Since the last scan", words.changes(overview.changes))
    rows = list(words.changed(overview))
    for name, told in rows[:_MOST]:
        yield from page.wrap(f"{name}: {told}", "  ", "    ")
    yield from _more(len(rows) - _MOST, "run", page)


def _unread(overview: Overview, page: Page) -> Iterator[Text]:
    if not overview.unread:
        return
    yield from page.heading("Not read")
    for one in overview.unread[:_MOST]:
        yield from page.wrap(words.unread(one), "  ", "    ")
        yield from page.wrap(page.text(f"such as {one.example}", "dim"), "    ")
    yield from _more(len(overview.unread) - _MOST, "reason", page)


def _more(count: int, what: str, page: Page) -> Iterator[Text]:
    if count > 0:
        yield page.text(f"  and {count} {what}{'s' if count > 1 else ''} more", "dim")


def _foot(overview: Overview, page: Page) -> Iterator[Text]:
    told = ", ".join(filter(None, (*overview.places, words.took(overview))))
    yield page.text("")
    yield from page.wrap(page.text(told, "dim"))
    more = "stabdiag diagnose PATH; --write html=scan.html"
    yield from page.wrap(page.text(f"more: {more}", "dim"))
