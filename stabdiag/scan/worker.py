"""A process that reads logs: its preparation, and the time limit of a log."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
}
"""NumPy and Arrow compute on one thread, and glibc's malloc keeps freed memory for the next log."""

# In a worker process: the output of faulthandler when it ends a stuck process.
_devnull: Final[list[int]] = []

# Seconds between two checks whether the parent of a worker is alive.
_PARENT_INTERVAL: Final = 1.0


class TimedOut(BaseException):
    """A log takes too long. Not an ``Exception``, so that no reader swallows it."""


def prepare_worker(parent: int) -> None:
    """Prepare a process that only reads logs, and ends with its parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinating process handles Ctrl-C
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep stray prints out of the report
    _devnull.append(os.open(os.devnull, os.O_WRONLY))
    import_arrow_without_pandas()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()


def freeze_imported() -> None:
    """Keep what is imported so far out of garbage collection, and collect only on request."""
    gc.freeze()
    gc.disable()


def _end_with_parent(parent: int) -> None:
    """End this process once its parent has ended.

    The pipes of a pool stay open in its other workers: each would wait forever for work, or for a
    reader of a result larger than the buffer of the pipe.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_INTERVAL)
    os._exit(1)


def is_worker_process() -> bool:
    """Return True in a process that `prepare_worker` prepared."""
    return bool(_devnull)


def call_within(seconds: float, call: Callable[[], Result]) -> Result:
    """Call a function with a time limit, and return its result.

    In a worker process, a signal interrupts a call that takes too long; a call that blocks in C
    ends the process later. Elsewhere the call runs in a thread that is abandoned at the time limit.

    Raises:
        TimedOut: if the call takes more than ``seconds``.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if is_worker_process() and in_main_thread and hasattr(signal, "setitimer"):
        return _interrupt_late_call(seconds, call)
    return _abandon_late_call(seconds, call)


def _interrupt_late_call(seconds: float, call: Callable[[], Result]) -> Result:
    def interrupt(*_: object) -> None:
        raise TimedOut

    previous = signal.signal(signal.SIGALRM, interrupt)
    faulthandler.dump_traceback_later(1.6 * seconds + 5, exit=True, file=_devnull[0])
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)


def _abandon_late_call(seconds: float, call: Callable[[], Result]) -> Result:
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the result is used
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # the call itself raised TimeoutError
            raise
        raise TimedOut from None


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def import_arrow_without_pandas() -> None:
    """Keep Arrow from importing pandas, which takes half a second and 30 MB.

    Arrow tries the import once, to check whether a list is a pandas object.
    """
    import pyarrow as pa

    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
