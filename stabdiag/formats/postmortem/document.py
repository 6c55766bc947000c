"""The post-mortem of a run: a draft of the document that teams write after a spike or a NaN.

A report shows what is wrong now. A post-mortem is for people who were not there: the timeline, the
cost, the evidence, the excluded causes, the actions, and the questions that only a person can
answer. It is one Markdown template; the HTML page uses the same text. Values in a template are
escaped for Markdown unless they are already Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from stabdiag._version import __version__
from stabdiag.formats.canvas import svg_chart
from stabdiag.formats.html.shell import page, templates
from stabdiag.formats.json import Json, dumps, finding, keys
from stabdiag.formats.markdown_text import ZERO_WIDTH_SPACE, block, escape
from stabdiag.formats.measured import number
from stabdiag.formats.postmortem import Incident, build_incident, has_incident
from stabdiag.formats.postmortem.causes import find_causes, find_panels, suspects
from stabdiag.formats.postmortem.cost import duration, large
from stabdiag.formats.sarif import rule_text
from stabdiag.formats.subject import Mark, Plot, choose, decisive, notes, unchecked_by_reason
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw
from stabdiag.model.findings import Scalar, Severity
from stabdiag.model.history import Series
from stabdiag.model.report import Detection, Report
from stabdiag.model.text import uncapitalized, whole_sentence

BLANK_FIELD: Final = "To be filled in"
"""The start of every blank, to search for."""

# Only the templates write bold text: log text is escaped.
_BLANK: Final = f"<li>[ ] <strong>{BLANK_FIELD}:"

# The width of the plot in characters, the points before and after an event, the number of parts of
# a whole run, and the messages quoted from a log.
_TEXT_PLOT_WIDTH: Final = 78
_CONTEXT_RECORDS: Final = 4
_STRETCHES: Final = 10
_QUOTED_MESSAGES: Final = 10

# Reasons for skipped checks that have a row of their own.
_UNCHECKED_REASONS: Final = 8

# Tables of text with this many columns do not fit on a phone.
_WIDE_TABLE_COLUMNS: Final = 4

# The keys of a cause in JSON.
_SUSPECT: Final = "question suspect=asks verdict because"

# The columns of the table, if logged.
_TABLE_ROLES: Final = ("loss", "grad_norm", "lr", "loss_scale", "skipped", "batch_id")


def markdown(report: Report, *, detected: Detection | None = None) -> str:
    """Return the post-mortem as Markdown; a short page for a run without an incident."""
    if not has_incident(report):
        return _filled("quiet.md", title=_title(report), report=report)
    incident, plot = build_incident(report, detected), choose(report)
    return _filled(
        "incident.md",
        title=_title(report),
        report=report,
        incident=incident,
        causes=find_causes(incident),
        suspects=list(suspects(incident)),
        guilty=[panel.branch for panel in find_panels(incident) if panel.holds],
        meaning=rule_text(report.diagnosis, report.limits)[0],
        unchecked=list(_unchecked(report)),
        decisive=decisive(report),
        messages=report.history.messages[-_QUOTED_MESSAGES:],
        plot=Markup("" if plot is None else _drawn(plot)),
        logged=[] if plot is None else _logged(incident, plot),
    )


def _unchecked(report: Report) -> Iterator[tuple[str, str]]:
    """Yield symptoms that could not be checked for the same reason, and the reason.

    The reasons of most symptoms come first; the rest is a number. A name for each check that needs
    a recorded run would fill a page.
    """
    recorded = sum(check.needs_recorder for check in report.not_checked)
    ranked = unchecked_by_reason(report)[: -1 if recorded else None]
    for why, symptoms in ranked[:_UNCHECKED_REASONS]:
        yield ", ".join(symptoms), why
    hidden = sum(len(symptoms) for _, symptoms in ranked[_UNCHECKED_REASONS:])
    if hidden:
        yield f"{hidden} others", "for other reasons: diagnose the log with --verbose"
    if recorded:
        yield f"{recorded} others", "need a run that stabdiag.torch recorded"


def as_json(report: Report, *, detected: Detection | None = None) -> str:
    """Return the facts of the post-mortem as strict JSON; ``incident`` is None without one."""
    incident = build_incident(report, detected) if has_incident(report) else None
    content: Json = {
        "schema": 1,
        "stabdiag": __version__,
        "title": _title(report),
        "diagnosis": finding(report.diagnosis),
        "incident": None if incident is None else _incident(incident),
    }
    return dumps(content)


def _incident(incident: Incident) -> Json:
    return {
        **keys("onset first_bad not_finite last_good worst recovered checkpoint", incident),
        "timeline": [keys("step name event", moment) for moment in incident.timeline],
        "causes": [keys(_SUSPECT, answer) for answer in find_causes(incident)],
        "suspects": [keys(_SUSPECT, answer) for answer in suspects(incident)],
    }


def html(report: Report, *, detected: Detection | None = None) -> str:
    """Return the post-mortem as a page that needs no network and no scripts."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(markdown(report, detected=detected))
    _label_cells(tokens)
    body: str = reader.renderer.render(tokens, reader.options, {})
    body = body.replace(_BLANK, f'<li class="blank"><strong>{BLANK_FIELD}:')
    if has_incident(report) and (plot := choose(report)) is not None:
        marks = _marks(build_incident(report, detected))
        picture = f"<figure>\n{svg_chart(plot, marks)}</figure>"
        # The plot in characters is the only code block.
        before, _, block = body.partition("<pre><code")
        body = f"{before}{picture}{block.partition('</code></pre>')[2]}"
    return page(
        "postmortem.html",
        styles=("page.css", "postmortem.css"),
        title=_title(report),
        # HTML does not turn text into links, so the gaps are not needed.
        body=Markup(body.replace(ZERO_WIDTH_SPACE, "")),
    )


