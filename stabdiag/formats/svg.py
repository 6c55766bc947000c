"""The terminal report as a picture, for a README or an incident page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich._export_format import CONSOLE_SVG_FORMAT as _TEMPLATE

from stabdiag.formats.terminal import ReportPage
from stabdiag.formats.terminal.console import console_for

if TYPE_CHECKING:
    from stabdiag.model.report import Report


def render(report: Report, *, verbose: bool = False) -> str:
    """Return the report as an SVG of 80 columns; rich escapes what the log brought along."""
    return picture(ReportPage(report=report, width=80, verbose=verbose), "stabdiag diagnose")


def picture(page: object, title: str) -> str:
    """Return what rich can print as an SVG of 80 columns."""
    console = console_for(80, color=True, record=True)
    console.print(page)
    return console.export_svg(
        title=title, unique_id="stabdiag", code_format=_without_fonts(_TEMPLATE)
    )


def _without_fonts(template: str) -> str:
    """Return rich's template without the fonts that it fetches from elsewhere.

    The picture has to open without a network.
    """
    first, *faces = template.split("@font-face {{")
    parts = [first, *(face.partition("}}")[2] for face in faces)]
    return "".join([*map(str.rstrip, parts[:-1]), parts[-1]])
