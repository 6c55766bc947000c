"""The watch loop: poll, read and diagnose until a finding is certain or the input ends.

Also the process that writes the log: whether it still runs, and how to end it.
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

# Diagnosing a growing log uses at most this fraction of one processor. In the worst case, a
# decision waits for three diagnoses: the current one, the pause after it, and its own.
_BUSY_FRACTION: Final = 1 / 2

# The poll interval in seconds, which bounds the time to respond to a signal.
_POLL_INTERVAL: Final = 0.25

# After a process has ended, its output may take up to this many seconds to arrive through a pipe.
_DRAIN_SECONDS: Final = 1.0

_PROC: Final = Path("/proc")


class EndReason(StrEnum):
    """Why a watch ended."""

    FINDING = "a finding is certain"
    INPUT = "the input ended"
    QUIET = "the log has stopped growing"
    PROCESS = "the process has ended"
    STOPPED = "stopped"


@frozen
class StopConditions:
    """The conditions that end a watch before the end of the input.

    These are a certain finding as severe as ``fail_on`` (None: no finding), ``quiet`` seconds
    without new data, the end of the ``process``, and ``stopped`` returning True.
    """

    fail_on: Severity | None = None
    quiet: float | None = None
    process: WatchedJob | None = None
    stopped: Callable[[], bool] = field(default=lambda: False)


@frozen
class WatchState:
    """The state of a watch after a poll.

    ``report`` is the last report, or None. ``trouble`` is the error if the log could not be read.
    ``certain`` is the finding that ended the watch, if any.
    """

    report: Report | None = None
    trouble: LogError | None = None
    certain: Finding | None = None
    end: EndReason | None = None
    quiet_for: float = 0.0


def watch(
    source: Source,
    diagnose: Callable[[LoadedLog], Report],
    until: StopConditions,
    *,
    interval: float,
) -> Iterator[WatchState]:
    """Poll a source every ``interval`` seconds and yield the state after each poll.

    The last report covers the whole source except an unfinished last line, which counts only at the
    end of the input. Losses that are already in the log at the first poll may belong to an earlier
    attempt: a problem in them counts only if later losses show it, too.
    """
    pace = Pace(share=_BUSY_FRACTION)
    grew_at = time.monotonic()
    judgment = _Judgment(source, diagnose, until)
    is_behind = True
    while True:
        end = _end(source, until, quiet_for=time.monotonic() - grew_at)
        if end is EndReason.PROCESS:
            _sleep(_DRAIN_SECONDS, until.stopped)
        if source.look():
            is_behind, grew_at = True, time.monotonic()
            end = None if end is EndReason.QUIET else end
        if end is not None or (is_behind and pace.is_due):
            with pace.work():
                judgment.update(is_complete=end is EndReason.INPUT)
            is_behind = False
        end = EndReason.FINDING if judgment.certain is not None and end is None else end
        yield WatchState(
            report=judgment.report,
            trouble=judgment.trouble,
            certain=judgment.certain,
            end=end,
            quiet_for=time.monotonic() - grew_at,
        )
        if end is not None:
            return
        _sleep(interval, until.stopped)


class _Judgment:
    """The last report on a source, the reason why it cannot be read, and a certain finding."""

    def __init__(
        self, source: Source, diagnose: Callable[[LoadedLog], Report], until: StopConditions
    ) -> None:
        """Begin without a report."""
        self._source, self._diagnose, self._until = source, diagnose, until
        self._initial: InitialLosses | None = None
        self._runs = 0
        self.report: Report | None = None
        self.trouble: LogError | None = None
        self.certain: Finding | None = None

    def update(self, *, is_complete: bool) -> None:
        """Diagnose the source; an error in reading it leaves the last report."""
        source = self._source
        try:
            report = self._diagnose(source.read(is_complete=is_complete))
        except LogError as error:
            self.trouble = error
            self._runs = self._runs or source.runs
            return
        self.report, self.trouble, self.certain = report, None, None
        if source.runs != self._runs:
            self._runs, self._initial = source.runs, InitialLosses.of(report)
        if self._until.fail_on is not None:
            self.certain = certain(report, self._until.fail_on, self._initial)


def _end(source: Source, until: StopConditions, *, quiet_for: float) -> EndReason | None:
    """Return the reason to end after the next poll, which still reads everything written so far."""
    if until.stopped():
        return EndReason.STOPPED
    if source.ended:
        return EndReason.INPUT
    if until.process is not None and not until.process.runs:
        return EndReason.PROCESS
    if until.quiet is not None and quiet_for >= until.quiet:
        return EndReason.QUIET
    return None


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stopped() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _POLL_INTERVAL))


class WatchedJob:
    """A process, identified by its number and start time, since numbers are reused."""

    def __init__(self, number: int) -> None:
        """Identify the process that has this number now, if there is one."""
        self.number = number
        self._began = _began(number)

    @property
    def runs(self) -> bool:
        """Whether the process has not ended; a zombie has ended."""
        return self._began is not None and _began(self.number) == self._began

    def check_may_kill(self) -> None:
        """Raise an error if this process must not be ended: an ancestor or another user's."""
        if self.number in _ancestors():
            raise StabdiagError(
                f"--kill: process {self.number} is the watch itself or one of its parents; "
                "give the number of the job ($! in a shell, right after its start)"
            )
        if not _exists(self.number, may_signal=True) and self.runs:
            raise StabdiagError(
                f"--kill: process {self.number} belongs to another user; you may not end it"
            )

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Send the process a signal and describe the result."""
        if not self.runs:
            return f"process {self.number} had already ended"
        try:
            os.kill(self.number, number)
        except OSError as error:
            return f"process {self.number} could not be signalled ({error.strerror})"
        return f"process {self.number} was sent {number.name}"

    def ends_within(self, seconds: float, stopped: Callable[[], bool]) -> bool:
        """Wait up to ``seconds`` for the process to end; return True if it did."""
        until = time.monotonic() + seconds
        while self.runs and not stopped() and (left := until - time.monotonic()) > 0:
            _sleep(min(left, _POLL_INTERVAL), stopped)
        return not self.runs


def _began(number: int) -> str | None:
    """Return the start time of a process as the system writes it, or None if it has ended.

    The text is empty if the system hides processes of other users.
    """
    if not _exists(number):
        return None
    state, _, began = _status(number)
    return None if state and state in "ZX" else began


def _exists(number: int, *, may_signal: bool = False) -> bool:
    """Return True if a process has this number and, with ``may_signal``, accepts our signals."""
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
    """Return the state, the parent and the start time of a process.

    They are read from /proc (proc(5)) or the output of ``ps``.
    """
    try:
        if _PROC.joinpath("self", "stat").exists():
            text = _PROC.joinpath(str(number), "stat").read_bytes().decode("ascii", "replace")
            fields = text.rpartition(")")[2].split()  # the command may contain any character
            return fields[0], int(fields[1]), fields[19]
        import subprocess

        command = ["ps", "-o", "state=,ppid=,lstart=", "-p", str(number)]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        state, parent, began = text.split(maxsplit=2)
        return state[:1], int(parent), began
    except (OSError, ValueError, IndexError):
        return "", 0, ""
