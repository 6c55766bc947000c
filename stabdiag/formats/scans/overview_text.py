"""The overview as text: for a terminal, as Markdown, as annotations of GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
from stabdiag.model.scan import Overview, Row
from stabdiag.model.text import sentence

_CURVE = 12
_MAX_ITEMS = 5

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def lines(overview: Overview, page: Page) -> Iterator[Text]:
    """Yield the overview for a terminal, line by line."""
    badge = page.text("UNREAD", "reverse")
    if severity := _worst(overview):
        badge = page.text(severity.upper(), BADGE[Severity(severity)])
    head = page.text(sentence(words.summary(overview)), "bold")
    yield from page.wrap(head, Text("").join([badge, Text("  ")]) if overview.runs else "")
    yield from _tables(overview, page)
    for section in words.sections(overview):
        yield from page.heading(section.title, section.note)
        for item, detail in section.items[:_MAX_ITEMS]:
            yield from page.wrap(item, "  • ")
            if detail:
                yield from page.wrap(page.text(detail, "dim"), "    ")
        hidden = len(section.items) - _MAX_ITEMS
        if hidden > 0:
            yield page.text(f"  and {hidden} more", "dim")
        if section.end:
            yield from page.wrap(page.text(section.end, "dim"), "  ")
    yield page.text("")
    foot = ", ".join(filter(None, (*overview.places, words.took(overview))))
    yield from page.wrap(page.text(foot, "dim"))
    yield page.text("more: stabdiag diagnose PATH; --write html=scan.html", "dim")


def _worst(overview: Overview) -> str | None:
    return next((count.severity for count in overview.counts if count.severity), None)


def _tables(overview: Overview, page: Page) -> Iterator[Text]:
    if overview.counts:
        yield from page.heading("Outcomes")
        counts = [
            (count.severity or "", count.outcome, str(count.runs), str(count.lost_steps or ""))
            for count in overview.counts
        ]
        styles = [_accent(count.severity) for count in overview.counts]
        yield from fitted(("", "outcome", "runs", "steps lost"), counts, page, styles)
    if overview.worst:
        failed = overview.of("error") + overview.of("warning")
        note = f"{len(overview.worst)} of {failed}" if failed > len(overview.worst) else ""
        yield from page.heading("Worst runs", note)
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


def _accent(severity: str | None) -> str:
    return "dim" if severity is None else ACCENT[Severity(severity)]


def _curve(row: Row, page: Page) -> str:
    values = np.asarray(row.curve, dtype=np.float64)
    if not np.isfinite(values).any():
        return ""
    series = Series(role="loss", column="", steps=np.arange(len(values)), values=values)
    return strip(series, View(first=0, last=len(values) - 1, columns=_CURVE), ascii=page.ascii)


def to_markdown(overview: Overview, *, command: str | None = None) -> str:
    """Return the overview as Markdown; ``command`` reproduces it, if known."""
    return "\n\n".join(_blocks(overview, command)) + "\n"


def _blocks(overview: Overview, command: str | None) -> Iterator[str]:
    yield f"### {_sign(_worst(overview))} {escape(words.summary(overview))}"
    counts = [
        (
            f"{_sign(count.severity)} {code(count.outcome)}",
            str(count.runs),
            str(count.lost_steps or ""),
        )
        for count in overview.counts
    ]
    if counts:
        yield table(("outcome", "runs", "steps lost"), counts)
    rows = [
        (
            code(words.name(row, overview)),
            f"{_sign(row.severity)} {escape(row.headline or row.outcome)}",
            "" if row.lost_steps is None else str(row.lost_steps),
            escape(row.action),
        )
        for row in overview.worst
    ]
    if rows:
        yield "**Worst runs**"
        yield table(("run", "what", "steps lost", "first action"), rows)
    for section in words.sections(overview):
        yield f"**{section.title}**{section.note and f': {escape(section.note)}'}"
        items = []
        for item, detail in section.items[: 2 * _MAX_ITEMS]:
            items.append(f"- {escape(item)}")
            items += [f"  {escape(detail)}"] * bool(detail)
        if len(section.items) > 2 * _MAX_ITEMS:
            items.append(f"- and {len(section.items) - 2 * _MAX_ITEMS} more")
        if items:
            yield "\n".join(items)
        if section.end:
            yield escape(section.end)
    if command:
        yield block(command, "sh")
    yield signed((*overview.places, words.took(overview)))


def _sign(severity: str | None) -> str:
    return SIGNS[Severity(severity)] if severity else "▫️"
