"""The watch: look, read, diagnose, and again, until something is certain or nothing more comes.

Beside it stands the process that writes the log: whether it still runs, and how it is ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Final

from stabdiag.errors import LogError, StabdiagError
from stabdiag.model.findings import Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.report import Report
from stabdiag.sources import LoadedLog
from stabdiag.watch.certain import InitialLosses, certain
from stabdiag.watch.sources import Pace, Source

# Diagnosing a log that keeps growing takes this share of one processor at most: what decides waits
# for three diagnoses in the worst case, the one under way, the pause after it, and its own.
_SHARE: Final = 1 / 2

# Waiting is cut into naps of this many seconds, so that a signal is answered at once.
_NAP: Final = 0.25


# When a process has ended, what it wrote through a pipe may still be on its way, for so many
# seconds at most.
_LAST_WORDS: Final = 1.0

_PROC: Final = Path("/proc")


class End(StrEnum):
    """Why a watch ended."""

    FOUND = "a finding is certain"
    INPUT = "the input ended"
    QUIET = "the log has been quiet"
    PROCESS = "the process has ended"
    STOPPED = "stopped"


@frozen
class Until:
    """When to end, besides the end of the input.

    At a finding as severe as ``fail_on`` that is certain (None: at none), when nothing came for
    ``quiet`` seconds, when the ``process`` has ended, or when ``stopped`` says so.
    """

    fail_on: Severity | None = None
    quiet: float | None = None
    process: Job | None = None
    stopped: Callable[[], bool] = field(default=lambda: False)


@frozen
class Seen:
    """What a watch knows by now.

    ``report`` is the last one, or None; ``trouble`` says why there is none, or why the log could
    not be read again. ``certain`` is what ended the watch, if a finding did.
    """

    report: Report | None = None
    trouble: LogError | None = None
    certain: Finding | None = None
    end: End | None = None
    quiet_for: float = 0.0


def watch(
    source: Source, diagnose: Callable[[LoadedLog], Report], until: Until, *, interval: float
) -> Iterator[Seen]:
    """Look at a source every ``interval`` seconds; yield what is known after each look.

    The last report is of all that the source holds, but for a last line without its end: only the
    end of the input tells that it is a whole one. What the log held at the first look may belong to
    an earlier attempt: it counts only with what was logged since.
    """
    pace = Pace(share=_SHARE)
    grew_at = time.monotonic()
    report: Report | None = None
    trouble: LogError | None = None
    sure: Finding | None = None
    held: InitialLosses | None = None
    runs = 0
    is_behind = True
    while True:
        end = _end(source, until, quiet_for=time.monotonic() - grew_at)
        if end is End.PROCESS:
            _sleep(_LAST_WORDS, until.stopped)
        if source.look():
            is_behind, grew_at = True, time.monotonic()
            end = None if end is End.QUIET else end
        if end is not None or (is_behind and pace.is_due):
            with pace.work():
                try:
                    report, trouble = diagnose(source.found(whole=end is End.INPUT)), None
                except LogError as error:
                    trouble = error
                else:
                    if source.runs != runs:
                        runs, held = source.runs, InitialLosses.of(report)
                    sure = None
                    if until.fail_on is not None:
                        sure = certain(report, until.fail_on, held)
            is_behind = False
            runs = runs or source.runs
        end = End.FOUND if sure is not None and end is None else end
        yield Seen(
            report=report,
            trouble=trouble,
            certain=sure,
            end=end,
            quiet_for=time.monotonic() - grew_at,
        )
        if end is not None:
            return
        _sleep(interval, until.stopped)


def _end(source: Source, until: Until, *, quiet_for: float) -> End | None:
    """Return why this look is the last one, asked before it: what was written by then counts."""
    if until.stopped():
        return End.STOPPED
    if source.ended:
        return End.INPUT
    if until.process is not None and not until.process.runs:
        return End.PROCESS
    if until.quiet is not None and quiet_for >= until.quiet:
        return End.QUIET
    return None


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stopped() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _NAP))


class Job:
    """A process, told by its number and by when it began: a number goes to another one in time."""

    def __init__(self, number: int) -> None:
        """Take the process that has this number now, if any has."""
        self.number = number
        self._began = _began(number)

    @property
    def runs(self) -> bool:
        """Whether it has not ended; a zombie has."""
        return self._began is not None and _began(self.number) == self._began

    def check_may_kill(self) -> None:
        """Raise an error if this process may not, or should not, be ended by the one that asks."""
        if self.number in _ancestors():
            raise StabdiagError(
                f"--kill: process {self.number} is the watch itself or what it was started from; "
                "give the number of the job ($! in a shell, right after its start)"
            )
        if not _is_there(self.number, may_signal=True) and self.runs:
            raise StabdiagError(
                f"--kill: process {self.number} is someone else's; you may not end it"
            )

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Send it a signal that ends it, and return in words what came of it."""
        if not self.runs:
            return f"process {self.number} had already ended"
        try:
            os.kill(self.number, number)
        except OSError as error:
            return f"process {self.number} could not be signalled ({error.strerror})"
        return f"process {self.number} was sent {number.name}"

    def ends_within(self, seconds: float, stopped: Callable[[], bool]) -> bool:
        """Wait for its end, for so many seconds at most; return whether it ended."""
        until = time.monotonic() + seconds
        while self.runs and not stopped() and (left := until - time.monotonic()) > 0:
            _sleep(min(left, _NAP), stopped)
        return not self.runs


def _began(number: int) -> str | None:
    """Return when a process began, in a form that is its own; None if it has ended.

    It is empty for one of another user's where these are hidden.
    """
    if not _is_there(number):
        return None
    state, _, began = _status(number)
    return None if state and state in "ZX" else began


def _is_there(number: int, *, may_signal: bool = False) -> bool:
    """Tell whether a process has this number, and with ``may_signal`` whether we may signal it."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return not may_signal
    return True


def _ancestors() -> Iterator[int]:
    """Yield the number of this process, of its parent, and so on."""
    number = os.getpid()
    while number:
        yield number
        number = _status(number)[1]


def _status(number: int) -> tuple[str, int, str]:
    """Return what the system tells of a process: its state, its parent, and when it began.

    It does so in /proc (proc(5)), or else by ``ps``.
    """
    try:
        if _PROC.joinpath("self", "stat").exists():
            told = _PROC.joinpath(str(number), "stat").read_bytes().decode("ascii", "replace")
            fields = told.rpartition(")")[2].split()  # a command's name may hold anything
            return fields[0], int(fields[1]), fields[19]
        import subprocess

        command = ["ps", "-o", "state=,ppid=,lstart=", "-p", str(number)]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        state, parent, began = told.split(maxsplit=2)
        return state[:1], int(parent), began
    except (OSError, ValueError, IndexError):
        return "", 0, ""
