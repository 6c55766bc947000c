"""The post-mortem of a run: the document one writes after a spike or a NaN, filled in.

A report says what is wrong now. A post-mortem is for those who were not there: what happened when,
what it cost, how it is known, what was ruled out, what to do, and what is left for a person to say.
It is one Markdown template; the HTML page is made from the same text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.errors import refuse_unknown

if TYPE_CHECKING:
    from stabdiag.model.report import Detected, Report

FORMATS = ("markdown", "html")


def render_postmortem(
    report: Report, format: str = "markdown", *, detected: Detected | None = None
) -> str:
    """Return the post-mortem of a report as Markdown or as one HTML page.

    ``detected`` says from which step on the log was enough. For a run in which nothing was found,
    the document says so, and what was tested.

    Raises:
        StabdiagError: for an unknown format.
    """
    refuse_unknown(format, FORMATS)
    return (markdown if format == "markdown" else html)(report, detected=detected)


def markdown(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem as Markdown."""
    from stabdiag.formats.postmortem.document import write

    return write(report, detected).markdown


def html(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem as one HTML page that fetches nothing and runs nothing."""
    from stabdiag.formats.postmortem.document import webpage, write

    return webpage(write(report, detected))
