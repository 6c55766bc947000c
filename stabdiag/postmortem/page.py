"""The post-mortem as one HTML page: the Markdown rendered, the plot drawn, nothing fetched."""

from __future__ import annotations

import hashlib
import html
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from stabdiag.formats.markdown_text import GAP
from stabdiag.formats.visible import visible
from stabdiag.postmortem.chart import Mark, chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

    from stabdiag.postmortem.document import Document
    from stabdiag.postmortem.study import Study

_BLANK = "[ ] "

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


def page(document: Document) -> str:
    """Return the document as a page that opens without a network and runs nothing."""
    style = files("stabdiag.postmortem").joinpath("page.css").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    told = document.study
    drawn = "" if told is None or told.plot is None else chart(told.plot, _marks(told))
    return _PAGE.format(
        hash=digest,
        title=html.escape(visible(document.title)),
        style=style,
        # What parts signs that a site would make links of has no use where nothing does.
        body=_renderer().render(document.markdown, {"chart": drawn}).replace(GAP, ""),
    )


def _marks(told: Study) -> Sequence[Mark]:
    """Return the steps that the chart marks."""
    incident, found = told.incident, told.report.diagnosis
    marks = []
    if incident.checkpoint.step:
        marks.append(Mark(step=incident.checkpoint.step, label="checkpoint", kind="good"))
    if found.step is not None:
        marks.append(Mark(step=incident.onset, label="onset", kind="trouble"))
    if incident.first_bad not in (None, incident.onset):
        marks.append(Mark(step=incident.first_bad, label="first bad step", kind="trouble"))
    if told.alarm is not None and told.alarm.step != incident.onset:
        marks.append(Mark(step=told.alarm.step, label="detectable", kind="alarm"))
    return marks


def _renderer() -> MarkdownIt:
    """Return a renderer that passes on no HTML: tables are all that it adds to CommonMark."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.core.ruler.push("blanks", _mark_blanks)
    markdown.add_render_rule("fence", _figure)
    markdown.add_render_rule("table_open", _open_table)
    markdown.add_render_rule("table_close", _close_table)
    return markdown


def _mark_blanks(state: Any) -> None:
    """Give the items that begin with an empty box a class, and the box its sign."""
    item: Token | None = None
    for token in state.tokens:
        if token.type == "list_item_open":
            item = token
        elif token.type == "inline" and token.content.startswith(_BLANK) and item is not None:
            item.attrSet("class", "blank")
            token.children[0].content = token.children[0].content.removeprefix(_BLANK)


def _figure(
    self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType
) -> str:
    """Put the picture where the plot in characters stands."""
    return f"<figure>\n{env['chart']}</figure>\n"


def _open_table(
    self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType
) -> str:
    return '<div class="table"><table>\n'


def _close_table(
    self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType
) -> str:
    return "</table></div>\n"
