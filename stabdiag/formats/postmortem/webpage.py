"""The post-mortem as one HTML page: the Markdown rendered, the plot drawn, nothing fetched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

from stabdiag.formats.canvas import svg_chart
from stabdiag.formats.html.shell import page
from stabdiag.formats.markdown_text import GAP
from stabdiag.formats.postmortem.blanks import MARK
from stabdiag.formats.subject import Mark

if TYPE_CHECKING:
    from stabdiag.formats.postmortem.document import Document
    from stabdiag.formats.postmortem.incident import Incident

# The plot in characters is the only block of code there is.
_BLOCK = re.compile("<pre><code.*?</code></pre>", re.DOTALL)

# Only this program writes bold text: what a log brings along is escaped.
_BLANK = f"<li>[ ] <strong>{MARK}:"


def webpage(document: Document) -> str:
    """Return the document as a page that opens without a network and runs nothing."""
    return page(
        "postmortem.html",
        styles=("page.css", "postmortem.css"),
        title=document.title,
        body=Markup(_body(document)),
    )


def _body(document: Document) -> str:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    body: str = markdown.render(document.markdown)
    body = body.replace(_BLANK, f'<li class="blank"><strong>{MARK}:')
    if document.plot is not None and document.incident is not None:
        picture = f"<figure>\n{svg_chart(document.plot, _marks(document.incident))}</figure>"
        body = _BLOCK.sub(lambda _: picture, body)
    # What parts signs that a site would make links of has no use where nothing does.
    return body.replace(GAP, "")


def _marks(one: Incident) -> list[Mark]:
    """Return the steps that the chart marks."""
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
