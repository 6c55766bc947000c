"""The report for a person at a terminal: what is wrong, what to do, and why to believe it.

The page is laid out for 80 columns and reads the same without colour, in a CI log, and in ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.formats.terminal import evidence, reading, sections, trail
from stabdiag.formats.terminal.console import console_for, written
from stabdiag.formats.terminal.page import page_for, unbroken

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.model.report import Report

LAYOUT = (
    sections.head,
    sections.otherwise,
    sections.actions,
    sections.messages,
    evidence.evidence,
    sections.also_found,
    trail.trail,
    sections.not_logged,
    sections.unchecked,
    reading.reading,
    sections.foot,
)


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """A report that rich can print, in the width and the characters of the console at hand."""

    report: Report
    width: int
    verbose: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the page, line by line."""
        page = page_for(options, self.width, verbose=self.verbose)
        for section in LAYOUT:
            yield from unbroken(section(self.report, page))


def render(
    report: Report,
    *,
    width: int = 80,
    color: bool = False,
    verbose: bool = False,
    encoding: str = "utf-8",
) -> str:
    """Return the report as text, with terminal colours or without.

    ``encoding`` is that of the stream which the text is meant for: one that is not Unicode gets
    ASCII alone.
    """
    console = console_for(width, color=color, encoding=encoding)
    console.print(ReportPage(report=report, width=width, verbose=verbose))
    return written(console)
