"""What is written, and where: the terminal, or a file."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# Logs from so many bytes on take longer than people wait without a sign of life.
_LARGE = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """What the terminal, or the file that stands for it, can show."""

    width: int
    color: bool
    encoding: str


def terminal(output: Path | None, color: bool | None) -> Terminal:
    """Return what the terminal, or the file that stands for it, can show."""
    tty = output is None and sys.stdout.isatty()
    wanted = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = 80
    if tty:
        import shutil

        width = max(shutil.get_terminal_size().columns, 40)
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return Terminal(width=width, color=wanted if color is None else color, encoding=encoding)


def write(text: str, output: Path | None) -> None:
    """Write to the terminal, or to a file as a whole or not at all."""
    text = text if text.endswith("\n") else f"{text}\n"
    if output is None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read us has enough; keep the interpreter from complaining at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(output)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StabdiagError(f"{output}: cannot be written ({error.strerror})") from None


def progress(log: str) -> AbstractContextManager[object]:
    """Show on a terminal that a large log is being read; nothing otherwise."""
    path = Path(log)
    size = path.stat().st_size if log != "-" and path.is_file() else 0
    if size < _LARGE or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.text import Text

    words = Text(f"Reading {ascii(path.name)[1:-1]}, {size / 1e6:.0f} MB …")
    return Console(stderr=True).status(words)
