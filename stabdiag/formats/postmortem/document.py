"""The post-mortem of a run: the document one writes after a spike or a NaN, filled in.

A report says what is wrong now. A post-mortem is for those who were not there: what happened when,
what it cost, how it is known, what was ruled out, what to do, and what is left for a person to say.
It is one Markdown template; the HTML page is made from the same text. Whatever a template writes is
escaped for Markdown, unless it is Markdown already.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup

from stabdiag._version import __version__
from stabdiag.formats.canvas import svg_chart
from stabdiag.formats.html.shell import page, templates
from stabdiag.formats.markdown_text import GAP, block, escape
from stabdiag.formats.measured import number
from stabdiag.formats.postmortem import Incident, has_incident, incident_of
from stabdiag.formats.postmortem.causes import cause_of, panels_of, suspects
from stabdiag.formats.postmortem.cost import duration, large
from stabdiag.formats.sarif import rule_text
from stabdiag.formats.subject import Mark, Plot, choose, decisive, notes
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw
from stabdiag.model.findings import Scalar, Severity
from stabdiag.model.history import Series
from stabdiag.model.report import Detected, Report
from stabdiag.model.text import uncapitalised, whole_sentence

MARK: Final = "To be filled in"
"""What every blank begins with, and is searched by."""

# Only the templates write bold text: what a log brings along is escaped.
_BLANK: Final = f"<li>[ ] <strong>{MARK}:"

# The width of the plot in characters, the points shown before and after an event, the parts in
# which a whole run is shown, and the messages quoted from a log.
_WIDTH: Final = 78
_AROUND: Final = 4
_STRETCHES: Final = 10
_MESSAGES: Final = 10

# What is worth a column beside the loss, as far as it was logged.
_ROLES: Final = ("loss", "grad_norm", "lr", "loss_scale", "skipped", "batch_id")


def markdown(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem as Markdown; of a run without an incident a short page."""
    if not has_incident(report):
        return _filled("quiet.md", title=_title(report), report=report)
    one, plot = incident_of(report, detected), choose(report)
    return _filled(
        "incident.md",
        title=_title(report),
        report=report,
        one=one,
        cause=cause_of(one),
        suspects=list(suspects(one)),
        guilty=[panel.branch for panel in panels_of(one) if panel.holds],
        meaning=rule_text(report.diagnosis, report.limits)[0],
        decisive=decisive(report),
        messages=report.history.messages[-_MESSAGES:],
        plot=Markup("" if plot is None else _drawn(plot)),
        logged=[] if plot is None else _logged(one, plot),
    )


def html(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem as a page that opens without a network and runs nothing."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    body: str = reader.render(markdown(report, detected=detected))
    body = body.replace(_BLANK, f'<li class="blank"><strong>{MARK}:')
    if has_incident(report) and (plot := choose(report)) is not None:
        marks = _marks(incident_of(report, detected))
        picture = f"<figure>\n{svg_chart(plot, marks)}</figure>"
        # The plot in characters is the only block of code there is.
        before, _, block = body.partition("<pre><code")
        body = f"{before}{picture}{block.partition('</code></pre>')[2]}"
    return page(
        "postmortem.html",
        styles=("page.css", "postmortem.css"),
        title=_title(report),
        # Where nothing makes links, nothing has to be kept from becoming one.
        body=Markup(body.replace(GAP, "")),
    )


def _title(report: Report) -> str:
    found = report.diagnosis
    if has_incident(report):
        return f"Post-mortem: {found.headline}"
    if found.severity is Severity.WARNING:
        return f"Short post-mortem: {found.title}"
    return f"No post-mortem to write: {uncapitalised(found.title)}"


def _marks(one: Incident) -> list[Mark]:
    marks = []
    if one.checkpoint:
        marks.append(Mark(step=one.checkpoint, label="checkpoint", kind="good"))
    if one.report.diagnosis.step is not None:
        marks.append(Mark(step=one.onset, label="onset", kind="trouble"))
    if one.first_bad is not None and one.first_bad != one.onset:
        marks.append(Mark(step=one.first_bad, label="first bad step", kind="trouble"))
    if one.detected is not None and one.detected.step != one.onset:
        marks.append(Mark(step=one.detected.step, label="detectable", kind="alarm"))
    return marks


def _drawn(plot: Plot) -> str:
    """Return the plot in characters that look the same in every font."""
    lines = draw(plot, Page(width=_WIDTH, ascii=True))
    return block("\n".join(line.plain for line in lines), "text")


def _logged(one: Incident, plot: Plot) -> list[list[object]]:
    """Return what was logged around the first bad step, else in all of the run, below a head."""
    history = one.report.history
    if one.first_bad is None:
        return _course(plot, history.unit)
    at = int(np.searchsorted(plot.series.steps, one.first_bad))
    steps = plot.series.steps[max(at - _AROUND, 0) : at + _AROUND + 1].tolist()
    logged = (history.get(role) for role in _ROLES)
    series = [s for s in logged if s is not None and len(s.between(steps[0], steps[-1]))]
    rows: list[list[object]] = [[history.unit.capitalize(), *(one.role for one in series)]]
    for step in steps:
        points = (one.between(step, step).values for one in series)
        rows.append([step, *(float(point[0]) if len(point) else "" for point in points)])
    return rows


def _course(plot: Plot, unit: str) -> list[list[object]]:
    """Return the means of what a plot shows for each part of its steps, below a head of names."""
    edges = np.linspace(plot.first, plot.last + 1, _STRETCHES + 1).round().astype(np.int64)
    series = (plot.series, *plot.companions)
    rows: list[list[object]] = [[f"{unit.capitalize()}s", *(f"mean {one.role}" for one in series)]]
    for first, after in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if first < after:
            means = (_mean(one.between(first, after - 1)) for one in series)
            rows.append([f"{first} to {after - 1}", *means])
    return rows


def _mean(series: Series) -> Scalar:
    finite = series.finite()
    if len(finite):
        return float(finite.values.mean())
    return "not finite" if len(series) else ""


def _filled(template: str, **values: object) -> str:
    return _pages().get_template(template).render(values)


def _limits(limits: dict[str, Scalar]) -> Markup:
    return Markup(", ".join(f"`{name}` {number(value)}" for name, value in limits.items()))


@cache
def _pages() -> Environment:
    pages = templates("postmortem", escape, autoescape=False)
    pages.globals.update(version=__version__, duration=duration, large=large, limits=_limits)
    pages.globals.update(notes=notes, whole_sentence=whole_sentence)
    return pages
