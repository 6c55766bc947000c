"""The data of the charts, packed for the script of the page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence

import numpy as np

from stabdiag.formats.html.charts import ChartBand, ChartPanel
from stabdiag.formats.measured import visible
from stabdiag.formats.postmortem.cost import read_clock
from stabdiag.formats.subject import Mark
from stabdiag.model.arrays import AnyArray, Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History

# Number of points of an axis; the script interpolates between them.
_MAX_AXIS_POINTS = 1000

_CHART_TITLES = {
    "loss": "Loss",
    "gap": "Difference of the losses",
    "eval_loss": "Evaluation loss",
    "score": "Scores",
    "grad_norm": "Gradient norm",
    "lr": "Learning rate",
    "loss_scale": "Loss scale",
    "weight_norm": "Weight norms",
    "tokens_per_second": "Tokens per second",
    "mfu": "Model FLOPs utilization",
}


@frozen
class Axis:
    """Another horizontal axis: the epoch or the seconds at some steps, both rising."""

    name: str
    steps: Ints
    values: Floats


def other_axes(history: History) -> Iterator[Axis]:
    """Yield the other axes of a log: epochs and time."""
    epoch = history.finite("epoch")
    if len(epoch) and history.unit == "step":
        axis = _rising("epoch", epoch.steps, epoch.values)
        if axis is not None:
            yield axis
    clock = read_clock(history)
    if clock is not None:
        axis = _rising("time", clock.steps, clock.seconds - clock.seconds[0])
        if axis is not None:
            yield axis


def _rising(name: str, steps: Ints, values: Floats) -> Axis | None:
    """Return an axis from values that never fall; None if they have fewer than two levels.

    A whole epoch is logged at each of its steps; the steps where it changes are kept, so that
    interpolation gives fractions.
    """
    highest = np.maximum.accumulate(values)
    changes = np.flatnonzero(np.diff(highest, prepend=-np.inf) > 0)
    if len(changes) < 2:
        return None
    knots, levels = steps[changes], highest[changes]
    if knots[-1] < steps[-1]:
        slope = (levels[-1] - levels[-2]) / (knots[-1] - knots[-2])
        levels = np.append(levels, levels[-1] + slope * (steps[-1] - knots[-1]))
        knots = np.append(knots, steps[-1])
    keep = np.unique(np.linspace(0, len(knots) - 1, _MAX_AXIS_POINTS).astype(np.int64))
    return Axis(name=name, steps=knots[keep], values=levels[keep])


def payload(
    panels: Sequence[ChartPanel],
    marks: Sequence[Mark],
    *,
    severity: str,
    focus: tuple[int, int] | None,
    sigma: float = 0.0,
    cadence: int | None = None,
    axes: Sequence[Axis] = (),
    smoothing: float = 0.0,
    is_comparison: bool = False,
) -> dict[str, object]:
    """Return the data of the charts for the script."""
    return {
        "axes": {
            axis.name: {"steps": _packed(axis.steps), "values": _packed(axis.values)}
            for axis in axes
        },
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
        "smoothing": smoothing,
        "comparison": is_comparison,
        "sigma": sigma,
        "cadence": cadence,
        "focus": focus,
        "severity": severity,
    }


def _packed_panel(panel: ChartPanel) -> dict[str, object]:
    lines = [{"name": visible(name), "values": _packed(line)} for name, line in panel.lines]
    return {
        "role": panel.role,
        "title": _CHART_TITLES.get(panel.role, panel.role.replace("_", " ").capitalize()),
        "main": panel.is_main,
        "scale": panel.scale,
        "floor": panel.floor,
        "ceiling": panel.ceiling,
        "steps": _packed(panel.steps),
        "lines": lines,
        "window": panel.window,
        "mean": None if panel.mean is None else _packed(_shown(panel.mean)),
        "deviation": None if panel.deviation is None else _packed(_shown(panel.deviation)),
        "above": None if panel.above is None else _packed(panel.above),
        **({"bands": [_packed_band(band) for band in panel.bands]} if panel.bands else {}),
    }


def _packed_band(band: ChartBand) -> dict[str, str]:
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
