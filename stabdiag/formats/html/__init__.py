"""The report as one HTML file, for a browser, and as a compact piece of HTML, for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from stabdiag.formats.canvas import svg_chart
from stabdiag.formats.html.charts import marks, panels, payload
from stabdiag.formats.html.drawing import answers, draw
from stabdiag.formats.html.shell import filled, page, source
from stabdiag.formats.json import MANIFEST_FIELDS
from stabdiag.formats.measured import changed_limits
from stabdiag.formats.subject import Mark, whole_loss
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.model.report import Report

_SCRIPTS = ("values.js", "charts.js", "marks.js", "page.js", "copy.js")


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as a page; ``command`` is what makes it again, if that is known."""
    library = f"/*\n{source('uplot/LICENSE')}*/\n{source('uplot/uPlot.iife.min.js')}"
    charts, marked = tuple(panels(report)), tuple(marks(report))
    asked = answers(report)
    events = [(event.kind.value, event.message) for event in report.history.notes]
    return page(
        "report.html",
        styles=("uplot/uPlot.min.css", "page.css"),
        scripts=(library, "\n".join(map(source, _SCRIPTS))),
        data=payload(report, charts, marked),
        report=report,
        found=report.diagnosis,
        command=command,
        charts=charts,
        thinned=[chart for chart in charts if chart.thinned],
        marks=[mark for mark in marked if mark.kind != "bad"],
        sketch=_sketch(report),
        drawing=draw(report),
        answers=asked,
        decisive=[one.question for one in asked if one.decisive],
        messages=report.history.messages,
        reading=[*(("limit", told) for told in changed_limits(report.limits)), *events],
        manifest=_manifest(report),
        well=report.diagnosis.severity is Severity.OK,
    )


def notebook(report: Report) -> str:
    """Return the report's compact form, which needs no script."""
    return filled(
        "notebook.html",
        report=report,
        found=report.diagnosis,
        sketch=_sketch(report),
        answers=[one for one in answers(report) if one.answer],
        style=Markup(source("notebook.css")),
    )


def _sketch(report: Report) -> Markup:
    """Return a picture of the whole loss, which needs no script."""
    plot = whole_loss(report)
    if plot is None:
        return Markup()
    event = () if plot.event is None else (plot.event,)
    marked = [Mark(kind="trouble", step=step, label=report.history.unit) for step in event]
    return Markup(svg_chart(plot, marked))


def _manifest(report: Report) -> list[tuple[str, Scalar, str]]:
    """Return the fields of the manifest that are known, each with its value and its origin."""
    known = report.manifest
    values = {name: getattr(known, name) for name in MANIFEST_FIELDS}
    return [(n, value, _origin(report, n)) for n, value in values.items() if value is not None]


def _origin(report: Report, name: str) -> str:
    known = report.manifest
    if name in known.overridden:
        return "set by a flag"
    if name in known.inferred:
        return f"inferred: {known.inferred[name]}"
    return "log" if name in known.logged else "manifest"
