"""Executors for the batches of a scan: processes on this machine, a Dask cluster, or any other.

The scan uses only the interface of ``concurrent.futures.Executor``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

from stabdiag.errors import StabdiagError
from stabdiag.scan.worker import ENVIRONMENT, freeze_imported, prepare_worker

# Seconds within which a Dask scheduler has to answer.
_SCHEDULER_TIMEOUT: Final = 10


@dataclass(kw_only=True, eq=False)
class Pool:
    """An executor and the number of logs it reads at a time.

    ``create`` makes a new executor if this one breaks; None if the caller owns the executor.
    """

    executor: Executor
    width: int
    create: Callable[[], Executor] | None = None

    def submit(self, function: Any, /, *args: Any) -> Future[Any]:
        """Schedule a call. Replace a broken executor if it was created here."""
        try:
            return self.executor.submit(function, *args)
        except BrokenExecutor:
            if self.create is None:
                raise
        self.close()
        self.executor = self.create()
        return self.executor.submit(function, *args)

    def close(self) -> None:
        """Shut down the executor without waiting for calls that have not started."""
        if isinstance(self.executor, _local_executor_type()):
            self.executor.shutdown(wait=True, kill_workers=True)
        else:
            self.executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def open_pool(
    executor: str | Executor | Callable[[], Executor] | None,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Iterator[Pool]:
    """Open an executor; shut it down at the end if it was created here.

    ``executor`` is an executor, a function that returns one, ``"dask"``, or ``"module:callable"``;
    None means processes of this machine. ``jobs`` defaults to the number of cores, or to the number
    of threads of a cluster's workers.

    Raises:
        StabdiagError: if the executor does not exist or does not answer.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    count = jobs or (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()) or 1
    if executor == "dask":
        with _open_dask(scheduler) as (cluster, threads):
            yield Pool(executor=cluster, width=jobs or threads)
        return
    if scheduler is not None:
        raise StabdiagError("--scheduler goes with --executor dask")
    if isinstance(executor, Executor):
        yield Pool(executor=executor, width=count)
        return
    if executor is None:
        create = partial(_create_local, count)
    else:
        create = partial(_create_custom, executor)
    pool = Pool(executor=create(), width=count, create=create)
    try:
        yield pool
    finally:
        pool.close()


def _local_executor_type() -> Any:
    from loky import ProcessPoolExecutor

    return ProcessPoolExecutor


def _create_local(count: int) -> Executor:
    """Create processes on this machine.

    Unlike multiprocessing, loky does not run the script of the caller again.
    """
    # The scan itself replaces a dead worker and reads its logs again.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
    _start_resource_tracker()
    executor: Executor = _local_executor_type()(
        max_workers=count,
        timeout=None,
        env=ENVIRONMENT,
        initializer=_prepare_worker,
        initargs=(os.getpid(),),
    )
    return executor


def _start_resource_tracker() -> None:
    """Start loky's process that removes semaphores.

    If a scan is interrupted, it removes them as well, and must not warn on the user's terminal.
    """
    from loky.backend import resource_tracker

    name = "PYTHONWARNINGS"
    options = os.environ.get(name)
    ignored = "ignore:resource_tracker:UserWarning"
    os.environ[name] = ignored if options is None else f"{options},{ignored}"
    try:
        resource_tracker.ensure_running()
    finally:
        if options is None:
            del os.environ[name]
        else:
            os.environ[name] = options


def _prepare_worker(parent: int) -> None:
    prepare_worker(parent)
    import stabdiag.scan.work  # noqa: F401 - what every call needs

    freeze_imported()


def _create_custom(executor: str | Callable[[], Executor]) -> Executor:
    module, colon, name = executor.partition(":") if isinstance(executor, str) else ("", ":", "")
    if not colon:
        raise StabdiagError(
            f"--executor {executor}: use dask, or module:callable for a function that returns a "
            "concurrent.futures.Executor"
        )
    try:
        create = getattr(import_module(module), name) if isinstance(executor, str) else executor
        created = create()
    except Exception as error:  # noqa: BLE001 - the caller's code may fail in any way
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        raise StabdiagError(f"cannot create the executor {executor} ({message})") from None
    if not isinstance(created, Executor):
        raise StabdiagError(f"{executor} does not return a concurrent.futures.Executor")
    return created


@contextmanager
def _open_dask(scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    if scheduler is None:
        raise StabdiagError(
            "--executor dask needs --scheduler ADDRESS, for example tcp://node1:8786"
        )
    try:
        from distributed import Client
    except ImportError:
        raise StabdiagError(
            "to scan on a Dask cluster, install Dask: pip install 'stabdiag[dask]'"
        ) from None
    try:
        client: Any = Client(scheduler, timeout=_SCHEDULER_TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - each protocol has errors of its own
        message = (str(error).splitlines() or [type(error).__name__])[0]
        raise StabdiagError(
            f"{scheduler}: no Dask scheduler answers ({message[:200]}); check the address"
        ) from None
    try:
        # pure=False: a batch that kills its worker must run again.
        yield client.get_executor(pure=False), sum(client.nthreads().values()) or 1
    finally:
        client.close(timeout=_SCHEDULER_TIMEOUT)