def _label_cells(tokens: Sequence[Token]) -> None:
    """Prepare wide tables for a phone.

    A phone has no room for four columns of sentences, or three with names in code. The style sheet
    shows each row of these tables as a block, where each cell has the name of its column. Numbers
    are smaller there. Other tables scroll if needed.
    """
    ends = [i for i, token in enumerate(tokens) if token.type == "table_close"]
    begins = [i for i, token in enumerate(tokens) if token.type == "table_open"]
    for begin, end in zip(begins, ends, strict=True):
        table = tokens[begin:end]
        # The token after the one that opens a cell has its text.
        heads = [table[i + 1].content for i, token in enumerate(table) if token.type == "th_open"]
        cells = [(token, table[i + 1]) for i, token in enumerate(table) if token.type == "td_open"]
        numeric = sum(_is_number(text.content.strip("*")) for _, text in cells)
        is_numeric = 2 * numeric > len(cells)
        # Code does not wrap.
        has_names = any(
            part.type == "code_inline" for _, text in cells for part in text.children or ()
        )
        if is_numeric or len(heads) < _WIDE_TABLE_COLUMNS - has_names:
            if is_numeric:
                tokens[begin].attrSet("class", "numbers")
            tokens[begin].attrSet("tabindex", "0")  # the keyboard can scroll it, too
            continue
        tokens[begin].attrSet("class", "stacked")
        for i, (cell, _) in enumerate(cells):
            cell.attrSet("data-label", heads[i % len(heads)])


def _is_number(text: str) -> bool:
    """Return True if a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _title(report: Report) -> str:
    diagnosis = report.diagnosis
    if has_incident(report):
        return f"Post-mortem: {diagnosis.headline}"
    if diagnosis.severity is Severity.WARNING:
        return f"Short post-mortem: {diagnosis.title}"
    return f"No post-mortem to write: {uncapitalized(diagnosis.title)}"


def _marks(incident: Incident) -> list[Mark]:
    marks = []
    if incident.checkpoint:
        marks.append(Mark(step=incident.checkpoint, label="checkpoint", kind="good"))
    if incident.report.diagnosis.step is not None:
        marks.append(Mark(step=incident.onset, label="onset", kind="trouble"))
    if incident.first_bad is not None and incident.first_bad != incident.onset:
        marks.append(Mark(step=incident.first_bad, label="first bad step", kind="trouble"))
    if incident.detected is not None and incident.detected.step != incident.onset:
        marks.append(Mark(step=incident.detected.step, label="detectable", kind="alarm"))
    return marks


def _drawn(plot: Plot) -> str:
    """Return the plot in ASCII, which looks the same in every font."""
    lines = draw(plot, Page(width=_TEXT_PLOT_WIDTH, ascii=True))
    return block("\n".join(line.plain for line in lines), "text")


def _logged(incident: Incident, plot: Plot) -> list[list[object]]:
    """Return the values around the first bad step, else means of the run, with a header row."""
    history = incident.report.history
    if incident.first_bad is None:
        return _means_by_stretch(plot, history.unit)
    at = int(np.searchsorted(plot.series.steps, incident.first_bad))
    steps = plot.series.steps[max(at - _CONTEXT_RECORDS, 0) : at + _CONTEXT_RECORDS + 1].tolist()
    logged = (history.get(role) for role in _TABLE_ROLES)
    series = [s for s in logged if s is not None and len(s.between(steps[0], steps[-1]))]
    rows: list[list[object]] = [[history.unit.capitalize(), *(column.role for column in series)]]
    for step in steps:
        points = (column.between(step, step).values for column in series)
        rows.append([step, *(float(point[0]) if len(point) else "" for point in points)])
    return rows


def _means_by_stretch(plot: Plot, unit: str) -> list[list[object]]:
    """Return the means of the plotted series for each part of the run, with a header row."""
    edges = np.linspace(plot.first, plot.last + 1, _STRETCHES + 1).round().astype(np.int64)
    series = (plot.series, *plot.companions)
    rows: list[list[object]] = [
        [f"{unit.capitalize()}s", *(f"mean {curve.role}" for curve in series)]
    ]
    for first, after in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if first < after:
            means = (_mean(curve.between(first, after - 1)) for curve in series)
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
