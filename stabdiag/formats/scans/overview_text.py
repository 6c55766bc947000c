"""The overview as text: for a terminal, as Markdown, as annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from rich.text import Text

from stabdiag.formats import scans as words
from stabdiag.formats.canvas import View, strip
from stabdiag.formats.markdown import SIGNS, signed
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.formats.terminal.page import Page, fitted
from stabdiag.formats.terminal.sections import ACCENT, BADGE
from stabdiag.model.findings import Severity
from stabdiag.model.history import Series
from stabdiag.model.scan import UNREAD, Overview, Row, totals
from stabdiag.model.text import sentence

_CURVE_WIDTH = 12
_MAX_OVERVIEW_ITEMS = 8
_BAR_CHART_WIDTH = 60

# The parts of the bar: the character in Unicode and in ASCII.
_FILLS: Final[Mapping[str | None, tuple[str, str]]] = {
    "error": ("█", "#"),
    "warning": ("▓", "="),
    "note": ("▒", "-"),
    "ok": ("░", "."),
    None: (" ", " "),
}


def lines(overview: Overview, page: Page) -> Iterator[Text]:
    """Yield the overview for a terminal, line by line."""
    badge = page.text("UNREAD", "reverse")
    if severity := _worst(overview):
        badge = page.text(severity.upper(), BADGE[Severity(severity)])
    head = page.text(sentence(words.summary(overview)), "bold")
    yield from page.wrap(head, Text("").join([badge, Text("  ")]) if overview.runs else "")
    yield from _bar(overview, page)
    yield from _worst_runs(overview, page)
    for section in words.sections(overview):
        yield from page.heading(section.title, section.note)
        for item, detail in section.items[:_MAX_OVERVIEW_ITEMS]:
            yield from page.wrap(item, "  • ")
            if detail:
                yield from page.wrap(page.text(detail, "dim"), "    ")
        hidden = len(section.items) - _MAX_OVERVIEW_ITEMS
        if hidden > 0:
            yield page.text(f"  and {hidden} more", "dim")
        if section.end:
            yield from page.wrap(page.text(section.end, "dim"), "  ")
    yield page.text("")
    foot = ", ".join(filter(None, (*words.places(overview), words.took(overview))))
    yield from page.wrap(page.text(foot, "dim"))
    yield page.text("more: stabdiag diagnose PATH; -o scan.html", "dim")


def _worst(overview: Overview) -> str | None:
    return next((count.severity for count in overview.counts if count.severity), None)


def _bar(overview: Overview, page: Page) -> Iterator[Text]:
    """Yield a bar with the fraction of runs of each severity, and its legend."""
    counts = {severity: overview.of(severity) for severity in _FILLS}
    if sum(count > 0 for count in counts.values()) < 2:
        return
    width = min(page.width, _BAR_CHART_WIDTH)
    edges = np.rint(np.cumsum([0, *counts.values()]) / overview.runs * width).astype(int).tolist()
    # A single failed run among thousands is visible, too.
    for i, count in enumerate(counts.values(), 1):
        edges[i] = max(edges[i], edges[i - 1] + (count > 0))
    parts = [
        page.text(_FILLS[severity][page.ascii] * (end - begin), _accent(severity))
        for severity, (begin, end) in zip(counts, pairwise(edges), strict=True)
    ]
    bar = page.line(*parts)
    bar.truncate(width)
    yield bar
    named = {severity or UNREAD: count for severity, count in counts.items()}
    yield from page.wrap(page.text(totals(named), "dim"))


def _worst_runs(overview: Overview, page: Page) -> Iterator[Text]:
    """Yield a table of the worst runs, with the finding and the first action below each run."""
    if not overview.worst:
        return
    failed = overview.of("error") + overview.of("warning")
    note = f"{len(overview.worst)} of {failed}" if failed > len(overview.worst) else ""
    yield from page.heading("Worst runs", note)
    rows = [
        (
            words.name(row, overview),
            "" if row.lost_steps is None else str(row.lost_steps),
            _curve(row, page),
        )
        for row in overview.worst
    ]
    styles = [_accent(row.severity) for row in overview.worst]
    head, *lines = fitted(("run", "steps lost", "loss"), rows, page, styles)
    yield head
    for row, line in zip(overview.worst, lines, strict=True):
        yield line
        yield page.text(page.clip(f"    {row.headline or words.title(row)}", page.width))
        if row.action:
            yield from _first_lines(row.action, page)


def _first_lines(action: str, page: Page) -> Iterator[Text]:
    """Yield an action in two lines; the second one is cut if there are more."""
    first, *others = page.wrap(page.text(action, "dim"), "    ")
    yield first
    if others:
        continuation = " ".join([others[0].plain, *(line.plain.strip() for line in others[1:])])
        yield page.text(page.clip(continuation, page.width), "dim")


def _accent(severity: str | None) -> str:
    return "dim" if severity is None else ACCENT[Severity(severity)]


def _curve(row: Row, page: Page) -> str:
    values = np.asarray(row.curve, dtype=np.float64)
    if not np.isfinite(values).any():
        return ""
    series = Series(role="loss", column="", steps=np.arange(len(values)), values=values)
    return strip(
        series, View(first=0, last=len(values) - 1, columns=_CURVE_WIDTH), ascii=page.ascii
    )


def to_markdown(overview: Overview, *, command: str | None = None) -> str:
    """Return the overview as Markdown; ``command`` reproduces it, if known."""
    return "\n\n".join(_blocks(overview, command)) + "\n"


def _blocks(overview: Overview, command: str | None) -> Iterator[str]:
    yield f"### {_sign(_worst(overview))} {escape(words.summary(overview))}"
    if overview.runs > 1:
        counts = {severity or UNREAD: overview.of(severity) for severity in _FILLS}
        yield escape(totals(counts))
    rows = [
        (
            code(words.name(row, overview)),
            f"{_sign(row.severity)} {escape(row.headline or words.title(row))}",
            "" if row.lost_steps is None else str(row.lost_steps),
            escape(row.action),
        )
        for row in overview.worst
    ]
    if rows:
        yield "**Worst runs**"
        yield table(("run", "finding", "steps lost", "first action"), rows)
    for section in words.sections(overview):
        yield f"**{section.title}**{section.note and f': {escape(section.note)}'}"
        items = []
        for item, detail in section.items[:_MAX_OVERVIEW_ITEMS]:
            items.append(f"- {escape(item)}")
            items += [f"  {escape(detail)}"] * bool(detail)
        if len(section.items) > _MAX_OVERVIEW_ITEMS:
            items.append(f"- and {len(section.items) - _MAX_OVERVIEW_ITEMS} more")
        if items:
            yield "\n".join(items)
        if section.end:
            yield escape(section.end)
    if command:
        yield block(command, "sh")
    yield signed((*words.places(overview), words.took(overview)))


def _sign(severity: str | None) -> str:
    return SIGNS[Severity(severity)] if severity else "▫️"
