"""A page of plain lines for the terminal: escaping, wrapping, tables and the console.

Every line is a rich ``Text``, and all layout is in this module. No line is wider than the page or
ends in blanks, and log text is never parsed as rich markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import StringIO
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from stabdiag.formats.measured import code, visible
from stabdiag.model.frozen import frozen

MAX_WIDTH = 100
"""Wider lines are hard to read, even if the terminal is wider."""

COLUMN_GAP = 2
"""Blanks between the columns of a table."""

_LEAST_ROOM = 12

# On a narrower page, table cells are too narrow for a word.
_MIN_TABLE_WIDTH = 60

_MAX_CELL_WIDTH = 34
_MARKDOWN_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ASCII = {
    "σ": "sigma", "μ": "mu", "µ": "mu", "ε": "eps", "§": "sec. ", "×": "x", "≥": ">=", "≤": "<=",
    "≈": "~", "±": "+/-", "∞": "inf", "→": "->", "–": "-", "—": "-", "−": "-", "…": "...",
    "·": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "│": "|", "┃": "|", "┤": "+", "┴": "+",
    "└": "+", "─": "-", "▲": "^", "▸": ">", "░": ":", "┊": "|", "┈": ".", "•": "*", "²": "^2",
}  # fmt: skip


def escape(text: str, *, ascii: bool = False) -> str:
    """Make log text inert and visible.

    Unprintable characters are written as Python escapes. Markup is unchanged because nothing here
    parses it.
    """
    shown = visible(text)
    if ascii:
        return "".join(c if " " <= c <= "~" else _ASCII.get(c) or code(c) for c in shown)
    return shown


@frozen
class Page:
    """The width of a page, its characters, and how much detail it shows."""

    width: int = 80
    ascii: bool = False
    verbose: bool = False

    def text(self, content: str, style: str = "") -> Text:
        """Return escaped text in a style."""
        return Text(escape(content, ascii=self.ascii), style=style)

    def line(self, *parts: Text | str) -> Text:
        """Join parts to a line without trailing blanks."""
        line = Text("").join(p if isinstance(p, Text) else self.text(p) for p in parts)
        line.rstrip()
        return line

    def cell(self, content: str, width: int) -> str:
        """Return escaped text in exactly this width, cut with an ellipsis or padded."""
        return set_cell_size(self.clip(content, width), width)

    def clip(self, content: str, width: int) -> str:
        """Return escaped text, cut with an ellipsis if it is wider than this."""
        shown = escape(content, ascii=self.ascii)
        if cell_len(shown) <= width:
            return shown
        dots = escape("…", ascii=self.ascii)[:width]
        return set_cell_size(shown, width - len(dots)) + dots

    def heading(self, title: str, detail: str = "") -> Iterator[Text]:
        """Yield a blank line and a heading, followed by a dim detail."""
        yield Text("")
        yield from self.wrap(self.line(self.text(title, "bold"), self.text(f"  {detail}", "dim")))

    def wrap(
        self, body: Text | str, first: Text | str = "", hanging: str | None = None
    ) -> list[Text]:
        """Return the lines of a paragraph with a prefix.

        The following lines are indented by the prefix, or have ``hanging`` as their prefix.
        """
        head = first if isinstance(first, Text) else self.text(first)
        indent = self.text(" " * head.cell_len if hanging is None else hanging)
        indent.style = head.style
        content = body if isinstance(body, Text) else self.text(body)
        room = max(self.width - max(head.cell_len, indent.cell_len), _LEAST_ROOM)
        lines = _break_lines(content, room)
        return [self.line(indent if i else head, line) for i, line in enumerate(lines)]


@frozen
class Printable:
    """A page that rich can print in the width and the characters of its console."""

    lines: Callable[[Page], Iterable[Text]]
    verbose: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, with rich's own wrapping turned off."""
        width = min(options.max_width, MAX_WIDTH)
        page = Page(width=width, ascii=options.ascii_only, verbose=self.verbose)
        for line in self.lines(page):
            line.no_wrap, line.overflow, line.end = True, "ignore", "\n"
            yield line


def _break_lines(content: Text, room: int) -> list[Text]:
    """Break text at blanks; words that do not fit are cut."""
    cuts: list[int] = []
    begin = position = 0
    plain = content.plain
    for word in plain.split(" "):
        end = position + len(word)
        if begin < position and cell_len(plain[begin:end]) > room:
            cuts.append(position)
            begin = position
        while cell_len(plain[begin:end]) > room:
            begin = _fitting_end(plain, begin, room)
            cuts.append(begin)
        position = end + 1
    return list(content.divide(cuts)) if cuts else [content]


