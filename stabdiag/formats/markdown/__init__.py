"""The report as Markdown, for a comment on a pull request, an issue or the summary of a job.

What is wrong and what to do stands in the open; how it was found is folded away. It is plain GFM:
GitHub and GitLab show neither scripts nor pictures that stand in the text, so the chart is made of
characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.markdown import folded, sections
from stabdiag.formats.markdown.bars import chart as bars

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.formats.subject import Plot
    from stabdiag.model.report import Report

MARK = "<!-- stabdiag -->"
"""The first line, by which a workflow finds its comment again."""

MOST = 60_000
"""Characters on a page; GitHub takes comments of 65,536."""


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as Markdown; ``command`` is what makes the report again, if it is known."""
    return page(report, chart=bars, command=command)


def page(report: Report, *, chart: Callable[[Plot], str], command: str | None) -> str:
    """Return the report as Markdown, with the evidence drawn by ``chart``."""
    blocks = [
        MARK,
        *sections.head(report),
        *sections.actions(report),
        *sections.also_found(report),
        *sections.messages(report),
        *sections.evidence(report, chart),
        *sections.untested(report),
        *folded.trail(report),
        *folded.reading(report),
        *sections.foot(report, command),
    ]
    return "\n\n".join(_fitting(blocks)) + "\n"


def _fitting(blocks: list[str]) -> list[str]:
    """Return the blocks without the longest of them, as far as a comment has no room for all."""
    left = list(blocks)
    while sum(len(block) + 2 for block in left) > MOST:
        left[left.index(max(left, key=len))] = "*Left out here: too long for a comment.*"
    return left
