"""The formats of logs that can be read, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.terminal.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.formats.logs import LogFormat
    from stabdiag.formats.terminal.page import Page

_NAME = 18
_STATE = 9


def logs_page(formats: Sequence[LogFormat], page: Page) -> Iterator[Text]:
    """Yield the formats, line by line."""
    yield from _table(formats, page)
    yield from _missing(formats, page)


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
