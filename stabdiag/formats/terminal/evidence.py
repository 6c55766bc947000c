"""The evidence: the plot, and the numbers that decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.findings import Answer, Verdict
from stabdiag.formats.lead import lead
from stabdiag.formats.terminal.measured import in_words, label
from stabdiag.formats.terminal.page import Page, number
from stabdiag.formats.terminal.plot import draw
from stabdiag.formats.terminal.subject import choose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.findings import Scalar
    from stabdiag.report import Report

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
    found = report.diagnosis
    yield from page.heading("Evidence", "" if found is lead(report) else f"of {found.slug}")
    if plot is not None:
        yield from draw(plot, page)
    if plot is not None and values:
        yield Text("")
    yield from _grid(values if page.verbose else dict(list(values.items())[:_FEW]), page)
    if limits and page.verbose:
        yield from page.wrap(pairs(limits), page.text("  limits  ", "dim"))


def numbers(report: Report, deciding: list[Answer]) -> dict[str, Scalar]:
    """Return the finding's numbers, those of the answer that led to it first."""
    found = report.diagnosis
    last = [a for a in deciding if a.question == found.question]
    told = found.evidence or {n: v for a in deciding for n, v in a.measured.items()}
    first = {n: v for a in last for n, v in a.measured.items() if n in told}
    return {**first, **told}


def decisive(report: Report) -> list[Answer]:
    """Return the answers that the diagnosis rests on: its own section's, but for the unknown.

    None for a diagnosis that belongs to no section: health rests on all of them.
    """
    found = report.diagnosis
    if not found.section:
        return []
    return [
        answer
        for answer in report.trail
        if answer.asked_of is found.asked_of
        and answer.verdict is not Verdict.UNKNOWN
        and (answer.question == found.question or f"§{answer.question[1:2]}" == found.section)
    ]


def pairs(values: Mapping[str, Scalar]) -> str:
    """Return values by name, side by side."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


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
