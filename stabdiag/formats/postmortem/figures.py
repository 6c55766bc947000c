"""The figures of the evidence: the plot, the values around the event or of the whole run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.markdown_text import block, escape, table
from stabdiag.formats.measured import number
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw

if TYPE_CHECKING:
    from stabdiag.formats.subject import Plot
    from stabdiag.model.history import History, Series

PLOT = "text"
"""The language of the block that the page shows as a picture: the only block there is."""

_WIDTH = 78

# At the beginning of a line, a runner of jobs takes these for commands, in a block as well.
_COMMANDS = (("::", ": :"), ("##[", "## ["))

# What is worth a column beside the loss, as far as it was logged.
_ROLES = ("loss", "grad_norm", "lr", "loss_scale", "skipped", "batch_id")

_AROUND = 4
_STRETCHES = 10


def drawn(plot: Plot) -> str:
    """Return the plot in characters that look the same in every font."""
    harmless = replace(
        plot,
        series=_renamed(plot.series),
        companions=tuple(_renamed(series) for series in plot.companions),
    )
    page = Page(width=_WIDTH, ascii=True)
    return block("\n".join(line.plain for line in draw(harmless, page)), PLOT)


def _renamed(series: Series) -> Series:
    role, column = series.role, series.column
    for command, words in _COMMANDS:
        role, column = role.replace(command, words), column.replace(command, words)
    return replace(series, role=role, column=column)


def around(history: History, main: Series, event: int) -> str:
    """Return what was logged at an event and at the points next to it; its own row is bold."""
    at = int(np.searchsorted(main.steps, event))
    steps = main.steps[max(at - _AROUND, 0) : at + _AROUND + 1].tolist()
    logged = (history.get(role) for role in _ROLES)
    series = [s for s in logged if s is not None and len(s.between(steps[0], steps[-1]))]
    rows = []
    for step in steps:
        points = (one.between(step, step).values for one in series)
        cells = [str(step), *(number(float(p[0])) if len(p) else "" for p in points)]
        rows.append([f"**{cell}**" if cell else "" for cell in cells] if step == event else cells)
    return table([history.unit.capitalize(), *(escape(one.role) for one in series)], rows)


def course(plot: Plot, unit: str) -> str:
    """Return the means of what a plot shows, for each tenth of its steps."""
    edges = np.linspace(plot.first, plot.last + 1, _STRETCHES + 1).round().astype(np.int64)
    series = (plot.series, *plot.companions)
    rows = []
    for first, after in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        means = (_mean(one.between(first, after - 1)) for one in series)
        if first < after:
            rows.append([f"{first} to {after - 1}", *means])
    return table([f"{unit.capitalize()}s", *(f"mean {escape(one.role)}" for one in series)], rows)


def _mean(series: Series) -> str:
    finite = series.finite()
    if len(finite):
        return number(float(finite.values.mean()))
    return "not finite" if len(series) else ""
