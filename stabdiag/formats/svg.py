"""The terminal report as a picture, for a README or an incident page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stabdiag.formats.terminal import ReportPage
from stabdiag.formats.terminal.console import console_for

if TYPE_CHECKING:
    from stabdiag.report import Report

# The picture has to open without a network: rich's template fetches its font from elsewhere.
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def render(report: Report, *, verbose: bool = False) -> str:
    """Return the report as an SVG of 80 columns; rich escapes what the log brought along."""
    return picture(ReportPage(report=report, width=80, verbose=verbose), "stabdiag diagnose")


def picture(page: object, title: str) -> str:
    """Return what rich can print as an SVG of 80 columns."""
    console = console_for(80, color=True, record=True)
    console.print(page)
    return _FONT.sub("", console.export_svg(title=title, unique_id="stabdiag"))
