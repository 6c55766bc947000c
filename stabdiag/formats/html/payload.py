"""What the script of a page is given: the charts and their marks, as JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.subject import choose
from stabdiag.formats.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from stabdiag.formats.html.marks import Mark
    from stabdiag.formats.html.panels import Line, Panel
    from stabdiag.model.arrays import Floats
    from stabdiag.model.report import Report


def payload(report: Report, panels: Sequence[Panel], marks: Sequence[Mark]) -> str:
    """Return the data of the charts, safe to stand in a script element."""
    focus = choose(report)
    data = {
        "panels": [_panel(panel) for panel in panels],
        "marks": [_mark(mark) for mark in marks],
        "sigma": report.limits.spike.sigma,
        "cadence": report.manifest.checkpoint_every,
        "focus": [focus.first, focus.last] if focus else None,
        "severity": report.diagnosis.severity.value,
    }
    # In a script element nothing but "<" can end it or begin a comment.
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _panel(panel: Panel) -> dict[str, object]:
    return {
        "role": panel.role,
        "scale": panel.scale,
        "steps": _packed(panel.steps),
        "lines": [_line(line) for line in panel.lines],
        "window": panel.window,
        "mean": None if panel.mean is None else _packed(_shown(panel.mean)),
        "deviation": None if panel.deviation is None else _packed(_shown(panel.deviation)),
        "above": None if panel.above is None else _packed(panel.above),
    }


def _line(line: Line) -> dict[str, object]:
    return {"name": visible(line.column), "values": _packed(line.values)}


def _mark(mark: Mark) -> dict[str, object]:
    return {
        "kind": mark.kind,
        "first": mark.first,
        "last": mark.last,
        "label": visible(mark.label),
        "level": mark.level,
    }


def _shown(computed: Floats) -> Floats:
    """Return what was computed to seven digits, as a chart shows it: the last are the machine's."""
    with np.errstate(over="ignore"):
        short = computed.astype(np.float32).astype(np.float64)
    # An infinite mean would leave the chart without a scale.
    return np.where(np.isinf(short), computed, short)


def _packed(values: ArrayLike) -> str:
    """Return numbers as the base64 of little-endian doubles."""
    return b64encode(np.asarray(values, dtype="<f8").tobytes()).decode("ascii")
