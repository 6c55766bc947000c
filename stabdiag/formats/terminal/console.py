"""A rich console that writes to memory and depends on its arguments alone."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console

from stabdiag.formats.terminal.page import page_for, unbroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.text import Text

    from stabdiag.formats.terminal.page import Page


class _Buffer(StringIO):
    """Text in memory that claims the encoding of the stream it is meant for."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def console_for(
    width: int, *, color: bool = False, encoding: str = "utf-8", record: bool = False
) -> Console:
    """Return a console that asks neither the environment nor the terminal."""
    return Console(
        file=_Buffer(encoding),
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
    """Return what was printed to such a console; without colour, no line ends in blanks."""
    file = console.file
    text = file.getvalue() if isinstance(file, StringIO) else ""
    if console.no_color:
        text = "".join(f"{line.rstrip()}\n" for line in text.split("\n")[:-1])
    return text


def printed(
    lines: Callable[[Page], Iterable[Text]], *, width: int, color: bool, encoding: str
) -> str:
    """Return the lines of a page as text, laid out for this width and these characters."""
    console = console_for(width, color=color, encoding=encoding)
    for line in unbroken(lines(page_for(console.options, width))):
        console.print(line)
    return written(console)
