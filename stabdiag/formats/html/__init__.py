"""The report as one HTML file for a browser, and as compact HTML for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from stabdiag.formats import compared as view
from stabdiag.formats.canvas import svg_chart
from stabdiag.formats.html.charts import overlays, panels
from stabdiag.formats.html.marks import marks
from stabdiag.formats.html.payload import other_axes, payload
from stabdiag.formats.html.shell import filled, page, source
from stabdiag.formats.measured import changed_limits
from stabdiag.formats.subject import (
    Mark,
    baseline_note,
    choose,
    decisive,
    unchecked_by_reason,
    unchecked_count,
    whole_loss,
)
from stabdiag.model.comparison import Comparison
from stabdiag.model.edges import NAMES, QUESTIONS
from stabdiag.model.manifest import Manifest
from stabdiag.model.report import Report
from stabdiag.model.text import listed

_REPORT_SCRIPTS = ("values.js", "axes.js", "charts.js", "marks.js", "page.js", "copy.js")
# The smoothing of a comparison of many runs, whose curves otherwise hide each other.
_SMOOTHING, _MANY_RUNS = 0.6, 3

_STYLE_SHEETS = ("uplot/uPlot.min.css", "page.css")


def _scripts() -> tuple[str, str]:
    library = f"/*\n{source('uplot/LICENSE')}*/\n{source('uplot/uPlot.iife.min.js')}"
    return library, "\n".join(map(source, _REPORT_SCRIPTS))


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as a page; ``command`` reproduces it, if known."""
    limits = {info.name: info for info in report.limits.items()}
    answered = {answer.question for answer in report.tree.answers}
    charts, marked, focus = tuple(panels(report)), tuple(marks(report)), choose(report)
    events = [(event.kind.value, event.message) for event in report.history.notes]
    return page(
        "report.html",
        styles=_STYLE_SHEETS,
        scripts=_scripts(),
        data=payload(
            charts,
            marked,
            severity=report.diagnosis.severity.value,
            focus=None if focus is None else (focus.first, focus.last),
            sigma=report.limits.spike.sigma,
            cadence=report.manifest.checkpoint_every,
            axes=tuple(other_axes(report.history)),
        ),
        report=report,
        found=report.diagnosis,
        command=command,
        charts=charts,
        thinned=[chart for chart in charts if chart.thinned],
        marks=[mark for mark in marked if mark.kind != "bad"],
        sketch=_sketch(report),
        names=NAMES,
        decisive=decisive(report),
        question_limits={
            question.id: [limits[name] for name in question.limits] for question in QUESTIONS
        },
        unasked=[question for question in QUESTIONS if question.id not in answered],
        messages=report.history.messages,
        unchecked=unchecked_by_reason(report),
        unchecked_count=unchecked_count(report),
        reading=[
            *baseline_note(report),
            *(("limit", clause) for clause in changed_limits(report.limits)),
            *events,
        ],
        manifest_source=_manifest_source(report.manifest),
        literal=report.literal,
        otherwise=report.otherwise,
    )


def _manifest_source(manifest: Manifest) -> str:
    """Return the path of the manifest file, or where its values are from without a file."""
    if manifest.path:
        return manifest.path
    names = {name for name in manifest.known if name not in manifest.overridden}
    sources = {
        "the log": names & set(manifest.logged),
        "inference from the run": names & set(manifest.inferred),
        "flags": set(manifest.known) - names,
    }
    used = [source for source, fields in sources.items() if fields]
    return f"No manifest file; values from {listed(used)}." if used else "No manifest found."


def compared(comparison: Comparison, *, command: str | None = None) -> str:
    """Return a comparison as a page, with the curves of all runs in the same charts."""
    charts, diagnosis = tuple(overlays(comparison)), comparison.diagnosis
    window = view.overlay(comparison)
    event = (
        [Mark(kind="event", step=diagnosis.step, label=diagnosis.title)]
        if diagnosis.step is not None
        else []
    )
    differences = [
        (view.setting(difference), difference.relevance.value)
        for difference in comparison.differences
    ]
    names = view.run_names(comparison)
    tables = (
        ("Where they diverge", view.DIVERGENCES, view.divergence_rows(comparison)),
        ("Where they end", view.LEVEL_HEADINGS, view.levels(comparison)),
        ("Settings that differ", ("setting", "relevance"), differences),
        (f"Compared as {comparison.kind.words}", view.RUNS, view.runs(comparison)),
    )
    return page(
        "comparison.html",
        styles=_STYLE_SHEETS,
        scripts=_scripts(),
        data=payload(
            charts,
            event,
            severity=diagnosis.severity.value,
            focus=None if window is None else (window.first, window.last),
            is_comparison=True,
            smoothing=_SMOOTHING if len(comparison.runs) >= _MANY_RUNS else 0.0,
        ),
        report=comparison,
        found=diagnosis,
        command=command,
        charts=charts,
        thinned=[chart for chart in charts if chart.thinned],
        facts=view.facts(comparison),
        divergences=view.first_differences(comparison),
        first_head=view.FIRST_HEADINGS,
        reference=names[comparison.reference],
        sketch=Markup(),
        literal=False,
        otherwise="",
        tables=[(title, head, _with_names(head, rows, names)) for title, head, rows in tables],
    )


def _with_names(
    head: Sequence[str], rows: Sequence[tuple[str, ...]], names: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Return the rows of a table with the names of the runs instead of their labels."""
    return [
        tuple(
            names.get(cell, cell) if column == "run" else cell
            for column, cell in zip(head, row, strict=True)
        )
        for row in rows
    ]


def notebook(report: Report) -> str:
    """Return the compact form of the report, which needs no scripts."""
    return filled(
        "notebook.html",
        report=report,
        found=report.diagnosis,
        sketch=_sketch(report),
        names=NAMES,
        decisive=decisive(report),
        style=Markup(source("notebook.css")),
    )


def framed(document: str, *, title: str) -> str:
    """Return a page in a frame, so that its styles and scripts do not affect a notebook."""
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(document)}"'
        ' sandbox="allow-scripts allow-popups allow-downloads" allow="clipboard-write"'
        ' style="width: 100%; height: 42rem; border: 0"></iframe>'
    )


def _sketch(report: Report) -> Markup:
    """Return a picture of the whole loss, which needs no script."""
    plot = whole_loss(report)
    if plot is None:
        return Markup()
    event = () if plot.event is None else (plot.event,)
    marked = [Mark(kind="trouble", step=step, label=report.history.unit) for step in event]
    return Markup(svg_chart(plot, marked))
