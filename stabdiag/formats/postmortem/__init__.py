"""The post-mortem of a run: the document one writes after a spike or a NaN, filled in.

A report says what is wrong now. A post-mortem is for those who were not there: what happened when,
what it cost, how it is known, what was ruled out, what to do, and what is left for a person to say.
It is one Markdown template; the HTML page is made from the same text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.report import Detected, Report


def markdown(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem as Markdown."""
    from stabdiag.formats.postmortem.document import write

    return write(report, detected).markdown


def html(report: Report, *, detected: Detected | None = None) -> str:
    """Return the post-mortem as one HTML page that fetches nothing and runs nothing."""
    from stabdiag.formats.postmortem.document import webpage, write

    return webpage(write(report, detected))
