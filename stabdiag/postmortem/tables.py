"""The figures of the evidence: values around the event, or the course of the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.markdown_text import escape, table
from stabdiag.formats.measured import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Scalar
    from stabdiag.formats.subject import Plot
    from stabdiag.history import History, Series

# What is worth a column beside the loss, as far as it was logged.
_ROLES = ("loss", "grad_norm", "lr", "loss_scale", "skipped", "batch_id")

_AROUND = 4
_STRETCHES = 10


def limits_told(limits: Mapping[str, Scalar]) -> str:
    """Return limits by name, as they go into a cell."""
    return ", ".join(f"`{name}` {number(value)}" for name, value in limits.items())


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


def course(plot: Plot) -> str:
    """Return the means of what a plot shows, for each tenth of its steps."""
    edges = np.linspace(plot.first, plot.last + 1, _STRETCHES + 1).round().astype(np.int64)
    series = (plot.series, *plot.companions)
    rows = []
    for first, after in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        means = (_mean(one.between(first, after - 1)) for one in series)
        if first < after:
            rows.append([f"{first} to {after - 1}", *means])
    return table(["Steps", *(f"mean {escape(one.role)}" for one in series)], rows)


def _mean(series: Series) -> str:
    finite = series.finite()
    if len(finite):
        return number(float(finite.values.mean()))
    return "not finite" if len(series) else ""
