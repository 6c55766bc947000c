"""The post-mortem as one HTML page: the Markdown rendered, the plot drawn, nothing fetched."""

from __future__ import annotations

import hashlib
import html
import re
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from stabdiag.formats.markdown_text import GAP
from stabdiag.formats.postmortem.blanks import MARK
from stabdiag.formats.postmortem.chart import Mark, chart
from stabdiag.formats.visible import visible

if TYPE_CHECKING:
    from stabdiag.formats.postmortem.document import Document
    from stabdiag.formats.postmortem.incident import Incident

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""

# The plot in characters is the only block of code there is.
_BLOCK = re.compile("<pre><code.*?</code></pre>", re.DOTALL)

# Only this program writes bold text: what a log brings along is escaped.
_BLANK = f"<li>[ ] <strong>{MARK}:"


def webpage(document: Document) -> str:
    """Return the document as a page that opens without a network and runs nothing."""
    style = files("stabdiag.formats.postmortem").joinpath("postmortem.css").read_text("utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _PAGE.format(
        hash=digest,
        title=html.escape(visible(document.title)),
        style=style,
        body=_body(document),
    )


def _body(document: Document) -> str:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    body: str = markdown.render(document.markdown)
    body = body.replace(_BLANK, f'<li class="blank"><strong>{MARK}:')
    if document.plot is not None and document.incident is not None:
        picture = f"<figure>\n{chart(document.plot, _marks(document.incident))}</figure>"
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
