"""Where the batches of a scan are read: processes of this machine, a cluster, or anything else.

All of them are ``concurrent.futures.Executor``, and nothing more is asked of them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from stabdiag.errors import StabdiagError

Result = TypeVar("Result")

# What a worker process is told: NumPy and Arrow are to compute on one thread, and glibc's malloc is
# to keep what was freed for the next log.
_ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
}

# In a process of our own: where faulthandler, which ends it if a log holds it, writes to.
_nowhere: Final[list[int]] = []

# Seconds in which a scheduler has to answer.
_ANSWER: Final = 10


@dataclass(kw_only=True, eq=False)
class Hands:
    """An executor, how many logs it reads at a time, and what makes another one if it breaks."""

    executor: Executor
    width: int
    make: Callable[[], Executor] | None = None

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:
        """Have a function called; a pool that is broken is made anew, if it was made here."""
        try:
            return self.executor.submit(fn, *args)
        except BrokenExecutor:
            if self.make is None:
                raise
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = self.make()
        return self.executor.submit(fn, *args)


@contextmanager
def opened(
    executor: str | Executor | Callable[[], Executor] | None,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Iterator[Hands]:
    """Give an executor and how many logs it reads at a time; what was made here ends with it.

    It is one that is there, what makes one, ``"dask"`` or ``"module:callable"``; if not given,
    processes of this machine. It reads as many logs as there are cores, or as the workers of a
    cluster have threads, if ``jobs`` is not given.

    Raises:
        StabdiagError: if there is no such executor, or it does not answer.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    count = jobs or (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()) or 1
    if executor == "dask":
        with _dask(scheduler) as (found, threads):
            yield Hands(executor=found, width=jobs or threads)
        return
    if scheduler is not None:
        raise StabdiagError("--scheduler goes with --executor dask")
    if isinstance(executor, Executor):
        yield Hands(executor=executor, width=count)
        return
    make = partial(Workers, count) if executor is None else partial(_made, executor)
    hands = Hands(executor=make(), width=count, make=make)
    try:
        yield hands
    finally:
        hands.executor.shutdown(wait=False, cancel_futures=True)


def _made(executor: str | Callable[[], Executor]) -> Executor:
    module, colon, inside = executor.partition(":") if isinstance(executor, str) else ("", ":", "")
    if not colon:
        raise StabdiagError(
            f"--executor {executor}: there is dask, and any other as module:callable, which "
            "returns a concurrent.futures.Executor"
        )
    try:
        make = getattr(import_module(module), inside) if isinstance(executor, str) else executor
        made = make()
    except Exception as error:  # noqa: BLE001 - it is not ours, and may fail in any way
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        raise StabdiagError(f"the executor {executor} cannot be created ({told})") from None
    if not isinstance(made, Executor):
        raise StabdiagError(f"{executor} returns no concurrent.futures.Executor")
    return made


