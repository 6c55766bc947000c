"""The charts of a page: their series, points, marks and data.

The script of the page draws them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from stabdiag.formats.canvas import Scale
from stabdiag.formats.compared import gap
from stabdiag.formats.measured import visible
from stabdiag.formats.subject import Mark, movement
from stabdiag.model.arrays import AnyArray, Floats, Ints, Mask
from stabdiag.model.baseline import BaselineComparison
from stabdiag.model.comparison import Comparison
from stabdiag.model.findings import AskedOf, RollingBaseline
from stabdiag.model.frozen import frozen
from stabdiag.model.history import EventKind, Series
from stabdiag.model.report import Report

MAX_POINTS = 8000
"""A longer series is thinned to about this number of points: three per pixel."""

_AROUND = 250
_MAX_STRETCHES = 500

_BELOW = ("grad_norm", "lr", "loss_scale", "weight_norm")
_SCALES = {"grad_norm": "log", "loss_scale": "log2"}
_MAX_GROUPS = 10
_MAX_OUTLIERS = 20_000
_MAX_FINDINGS = 8
_MIN_POINTS = 500
_MAX_BANDS = 3


@frozen
class Band:
    """The band of earlier good runs behind a curve, at the steps of its chart; NaN outside."""

    name: str
    low: Floats
    high: Floats


@frozen
class Panel:
    """One chart: curves over the same steps, by the names of their columns.

    A curve is NaN where nothing was logged, and infinite where the logged value is not finite.
    ``mean`` and ``deviation`` describe the ``window`` losses before each step; ``above`` has the
    positions of the outliers. ``bands`` come from earlier good runs. ``left_out`` counts the groups
    and ``thinned`` the points that are not drawn.
    """

    role: str
    scale: str
    steps: Ints
    lines: tuple[tuple[str, Floats], ...]
    window: int = 0
    mean: Floats | None = None
    deviation: Floats | None = None
    above: Ints | None = None
    left_out: int = 0
    thinned: int = 0
    bands: tuple[Band, ...] = ()


def panels(report: Report) -> Iterator[Panel]:
    """Yield the chart of the loss, and the charts of the series below it."""
    finding_steps = [finding.step for finding in report.findings if finding.step is not None]
    centers = finding_steps[:_MAX_FINDINGS]
    loss = [report.history.get(role) for role in ("loss", "eval_loss")]
    logged = [series for series in loss if series is not None and len(series)]
    if logged:
        panel = _loss(logged, report.rolling_baseline, centers)
        yield _with_bands(panel, [series.role for series in logged], report.baseline)
    for role in _BELOW:
        groups = [series for series in report.history.group(role).values() if len(series)]
        if groups:
            panel = _groups(role, groups, centers)
            yield _with_bands(panel, [series.role for series in groups], report.baseline)


def _with_bands(panel: Panel, roles: Sequence[str], comparison: BaselineComparison | None) -> Panel:
    """Add the bands of earlier good runs to a chart."""
    if comparison is None:
        return panel
    values = np.concatenate([line[np.isfinite(line)] for _, line in panel.lines])
    if not len(values):
        return panel
    # An edge far outside would flatten the curve.
    margin = float(np.ptp(values)) or abs(float(values[0]))
    limits = (float(values.min()) - margin, float(values.max()) + margin)
    bands = [
        Band(
            name=f"{series.column}: {comparison.runs}",
            low=_between(panel.steps, series.band_steps, series.band_low, limits),
            high=_between(panel.steps, series.band_steps, series.band_high, limits),
        )
        for series in comparison.series
        if series.role in roles and len(series.band_steps)
    ]
    # A band completely outside is a flat line at the end of the scale.
    shown = [band for band in bands if (band.high > band.low).any()]
    return replace(panel, bands=tuple(shown[:_MAX_BANDS]))


def _between(steps: Ints, known_steps: Ints, values: Floats, limits: tuple[float, float]) -> Floats:
    """Interpolate values between known steps on a logarithmic step axis, within limits."""
    log_steps, log_known = (np.log(np.maximum(s, 1)) for s in (steps, known_steps))
    interpolated = np.interp(log_steps, log_known, values, left=np.nan, right=np.nan)
    return np.clip(interpolated, *limits)


def overlays(comparison: Comparison) -> Iterator[Panel]:
    """Yield a chart for each common role, with a curve for each run."""
    step = comparison.diagnosis.step
    for role in ("loss", "eval_loss", *_BELOW[:-1]):
        logged = [(run.label, run.history.get(role)) for run in comparison.runs]
        curves = [
            replace(series, column=label)
            for label, series in logged
            if series is not None and len(series)
        ]
        if len(curves) > 1:
            yield _groups(role, curves, [] if step is None else [step])
        difference = gap(*curves) if role == "loss" and len(curves) == 2 else None
        if difference is not None:
            yield _panel("gap", [replace(difference, column="difference")], difference.steps)


def _loss(logged: list[Series], baseline: RollingBaseline | None, centers: list[int]) -> Panel:
    high = np.empty(0, dtype=np.int64)
    if baseline is not None:
        high = baseline.steps[baseline.above][-_MAX_OUTLIERS:]
    panel = _panel("loss", logged, np.union1d(_steps(logged, centers, MAX_POINTS), high))
    if baseline is None:
        return panel
    return replace(
        panel,
        window=baseline.window,
        mean=_at(panel.steps, baseline.steps, baseline.mean),
        deviation=_at(panel.steps, baseline.steps, baseline.deviation),
        above=np.searchsorted(panel.steps, high),
    )


def _groups(role: str, groups: list[Series], centers: list[int]) -> Panel:
    shown = sorted(groups, key=movement, reverse=True)[:_MAX_GROUPS]
    drawn = [series for series in groups if series in shown]
    max_points = max(MAX_POINTS // len(drawn), _MIN_POINTS)
    panel = _panel(role, drawn, _steps(drawn, centers, max_points))
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
    """Return the scale of a role, linear if its values do not fit a logarithmic one."""
    if role in _SCALES:
        return _SCALES[role] if any((series.values > 0).any() for series in drawn) else "linear"
    if role == "lr":
        return "linear"
    values = np.concatenate([series.finite().values for series in drawn])
    return "log" if Scale.of(values).log else "linear"


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
    return series.column, _at(steps, series.steps, values)


def _at(steps: Ints, logged: Ints, values: Floats) -> Floats:
    """Return the values at some steps, NaN if there is none."""
    if not len(logged):
        return np.full(len(steps), np.nan)
    indices = np.minimum(np.searchsorted(logged, steps), len(logged) - 1)
    return np.where(logged[indices] == steps, values[indices], np.nan)


def select_points(values: Floats, centers: Iterable[int], max_points: int = MAX_POINTS) -> Ints:
    """Return the positions of the points to keep, in order.

    A long series keeps the lowest and the highest point of each of ``max_points / 2`` stretches,
    which saves single-step spikes; all points around the ``centers``; both ends; and the ends of
    non-finite stretches.
    """
    n = len(values)
    if n <= max_points:
        return np.arange(n)
    # The downsampler may skip the last point, which matters most in a failed run.
    parts = [np.array([0, n - 1]), _extremes(values, max_points)]
    parts += [ends[:_MAX_STRETCHES] for ends in stretches(~np.isfinite(values))]
    parts += [np.arange(max(at - _AROUND, 0), min(at + _AROUND + 1, n)) for at in centers]
    return np.unique(np.concatenate(parts))


def stretches(mask: Mask) -> tuple[Ints, Ints]:
    """Return the first and the last position of each stretch where the mask is True."""
    edges = np.diff(mask.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1


def _extremes(values: Floats, max_points: int) -> Ints:
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= max_points:
        return finite
    from tsdownsample import MinMaxDownsampler

    extremes = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    indices: Ints = extremes.downsample(
        values[finite], n_out=max_points // 2 * 2
    )  # two per stretch
    return finite[indices]


def marks(report: Report) -> Iterator[Mark]:
    """Yield all marks, the most important last; the script adds regular checkpoints."""
    yield from _bad(report)
    yield from _recovery(report)
    yield from _resumes(report)
    yield from _left(report)
    diagnosis = report.diagnosis
    checkpoint = diagnosis.evidence.get("checkpoint")
    if isinstance(checkpoint, int) and checkpoint > 0:
        yield Mark(kind="reload", step=checkpoint, label="Last checkpoint before it")
    for finding in (*report.also_found, diagnosis):
        if finding.step is not None:
            kind = "event" if finding is diagnosis else "finding"
            yield Mark(kind=kind, step=finding.step, label=finding.title)


def _left(report: Report) -> Iterator[Mark]:
    """Yield the step where the first series left the band of earlier good runs."""
    first = None if report.baseline is None else report.baseline.first_to_leave
    if first is not None and first.step is not None:
        label = f"The {first.name} leaves the band of the good runs"
        yield Mark(kind="finding", step=first.step, label=label)


def _bad(report: Report) -> Iterator[Mark]:
    loss = report.history.get("loss")
    if loss is None:
        return
    begins, ends = stretches(~np.isfinite(loss.values))
    firsts, lasts = (loss.steps[at[:_MAX_STRETCHES]].tolist() for at in (begins, ends))
    for first, last in zip(firsts, lasts, strict=True):
        yield Mark(kind="bad", step=first, last=last, label="Loss not finite")


def _recovery(report: Report) -> Iterator[Mark]:
    """Yield the window for the recovery of the loss, and the level to reach."""
    for answer in report.tree.answers:
        # In a sparse log the window in the answer is longer than the limit.
        limit, level = answer.limits.get("spike.recovery_steps"), answer.measured.get("bound")
        steps = answer.measured.get("recovery_steps", limit)
        if answer.steps and isinstance(steps, int | float) and isinstance(level, int | float):
            first = answer.steps[0]
            last = first + int(steps)
            if answer.asked_of is AskedOf.LEAD_UP:
                last = min(last, report.diagnosis.step or last)
            yield Mark(
                kind="recovery", step=first, last=last, label="Recovery window", level=float(level)
            )


def _resumes(report: Report) -> Iterator[Mark]:
    for event in report.history.events:
        if event.step is not None and event.kind in (EventKind.REWIND, EventKind.ATTEMPT):
            yield Mark(kind=event.kind.value, step=event.step, label=event.message)
    source, first = report.history.source, report.history.first_step
    if source.attempts > 1 and first is not None:
        label = f"Attempt {source.attempt} of {source.attempts} begins"
        yield Mark(kind="attempt", step=first, label=label)


def payload(
    panels: Sequence[Panel],
    marks: Sequence[Mark],
    *,
    severity: str,
    focus: tuple[int, int] | None,
    sigma: float = 0.0,
    cadence: int | None = None,
) -> dict[str, object]:
    """Return the data of the charts for the script."""
    return {
        "panels": [_packed_panel(panel) for panel in panels],
        "marks": [
            {
                "kind": mark.kind,
                "first": mark.step,
                "last": mark.step if mark.last is None else mark.last,
                "label": visible(mark.label),
                "level": mark.level,
            }
            for mark in marks
        ],
        "sigma": sigma,
        "cadence": cadence,
        "focus": focus,
        "severity": severity,
    }


def _packed_panel(panel: Panel) -> dict[str, object]:
    lines = [{"name": visible(name), "values": _packed(line)} for name, line in panel.lines]
    return {
        "role": panel.role,
        "scale": panel.scale,
        "steps": _packed(panel.steps),
        "lines": lines,
        "window": panel.window,
        "mean": None if panel.mean is None else _packed(_shown(panel.mean)),
        "deviation": None if panel.deviation is None else _packed(_shown(panel.deviation)),
        "above": None if panel.above is None else _packed(panel.above),
        **({"bands": [_packed_band(band) for band in panel.bands]} if panel.bands else {}),
    }


def _packed_band(band: Band) -> dict[str, str]:
    low, high = _packed(_shown(band.low)), _packed(_shown(band.high))
    return {"name": visible(band.name), "low": low, "high": high}


def _shown(computed: Floats) -> Floats:
    """Round computed values to seven digits; further digits differ between machines."""
    with np.errstate(over="ignore"):
        short = computed.astype(np.float32).astype(np.float64)
    # A chart with an infinite mean has no scale.
    return np.where(np.isinf(short), computed, short)


def _packed(values: AnyArray) -> str:
    return b64encode(np.asarray(values, dtype="<f8").tobytes()).decode("ascii")
