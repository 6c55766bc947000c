"""Tables for a terminal, whose cells run over several lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.terminal.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

GAP = 2

# On a page that is narrower no cell has room for a word beside the others.
_NARROW = 60


def columns(
    cells: tuple[str, ...], widths: tuple[int, ...], page: Page, style: str = ""
) -> Iterator[Text]:
    """Yield one row of a table, as many lines high as its highest cell.

    On a narrow page the other cells stand below the first, one after the other.
    """
    if page.width < _NARROW:
        first, *rest = cells
        yield from page.wrap(page.text(first, style or "bold"))
        yield from page.wrap(page.text("; ".join(rest), style), "  ")
        return
    wrapped = [
        Page(width=width, ascii=page.ascii).wrap(page.text(cell, style))
        for cell, width in zip(cells, widths, strict=True)
    ]
    for i in range(max(map(len, wrapped))):
        parts = []
        for lines, width in zip(wrapped, widths, strict=True):
            part = lines[i] if i < len(lines) else Text("")
            part.pad_right(width + GAP - part.cell_len)
            parts.append(part)
        yield page.line(*parts)
