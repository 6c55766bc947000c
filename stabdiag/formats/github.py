"""The report for GitHub Actions: annotations, and the page for the summary of the job.

An annotation is a line that the runner takes for an order; log text is written so that it cannot
end the order or begin another. The page's chart is in Mermaid, which GitHub draws.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats import markdown
from stabdiag.formats.canvas import Scale, View
from stabdiag.formats.issues import event_path, line_of, log_path
from stabdiag.formats.measured import changed_limits, visible
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.subject import Plot
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.model.report import Report

LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "notice",
    Severity.OK: "notice",
}

# GitHub shows ten annotations of a level for a step.
_MOST_MESSAGES = 5

_COLUMNS = 60
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

# Mermaid's own signs are replaced; %% would begin an order.
_OTHER = re.compile(r"[^A-Za-z0-9_./ -]")


def render(report: Report) -> str:
    """Return an annotation for each finding, the worst first, and for messages in the log."""
    lines = (*_findings(report), *_limits(report), *_messages(report))
    return "".join(f"{line}\n" for line in lines)


def summary(report: Report, *, command: str | None = None) -> str:
    """Return the page for the job's summary: that of the Markdown format, with a drawn chart."""
    return markdown.page(report, chart=chart, command=command)


def escape(text: str) -> str:
    """Return log text as a message, which nothing in it can end."""
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    """Return log text as the value of a property, before the message."""
    return escape(text).replace(":", "%3A").replace(",", "%2C")


def annotation(level: str, *lines: str, **properties: str | int | None) -> str:
    """Return one annotation, of lines and properties that may be log text."""
    told = (f"{name}={_property(str(v))}" for name, v in properties.items() if v is not None)
    return f"::{level} {','.join(told)}::{'%0A'.join(map(escape, lines))}"


def _findings(report: Report) -> Iterator[str]:
    source = report.history.source
    for finding in report.findings:
        lines = [finding.summary]
        if finding.first_action and finding.severity is not Severity.OK:
            lines.append(f"First action: {finding.first_action}")
        yield annotation(
            LEVELS[finding.severity],
            *lines,
            file=log_path(source, finding.step),
            line=line_of(finding, report),
            title=f"{finding.headline} [{finding.slug}]",
        )


def _limits(report: Report) -> Iterator[str]:
    told = list(changed_limits(report.limits))
    if told:
        yield annotation("notice", *told, title="Limits that differ from their defaults")


def _messages(report: Report) -> Iterator[str]:
    for event in report.history.messages[-_MOST_MESSAGES:]:
        path = event_path(event, report.history.source)
        yield annotation("notice", event.message, file=path, line=event.line, title="The log says")


def chart(plot: Plot) -> str:
    """Return the main series as two lines: of each column of steps the extremes, and the mean.

    A line can have no gaps: it ends where a NaN is not followed by anything finite.
    """
    good = plot.series.finite()
    last = int(good.steps[-1])
    drawn = _lines(good, View(first=plot.first, last=last, columns=_COLUMNS))
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
