"""Comparison → str: for a terminal, as JSON, as Markdown."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stabdiag.errors import refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.compared import Comparison

# Of each format the module whose ``render`` writes it, and the options that it takes.
_FORMATS = {
    "terminal": ("stabdiag.formats.compared.terminal", ("width", "color", "encoding", "verbose")),
    "json": ("stabdiag.formats.compared.structured", ()),
    "markdown": ("stabdiag.formats.compared.markdown", ("command",)),
}


def names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(_FORMATS)


def render(comparison: Comparison, format: str, **options: object) -> str:
    """Return the comparison as text in one format, which is handed the options that it takes.

    Raises:
        StabdiagError: for an unknown format.
    """
    refuse_unknown(format, _FORMATS)
    module, taken = _FORMATS[format]
    write: Callable[..., str] = import_module(module).render
    return write(comparison, **{name: options[name] for name in taken if name in options})
