"""The overview as text: at a terminal, as Markdown, and as annotations of GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from rich.text import Text

from stabdiag.formats import scans as words
from stabdiag.formats.canvas import View, strip
from stabdiag.formats.issues import GITHUB, annotation
from stabdiag.formats.markdown import SIGNS, signed
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.formats.terminal.page import Page, fitted
from stabdiag.formats.terminal.sections import ACCENT, BADGE
from stabdiag.model.findings import Severity
from stabdiag.model.history import Series
from stabdiag.model.scan import Overview, Row
from stabdiag.model.text import sentence

_CURVE = 12
_MOST = 5

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
        for item, below in section.items[:_MOST]:
            yield from page.wrap(item, "  • ")
            if below:
                yield from page.wrap(page.text(below, "dim"), "    ")
        more = len(section.items) - _MOST
        if more > 0:
            yield page.text(f"  and {more} more", "dim")
        if section.end:
            yield from page.wrap(page.text(section.end, "dim"), "  ")
    yield page.text("")
    foot = ", ".join(filter(None, (*overview.places, words.took(overview))))
    yield from page.wrap(page.text(foot, "dim"))
    yield page.text("more: stabdiag diagnose PATH; --write html=scan.html", "dim")


def _worst(overview: Overview) -> str | None:
    return next((one.severity for one in overview.counts if one.severity), None)


def _tables(overview: Overview, page: Page) -> Iterator[Text]:
    if overview.counts:
        yield from page.heading("Outcomes")
        counts = [
            (one.severity or "", one.outcome, str(one.runs), str(one.lost_steps or ""))
            for one in overview.counts
        ]
        styles = [_accent(one.severity) for one in overview.counts]
        yield from fitted(("", "outcome", "runs", "steps lost"), counts, page, styles)
    if overview.worst:
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


def _accent(severity: str | None) -> str:
    return "dim" if severity is None else ACCENT[Severity(severity)]


def _curve(row: Row, page: Page) -> str:
    values = np.asarray(row.curve, dtype=np.float64)
    if not np.isfinite(values).any():
        return ""
    series = Series(role="loss", column="", steps=np.arange(len(values)), values=values)
    return strip(series, View(first=0, last=len(values) - 1, columns=_CURVE), ascii=page.ascii)


def markdown_of(overview: Overview, *, command: str | None = None) -> str:
    """Return the overview as Markdown; ``command`` is what makes it again, if it is known."""
    return "\n\n".join(_blocks(overview, command)) + "\n"


def _blocks(overview: Overview, command: str | None) -> Iterator[str]:
    yield f"### {_sign(_worst(overview))} {escape(words.summary(overview))}"
    counts = [
        (f"{_sign(one.severity)} {code(one.outcome)}", str(one.runs), str(one.lost_steps or ""))
        for one in overview.counts
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
        for item, below in section.items[: 2 * _MOST]:
            items.append(f"- {escape(item)}")
            items += [f"  {escape(below)}"] * bool(below)
        if len(section.items) > 2 * _MOST:
            items.append(f"- and {len(section.items) - 2 * _MOST} more")
        if items:
            yield "\n".join(items)
        if section.end:
            yield escape(section.end)
    if command:
        yield block(command, "sh")
    yield signed((*overview.places, words.took(overview)))


def _sign(severity: str | None) -> str:
    return SIGNS[Severity(severity)] if severity else "▫️"


def github_of(overview: Overview) -> Iterator[str]:
    """Yield an annotation for the scan, and one for each of the worst runs."""
    told = [sentence(words.summary(overview))]
    told += [f"{words.statement(one)} ({words.NO_CAUSE})" for one in overview.common]
    told += [f"Not read: {words.unread(one)}" for one in overview.unread]
    yield f"{annotation('notice', *told, title='stabdiag scan')}\n"
    for row in overview.worst:
        action = [f"First action: {row.action}"] if row.action else []
        line = annotation(
            GITHUB[Severity(row.severity or "note")],
            *(words.name(row, overview), *action),
            file=None if _URL.match(row.path) else row.path,
            title=f"{row.headline or row.outcome} [{row.outcome}]",
        )
        yield f"{line}\n"
