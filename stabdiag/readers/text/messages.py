"""Lines that say in words what no scalar tells: out of memory, a timeout, a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventCode, EventKind
from stabdiag.model.text import plural
from stabdiag.readers.text.clean import Text, inert, line_end, places_of


@frozen
class Sort:
    """A sort of message: its lines match ``line``, and hold one of the texts ``anchors``.

    The whole log is searched for each anchor, so there are few of them, and sorts share them.
    """

    code: EventCode
    title: str
    anchors: tuple[bytes, ...]
    line: re.Pattern[bytes]


SORTS: Final = (
    Sort(
        code=EventCode.OUT_OF_MEMORY,
        title="out of memory",
        anchors=(b"rror", b"ut of memory", b"oom", b"OOMK"),
        line=re.compile(
            rb"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError: |CUDA_ERROR_OUT_OF_MEMORY"
            rb"|RESOURCE_EXHAUSTED: Out of memory|Out of memory: Killed process|oom.kill|OOMKilled"
        ),
    ),
    Sort(
        code=EventCode.COLLECTIVE_FAILED,
        title="collective communication failed",
        anchors=(b"rror", b"atchdog", b"NCCL t"),
        line=re.compile(
            rb"collective operation timeout|NCCL (?:timeout|error)|DistBackendError: "
            rb"|nccl(?:(?:System|Internal|Remote)Error|UnhandledCudaError)"
            rb"|atchdog (?:got stuck|thread terminated)"
        ),
    ),
    Sort(
        code=EventCode.SCALE_AT_MINIMUM,
        title="the loss scale cannot fall any further",
        anchors=(b"inimum",),
        line=re.compile(rb"loss scale already at minimum|inimum loss scale reached \(\d"),
    ),
    Sort(
        code=EventCode.NOT_FINITE,
        title="a value that is not finite",
        anchors=(b"Loss is ", b"NaN in "),
        line=re.compile(
            rb"Loss is (?:nan|inf)|found (?:NaN|Inf) in (?:local|forward|grad|loss|param)"
        ),
    ),
    Sort(
        code=EventCode.CUDA_ERROR,
        title="CUDA error",
        anchors=(b"rror", b"_STATUS_"),
        line=re.compile(
            rb"CUDA error: (?!out of memory)|CU(?:BLAS|DNN|FFT|SOLVER)_STATUS_(?!SUCCESS)[A-Z]"
            rb"|cudaError[A-Z]"
        ),
    ),
    Sort(
        code=EventCode.KILLED,
        title="killed",
        anchors=(b"SIG", b"Killed", b"Segmentation", b"rror", b"xit", b"core dumped", b"free"),
        line=re.compile(
            rb"(?:[Rr]eceived|[Gg]ot|[Cc]aught|by|with|exitcode|\*\*\*)[^\n]{0,60}SIG[A-Z]{3,4}"
            rb"|Signal \d{1,2} \(SIG|Segmentation fault(?: \(core|\s{0,9}$)|CANCELLED AT"
            rb"|\(core dumped\)|is killed by signal|DUE TO (?:TIME LIMIT|PREEMPTION)"
            rb"|[Ee]xit(?:ed)?[- ]?(?:with )?(?:exit )?(?:code|status)[ :=]{1,4}(?!0\b)-?\d"
            rb"|SIG(?:TERM|KILL|INT|SEGV|ABRT|BUS|USR1) received|^(?:free\(\): |double free or )"
            rb"|make: \*\*\* [^\n]{0,80}Error \d|\bKilled\s{0,80}$"
            rb"|\bKilled\s{1,80}(?:python|torchrun|srun)"
        ),
    ),
)

# An exception without its traceback: the last line of a log that was cut, or of a C++ program.
_EXCEPTION: Final = Sort(
    code=EventCode.TRACEBACK,
    title="traceback",
    anchors=(b"rror", b"Exception", b"KeyboardInterrupt", b"terminate called"),
    line=re.compile(
        rb"^(?:\[\w.: -]{1,40}\]:? ?|\w{1,12}[:|] )?(?:[A-Za-z_]\w{0,60}\.){0,8}"
        rb"(?:[A-Z]\w{0,60}(?:Error|Exception)(?:: |:?\s{0,9}$)|KeyboardInterrupt\s{0,9}$)"
        rb"|^terminate called (?:after throwing|without an active exception)"
    ),
)

# The anchors of messages that may stand on the line of a record.
_APPENDED: Final = (b"rror", b"ut of memory", b"atchdog", b"NCCL t", b"SIG", b"Killed", b"NaN in ")

_ANCHORS: Final = tuple(
    dict.fromkeys(anchor for sort in (*SORTS, _EXCEPTION) for anchor in sort.anchors)
)

_TRACEBACK: Final = b"Traceback (most recent call last)"
_TITLES: Final = {sort.code: sort.title for sort in SORTS} | {EventCode.TRACEBACK: "traceback"}

# How many lines a traceback may have before the one that names the exception.
_FRAMES: Final = 400

_LONGEST: Final = 200
_BEFORE: Final = 200
_AFTER: Final = 2000

# How many messages of one sort are kept; the others are only counted.
_TOLD: Final = 5

# How many tracebacks of a block are followed to their end: each rank of a crash writes one.
_FOLLOWED: Final = 1000


@frozen
class _Told:
    """A message: its text, its line, and its place in the log, which gives the step."""

    text: str
    line: int
    place: int


class Messages:
    """Gathers messages block by block."""

    def __init__(self) -> None:
        """Begin with none."""
        self._told: dict[EventCode, list[_Told]] = {}
        self._counts: dict[EventCode, int] = {}

    def look(self, text: Text, offset: int, *, quick: bool = False) -> list[tuple[int, int]]:
        """Find the messages of a text that lies ``offset`` bytes into the log; return their spans.

        ``quick`` says that all lines are records, to which only some messages are appended.

        A traceback is one message, from its first line to its last.
        """
        spans = []
        followed = [
            (place, *_exception(text.data, place))
            for place in islice(places_of(text.data, _TRACEBACK), _FOLLOWED)
        ]
        ends = {end for _, _, end in followed}
        found = [*_found(text.data, _APPENDED if quick else _ANCHORS)]
        # An exception that another sort describes, or that ends a traceback, is one message.
        ends |= {place for place, code, _ in found if code is not EventCode.TRACEBACK}
        for place, code, line in found:
            if code is EventCode.TRACEBACK and not ends.isdisjoint(range(place, place + len(line))):
                continue
            self._add(text, offset, place, code, line)
            spans.append((place, place))
        for place, said, end in followed:
            self._add(text, offset, place, EventCode.TRACEBACK, said)
            spans.append((place, end))
        return spans

    def add_report(self, text: Text, offset: int, place: int) -> None:
        """Add the line at a place, which reports a value that is not finite in words of its own."""
        line = text.data[place : line_end(text.data, place, _AFTER)]
        self._add(text, offset, place, EventCode.NOT_FINITE, line)

    def copy(self) -> Messages:
        """Return the same messages, to which others can be added."""
        other = Messages()
        other._told = {code: [*told] for code, told in self._told.items()}
        other._counts = dict(self._counts)
        return other

    def _add(self, text: Text, offset: int, place: int, code: EventCode, line: bytes) -> None:
        self._counts[code] = self._counts.get(code, 0) + 1
        told = self._told.setdefault(code, [])
        if len(told) >= _TOLD:
            return
        said = inert(line, _LONGEST)
        if all(one.text != said for one in told):
            told.append(_Told(text=said, line=int(text.lines_at([place])[0]), place=offset + place))

    def events(self, step_at: Callable[[int], int | None]) -> tuple[Event, ...]:
        """Return the messages as events, in the order of the log."""
        events = []
        for code, told in self._told.items():
            made = [
                Event(
                    kind=EventKind.MESSAGE,
                    code=code,
                    message=f"{_TITLES[code]}: {one.text}",
                    said=one.text,
                    step=step_at(one.place),
                    line=one.line,
                )
                for one in told
            ]
            more = self._counts[code] - len(told)
            if more:
                also = f"(and {plural(more, 'more such line')})"
                made[-1] = replace(made[-1], message=f"{made[-1].message} {also}")
            events += made
        return tuple(sorted(events, key=lambda event: event.line or 0))


def _found(data: bytes, anchors: Sequence[bytes]) -> Iterator[tuple[int, EventCode, bytes]]:
    """Yield place, code and line of each message."""
    for anchor in anchors:
        sorts = [sort for sort in (*SORTS, _EXCEPTION) if anchor in sort.anchors]
        seen = 0
        for place in places_of(data, anchor):
            if place < seen:
                continue
            begin = max(_begin(data, place), seen)
            seen = line_end(data, place, _AFTER)
            line = data[begin:seen]
            for sort in sorts:
                if sort.line.search(line) and _first_anchor(sort, line) == anchor:
                    yield begin, sort.code, line
                    break


def _exception(data: bytes, place: int) -> tuple[bytes, int]:
    """Return the last line of the traceback that begins at a place, and where that is.

    It is the first line that is not indented, among those with the same prefix as the first line of
    the traceback: each rank may name itself there.
    """
    prefix = data[_begin(data, place) : place]
    for _ in range(_FRAMES):
        start = data.find(b"\n", place, place + _AFTER) + 1
        if start in (0, len(data)):
            break
        place = start + len(prefix)
        if data.startswith(prefix, start) and data[place : place + 1] not in (b" ", b"\t", b"\n"):
            return data[place : line_end(data, place, _AFTER)], place
        place = start
    return _TRACEBACK, place


def _begin(data: bytes, place: int) -> int:
    """Return where the line of a place begins, or a place shortly before it in a long line."""
    near = max(place - _BEFORE, 0)
    return max(data.rfind(b"\n", near, place) + 1, near)


def _first_anchor(sort: Sort, line: bytes) -> bytes | None:
    """Return the anchor that finds a line, so that one with several anchors counts once."""
    return next((anchor for anchor in sort.anchors if anchor in line), None)
