"""Overview → str: for a terminal, as data, and as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag import formats

if TYPE_CHECKING:
    from stabdiag.model.scan import Overview


def render(overview: Overview, format: str, **options: object) -> str:
    """Return the overview as text in one format."""
    return formats.render(overview, format, "overview", **options)
