"""Cut a stream into blocks of whole lines, and work on several of them at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import numpy as np

from stabdiag.readers.source import Stream

Result = TypeVar("Result")

# Measured on 360 MB of JSON lines and 180 MB of CSV: from 1 to 16 MB parsing takes the same time,
# the memory grows, and from 4 MB on the system has to find fresh pages for each block.
BLOCK: Final = 1 << 21

# A column costs each block the same, however few its lines are: wide logs get larger blocks, until
# about so many lines are in one.
_LINES: Final = 256
_WIDEST: Final = 1 << 25

# No logger writes a longer line; a file without line ends must not be gathered without end. Of a
# longer one so many bytes are read, which are no record.
LONGEST_LINE: Final = 1 << 26
_START: Final = 80

NOT_ENDED: Final = "the last line has no end yet, and is left out"

_THREADS: Final = 8


def blocks(
    stream: Stream, *, size: int = BLOCK, longest: int = LONGEST_LINE, joined: bool = False
) -> Iterator[bytes]:
    """Cut a stream into blocks of about ``size`` bytes, at the ends of lines.

    A last line without its end is a block of its own unless it is ``joined`` to those before it.
    """
    waiting: list[bytes] = []
    held = 0
    while data := stream.read(size):
        first = data.find(b"\n")
        if BLOCK <= size < _WIDEST and first >= 0 and held + first >= size // _LINES:
            size *= 2
        cut = data.rfind(b"\n") + 1
        cut = len(data) if joined and cut and len(data) < size else cut
        if cut == 0 and held + len(data) > longest:
            yield (waiting[0] if waiting else data)[:_START] + b"\n"
            waiting, held = [], 0
            while data and b"\n" not in data:
                data = stream.read(size)
            stream.push_back(data.partition(b"\n")[2])
            continue
        if cut:
            yield b"".join([*waiting, memoryview(data)[:cut]])
            waiting, held = [], 0
        if cut < len(data):
            waiting.append(data[cut:])
            held += len(data) - cut
    if held:
        yield b"".join(waiting)


def ended_lines(stream: Stream) -> Iterator[bytes]:
    """Yield a stream's bytes but for a last line without its end, of which the stream is told."""
    rest: list[bytes] = []
    while data := stream.read(BLOCK):
        end = last_line_end(data)
        if end:
            yield b"".join([*rest, memoryview(data)[:end]])
            rest = []
        rest.append(data[end:])
    if any(map(bytes.strip, rest)):
        stream.notes.append(NOT_ENDED)


def last_line_end(data: bytes) -> int:
    """Return the length of the whole lines; progress bars end theirs with a carriage return."""
    return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1


def line_count(block: bytes) -> int:
    """Return how many lines a block holds, the last one with or without its end.

    NumPy counts them five times faster than ``bytes.count``.
    """
    ends = np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
    return int(ends) + (not block.endswith(b"\n"))


def in_order(
    work: Callable[[bytes], Result], stream_blocks: Iterable[bytes], *, ahead: bool
) -> Iterator[tuple[bytes, Result]]:
    """Yield each block with its result, in order; work on the next ones ``ahead`` meanwhile."""
    if not ahead:
        yield from ((block, work(block)) for block in stream_blocks)
        return
    # Imported here: it brings logging along, which a small log does not wait for.
    from concurrent.futures import Future, ThreadPoolExecutor

    threads = min(os.cpu_count() or 1, _THREADS)
    pending: deque[tuple[bytes, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for block in stream_blocks:
            pending.append((block, pool.submit(np.errstate(all="ignore")(work), block)))
            if len(pending) > threads + 1:
                ready, future = pending.popleft()
                yield ready, future.result()
        while pending:
            ready, future = pending.popleft()
            yield ready, future.result()
