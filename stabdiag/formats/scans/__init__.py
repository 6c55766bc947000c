"""Overview → str: for a terminal, as data, and as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats import Format, named, written

if TYPE_CHECKING:
    from stabdiag.model.scan import Overview

FORMATS: tuple[Format, ...] = (
    Format(
        name="terminal",
        module="stabdiag.formats.scans.terminal",
        options=("width", "color", "encoding"),
    ),
    Format(name="json", module="stabdiag.formats.scans.structured"),
    Format(name="csv", module="stabdiag.formats.scans.csv"),
    Format(name="markdown", module="stabdiag.formats.scans.markdown", options=("command",)),
    Format(name="html", module="stabdiag.formats.scans.html", options=("command",)),
    Format(name="junit", module="stabdiag.formats.scans.junit", options=("fail_on",)),
    Format(name="github", module="stabdiag.formats.scans.github"),
)


def render(overview: Overview, format: str, **options: object) -> str:
    """Return the overview as text in one format, which is handed the options that it takes.

    Raises:
        StabdiagError: for an unknown format.
    """
    return written(overview, named(format, FORMATS), options)
