"""Find messages that no scalar shows: out of memory, a timeout, a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from stabdiag.model.events import Event, EventCode, EventKind, Phase
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import plural
from stabdiag.readers.text.clean import Text, find_positions, inert, line_end, words_in


@frozen
class MessageKind:
    """A kind of message: its lines match ``line``, and contain one of the texts ``anchors``.

    The whole log is searched for each anchor, so that kinds share a few anchors. If a pattern is
    slow, its lines also contain one of ``words``, which excludes most others.
    """

    code: EventCode
    title: str
    anchors: tuple[bytes, ...]
    line: re.Pattern[bytes]
    words: tuple[bytes, ...] = (b"",)

    def describes(self, line: bytes) -> bool:
        """Return True if a line is a message of this kind."""
        return any(word in line for word in self.words) and self.line.search(line) is not None


SORTS: Final = (
    MessageKind(
        code=EventCode.OUT_OF_MEMORY,
        title="out of memory",
        anchors=(
            *(b"rror", b"ut of memory", b"ut Of Memory", b"oom", b"OOMK", b"o allocate"),
            *(b"nsufficient Memory", b"ran out of ", b"_EXHAUSTED", b"OOM", b"low on resource"),
            *(b"ll available ", "存不足".encode(), "存溢出".encode(), "メモリ不足".encode()),
            *("памяти".encode(), b"memoria insuf", b"moire insuf"),
        ),
        line=lazy_pattern(
            rb"(?:CUDA|HIP|XPU|GPU|MPS|TPU|backend) out of memory(?![\"'`] errors?)"
            rb"|OutOfMemoryError: |CUDA_ERROR_OUT_OF_MEMORY"
            rb"|RESOURCE_EXHAUSTED|^Out of memory\b|Out of memory: Killed process"
            rb"|oom.kill|OOMKilled"
            rb"|(?:rror|ailed): [^\n]{0,40}\bout of memory|\bFailed to allocate (?:memory|\d)"
            rb"|execution failed: Insufficient Memory|error \(2\) ?: out of memory"
            rb"|task \d{1,6}: Out Of Memory|\b[Rr]an out of (?:\w{1,10} )?memory\b"
            rb"|[Ee]xceeded (?:job |step |the )?(?:\w{1,10} )?memory limit"
            rb"|\bOOM(?:!|:? (?:[Kk]ill|[Ee]rror|occurred|detected|encountered|when |while ))"
            rb"|low on resource: memory|using all available (?:RAM|memory)"
            + "|(?:显|内)存(?:不足|溢出)|メモリ不足|едостаточно памяти".encode()
            + "|memoria insuficiente|m(?:e|é)moire insuffisante".encode()
        ),
    ),
    MessageKind(
        code=EventCode.DISK_FULL,
        title="the disk is full",
        anchors=(b"o space left", b"ENOSPC", b"uota "),
        line=lazy_pattern(
            rb"[Nn]o space left on device|\bENOSPC\b"
            rb"|[Qq]uota (?:was |has been )?exceeded|[Ee]xceeded (?:\w{1,10} ){0,3}quota\b"
        ),
    ),
    MessageKind(
        code=EventCode.COLLECTIVE_FAILED,
        title="collective communication failed",
        anchors=(b"rror", b"atchdog", b"NCCL t"),
        line=lazy_pattern(
            rb"collective operation timeout|NCCL (?:timeout|error)|DistBackendError: "
            rb"|nccl(?:(?:System|Internal|Remote)Error|UnhandledCudaError)"
            rb"|atchdog (?:got stuck|thread terminated)"
        ),
    ),
    MessageKind(
        code=EventCode.SCALE_AT_MINIMUM,
        title="the loss scale cannot fall any further",
        anchors=(b"inimum",),
        line=lazy_pattern(rb"loss scale already at minimum|inimum loss scale reached \(\d"),
    ),
    MessageKind(
        code=EventCode.NOT_FINITE,
        title="a value that is not finite",
        anchors=(b"Loss is ", b"NaN in "),
        line=lazy_pattern(
            rb"Loss is (?:nan|inf)|found (?:NaN|Inf) in (?:local|forward|grad|loss|param)"
        ),
    ),
    MessageKind(
        code=EventCode.LOSS_EXPLODED,
        title="the program stopped as the loss exploded",
        anchors=(b"xplod", b"iverg", b"oss > ", b"oss exceed", b"oss too ", b"blew up"),
        line=lazy_pattern(
            rb"(?:[Ee]xplod(?:ed|ing)|[Dd]iverg(?:ed|ing|ence))\b[^\n]{0,60}"
            rb"\b(?:[Aa]bort|[Ss]topping|[Tt]erminating|[Ee]xiting|[Qq]uitting|[Gg]iving up"
            rb"|[Kk]illing)"
            rb"|(?:[Aa]bort|[Ss]topp|[Tt]erminat|[Ee]xit|[Qq]uitt)(?:ing|ed)?\b[^\n]{0,40}"
            rb"(?:\b(?:exploded|exploding|diverged|diverging|blew up)\b"
            rb"|\b[Ll]oss (?:> ?\d|exceed(?:s|ed) (?:the )?(?:\d|limit|threshold|max)"
            rb"|too (?:high|large)[\s.!]{0,9}(?:$|[(,;])))"
        ),
    ),
    MessageKind(
        code=EventCode.CUDA_ERROR,
        title="CUDA error",
        anchors=(b"rror", b"_STATUS_", b"Assertion `", b"CUDA_ERROR"),
        line=lazy_pattern(
            rb"CUDA error: (?!out of memory)|CU(?:BLAS|DNN|FFT|SOLVER)_STATUS_(?!SUCCESS)[A-Z]"
            rb"|\.cuh?:\d{1,9}:[^\n]{0,120}Assertion `"
            rb"|cudaError[A-Z]|\bCUDA_ERROR_(?!OUT_OF_MEMORY)[A-Z]"
        ),
    ),
    MessageKind(
        code=EventCode.KILLED,
        title="killed",
        anchors=(
            *(b"SIG", b"illed", b"egmentation", b"rror", b"xit", b"core dumped", b"free"),
            *(b"erminated", b"borted", b"reempted", b"rashed", b"died", b"ancel"),
            *(b"on signal ", b"by signal ", b"th signal ", b"ught signal "),
            *(b"nterrupted", b"victed", b"xceeded", b"ode fail", b"oint exception", b"is lost"),
            *(b"forcing job", b"illing job", b"smashing", b"corrupted ", b"malloc", b"munmap"),
            *(b"lost communication", b"off the bus", b"MPI_ABORT", b"illing ", b"borting "),
            *(b"erminating ", b"nterruption", b"will be ", b"isconnected", b"timed out"),
            *(b"ignal: ", b"bort(", b"revoked", b"deleted by", b"panic", b"pure virtual"),
            *(b"requested cancel", b"was stopped", b"tack overflow"),
            *(b"TimeExceeded", b"timeExceeded", b"ack-off", b"BackOff", b"ailed", b"FAILED"),
        ),
        words=(
            *(b"SIG", b"ignal ", b"Signal", b"CANCELLED", b"core dumped", b"DUE TO", b"xit"),
            *(b"illed", b"illing job", b"egmentation fault", b"us error", b"oint exception"),
            *(b"llegal ", b"bort", b"erminated", b"ode fail", b"off the bus", b"is lost"),
            *(b"lost communication", b"forcing job", b"xceeded ", b"reempted", b"rashed"),
            *(b"ancel", b"died", b"nterrupted", b"victed", b"unexpectedly", b"make: *"),
            *(b"free", b"alloc(", b"munmap", b"corrupted ", b"smashing", b"atal Python"),
            *(b"MPI_ABORT", b"illing ", b"rminating ", b"nterruption", b"nstance will be"),
            *(b"isconnected", b"ession ", b"imeExceeded", b"ack-off", b"BackOff"),
            *(b"ailed", b"FAILED", b"revoked", b"deleted by", b"panic", b"pure virtual"),
            *(b"was stopped", b"*** Error in", b"tack overflow"),
        ),
        line=lazy_pattern(
            rb"(?:[Rr]eceived|[Gg]ot|[Cc]aught|by|with|exitcode|\*\*\*)[^\n]{0,60}SIG[A-Z]{3,4}"
            rb"(?![^\n]{0,80}\bcontinu)"
            rb"|Signal \d{1,2} \(SIG|CANCELLED AT|\(core dumped\)|is killed by signal"
            rb"|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)"
            rb"|[Ee]xit(?:ed|s|ing)?[- ]?(?:with )?(?:exit |error |return |non-?zero )?"
            rb"(?:code|status)[ :=]{1,4}(?!0\b)-?\d"
            rb"|SIG(?:TERM|KILL|INT|SEGV|ABRT|BUS|USR1) received|^double free or "
            rb"|^(?:free|malloc|realloc|munmap_chunk)\(\): (?:invalid|corrupt|double|memory)"
            rb"|^corrupted (?:size|double)"
            rb"|stack smashing detected|^Fatal Python error: "
            rb"|make: \*\*\* [^\n]{0,80}Error \d|\bKilled\s{0,80}$"
            rb"|\bKilled\s{1,80}(?:python|torchrun|srun)"
            rb"|\b(?:exited on|terminated by|killed by|died with|caught) signal \d"
            # What a shell says of the program that it ran.
            rb"|^(?:\w{2,5}: (?:line \d{1,6}: )?)?(?:\[\d{1,4}\][+-]?\s{1,8})?(?:\d{1,9} )?"
            rb"(?:[Kk]illed|[Ss]egmentation fault|[Bb]us error|[Ff]loating point exception"
            rb"|[Ii]llegal (?:hardware )?instruction|[Aa]bort(?:ed)?!?|Terminated)"
            rb"(?:: [1-9]\d?)?(?:\s{0,80}$|\s{2,40}\S)"
            rb"|[Nn]ode fail(?:ure|ed)\b|fallen off the bus|GPU is lost|lost communication with"
            rb"|forcing job termination|^mpi\w{2,5}: killing job|job killed[: ]"
            rb"|[Ee]xceeded (?:the |its )?(?:job )?(?:wall ?(?:clock )?time|time limit)"
            rb"|\bSignal: (?:Segm|Abort|Bus|Kill|Term|Float|Illeg)|^Abort\(\d"
            rb"|^pure virtual method called|^[Ss]tack overflow\b"
            rb"|\*\*\* Error in [^\n]{1,80}: (?:free|malloc|double|corr)"
            rb"|\b[Jj]ob(?: allocation)?(?: [\w.-]{0,60}\d)? (?:has been |was )?"
            rb"(?:revoked|deleted by|terminated by)\b|requested cancellation of"
            rb"|\b[Rr]un was stopped (?:from|by)\b|^Kernel panic(?! is)\b"
            rb"|MPI_ABORT was invoked|Killing subprocess \d|Max(?:Runtime|WaitTime)Exceeded"
            rb"|Back-off restarting failed|\bCrashLoopBackOff\b"
            rb"|\b(?:[Kk]illing|[Aa]borting|[Tt]erminating) (?:the |this )?"
            rb"(?:job|process(?: group)?|run|trainer|training|program)\b(?! (?:time|loop))"
            rb"|\b[Ss]pot [\w ]{0,12}interruption"
            rb"|\binstance will be (?:terminated|stopped|reclaimed)"
            rb"|\b(?:[Ss]ession|[Rr]untime|[Kk]ernel) (?:has |was |has been )?"
            rb"(?:crashed|died|timed out|disconnected)\b"
            rb"|(?<![Nn]o )\b(?:[Jj]ob|[Rr]un|[Tt]raining(?: job)?)(?: [\w.-]{1,40})? (?:has )?"
            rb"(?:failed|FAILED)(?=[\s.!]{0,9}$|[:;,.]| (?:with|due|after|because)\b)"
            rb"(?![^\n]{0,80}\bretry)"
            # What happened to a part of the job.
            rb"|(?<![Nn]o )\b(?:[Jj]ob|[Rr]un|[Tt]ask|[Tt]raining|[Pp]rocess(?:es|\(es\))?"
            rb"|[Ww]orker|[Aa]ctor|[Nn]ode|[Rr]ank|[Ii]nstance|[Oo]peration|[Pp]od|[Cc]ontainer|^User)"
            rb"(?: step| [\w.-]{0,60}\d| \(pid[^\n)]{0,20}\)[^\n]{0,20})?"
            rb"(?: was| were| has been| got)? (?:aborted|preempted|crashed|killed|cancell?ed|died"
            rb"|interrupted|evicted|exited unexpectedly)"
            rb"(?=[\s.!]{0,9}$|[:;,]| (?:by|due|after|because|on|at|with|unexpectedly)\b)"
        ),
    ),
)

# An exception without its traceback: the last line of a log that was cut, or of a C++ program.
_LONE_EXCEPTION: Final = MessageKind(
    code=EventCode.TRACEBACK,
    title="traceback",
    anchors=(
        *(b"rror", b"Exception", b"KeyboardInterrupt", b"terminate called"),
        *(b"abi: terminating", b"panic: ", b"panicked at", b"atal error: "),
        *(b"FATAL", b"CRITICAL", b"atal e", b"heck failed"),
    ),
    line=lazy_pattern(
        rb"^(?:\[\w.: -]{1,40}\]:? ?|\w{1,12}[:|] )?(?:[A-Za-z_]\w{0,60}\.){0,8}"
        rb"(?:_?[A-Z]\w{0,60}(?:Error|Exception)(?:: |:?\s{0,9}$)|KeyboardInterrupt\s{0,9}$)"
        rb"|^terminate called (?:after throwing|without an active exception|recursively)"
        rb"|^panic: |^thread '[^'\n]{1,40}' panicked at |^fatal error: |^Error in [^\n]{1,80}\) : "
        rb"|^libc\+\+abi(?:\.dylib)?: terminating"
        rb"|(?<!\b[Nn]o )\b[Ff]atal (?:error|exception)\b(?! (?:handl|rate|count))"
        rb"|^F\d{4} \d\d:\d\d:\d\d\.\d[^\n]{0,80}\] "
        # The level of a line, after its time and its place.
        rb"|^[^\na-z\"'=]{0,60}[\w.:/ -]{0,40}\b(?:FATAL|CRITICAL)(?: ERROR)?(?:[\]:|]| - )"
    ),
)

# The anchors of messages that may be on the line of a record.
_APPENDED: Final = (b"rror", b"ut of memory", b"atchdog", b"NCCL t", b"SIG", b"illed", b"NaN in ")

_MESSAGE_ANCHORS: Final = tuple(
    dict.fromkeys(anchor for sort in (*SORTS, _LONE_EXCEPTION) for anchor in sort.anchors)
)

_CODES: Final = [sort.code for sort in (*SORTS, _LONE_EXCEPTION)]

_TRACEBACK: Final = b"Traceback (most recent call last)"
_MESSAGE_TITLES: Final = {sort.code: sort.title for sort in SORTS} | {
    EventCode.TRACEBACK: "traceback"
}

# The frames of a traceback that show a phase; the first that matches counts.
_PHASES: Final = (
    (Phase.UPDATE, lazy_pattern(rb" in (?:_init_group|_(?:single|multi)_tensor_\w+)\b")),
    (Phase.UPDATE, lazy_pattern(rb"optimizer\.step\(\)\s*$")),
    (Phase.EVALUATION, lazy_pattern(rb" in \w*(?:eval|valid|predict|test_step|test_epoch)\w*\b")),
)

# The most lines of a traceback before the line with the exception.
_FRAMES: Final = 400

_MAX_MESSAGE_LENGTH: Final = 200
_BYTES_BEFORE: Final = 200
_BYTES_AFTER: Final = 2000

# This many messages of one kind are kept; the others are only counted.
_MAX_MESSAGES_OF_KIND: Final = 5

# At most this many tracebacks of a block are read to their end: each rank of a crash writes one.
_FOLLOWED: Final = 1000


@frozen
class _Message:
    """A message: its text, its line, and its position in the log, which gives the step."""

    text: str
    line: int
    place: int
    phase: Phase | None = None


def may_be_message(data: bytes) -> bool:
    """Return True if a text may hold a message; cheap."""
    return bool(words_in(data, _MESSAGE_ANCHORS))


class Messages:
    """Collects messages block by block."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._messages: dict[EventCode, list[_Message]] = {}
        self._counts: dict[EventCode, int] = {}

    def look(self, text: Text, offset: int, *, quick: bool = False) -> list[tuple[int, int]]:
        """Find the messages of a text, ``offset`` bytes into the log, and return their spans.

        With ``quick``, all lines are records, to which only some messages are appended. A traceback
        is one message, from its first line to its last.
        """
        spans = []
        followed = [
            (place, *_exception(text.data, place))
            for place in islice(find_positions(text.data, _TRACEBACK), _FOLLOWED)
        ]
        ends = {end for _, _, end in followed}
        messages = [*_find_messages(text.data, _APPENDED if quick else _MESSAGE_ANCHORS)]
        # A line that several kinds describe is one message, of the first of these kinds.
        messages.sort(key=lambda message: _CODES.index(message[1]))
        named: set[int] = set()
        for place, code, line in messages:
            span = range(place, place + len(line))
            if not ends.isdisjoint(span):
                continue  # the last line of a traceback
            if not named.isdisjoint(span):
                continue
            named.add(place)
            self._add(text, offset, place, code, line)
            spans.append((place, place))
        for place, last_line, end in followed:
            phase = _phase(text.data[place:end])
            self._add(text, offset, place, _code(last_line), last_line, phase)
            spans.append((place, end))
        return spans

    def add_report(self, text: Text, offset: int, place: int) -> None:
        """Add the line at a position, which reports a value that is not finite."""
        line = text.data[place : line_end(text.data, place, _BYTES_AFTER)]
        self._add(text, offset, place, EventCode.NOT_FINITE, line)

    def copy(self) -> Messages:
        """Return a copy for trial additions."""
        other = Messages()
        other._messages = {code: [*messages] for code, messages in self._messages.items()}
        other._counts = dict(self._counts)
        return other

    def _add(
        self,
        text: Text,
        offset: int,
        place: int,
        code: EventCode,
        line: bytes,
        phase: Phase | None = None,
    ) -> None:
        self._counts[code] = self._counts.get(code, 0) + 1
        messages = self._messages.setdefault(code, [])
        if len(messages) >= _MAX_MESSAGES_OF_KIND:
            return
        message = inert(line, _MAX_MESSAGE_LENGTH)
        if all(other.text != message for other in messages):
            number = int(text.line_numbers([place])[0])
            messages.append(_Message(text=message, line=number, place=offset + place, phase=phase))

    def events(self, reached_step: Callable[[int], tuple[int | None, int]]) -> tuple[Event, ...]:
        """Return the messages as events, in the order of the log.

        ``reached_step`` returns the step and the number of records at a position.
        """
        events = []
        for code, messages in self._messages.items():
            shown = []
            for message in messages:
                step, above = reached_step(message.place)
                event = Event(
                    kind=EventKind.MESSAGE,
                    code=code,
                    message=f"{_MESSAGE_TITLES[code]}: {message.text}",
                    quote=message.text,
                    step=step,
                    line=message.line,
                    phase=message.phase,
                    above=above,
                )
                shown.append(event)
            remaining = self._counts[code] - len(messages)
            if remaining:
                count = f"(and {plural(remaining, 'more such line')})"
                shown[-1] = replace(shown[-1], message=f"{shown[-1].message} {count}")
            events += shown
        return tuple(sorted(events, key=lambda event: event.line or 0))


