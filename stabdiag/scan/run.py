"""Send batches of logs to the workers and collect their rows, while the listing continues."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, Queue
from threading import Event, Thread
from typing import Final

import pyarrow.compute as pc

from stabdiag.errors import StabdiagError
from stabdiag.scan.executors import Pool
from stabdiag.scan.rows import row_table
from stabdiag.scan.work import Batch, ScanOptions, read_batch, unread
from stabdiag.sources.group import Job, SkippedEntries

# Seconds of work in a batch, and the minimum when the remaining work is shared at the end.
_BATCH_SECONDS: Final = 2.0
_MIN_BATCH_SECONDS: Final = 0.1

# The initial estimate of a log's cost, in seconds: per log and per byte.
_SECONDS_PER_LOG: Final = 0.01
_SECONDS_PER_BYTE: Final = 1e-7

# Runs to list ahead of the workers; the largest are read first.
_LISTED_AHEAD: Final = 10_000

# Polling intervals of the listing and of the workers, in seconds.
_LIST_INTERVAL: Final = 0.05
_WORKER_POLL_INTERVAL: Final = 0.5

# Seconds beyond the time limit of the logs until a batch is given up.
_GRACE: Final = 60.0

# Exceptions of executors for a dead worker, and the reasons for unread logs.
_ENDED: Final = (
    *("BrokenExecutor", "BrokenProcessPool", "KilledWorker", "WorkerLostError"),
    *("TerminatedWorkerError", "ShutdownExecutorError"),
)
_CRASH_REASON: Final = "kills the worker that reads it, or needs too much memory"
_LATE: Final = "no worker returned it in time"


class JobQueue:
    """Lists runs in a thread, and returns the largest ones first."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        """Start the listing."""
        self._queue: Queue[Job | BaseException | None] = Queue(maxsize=1000)
        self._heap: list[tuple[int, int, Job]] = []
        self._number = count()
        self._over = Event()
        self.done = False
        self.cost = 0.0
        self.total: int | None = None
        Thread(target=self._list, args=(jobs,), daemon=True).start()

    def _list(self, jobs: Iterable[Job]) -> None:
        try:
            for job in jobs:
                self._queue.put(job)
                if self._over.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - raised where the rows are waited for
            self._queue.put(error)
        self._queue.put(None)

    def look(self, seconds: float) -> None:
        """Fetch listed runs; wait up to ``seconds`` for the first one."""
        while not self.done and len(self._heap) < _LISTED_AHEAD:
            try:
                job = self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait()
            except Empty:
                return
            seconds = 0
            if job is None:
                self.done, self.total = True, next(self._number)
            elif isinstance(job, BaseException):
                self.done = True
                raise job
            else:
                heapq.heappush(self._heap, (-(job.size or 0), next(self._number), job))
                self.cost += _cost(job)

    def take(self, cost: float) -> list[Job]:
        """Return the largest listed runs, up to a total cost; at least one if there is any."""
        taken: list[Job] = []
        while self._heap and cost > 0:
            job = heapq.heappop(self._heap)[2]
            taken.append(job)
            cost -= _cost(job)
            self.cost -= _cost(job)
        return taken

    def close(self) -> None:
        """Stop the listing."""
        self._over.set()
        while not self.done:
            try:
                self.done = self._queue.get_nowait() is None
            except Empty:
                return


def _cost(job: Job) -> float:
    return _SECONDS_PER_LOG + _SECONDS_PER_BYTE * (job.size or 0)


@dataclass(kw_only=True, eq=False)
class BatchReader:
    """Tracks the submitted batches. If a worker dies, its logs are read one by one, then alone."""

    pool: Pool
    options: ScanOptions
    queue: JobQueue
    stopped: Callable[[], bool]
    pace: float = 1.0
    retries: list[Job] = field(default_factory=list)
    alone: list[Job] = field(default_factory=list)
    out: dict[Future[Batch], tuple[list[Job], int]] = field(default_factory=dict)
    last_result: float = field(default_factory=time.monotonic)

    def batches(self) -> Iterator[Batch]:
        """Yield the results of the workers until all logs are read."""
        try:
            while True:
                if self.stopped():
                    raise KeyboardInterrupt
                self._submit_batches()
                if not self.out:
                    return
                busy = len(self.out) >= 2 * self.pool.width or self.queue.done
                done, _ = wait(
                    self.out, _WORKER_POLL_INTERVAL if busy else _LIST_INTERVAL, FIRST_COMPLETED
                )
                for future in done:
                    yield from self._taken(future)
                if done:
                    self.last_result = time.monotonic()
                elif time.monotonic() - self.last_result > 2 * self.options.timeout + _GRACE:
                    yield from self._given_up()
        finally:
            for future in self.out:
                future.cancel()

    def _submit_batches(self) -> None:
        """Keep two batches per worker submitted: one in progress and one waiting."""
        queue = self.queue
        while len(self.out) < 2 * self.pool.width:
            queue.look(0)
            if self.retries:
                self._submit([self.retries.pop()], 1)
                continue
            if self._may_be_more():
                queue.look(_LIST_INTERVAL)
                if self.out and self._may_be_more():
                    return
            share = queue.cost * self.pace / (3 * self.pool.width)
            want = (
                min(max(share, _MIN_BATCH_SECONDS), _BATCH_SECONDS)
                if queue.done
                else _BATCH_SECONDS
            )
            jobs = queue.take(want / self.pace)
            if jobs:
                self._submit(jobs, 0)
            elif queue.done:
                break
        if not self.out and self.alone:
            self._submit([self.alone.pop()], 2)

    def _may_be_more(self) -> bool:
        """Return True if waiting for the listing would give a larger batch."""
        return not self.queue.done and self.queue.cost * self.pace < _BATCH_SECONDS

    def _submit(self, jobs: list[Job], tries: int) -> None:
        try:
            future = self.pool.submit(read_batch, jobs, self.options)
        except Exception as error:  # noqa: BLE001 - each executor has errors of its own
            raise StabdiagError(
                f"the executor accepts no more work ({_line(error)}); the rows so far are kept, "
                "and the same command continues"
            ) from None
        self.out[future] = jobs, tries

    def _taken(self, future: Future[Batch]) -> Iterator[Batch]:
        jobs, tries = self.out.pop(future)
        try:
            batch = future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the worker's, of any kind
            is_lost = type(error).__name__ in _ENDED
            reason = _CRASH_REASON if is_lost else f"the worker failed: {_line(error)}"
            yield from self._failed(jobs, tries, reason)
            return
        took = pc.sum(batch.rows["seconds"]).as_py()
        if (
            not tries and batch.rows.num_rows == len(jobs) and took
        ):  # update the estimate of the cost
            ratio = took / sum(map(_cost, jobs))
            self.pace = 0.7 * self.pace + 0.3 * min(max(ratio, 0.05), 50.0)
        yield batch

    def _failed(self, jobs: Sequence[Job], tries: int, reason: str) -> Iterator[Batch]:
        """Read the logs of a batch again one by one; a log that fails alone gets a row."""
        if tries == 2:
            yield Batch(
                rows=row_table([unread(jobs[0], self.options, reason)]), skipped=SkippedEntries()
            )
        elif tries:
            self.alone += jobs
        else:
            self.retries += jobs

    def _given_up(self) -> Iterator[Batch]:
        """Give up all submitted batches after a long time without any result."""
        out, self.out = self.out, {}
        self.last_result = time.monotonic()
        for future, (jobs, tries) in out.items():
            future.cancel()
            yield from self._failed(jobs, tries, _LATE)


def _line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
