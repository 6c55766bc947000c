"""Overview → str: for a terminal, as data, and as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats import Format, named, written

if TYPE_CHECKING:
    from stabdiag.scanned import Overview

FORMATS: tuple[Format, ...] = (
    Format(
        name="terminal",
        module="stabdiag.formats.scans.terminal",
        options=("width", "color", "encoding"),
    ),
)


def render(overview: Overview, format: str, **options: object) -> str:
    """Return the overview as text in one format, which is handed the options that it takes.

    Raises:
        StabdiagError: for an unknown format.
    """
    return written(overview, named(format, FORMATS), options)
