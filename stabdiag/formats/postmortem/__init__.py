"""The post-mortem of a run: the document that one writes after a spike or a NaN, filled in.

A report says what is wrong now. A post-mortem is for those who were not there: what happened when,
what it cost, how it is known, what was ruled out, what to do, and what is left for a person to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.report import Detected, Report


def markdown(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem of a report as Markdown.

    ``detected`` tells from which step on the log was enough.
    """
    from stabdiag.formats.postmortem.document import write

    return write(report, detected).markdown


def html(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem of a report as one HTML page."""
    from stabdiag.formats.postmortem.document import write
    from stabdiag.formats.postmortem.webpage import webpage

    return webpage(write(report, detected))
