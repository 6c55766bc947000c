"""The post-mortem of a run: the document that one writes after a spike or a NaN, filled in.

A report says what is wrong now; a post-mortem is for those who were not there: what happened when,
what it cost, how it is known, what was ruled out, what to do, and what is left for a person to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.errors import refuse_unknown

if TYPE_CHECKING:
    from stabdiag.report import Report

FORMATS = ("markdown", "html")


def postmortem(report: Report, format: str = "markdown") -> str:
    """Return the post-mortem of a report as Markdown or as one HTML page.

    Of a run in which nothing was found, it says so and what was tested.

    Raises:
        StabdiagError: for an unknown format.
    """
    from stabdiag.postmortem.document import write

    refuse_unknown(format, FORMATS)
    document = write(report)
    if format == "markdown":
        return document.markdown
    from stabdiag.postmortem.page import page

    return page(document)
