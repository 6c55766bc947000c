"""The report for a terminal: what is wrong, what to do first, and the evidence.

The page is laid out for 80 columns and reads the same without colour, in a CI log, and in ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.formats.terminal import sections
from stabdiag.formats.terminal.page import console_for, page_for, unbroken, written

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.model.report import Report

LAYOUT = (
    sections.head,
    sections.otherwise,
    sections.actions,
    sections.messages,
    sections.evidence,
    sections.also_found,
    sections.trail,
    sections.missing,
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
    encoding: str = "utf-8",
    verbose: bool = False,
) -> str:
    """Return the report as text, with terminal colours or without.

    ``encoding`` is that of the stream which the text is for: one that is not Unicode gets ASCII.
    """
    console = console_for(width, color=color, encoding=encoding)
    console.print(ReportPage(report=report, width=width, verbose=verbose))
    return written(console)


def svg(report: Report, *, verbose: bool = False) -> str:
    """Return the terminal report as a picture, for a README or an incident page."""
    return picture(ReportPage(report=report, width=80, verbose=verbose), "stabdiag diagnose")


def picture(page: object, title: str) -> str:
    """Return what rich can print as an SVG of 80 columns; rich escapes log text."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    console = console_for(80, color=True, record=True)
    console.print(page)
    return console.export_svg(
        title=title, unique_id="stabdiag", code_format=_without_fonts(CONSOLE_SVG_FORMAT)
    )


def _without_fonts(template: str) -> str:
    """Return rich's template without its web fonts: it has to open without a network."""
    first, *faces = template.split("@font-face {{")
    parts = [first, *(face.partition("}}")[2] for face in faces)]
    return "".join([*map(str.rstrip, parts[:-1]), parts[-1]])
