"""Output to the terminal or a file, and messages on standard error."""

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
    """The exit codes of commands. An internal error exits with 70, which no command returns."""

    OK = 0
    FINDING = 1
    REFUSED = 2
    INTERRUPTED = 130
    TERMINATED = 143


# Logs of this many bytes or more take so long that a progress bar is shown.
_LARGE = 100_000_000

# The width of output that is not on a terminal, and the smallest width.
_DEFAULT_WIDTH = 80
_MIN_WIDTH = 40


class Terminal(TypedDict):
    """The capabilities of the terminal or the output file. Every format takes these options."""

    width: int
    color: bool
    encoding: str


class _Output(FileIO):
    """Standard output that names itself in errors. A closed pipe is not an error."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


def open_output() -> None:
    """Open standard output so that errors name it and redirection writes the bytes of ``-o``."""
    stdout = sys.stdout
    if not isinstance(getattr(stdout.buffer, "raw", stdout.buffer), FileIO):  # a Windows console
        import colorama

        colorama.just_fix_windows_console()
        return
    raw = BufferedWriter(_Output(os.dup(stdout.fileno()), "wb"))
    # Windows defaults to a legacy code page for files and pipes, but JSON and HTML must be UTF-8.
    is_legacy = os.name == "nt" and "PYTHONIOENCODING" not in os.environ
    sys.stdout = TextIOWrapper(
        raw,
        "utf-8" if is_legacy else stdout.encoding,
        stdout.errors,
        newline="\n",
        line_buffering=bool(stdout.line_buffering),
    )


def terminal(output: Path | None, color: bool | None) -> Terminal:
    """Return the capabilities of the terminal, or of the output file."""
    is_terminal = output is None and sys.stdout.isatty()
    width = _DEFAULT_WIDTH
    if is_terminal or (output is None and "COLUMNS" in os.environ):
        import shutil  # COLUMNS takes precedence over the size of the terminal

        width = max(shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns, _MIN_WIDTH)
    if color is None:
        color = output is None and has_color(is_terminal)
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return Terminal(width=width, color=color, encoding=encoding)


def has_color(is_terminal: bool) -> bool:
    """Return True if output has color: on a terminal, unless the environment says otherwise.

    NO_COLOR and FORCE_COLOR follow no-color.org and force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"


def write_text(text: str | Iterable[str], output: Path | None) -> None:
    """Write text, or pieces of text, to the terminal or atomically to a file."""
    pieces = _with_final_newline([text] if isinstance(text, str) else text)
    if output is not None:
        with atomic_write(output) as file:
            file.writelines(piece.encode() for piece in pieces)
        return
    for piece in pieces:
        try:
            sys.stdout.write(piece)
        except UnicodeEncodeError:  # UTF-8 output on a system with another encoding
            sys.stdout.flush()
            sys.stdout.buffer.write(piece.encode())
    sys.stdout.flush()


def _with_final_newline(pieces: Iterable[str]) -> Iterator[str]:
    """Yield pieces of text, and a newline at the end if it is missing."""
    last = ""
    for piece in pieces:
        last = piece or last
        yield piece
    if last and not last.endswith("\n"):
        yield "\n"


def add_to_summary(report: Report, command: str) -> None:
    """Append the report to the job summary when running in GitHub Actions.

    Raises:
        StabdiagError: if the summary file cannot be written.
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


def notify(message: str) -> None:
    """Write a line to standard error, with control characters escaped."""
    from stabdiag.formats.measured import visible

    with suppress(OSError):  # without standard error, the exit code remains
        print(f"stabdiag: {visible(message)}", file=sys.stderr)  # noqa: T201 - the only part that may


def notify_text(text: str) -> None:
    """Write a report to standard error, with characters escaped that it cannot encode."""
    encoding = sys.stderr.encoding or "ascii"
    with suppress(OSError):
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)  # noqa: T201


def notify_other_runs(log: str, source: Source) -> None:
    """Print how to diagnose all runs if the folder or archive contains several."""
    if source.other_runs:
        log = shown(log)
        notify(
            f"{log} contains several runs; this is the report on {source.name}. For all of them:"
            f" stabdiag scan {shlex.quote(log)}"
        )


def notify_unusable_baseline(report: Report) -> None:
    """Print that no baseline run is usable, so that the report is about the log alone."""
    comparison = report.baseline
    if comparison is not None and not comparison.references:
        from stabdiag.model.baseline import describe_unused

        reasons = describe_unused(comparison.left_out)
        notify(f"no baseline to compare with: {reasons or 'no run given'}")


def report_error(message: str) -> Exit:
    """Print an error that the user can fix, and return its exit code."""
    notify(message)
    return Exit.REFUSED


@contextmanager
def catch_stop_signals() -> Iterator[Sequence[int]]:
    """Record SIGINT and SIGTERM so that a command can finish; a second one ends it immediately."""
    caught: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        handler = handlers[number]
        if caught and callable(handler):
            handler(number, frame)
        caught.append(number)

    handlers = {int(s): signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    for number in handlers:
        signal.signal(number, catch)
    try:
        yield caught
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def signal_exit_code(caught: Sequence[int]) -> Exit:
    """Return the shell's exit code for a command ended by a signal."""
    return Exit(128 + (caught or [signal.SIGINT])[0])


@contextmanager
def live_display(color: bool | None) -> Iterator[Live | None]:
    """Yield a live display on standard error; None if that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(
        stderr=True, highlight=False, markup=False, emoji=False, no_color=color is False or None
    )
    with Live(console=console, auto_refresh=False, transient=True) as display:
        yield display


@contextmanager
def progress(logs: Sequence[str]) -> Iterator[None]:
    """Show a progress bar on a terminal while reading large or remote logs."""
    paths = [Path(log) for log in logs if log != "-" and "://" not in log]
    try:
        size = sum(path.stat().st_size for path in paths if path.is_file())
        is_unsized = any("://" in log for log in logs) or any(path.is_dir() for path in paths)
    except OSError:  # the reader reports the error
        size, is_unsized = 0, False
    if not sys.stderr.isatty() or (size < _LARGE and not is_unsized):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    from stabdiag.readers.source import watched

    first = shown(logs[0]) if "://" in logs[0] else logs[0].rstrip("/").rpartition("/")[2]
    others = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
    megabytes = f", {size / 1e6:.0f} MB" if size >= _LARGE else ""
    description = f"Reading {ascii(first)[1:-1]}{others}{megabytes} …"
    text = TextColumn("{task.description}", markup=False)
    # The number of bytes to read from a folder or a server is unknown.
    columns = (SpinnerColumn(), text) if is_unsized else (text, BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None if is_unsized else size)
        with watched(lambda count: bar.advance(task, count)):
            yield
