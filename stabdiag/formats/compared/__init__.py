"""Comparison → str: for a terminal, as JSON, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats import Format, named, written

if TYPE_CHECKING:
    from stabdiag.model.comparison import Comparison

FORMATS: tuple[Format, ...] = (
    Format(
        name="terminal",
        module="stabdiag.formats.compared.terminal",
        options=("width", "color", "encoding", "verbose"),
    ),
    Format(name="json", module="stabdiag.formats.compared.structured"),
    Format(name="markdown", module="stabdiag.formats.compared.markdown", options=("command",)),
)


def render(comparison: Comparison, format: str, **options: object) -> str:
    """Return the comparison as text in one format, which is handed the options that it takes.

    Raises:
        StabdiagError: for an unknown format.
    """
    return written(comparison, named(format, FORMATS), options)
