"""The report as one HTML file, for a browser, and as a compact piece of HTML, for a notebook.

The page opens from disk, without a network: styles, scripts and data stand in it, and its policy
lets nothing else in. What a log brought along reaches it through the templates, which escape it,
and through the data, which the script writes as text alone.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from markupsafe import Markup

from stabdiag._version import __version__
from stabdiag.formats.html.drawing import draw
from stabdiag.formats.html.marks import marks
from stabdiag.formats.html.panels import panels
from stabdiag.formats.html.payload import payload
from stabdiag.formats.html.sections import answers, manifest, reading
from stabdiag.formats.html.sketch import sketch
from stabdiag.formats.html.text import source, written
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.report import Report

_SCRIPTS = ("values.js", "charts.js", "marks.js", "page.js", "copy.js")


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as a page.

    ``command`` is what makes this page again, if that is known.
    """
    style = source("uplot/uPlot.min.css") + source("page.css")
    library = f"/*\n{source('uplot/LICENSE')}*/\n{source('uplot/uPlot.iife.min.js')}"
    scripts = (library, "\n".join(map(source, _SCRIPTS)))
    charts, marked = tuple(panels(report)), tuple(marks(report))
    asked = answers(report)
    return written(
        "page.html",
        report=report,
        found=report.diagnosis,
        command=command,
        policy=Markup(policy(scripts, style)),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=Markup(payload(report, charts, marked)),
        charts=charts,
        thinned=[chart for chart in charts if chart.thinned],
        marks=[mark for mark in marked if mark.kind != "bad"],
        sketch=sketch(report),
        drawing=draw(report),
        answers=asked,
        decisive=[one.question for one in asked if one.decisive],
        messages=report.history.messages,
        reading=reading(report),
        manifest=manifest(report),
        well=report.diagnosis.severity is Severity.OK,
        version=__version__,
    )


def notebook(report: Report) -> str:
    """Return the report's compact form, which needs no script."""
    return written(
        "notebook.html",
        report=report,
        found=report.diagnosis,
        sketch=sketch(report),
        answers=[one for one in answers(report) if one.answer],
        style=Markup(source("notebook.css")),
    )


def policy(scripts: Sequence[str], style: str) -> str:
    """Return the content-security policy: what stands in the page, and nothing from elsewhere."""
    allowed = " ".join(_hash(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _hash(text: str) -> str:
    digest = b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
