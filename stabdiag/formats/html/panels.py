"""The charts of a page: which series, on which scale, and which of their points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.canvas import Scale
from stabdiag.formats.html.thin import MOST, kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.findings import Baseline
    from stabdiag.model.history import Series
    from stabdiag.model.report import Report

_BELOW = ("grad_norm", "lr", "loss_scale", "weight_norm")
_SCALES = {"grad_norm": "log", "loss_scale": "log2"}
_MOST_GROUPS = 10
_MOST_EXCEEDANCES = 20_000
_MOST_PLACES = 8
_FEWEST = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One curve: NaN where nothing was logged at a step, infinite where what was is not finite."""

    column: str
    values: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One chart: curves over the same steps.

    ``mean`` and ``deviation`` are those of the ``window`` losses before each step, ``above`` the
    positions of the exceedances; ``left_out`` counts the groups, ``thinned`` the points that are
    not drawn.
    """

    role: str
    scale: str
    steps: Ints
    lines: tuple[Line, ...]
    window: int = 0
    mean: Floats | None = None
    deviation: Floats | None = None
    above: Ints | None = None
    left_out: int = 0
    thinned: int = 0


def panels(report: Report) -> Iterator[Panel]:
    """Yield the chart of the loss, and those of the series that are read beside it."""
    found = [finding.step for finding in report.findings if finding.step is not None]
    places = found[:_MOST_PLACES]
    loss = [report.history.get(role) for role in ("loss", "eval_loss")]
    logged = [series for series in loss if series is not None and len(series)]
    if logged:
        yield _loss(logged, report.baseline, places)
    for role in _BELOW:
        groups = [series for series in report.history.group(role).values() if len(series)]
        if groups:
            yield _groups(role, groups, places)


def _loss(logged: list[Series], baseline: Baseline | None, places: list[int]) -> Panel:
    high = np.empty(0, dtype=np.int64)
    if baseline is not None:
        high = baseline.steps[baseline.above][-_MOST_EXCEEDANCES:]
    panel = _panel("loss", logged, np.union1d(_steps(logged, places, MOST), high))
    if baseline is None:
        return panel
    return replace(
        panel,
        window=baseline.window,
        mean=_at(panel.steps, baseline.steps, baseline.mean),
        deviation=_at(panel.steps, baseline.steps, baseline.deviation),
        above=np.searchsorted(panel.steps, high),
    )


def _groups(role: str, groups: list[Series], places: list[int]) -> Panel:
    shown = sorted(groups, key=_movement, reverse=True)[:_MOST_GROUPS]
    drawn = [series for series in groups if series in shown]
    most = max(MOST // len(drawn), _FEWEST)
    panel = _panel(role, drawn, _steps(drawn, places, most))
    return replace(panel, left_out=len(groups) - len(drawn))


def _panel(role: str, drawn: list[Series], steps: Ints) -> Panel:
    return Panel(
        role=role,
        scale=_scale(role, drawn),
        steps=steps,
        lines=tuple(_line(series, steps) for series in drawn),
        thinned=max(max(map(len, drawn)) - len(steps), 0),
    )


def _scale(role: str, drawn: list[Series]) -> str:
    """Return the scale that a role is read on, if there are values to be read on it."""
    if role in _SCALES:
        return _SCALES[role] if any((series.values > 0).any() for series in drawn) else "linear"
    if role == "lr":
        return "linear"
    values = np.concatenate([series.finite().values for series in drawn])
    return "log" if Scale.of(values).log else "linear"


def _movement(series: Series) -> float:
    """Return how far a series moves, highest to lowest, on a logarithmic scale."""
    sizes = np.abs(series.finite().values)
    sizes = sizes[sizes > 0]
    return float(np.log(sizes.max()) - np.log(sizes.min())) if len(sizes) else 0.0


def _steps(drawn: list[Series], places: list[int], most: int) -> Ints:
    """Return the steps at which any of the series keeps a point, each some ``most``."""
    parts = [
        series.steps[kept(series.values, np.searchsorted(series.steps, places).tolist(), most)]
        for series in drawn
    ]
    return np.unique(np.concatenate(parts))


def _line(series: Series, steps: Ints) -> Line:
    values = np.where(np.isfinite(series.values), series.values, np.inf)
    return Line(column=series.column, values=_at(steps, series.steps, values))


def _at(steps: Ints, logged: Ints, values: Floats) -> Floats:
    """Return the values at some steps, NaN where there is none."""
    if not len(logged):
        return np.full(len(steps), np.nan)
    at = np.minimum(np.searchsorted(logged, steps), len(logged) - 1)
    return np.where(logged[at] == steps, values[at], np.nan)
