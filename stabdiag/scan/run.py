"""From paths to rows: batches of logs go out to workers, and rows come in, while more is found."""

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
from stabdiag.places.group import Job, Passed
from stabdiag.scan.executors import Hands
from stabdiag.scan.rows import table_of
from stabdiag.scan.work import Ask, Batch, read_batch, unread

# Seconds of work in a batch; of what is left in the end, each worker gets its share.
_WORK: Final = 2.0
_LEAST: Final = 0.1

# What a log costs: so many seconds, and so many a byte, until it was seen what it does.
_EACH: Final = 0.01
_BYTE: Final = 1e-7

# How many runs are known ahead of the workers, the largest of which goes first.
_AHEAD: Final = 10_000

# How often the listing is asked for more, and how often anything is looked at, in seconds.
_LOOK: Final = 0.05
_TICK: Final = 0.5

# Seconds beyond those that its logs may take after which nothing is expected of a batch.
_GRACE: Final = 60.0

# How executors call it that a worker died; and why a log then is unread, whichever it was.
_ENDED: Final = ("BrokenExecutor", "BrokenProcessPool", "KilledWorker", "WorkerLostError")
_LOST: Final = "kills the worker that reads it, or needs too much memory"
_LATE: Final = "no worker returned it in time"


class Found:
    """The runs that a listing yields, in a thread of its own, the largest of them first."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        """Begin to list."""
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
        """Take in what was listed; wait so long for the first of it."""
        while not self.done and len(self._heap) < _AHEAD:
            try:
                one = self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait()
            except Empty:
                return
            seconds = 0
            if one is None:
                self.done, self.total = True, next(self._number)
            elif isinstance(one, BaseException):
                self.done = True
                raise one
            else:
                heapq.heappush(self._heap, (-(one.size or 0), next(self._number), one))
                self.cost += _cost(one)

    def take(self, cost: float) -> list[Job]:
        """Return the largest runs that are known, up to so much cost; at least one if there is."""
        taken: list[Job] = []
        while self._heap and cost > 0:
            one = heapq.heappop(self._heap)[2]
            taken.append(one)
            cost -= _cost(one)
            self.cost -= _cost(one)
        return taken

    def close(self) -> None:
        """End the listing."""
        self._over.set()
        while not self.done:
            try:
                self.done = self._queue.get_nowait() is None
            except Empty:
                return


def _cost(job: Job) -> float:
    return _EACH + _BYTE * (job.size or 0)


@dataclass(kw_only=True, eq=False)
class Reading:
    """The batches that are out. One whose worker died comes back log by log, then each alone."""

    hands: Hands
    ask: Ask
    found: Found
    stopped: Callable[[], bool]
    pace: float = 1.0
    again: list[Job] = field(default_factory=list)
    alone: list[Job] = field(default_factory=list)
    out: dict[Future[Batch], tuple[list[Job], int]] = field(default_factory=dict)
    heard: float = field(default_factory=time.monotonic)

    def batches(self) -> Iterator[Batch]:
        """Yield what the workers bring back, until there is no more."""
        try:
            while True:
                if self.stopped():
                    raise KeyboardInterrupt
                self._hand_out()
                if not self.out:
                    return
                busy = len(self.out) >= 2 * self.hands.width or self.found.done
                done, _ = wait(self.out, _TICK if busy else _LOOK, FIRST_COMPLETED)
                for future in done:
                    yield from self._taken(future)
                if done:
                    self.heard = time.monotonic()
                elif time.monotonic() - self.heard > 2 * self.ask.timeout + _GRACE:
                    yield from self._given_up()
        finally:
            for future in self.out:
                future.cancel()

    def _hand_out(self) -> None:
        """Keep two batches for each worker out: one that it reads, and one that waits for it."""
        found = self.found
        while len(self.out) < 2 * self.hands.width:
            found.look(0)
            if self.again:
                self._submit([self.again.pop()], 1)
                continue
            if self._may_be_more():
                found.look(_LOOK)
                if self.out and self._may_be_more():
                    return
            share = found.cost * self.pace / (3 * self.hands.width)
            want = min(max(share, _LEAST), _WORK) if found.done else _WORK
            jobs = found.take(want / self.pace)
            if jobs:
                self._submit(jobs, 0)
            elif found.done:
                break
        if not self.out and self.alone:
            self._submit([self.alone.pop()], 2)

    def _may_be_more(self) -> bool:
        """Tell whether a batch would be too small that need not be."""
        return not self.found.done and self.found.cost * self.pace < _WORK

    def _submit(self, jobs: list[Job], tries: int) -> None:
        try:
            future = self.hands.submit(read_batch, jobs, self.ask)
        except Exception as error:  # noqa: BLE001 - each executor has errors of its own
            raise StabdiagError(
                f"the executor takes no more work ({_line(error)}); what was read is kept, and the "
                "same command continues"
            ) from None
        self.out[future] = jobs, tries

    def _taken(self, future: Future[Batch]) -> Iterator[Batch]:
        jobs, tries = self.out.pop(future)
        try:
            batch = future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the worker's, of any kind
            is_lost = type(error).__name__ in _ENDED
            reason = _LOST if is_lost else f"the worker failed: {_line(error)}"
            yield from self._failed(jobs, tries, reason)
            return
        took = pc.sum(batch.rows["seconds"]).as_py()
        if not tries and batch.rows.num_rows == len(jobs) and took:  # reckon with what they cost
            ratio = took / sum(map(_cost, jobs))
            self.pace = 0.7 * self.pace + 0.3 * min(max(ratio, 0.05), 50.0)
        yield batch

    def _failed(self, jobs: Sequence[Job], tries: int, reason: str) -> Iterator[Batch]:
        """Have a batch read again, log by log; a log that fails alone as well has a row of that."""
        if tries == 2:
            yield Batch(rows=table_of([unread(jobs[0], self.ask, reason)]), passed=Passed())
        elif tries:
            self.alone += jobs
        else:
            self.again += jobs

    def _given_up(self) -> Iterator[Batch]:
        """Expect nothing more of what is out, since no worker was heard of for so long."""
        out, self.out = self.out, {}
        self.heard = time.monotonic()
        for future, (jobs, tries) in out.items():
            future.cancel()
            yield from self._failed(jobs, tries, _LATE)


def _line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
