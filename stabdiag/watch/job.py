"""The process that writes a log: whether it still runs, and the signal that ends it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC: Final = Path("/proc")


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

    def check_ours(self) -> None:
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

    def terminate(self) -> str:
        """Send it the signal to terminate, and return in words what came of it."""
        if not self.runs:
            return f"process {self.number} had ended by itself"
        try:
            os.kill(self.number, signal.SIGTERM)
        except OSError as error:
            return f"process {self.number} could not be told to end ({error.strerror})"
        return f"process {self.number} was told to end (SIGTERM)"


@dataclass(frozen=True, kw_only=True)
class _Status:
    state: str
    parent: int
    began: str


def _began(number: int) -> str | None:
    """Return when a process began, in a form that is its own; None if it has ended.

    It is empty for one of another user's where these are hidden.
    """
    if not _is_there(number):
        return None
    status = _status(number)
    if status is None:
        return ""
    return None if status.state[:1] in "ZX" else status.began


def _is_there(number: int, *, may_signal: bool = False) -> bool:
    """Tell whether a process has this number, or whether it is one that may be signalled."""
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
        status = _status(number)
        number = 0 if status is None else status.parent


def _status(number: int) -> _Status | None:
    """Return what the system tells of a process: in /proc (proc(5)), or else by ``ps``."""
    try:
        if _PROC.joinpath("self", "stat").exists():
            told = _PROC.joinpath(str(number), "stat").read_bytes().decode("ascii", "replace")
            fields = told.rpartition(")")[2].split()  # a command's name may hold anything
            return _Status(state=fields[0], parent=int(fields[1]), began=fields[19])
        import subprocess

        command = ["ps", "-o", "state=,ppid=,lstart=", "-p", str(number)]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        state, parent, began = told.split(maxsplit=2)
    except (OSError, ValueError, IndexError):
        return None
    return _Status(state=state, parent=int(parent), began=began)
