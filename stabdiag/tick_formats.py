"""Lists to tick as text: for a terminal, as Markdown, as JSON."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stabdiag.errors import refuse_unknown

if TYPE_CHECKING:
    from stabdiag.model.checks import Sheet

FORMATS = ("terminal", "markdown", "json")


def render_sheet(
    sheet: Sheet, format: str, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return the lists as text; width, color and encoding serve the terminal.

    Raises:
        StabdiagError: for an unknown format.
    """
    refuse_unknown(format, FORMATS)
    if format == "terminal":
        from stabdiag.formats.terminal.console import printed
        from stabdiag.formats.terminal.ticks import ticks_page

        lines = partial(ticks_page, sheet)
        return printed(lines, width=width, color=color, encoding=encoding)
    from stabdiag.formats import ticks

    return (ticks.markdown if format == "markdown" else ticks.as_json)(sheet)
