"""The evidence as a chart in Mermaid, which GitHub and GitLab draw as SVG."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.canvas import Scale, View

if TYPE_CHECKING:
    from stabdiag.formats.subject import Plot
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series


COLUMNS = 60
_DIGITS = 6

# Mermaid's own colour is too pale to be seen on white, and its own size fills the page.
_STYLE = """\
---
config:
  xyChart:
    width: 800
    height: 280
  themeVariables:
    xyChart:
      plotColorPalette: "#9aa4b2, #e5534b"
---"""

# Of Mermaid's own signs, of which %% begins an order, none is let through.
_OTHER = re.compile(r"[^A-Za-z0-9_./ -]")


def chart(plot: Plot) -> str:
    """Return the main series as two lines: of each column of steps the extremes, and the mean.

    A line can have no gaps: it ends where a NaN is not followed by anything finite.
    """
    good = plot.series.finite()
    last = int(good.steps[-1])
    drawn = _lines(good, View(first=plot.first, last=last, columns=COLUMNS))
    values, unit = _readable(drawn, log=Scale.of(good.values).log)
    name = _OTHER.sub("_", plot.series.role)
    low, high = float(values.min()), float(values.max())
    margin = (high - low) * 0.05 or 0.5
    return "\n".join(
        [
            "```mermaid",
            _STYLE,
            "xychart-beta",
            f'    title "{name}, steps {plot.first} to {last}{_event(plot, last)}"',
            f'    x-axis "step" {plot.first} --> {max(last, plot.first + 1)}',
            f'    y-axis "{name}{unit}" {_plain(low - margin)} --> {_plain(high + margin)}',
            *(f"    line [{', '.join(map(_plain, line))}]" for line in values.tolist()),
            "```",
        ]
    )


def _event(plot: Plot, last: int) -> str:
    if plot.event is None:
        return ""
    return f", found at {plot.event}" if plot.event <= last else ", not finite from there on"


def _lines(series: Series, view: View) -> Floats:
    """Return two lines with two points a column: extremes in the order of the log, and means."""
    columns = view.dots(series.steps) // 2
    extremes: list[float] = []
    means: list[float] = []
    part = series.values[:1]
    for column in range(view.columns):
        inside = series.values[columns == column]
        part = inside if inside.size else part[-1:]
        low, high = int(part.argmin()), int(part.argmax())
        extremes += [float(part[min(low, high)]), float(part[max(low, high)])]
        means += [float((part / part.size).sum())] * 2
    return np.array([extremes, means])


def _readable(values: Floats, *, log: bool) -> tuple[Floats, str]:
    """Return values whose digits can be written out, for Mermaid reads no 1e-5, and their unit."""
    if log:
        return np.log10(values), " (log10)"
    most = float(np.abs(values).max())
    power = 0 if most == 0 or 1e-3 <= most < 1e6 else math.floor(math.log10(most))
    return (values / 10.0**power, f" (1e{power})") if power else (values, "")


def _plain(value: float) -> str:
    return np.format_float_positional(value, precision=_DIGITS, trim="-")