@contextmanager
def _dask(scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    if scheduler is None:
        raise StabdiagError("--executor dask wants --scheduler ADDRESS, such as tcp://node1:8786")
    try:
        from distributed import Client
    except ImportError:
        raise StabdiagError(
            "to scan on a Dask cluster, install Dask: pip install 'stabdiag[dask]'"
        ) from None
    try:
        client: Any = Client(scheduler, timeout=_ANSWER, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - each protocol has errors of its own
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise StabdiagError(
            f"{scheduler}: no Dask scheduler answers ({told[:200]}); check the address"
        ) from None
    try:
        # A batch that ends its worker is run again here, log by log, and told.
        yield client.get_executor(pure=False), sum(client.nthreads().values()) or 1
    finally:
        client.close(timeout=_ANSWER)


class Workers(Executor):
    """Processes of this machine that each take one call at a time.

    So the call that ended a process is known, and costs no other call anything; and a script that
    calls a scan is not run again in each process, as it is in those of multiprocessing.
    """

    def __init__(self, count: int) -> None:
        """Start no process yet: each begins with its first call."""
        self._calls: SimpleQueue[tuple[Future[Any], bytes] | None] = SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._closed = False
        self._threads = [Thread(target=self._serve, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a function called in a process that is free."""
        if self._closed:
            raise RuntimeError("the workers have shut down")
        future: Future[Any] = Future()
        self._calls.put((future, pickle.dumps((fn, args, kwargs))))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes: at once where calls that wait are cancelled."""
        self._closed = True
        if cancel_futures:
            with self._lock:
                for process in self._processes:
                    process.kill()
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        """Hand calls to one process, and begin another one where it died."""
        process = None
        while (call := self._calls.get()) is not None:
            future, data = call
            if self._closed or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                process = process or self._started()
            except (OSError, BrokenExecutor) as failed:  # no fault of what is to be read
                future.set_exception(failed)
                continue
            try:
                answer, error = _answer(process, data)
            except (OSError, EOFError, pickle.UnpicklingError):
                self._bury(process)
                process = None
                answer, error = None, BrokenExecutor("a worker died")
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)
        if process is not None:
            self._bury(process)

    def _started(self) -> subprocess.Popen[bytes]:
        begin = f"import sys; sys.path[:] = {sys.path!r}; from stabdiag.scan import executors"
        with self._lock:
            if self._closed:
                raise BrokenExecutor("the workers have shut down")
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"{begin}; executors.serve()",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**_ENVIRONMENT, **os.environ},
            )
            self._processes.add(process)
        return process

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        with suppress(OSError), process:  # that closes its pipes
            pass
        with self._lock:
            self._processes.discard(process)


def _answer(process: subprocess.Popen[bytes], call: bytes) -> tuple[Any, BaseException | None]:
    if process.stdin is None or process.stdout is None:
        raise EOFError
    process.stdin.write(len(call).to_bytes(8, "little") + call)
    process.stdin.flush()
    found: tuple[Any, BaseException | None] = pickle.load(process.stdout)
    return found


def serve() -> None:
    """Answer calls until there are no more, or whoever makes them is gone."""
    # Ctrl-C is for whoever called, and ends the calls.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print is no answer
    without_pandas()
    _nowhere.append(os.open(os.devnull, os.O_WRONLY))
    with suppress(BrokenPipeError):
        while size := int.from_bytes(calls.read(8), "little"):
            call, args, kwargs = pickle.loads(calls.read(size))
            if gc.isenabled():  # the first call has imported what all of them need
                gc.freeze()
                gc.disable()
            answer: tuple[object, Exception | None]
            try:
                answer = call(*args, **kwargs), None
            except Exception as error:  # noqa: BLE001 - it is the caller's to judge
                answer = None, error
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
            gc.collect()
    os._exit(0)


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def without_pandas() -> None:
    """Keep Arrow, in a process of our own, from importing pandas: half a second and 30 MB.

    Arrow does so once, to ask whether a list is one of pandas' kinds.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


class TimedOut(BaseException):
    """A log takes too long; no ``except Exception`` on the way is to swallow it."""


class Reader:
    """A thread that reads logs one at a time and gives up those that take too long.

    It is one thread for many logs: to start one for each costs more than to read a small log. A
    thread cannot be killed. One that is late is told to end, and another takes its place; a process
    of our own is killed, should a log hold it in C.
    """

    def __init__(self, seconds: float) -> None:
        """Start the thread; ``seconds`` is what a log may take."""
        self._seconds = seconds
        self._lit = -math.inf
        self._start()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.put(None)
        if _nowhere:
            faulthandler.cancel_dump_traceback_later()

    def read(self, call: Callable[[], Result]) -> Result:
        """Return what a call returns.

        Raises:
            TimedOut: if it takes too long.
        """
        # It needs no interpreter. Only when a tenth of the time has gone by: it starts a thread.
        if _nowhere and time.monotonic() - self._lit > self._seconds / 10:
            held = 1.6 * self._seconds + 5
            faulthandler.dump_traceback_later(held, exit=True, file=_nowhere[0])
            self._lit = time.monotonic()
        future: Future[Result] = Future()
        self._calls.put((future, call))
        try:
            return future.result(self._seconds)
        except TimeoutError:
            if future.done():  # the call's own
                raise
        late = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(late, ctypes.py_object(TimedOut))
        self._calls.put(None)
        self._start()
        raise TimedOut

    def _start(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = Thread(target=_read_all, args=(self._calls,), daemon=True)
        self._thread.start()


def _read_all(calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    with suppress(TimedOut):  # nobody waits for a thread that was late
        while (asked := calls.get()) is not None:
            future, call = asked
            try:
                future.set_result(call())
            except TimedOut:
                raise
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                future.set_exception(error)