def _find_messages(data: bytes, anchors: Sequence[bytes]) -> Iterator[tuple[int, EventCode, bytes]]:
    """Yield the position, the code and the line of each message."""
    for anchor in words_in(data, anchors):
        sorts = [sort for sort in (*SORTS, _LONE_EXCEPTION) if anchor in sort.anchors]
        seen = 0
        for place in find_positions(data, anchor):
            if place < seen:
                continue
            begin = max(_begin(data, place), seen)
            seen = line_end(data, place, _BYTES_AFTER)
            line = data[begin:seen]
            for sort in sorts:
                if _first_anchor(sort, line) == anchor and sort.describes(line):
                    yield begin, sort.code, line
                    break


def _exception(data: bytes, place: int) -> tuple[bytes, int]:
    """Return the last line of the traceback at a position, and its position.

    It is the first line that is not indented, among the lines with the same prefix as the first
    line of the traceback: the prefix may name the rank.
    """
    prefix = data[_begin(data, place) : place]
    # A terminal prints ^C, or a progress bar, above a traceback whose other lines have no prefix.
    following = data.find(b"\n", place, place + _BYTES_AFTER) + 1
    if following and not data.startswith(prefix, following):
        prefix = b""
    for _ in range(_FRAMES):
        start = data.find(b"\n", place, place + _BYTES_AFTER) + 1
        if start in (0, len(data)):
            break
        place = start + len(prefix)
        if data.startswith(prefix, start) and data[place : place + 1] not in (b" ", b"\t", b"\n"):
            return data[place : line_end(data, place, _BYTES_AFTER)], place
        place = start
    return _TRACEBACK, place


def _code(last_line: bytes) -> EventCode:
    """Return the kind of an exception, by the last line of its traceback."""
    codes = (sort.code for sort in SORTS if sort.describes(last_line))
    return next(codes, EventCode.TRACEBACK)


def _phase(frames: bytes) -> Phase | None:
    """Return the part of the run that a traceback ends in."""
    frames = frames.rstrip()
    return next((phase for phase, pattern in _PHASES if pattern.search(frames)), None)


def _begin(data: bytes, place: int) -> int:
    """Return the start of a line, or a position shortly before ``place`` in a long line."""
    earliest = max(place - _BYTES_BEFORE, 0)
    return max(data.rfind(b"\n", earliest, place) + 1, earliest)


def _first_anchor(sort: MessageKind, line: bytes) -> bytes | None:
    """Return the first anchor in a line, so that a line with several anchors counts once."""
    return next((anchor for anchor in sort.anchors if anchor in line), None)
