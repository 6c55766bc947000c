"""Tables for a terminal, whose cells run over several lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.terminal.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GAP = 2

# On a page that is narrower no cell has room for a word beside the others.
_NARROW = 60

_WIDEST = 34


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


def fitted(
    head: Sequence[str], rows: Sequence[Sequence[str]], page: Page, styles: Sequence[str] = ()
) -> Iterator[Text]:
    """Yield rows in columns that are as wide as what stands in them; the widest is cut to fit."""
    widths = [
        min(max(page.text(row[i]).cell_len for row in [head, *rows]), _WIDEST)
        for i in range(len(head))
    ]
    spare = page.width - 2 - sum(widths) - GAP * (len(widths) - 1)
    if spare < 0:
        at = widths.index(max(widths))
        widths[at] = max(widths[at] + spare, 4)
    for row, style in zip([head, *rows], ["dim", *(styles or [""] * len(rows))], strict=True):
        cells = [
            page.cell(_tail(cell, width), width) for cell, width in zip(row, widths, strict=True)
        ]
        line = (" " * GAP).join(cells).rstrip()
        yield page.line("  ", page.text(page.clip(line, page.width - 2), style))


def _tail(cell: str, width: int) -> str:
    """Return a cell; of a path that is too long, the end, by which paths differ."""
    return cell if len(cell) <= width or "/" not in cell else f"…{cell[-(width - 1) :]}"
