"""The formats of logs that can be read, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.terminal.console import console_for, written
from stabdiag.formats.terminal.page import MAX_WIDTH, Page
from stabdiag.formats.terminal.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.formats.logs import LogFormat

_NAME = 18
_STATE = 9


def logs_page(
    formats: Sequence[LogFormat], *, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return the formats as text."""
    console = console_for(width, color=color, encoding=encoding)
    page = Page(width=min(width, MAX_WIDTH), ascii=console.options.ascii_only)
    for line in (*_table(formats, page), *_missing(formats, page)):
        line.no_wrap, line.overflow = True, "ignore"
        console.print(line)
    return written(console)


def _table(formats: Sequence[LogFormat], page: Page) -> Iterator[Text]:
    widths = (_NAME, _STATE, page.width - _NAME - _STATE - 4)
    yield from columns(("NAME", "STATE", "HOW IT IS RECOGNISED"), widths, page, "bold")
    for one in formats:
        yield from columns((one.name, one.state, f"{one.title}: {one.recognised}"), widths, page)


def _missing(formats: Sequence[LogFormat], page: Page) -> Iterator[Text]:
    """Yield how to install what is missing."""
    missing = [one for one in formats if one.install]
    if missing:
        yield Text("")
    for one in missing:
        yield from page.wrap(f"{one.name} is missing: {one.install}")
