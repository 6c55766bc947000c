"""Comparison → str: for a terminal, as JSON, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag import formats

if TYPE_CHECKING:
    from stabdiag.model.comparison import Comparison


def render(comparison: Comparison, format: str, **options: object) -> str:
    """Return the comparison as text in one format."""
    return formats.render(comparison, format, "comparison", **options)
