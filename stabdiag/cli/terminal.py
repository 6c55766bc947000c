"""Where output goes: the terminal or a file, and notices on standard error."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypedDict

from stabdiag.errors import StabdiagError
from stabdiag.files import atomic_write
from stabdiag.model.text import shown

if TYPE_CHECKING:
    from rich.live import Live
    from typing_extensions import Buffer

    from stabdiag.model.history import Source
    from stabdiag.model.report import Report


class Exit(IntEnum):
    """The exit codes that a command returns; 70, an internal error, is returned by none."""

    OK = 0
    FOUND = 1
    REFUSED = 2
    INTERRUPTED = 130
    TERMINATED = 143


# Logs from so many bytes on take longer than people wait without a sign of life.
_LARGE = 100_000_000


class Terminal(TypedDict):
    """What the terminal, or the file in its place, can show; every format takes these."""

    width: int
    color: bool
    encoding: str


class _Output(FileIO):
    """Standard output, whose errors say so. A reader who has enough is none of them."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


def open_output() -> None:
    """Open standard output so that its errors name it, and that a file gets what ``-o`` writes."""
    now = sys.stdout
    if not isinstance(getattr(now.buffer, "raw", now.buffer), FileIO):  # a console of Windows
        import colorama

        colorama.just_fix_windows_console()
        return
    raw = BufferedWriter(_Output(os.dup(now.fileno()), "wb"))
    # Windows has an old code page for files and pipes, where JSON and HTML are read as UTF-8.
    foreign = os.name == "nt" and "PYTHONIOENCODING" not in os.environ
    sys.stdout = TextIOWrapper(
        raw,
        "utf-8" if foreign else now.encoding,
        now.errors,
        newline="\n",
        line_buffering=bool(now.line_buffering),
    )


def terminal(output: Path | None, color: bool | None) -> Terminal:
    """Return what the terminal, or the file in its place, can show."""
    tty = output is None and sys.stdout.isatty()
    wanted = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = 80
    if tty:
        import shutil

        width = max(shutil.get_terminal_size().columns, 40)
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return Terminal(width=width, color=wanted if color is None else color, encoding=encoding)


def write(text: str | Iterable[str], output: Path | None) -> None:
    """Write text, or pieces of it, to the terminal, or to a file as a whole or not at all."""
    pieces = _ended([text] if isinstance(text, str) else text)
    if output is not None:
        with atomic_write(output) as file:
            file.writelines(piece.encode() for piece in pieces)
        return
    for piece in pieces:
        try:
            sys.stdout.write(piece)
        except UnicodeEncodeError:  # a format that is UTF-8, on a system that is not
            sys.stdout.flush()
            sys.stdout.buffer.write(piece.encode())
    sys.stdout.flush()


def _ended(pieces: Iterable[str]) -> Iterator[str]:
    """Yield pieces of text, and the end of the last line where it is missing."""
    last = ""
    for piece in pieces:
        last = piece or last
        yield piece
    if last and not last.endswith("\n"):
        yield "\n"


def add_to_summary(report: Report, command: str) -> None:
    """Add the report to the summary of the job, if GitHub runs the command.

    Raises:
        StabdiagError: if the file that GitHub names cannot be written.
    """
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    from stabdiag.formats.markdown import render

    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(render(report, command=command))
    except OSError as error:
        raise StabdiagError(
            f"{summary} (GITHUB_STEP_SUMMARY): cannot be written ({error.strerror})"
        ) from None


def tell(message: str) -> None:
    """Write one line to standard error; what a log or a file name put into it is made inert."""
    from stabdiag.formats.measured import visible

    with suppress(OSError):  # with nowhere to tell it, the exit code still does
        print(f"stabdiag: {visible(message)}", file=sys.stderr)  # noqa: T201 - the only part that may


def tell_text(text: str) -> None:
    """Write a report to standard error; what the stream cannot encode is escaped."""
    encoding = sys.stderr.encoding or "ascii"
    with suppress(OSError):
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)  # noqa: T201


def tell_of_runs_beside(place: str, source: Source) -> None:
    """Say how to diagnose all runs of a place that holds more than the one that was read."""
    if source.other_runs:
        place = shown(place)
        tell(
            f"{place} holds several runs, and this is one of them; to diagnose them all, run"
            f" stabdiag scan {shlex.quote(place)}"
        )


def tell_of_baseline(report: Report) -> None:
    """Say that no run of the baseline can be used: the report is about the log alone."""
    comparison = report.baseline
    if comparison is not None and not comparison.references:
        reasons = "; ".join(reference.in_words for reference in comparison.left_out)
        tell(f"no baseline to compare with: {reasons or 'no run is given'}")


def complain(message: str) -> Exit:
    """Print an error that the user can fix, and return the exit code for it."""
    tell(message)
    return Exit.REFUSED


@contextmanager
def stopping() -> Iterator[Sequence[int]]:
    """Let Ctrl-C and the signal to terminate end a command in good order; a second one, at once."""
    caught: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        handler = before[number]
        if caught and callable(handler):
            handler(number, frame)
        caught.append(number)

    before = {int(one): signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, catch)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def after(caught: Sequence[int]) -> Exit:
    """Return how a shell has it that a signal ended a command: to look away is no verdict."""
    return Exit(128 + (caught or [signal.SIGINT])[0])


@contextmanager
def live(color: bool | None) -> Iterator[Live | None]:
    """Give what is drawn again and again on standard error; None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(
        stderr=True, highlight=False, markup=False, emoji=False, no_color=color is False or None
    )
    with Live(console=console, auto_refresh=False, transient=True) as drawn:
        yield drawn


@contextmanager
def progress(logs: Sequence[str]) -> Iterator[None]:
    """Show on a terminal how far reading is, if it may take long; nothing otherwise."""
    paths = [Path(log) for log in logs if log != "-" and "://" not in log]
    try:
        size = sum(path.stat().st_size for path in paths if path.is_file())
        waits = any("://" in log for log in logs) or any(path.is_dir() for path in paths)
    except OSError:  # reading will say what is wrong
        size, waits = 0, False
    if not sys.stderr.isatty() or (size < _LARGE and not waits):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    from stabdiag.readers.source import watched

    first = shown(logs[0]) if "://" in logs[0] else logs[0].rstrip("/").rpartition("/")[2]
    more = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
    told = f", {size / 1e6:.0f} MB" if size >= _LARGE else ""
    what = f"Reading {ascii(first)[1:-1]}{more}{told} …"
    text = TextColumn("{task.description}", markup=False)
    # Of a folder or a server nobody knows yet how much will be read.
    columns = (SpinnerColumn(), text) if waits else (text, BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None if waits else size)
        with watched(lambda count: bar.advance(task, count)):
            yield
