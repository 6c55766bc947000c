"""The overview as Markdown, for an issue, a pull request or the summary of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.markdown import SIGNS
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.formats.scans import words
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.scan import Overview

_MOST = 10


def render(overview: Overview, *, command: str | None = None) -> str:
    """Return the overview as Markdown; ``command`` is what makes it again, if it is known."""
    blocks = [
        *_head(overview),
        *_common(overview),
        *_groups(overview),
        *_worst(overview),
        *_changes(overview),
        *_unread(overview),
        *_foot(overview, command),
    ]
    return "\n\n".join(blocks) + "\n"


def _sign(severity: str | None) -> str:
    return SIGNS[Severity(severity)] if severity else "▫️"


def _head(overview: Overview) -> Iterator[str]:
    worst = next((one.severity for one in overview.counts if one.severity), None)
    yield f"### {_sign(worst)} {escape(words.summary(overview))}"
    rows = [
        (f"{_sign(one.severity)} {code(one.outcome)}", str(one.runs), str(one.lost_steps or ""))
        for one in overview.counts
    ]
    if rows:
        yield table(("outcome", "runs", "steps lost"), rows)


def _common(overview: Overview) -> Iterator[str]:
    if not words.has_common(overview):
        return
    yield "**What the failed runs have in common**"
    items = []
    for one in overview.common[:_MOST]:
        items.append(f"- **{escape(words.statement(one))}**")
        items += [f"  {escape(words.along(one))}"] * bool(one.along)
    if items:
        yield "\n".join(items)
    cause = f"{words.NO_CAUSE.capitalize()}. " if items else ""
    yield escape(f"{cause}{words.compared(overview)}")


def _groups(overview: Overview) -> Iterator[str]:
    items = []
    for one in overview.groups[:_MOST]:
        items.append(f"- {_sign(one.severity)} {escape(words.group(one))}")
        if one.worst.action:
            items.append(f"  {code(words.name(one.worst, overview))}: {escape(one.worst.action)}")
    if items:
        yield "**Kinds of failure**"
        yield "\n".join(items)


def _worst(overview: Overview) -> Iterator[str]:
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


def _changes(overview: Overview) -> Iterator[str]:
    if overview.changes is None:
        return
    yield f"**Since the last scan**: {escape(words.changes(overview.changes))}"
    rows = list(words.changed(overview))[:_MOST]
    if rows:
        yield "\n".join(f"- {code(name)}: {escape(told)}" for name, told in rows)


def _unread(overview: Overview) -> Iterator[str]:
    if overview.unread:
        yield "**Not read**"
        yield "\n".join(
            f"- {escape(words.unread(one))} (such as {code(one.example)})"
            for one in overview.unread[:_MOST]
        )


def _foot(overview: Overview, command: str | None) -> Iterator[str]:
    if command:
        yield block(command, "sh")
    told = [f"stabdiag {__version__}", *overview.places, words.took(overview)]
    yield f"<sub>{' · '.join(map(escape, told))}</sub>"