def _fitting_end(plain: str, begin: int, room: int) -> int:
    """Return the end of the longest piece that fits, at least one character."""
    end = begin + 1
    while end < len(plain) and cell_len(plain[begin : end + 1]) <= room:
        end += 1
    # No line may start with a command of a CI server, such as ``::error::``.
    while end > begin + 1 and plain.startswith("::", end):
        end -= 1
    return end


def columns(
    cells: tuple[str, ...], widths: tuple[int, ...], page: Page, style: str = ""
) -> Iterator[Text]:
    """Yield one row of a table; its height is the height of the highest cell.

    On a narrow page the other cells are below the first cell.
    """
    if page.width < _MIN_TABLE_WIDTH:
        first, *others = cells
        yield from page.wrap(page.text(first, style or "bold"))
        yield from page.wrap(page.text("; ".join(others), style), "  ")
        return
    wrapped = [
        Page(width=width, ascii=page.ascii).wrap(page.text(cell, style))
        for cell, width in zip(cells, widths, strict=True)
    ]
    for i in range(max(map(len, wrapped))):
        parts = []
        for lines, width in zip(wrapped, widths, strict=True):
            part = lines[i] if i < len(lines) else Text("")
            part.pad_right(width + COLUMN_GAP - part.cell_len)
            parts.append(part)
        yield page.line(*parts)


def fitted(
    head: Sequence[str], rows: Sequence[Sequence[str]], page: Page, styles: Sequence[str] = ()
) -> Iterator[Text]:
    """Yield rows in columns as wide as their content; the widest column is cut to fit."""
    widths = [
        min(max(page.text(row[i]).cell_len for row in [head, *rows]), _MAX_CELL_WIDTH)
        for i in range(len(head))
    ]
    spare = page.width - 2 - sum(widths) - COLUMN_GAP * (len(widths) - 1)
    if spare < 0:
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] + spare, 4)
    for row, style in zip([head, *rows], ["dim", *(styles or [""] * len(rows))], strict=True):
        cells = [
            page.cell(_path_end(cell, width), width)
            for cell, width in zip(row, widths, strict=True)
        ]
        line = (" " * COLUMN_GAP).join(cells).rstrip()
        yield page.line("  ", page.text(page.clip(line, page.width - 2), style))


def _path_end(cell: str, width: int) -> str:
    """Return a cell; a path that is too long keeps its end, where paths differ."""
    return cell if len(cell) <= width or "/" not in cell else f"…{cell[-(width - 1) :]}"


class _Buffer(StringIO):
    """Text in memory that claims the encoding of the stream it is meant for."""

    encoding = "utf-8"


def make_console(
    width: int, *, color: bool = False, encoding: str = "utf-8", record: bool = False
) -> Console:
    """Return a console that ignores the environment and the terminal."""
    file = _Buffer()
    file.encoding = encoding
    return Console(
        file=file,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        force_jupyter=False,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        record=record,
        _environ={},
    )


def written(console: Console) -> str:
    """Return the output of a console; without color, no line ends in blanks."""
    file = console.file
    text = file.getvalue() if isinstance(file, StringIO) else ""
    if console.no_color:
        text = "".join(f"{line.rstrip()}\n" for line in text.split("\n")[:-1])
    return text


def printed(
    lines: Callable[[Any, Page], Iterable[Text]],
    subject: object,
    *,
    width: int = 80,
    color: bool = False,
    encoding: str = "utf-8",
    verbose: bool = False,
) -> str:
    """Return the lines of a page as text, optionally with terminal colors.

    ``encoding`` is the encoding of the output stream: if it is not Unicode, the text is ASCII.
    """
    console = make_console(width, color=color, encoding=encoding)
    console.print(Printable(lines=partial(lines, subject), verbose=verbose))
    return written(console)


def markdown_page(
    content: str, *, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return trusted Markdown as text for a terminal.

    Headings become bold paragraphs: rich would center them and draw a box around the first.
    """
    from rich.markdown import Markdown

    console = make_console(min(width, MAX_WIDTH), color=color, encoding=encoding)
    content = _MARKDOWN_HEADING.sub(r"**\1**", content)
    if console.options.ascii_only:
        content = "\n".join(escape(line, ascii=True) for line in content.splitlines())
    console.print(Markdown(content, code_theme="bw", hyperlinks=False))
    text = written(console)
    # The bullets come from rich, and are the only characters that are not ASCII.
    return text.replace("•", "*") if console.options.ascii_only else text
