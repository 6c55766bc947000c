"""Markdown for a terminal: the texts of ``explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.markdown import Heading, Markdown

from stabdiag.formats.terminal.page import MAX_WIDTH, console_for, escape, written

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import MarkdownElement


def markdown_page(
    content: str, *, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return Markdown as text for a terminal."""
    console = console_for(min(width, MAX_WIDTH), color=color, encoding=encoding)
    if console.options.ascii_only:
        content = "\n".join(escape(line, ascii=True) for line in content.splitlines())
    console.print(_Plain(content, code_theme="bw", hyperlinks=False))
    text = written(console)
    # The bullets are rich's own, and the only thing in it that is not ASCII.
    return text.replace("•", "*") if console.options.ascii_only else text


class _Heading(Heading):
    """A heading at the left, in bold: rich would centre it and draw a box around the first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.style = "bold underline" if self.tag == "h1" else "bold"
        yield self.text


class _Plain(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
    }
