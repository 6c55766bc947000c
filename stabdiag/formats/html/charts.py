"""The charts of a page: their series, scales and order.

The script of the page draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stabdiag.formats.canvas import Scale
from stabdiag.formats.compared import gap, run_names
from stabdiag.formats.html.points import MAX_CHART_POINTS, look_up_values, select_points
from stabdiag.formats.subject import (
    SCORE_SERIES,
    cause_role,
    is_about_baseline,
    movement,
    range_with_band,
)
from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.baseline import BaselineComparison, SeriesComparison
from stabdiag.model.comparison import Comparison
from stabdiag.model.findings import RollingBaseline
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.report import Report

_CHARTS_BELOW = ("grad_norm", "lr", "loss_scale", "weight_norm", "reward")
_AXIS_SCALES = {"grad_norm": "log", "loss_scale": "log2"}

# Roles that have no chart by themselves: counters, flags, and series of another chart.
_NO_CHART = frozenset(
    {"step", "epoch", "clock", "batch_id", "rank", "setting", "loss", "eval_loss", *SCORE_SERIES}
)
_MAX_CHART_GROUPS = 10
_MAX_OUTLIERS = 20_000
_MAX_FINDINGS = 8
_MIN_CHART_POINTS = 500
_MAX_BANDS = 3

# A linear axis hides a series if three quarters of its values are within this fraction of its
# range: a single peak of the learning rate makes the schedule a flat line.
_FLATTENED = 0.1

# Losses above the common ones times this factor are cut off, if some are higher by it again.
_CUT_OFF = 30.0

# A fraction or a percentage is read on a linear axis: its end matters, not its first values.
_HIGHEST_PERCENTAGE = 100.0

# Scores share a chart up to this ratio of their sizes: an accuracy and a perplexity do not.
_SAME_SIZE = 20.0
_MAX_SCORE_CHARTS = 3

# A band edge on a logarithmic axis is at most this factor outside the values.
_BAND_FACTOR = 10.0


@frozen
class ChartBand:
    """The band of earlier good runs behind a curve, at the steps of its chart; NaN outside."""

    name: str
    low: Floats
    high: Floats


@frozen
class ChartPanel:
    """One chart: curves over the same steps, by the names of their columns.

    A curve is NaN where nothing was logged, and infinite where the logged value is not finite.
    ``is_main`` marks the large chart. A logarithmic axis cuts off values below ``floor`` and above
    ``ceiling``.
    ``mean`` and ``deviation`` describe the ``window`` losses before each step; ``above`` has the
    positions of the outliers. ``bands`` come from earlier good runs. ``left_out`` counts the groups
    and ``thinned`` the points that are not drawn.
    """

    role: str
    scale: str
    steps: Ints
    lines: tuple[tuple[str, Floats], ...]
    is_main: bool = False
    floor: float | None = None
    ceiling: float | None = None
    window: int = 0
    mean: Floats | None = None
    deviation: Floats | None = None
    above: Ints | None = None
    left_out: int = 0
    thinned: int = 0
    bands: tuple[ChartBand, ...] = ()


def panels(report: Report) -> Iterator[ChartPanel]:
    """Yield the charts: the cause of the diagnosis first, then the loss, then the other series."""
    finding_steps = [finding.step for finding in report.findings if finding.step is not None]
    centers = finding_steps[:_MAX_FINDINGS]
    charts = list(_charts(report, centers))
    cause = cause_role(report)
    first = [chart for chart in charts if chart.role == cause and chart.role != "loss"]
    others = [chart for chart in charts if chart not in first]
    if others:
        others[0] = replace(others[0], is_main=True)
    elif first:
        first[0] = replace(first[0], is_main=True)
    yield from (*first, *others)


def _charts(report: Report, centers: list[int]) -> Iterator[ChartPanel]:
    """Yield the charts: losses, scores, then the others."""
    history = report.history
    loss = [history.get(role) for role in ("loss", "eval_loss")]
    logged = [series for series in loss if series is not None and len(series)]
    if logged and is_about_baseline(report):
        yield from _losses_with_bands(logged, report, centers)
    elif logged:
        panel = _loss(logged, report.rolling_baseline, centers)
        yield _with_bands(panel, [series.role for series in logged], report.baseline)
    for scores in _scores(history):
        yield _groups("score", scores, centers)
    concerned = [role for finding in report.findings[:_MAX_FINDINGS] for role in finding.roles]
    for role in dict.fromkeys((*_CHARTS_BELOW, *concerned)):
        groups = [series for series in history.group(role).values() if _has_values(series)]
        if groups and role not in _NO_CHART:
            panel = _groups(role, groups, centers)
            yield _with_bands(panel, [series.role for series in groups], report.baseline)


def _has_values(series: Series) -> bool:
    """Return True if a series has values to draw."""
    return len(series) > 0 and not series.words


def _scores(history: History) -> Iterator[list[Series]]:
    """Yield the scores of each chart; scores of a similar size share one."""
    by_column = {
        series.column: series
        for role in SCORE_SERIES
        for series in history.group(role).values()
        if len(series.finite())
    }
    charts: list[list[Series]] = []
    smallest = 0.0
    for series in sorted(by_column.values(), key=_size):
        if not charts or _size(series) > _SAME_SIZE * smallest:
            charts.append([])
            smallest = _size(series)
        charts[-1].append(series)
    yield from charts[:_MAX_SCORE_CHARTS]


def _size(series: Series) -> float:
    """Return the largest size of a value, at least a small number."""
    return max(float(np.abs(series.finite().values).max()), 1e-3)


def _with_bands(
    panel: ChartPanel, roles: Sequence[str], comparison: BaselineComparison | None
) -> ChartPanel:
    """Add the bands of earlier good runs to a chart."""
    if comparison is None:
        return panel
    values = np.concatenate([line[np.isfinite(line)] for _, line in panel.lines])
    if panel.scale != "linear":
        values = values[values > 0]
    if not len(values):
        return panel
    shown = [
        series for series in comparison.series if series.role in roles and len(series.band_steps)
    ]
    return replace(
        panel,
        bands=tuple(
            ChartBand(
                name=f"{series.column}: {comparison.runs}",
                low=_interpolate(panel.steps, series.band_steps, series.band_low, limits),
                high=_interpolate(panel.steps, series.band_steps, series.band_high, limits),
            )
            for series in shown[:_MAX_BANDS]
            for limits in [_band_limits(values, series, panel.scale)]
        ),
    )


def _band_limits(values: Floats, band: SeriesComparison, scale: str) -> tuple[float, float]:
    """Return the limits of a drawn band: an edge far outside would flatten the curve."""
    low, high = range_with_band(values, band)
    if scale == "linear":
        margin = high - low or abs(high)
        return low - margin, high + margin
    if low <= 0:  # a logarithmic axis has no place for this edge
        low = float(values.min())
    factor = min(max(high / low, 2.0), _BAND_FACTOR)
    return low / factor, high * factor


def _interpolate(
    steps: Ints, known_steps: Ints, values: Floats, limits: tuple[float, float]
) -> Floats:
    """Interpolate values between known steps on a logarithmic step axis, within limits."""
    log_steps, log_known = (np.log(np.maximum(s, 1)) for s in (steps, known_steps))
    interpolated = np.interp(log_steps, log_known, values, left=np.nan, right=np.nan)
    return np.clip(interpolated, *limits)


def overlays(comparison: Comparison) -> Iterator[ChartPanel]:
    """Yield a chart for each common role, with a curve for each run."""
    step = comparison.diagnosis.step
    names = run_names(comparison)
    for role in ("loss", "eval_loss", *_CHARTS_BELOW[:3]):
        logged = [(names[run.label], run.history.get(role)) for run in comparison.runs]
        curves = [
            replace(series, column=name)
            for name, series in logged
            if series is not None and len(series)
        ]
        if len(curves) > 1:
            panel = _groups(role, curves, [] if step is None else [step])
            yield replace(panel, is_main=role == "loss")
        difference = gap(*curves) if role == "loss" and len(curves) == 2 else None
        if difference is not None:
            yield _panel("gap", [replace(difference, column="difference")], difference.steps)


def _loss(logged: list[Series], baseline: RollingBaseline | None, centers: list[int]) -> ChartPanel:
    high = np.empty(0, dtype=np.int64)
    if baseline is not None:
        high = baseline.steps[baseline.above][-_MAX_OUTLIERS:]
    panel = _panel("loss", logged, np.union1d(_steps(logged, centers, MAX_CHART_POINTS), high))
    if baseline is None:
        return panel
    return replace(
        panel,
        window=baseline.window,
        mean=look_up_values(panel.steps, baseline.steps, baseline.mean),
        deviation=look_up_values(panel.steps, baseline.steps, baseline.deviation),
        above=np.searchsorted(panel.steps, high),
    )


def _losses_with_bands(
    logged: list[Series], report: Report, centers: list[int]
) -> Iterator[ChartPanel]:
    """Yield a chart for each loss with its band, the deciding one first.

    A run may end a few percent above its band: on a linear axis, next to another curve and the
    range of its noise, that is not visible.
    """
    deciding = report.diagnosis.evidence.get("series")
    for series in sorted(logged, key=lambda series: series.role != deciding):
        panel = _panel(series.role, [series], _steps([series], centers, MAX_CHART_POINTS))
        finite = series.finite().values
        if len(finite) and finite.min() > 0:
            panel = replace(panel, scale="log")
        yield _with_bands(panel, [series.role], report.baseline)


def _groups(role: str, groups: list[Series], centers: list[int]) -> ChartPanel:
    shown = sorted(groups, key=movement, reverse=True)[:_MAX_CHART_GROUPS]
    drawn = [series for series in groups if series in shown]
    max_points = max(MAX_CHART_POINTS // len(drawn), _MIN_CHART_POINTS)
    panel = _panel(role, drawn, _steps(drawn, centers, max_points))
    return replace(panel, left_out=len(groups) - len(drawn))


def _panel(role: str, drawn: list[Series], steps: Ints) -> ChartPanel:
    scale = _scale(role, drawn)
    return ChartPanel(
        role=role,
        scale=scale,
        floor=_floor(drawn) if role == "lr" and scale == "log" else None,
        ceiling=_ceiling(drawn) if role == "loss" and scale == "log" else None,
        steps=steps,
        lines=tuple(_line(series, steps) for series in drawn),
        thinned=max(max(map(len, drawn)) - len(steps), 0),
    )


def _scale(role: str, drawn: list[Series]) -> str:
    """Return the scale of a role, linear if its values do not fit a logarithmic one."""
    if role in _AXIS_SCALES:
        return (
            _AXIS_SCALES[role] if any((series.values > 0).any() for series in drawn) else "linear"
        )
    values = np.concatenate([series.finite().values for series in drawn])
    if role == "lr":
        return "log" if is_flattened(values) else "linear"
    if (
        role == "score"
        and values.min(initial=np.inf) >= 0
        and values.max(initial=0) <= _HIGHEST_PERCENTAGE
    ):
        return "linear"
    return "log" if Scale.of(values).log else "linear"


def is_flattened(values: Floats) -> bool:
    """Return True if a few high values make the others a flat line on a linear axis."""
    if not len(values) or values.min() < 0 or values.max() <= 0:
        return False
    low, typical, high = np.quantile(values, [0.0, 0.75, 1.0])
    return bool(typical > 0 and typical - low < _FLATTENED * (high - low))


def _floor(drawn: list[Series]) -> float:
    """Return the lowest value that a logarithmic axis shows, so that a decay to 0 fits."""
    values = np.concatenate([series.finite().values for series in drawn])
    return float(np.quantile(values[values > 0], 0.05))


def _ceiling(drawn: list[Series]) -> float | None:
    """Return the highest value that the axis of the losses shows; None if all fit.

    A loss that explodes to 1e16 before the run ends would leave no room for the loss before.
    """
    values = np.concatenate([series.finite().values for series in drawn])
    ceiling = _CUT_OFF * float(np.quantile(values, 0.95))
    return ceiling if 0 < ceiling * _CUT_OFF < values.max() else None


def _steps(drawn: list[Series], centers: list[int], max_points: int) -> Ints:
    """Return the steps where any of the series keeps a point."""
    parts = [
        series.steps[
            select_points(
                series.values, np.searchsorted(series.steps, centers).tolist(), max_points
            )
        ]
        for series in drawn
    ]
    return np.unique(np.concatenate(parts))


def _line(series: Series, steps: Ints) -> tuple[str, Floats]:
    values = np.where(np.isfinite(series.values), series.values, np.inf)
    return series.column, look_up_values(steps, series.steps, values)
