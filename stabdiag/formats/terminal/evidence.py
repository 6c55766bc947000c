"""The evidence: the plot, and the numbers that decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.deciding import decisive, numbers
from stabdiag.formats.measured import in_words, label, pairs
from stabdiag.formats.subject import choose
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.model.findings import Scalar
    from stabdiag.model.report import Report

_FEW = 8
_NAME_WIDTH, _VALUE_WIDTH = 26, 24


def evidence(report: Report, page: Page) -> Iterator[Text]:
    """Yield the plot and the deciding numbers; nothing where there is nothing to prove."""
    if not report.diagnosis.section and not page.verbose:
        return
    deciding = decisive(report)
    values = numbers(report, deciding)
    limits = {name: value for a in deciding for name, value in a.limits.items()}
    plot = choose(report)
    if plot is None and not values:
        return
    yield from page.heading("Evidence")
    if plot is not None:
        yield from draw(plot, page)
    if plot is not None and values:
        yield Text("")
    yield from _grid(values if page.verbose else dict(list(values.items())[:_FEW]), page)
    if limits and page.verbose:
        yield from page.wrap(pairs(limits), page.text("  limits  ", "dim"))


def _grid(values: Mapping[str, Scalar], page: Page) -> Iterator[Text]:
    """Yield values by name, in two columns where they fit."""
    cells = [(page.text(label(n)), page.text(in_words(n, v))) for n, v in values.items()]
    name_width = min(max((n.cell_len for n, _ in cells), default=0), _NAME_WIDTH)
    value_width = min(max((v.cell_len for _, v in cells), default=0), _VALUE_WIDTH)
    columns = 2 if page.width >= 2 * (name_width + value_width + 6) else 1
    for i in range(0, len(cells), columns):
        row = ["  "]
        for name, value in cells[i : i + columns]:
            row += [page.cell(name.plain, name_width), "  "]
            row += [page.cell(value.plain, value_width), "    "]
        yield page.line(page.clip("".join(row).rstrip(), page.width))
