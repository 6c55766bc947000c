"""The post-mortem of a run: the document that one writes after a spike or a NaN, filled in.

A report says what is wrong now. A post-mortem is for those who were not there: what happened when,
what it cost, how it is known, what was ruled out, what to do, and what is left for a person to say.
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

    ``detected`` tells from which step on the log was enough. Of a run in which nothing was found,
    the document says so and what was tested.

    Raises:
        StabdiagError: for an unknown format.
    """
    from stabdiag.formats.postmortem.document import write
    from stabdiag.formats.postmortem.webpage import webpage

    refuse_unknown(format, FORMATS)
    document = write(report, detected)
    return document.markdown if format == "markdown" else webpage(document)
