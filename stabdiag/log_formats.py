"""The formats of logs that can be read: how each is told, and whether it can be read here."""

from __future__ import annotations

from functools import partial

from stabdiag.errors import refuse_unknown
from stabdiag.formats.logs import LogFormat, as_json, markdown
from stabdiag.readers.registry import READERS

FORMATS = ("terminal", "markdown", "json")


def log_formats() -> tuple[LogFormat, ...]:
    """Return the formats in the order in which a log is held against them."""
    return tuple(
        LogFormat(
            name=one.name,
            title=one.title,
            recognised=one.recognised,
            state="missing" if one.missing else "installed" if one.extra else "built in",
            extra=one.extra,
            loses=one.loses,
            example=one.example,
        )
        for one in READERS
    )


def formats_table(
    format: str, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return the table of formats as text; width, color and encoding serve the terminal.

    Raises:
        StabdiagError: for an unknown format of the table.
    """
    refuse_unknown(format, FORMATS)
    if format == "terminal":
        from stabdiag.formats.terminal.console import printed
        from stabdiag.formats.terminal.logs import logs_page

        lines = partial(logs_page, log_formats())
        return printed(lines, width=width, color=color, encoding=encoding)
    return (markdown if format == "markdown" else as_json)(log_formats())
