"""The report for a terminal: what is wrong, what to do first, and the evidence.

The layout is for 80 columns and works without color, in a CI log, and in ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from rich.text import Text

from stabdiag.formats.terminal import sections
from stabdiag.formats.terminal.page import Page, Printable, make_console
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


def lines(report: Report, page: Page) -> Iterator[Text]:
    """Yield the report, line by line."""
    for section in LAYOUT:
        yield from section(report, page)


def svg(report: Report, *, verbose: bool = False) -> str:
    """Return the terminal report as an image, for a README or an incident page."""
    return picture(partial(lines, report), "stabdiag diagnose", verbose=verbose)


def picture(lines: Callable[[Page], Iterable[Text]], title: str, *, verbose: bool = False) -> str:
    """Return the lines of a page as an SVG of 80 columns; rich escapes log text."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    console = make_console(80, color=True, record=True)
    console.print(Printable(lines=lines, verbose=verbose))
    return console.export_svg(
        title=title, unique_id="stabdiag", code_format=_without_fonts(CONSOLE_SVG_FORMAT)
    )


def _without_fonts(template: str) -> str:
    """Return the template of rich without web fonts: the image must open without a network."""
    first, *faces = template.split("@font-face {{")
    parts = [first, *(face.partition("}}")[2] for face in faces)]
    return "".join([*map(str.rstrip, parts[:-1]), parts[-1]])
