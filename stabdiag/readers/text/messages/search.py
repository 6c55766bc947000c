"""Find messages that no scalar shows: out of memory, a timeout, a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from stabdiag.model.events import LAST_LINES, Event, EventCode, EventKind, Phase
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import plural
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.text.lines.clean import Text, inert
from stabdiag.readers.text.lines.fixed_texts import find_positions, line_end
from stabdiag.readers.text.lines.line_forms import words_in
from stabdiag.readers.text.messages.alarms import find_alarm
from stabdiag.readers.text.messages.closing_lines import find_closing_line
from stabdiag.readers.text.messages.failure_search import may_report
from stabdiag.readers.text.messages.failures import states_failure
from stabdiag.readers.text.messages.message_kinds import LONE_EXCEPTION, SORTS, MessageKind

# The anchors of messages that may be on the line of a record.
_APPENDED: Final = (b"rror", b"ut of memory", b"atchdog", b"NCCL t", b"SIG", b"illed", b"NaN in ")

_MESSAGE_ANCHORS: Final = tuple(
    dict.fromkeys(anchor for sort in (*SORTS, LONE_EXCEPTION) for anchor in sort.anchors)
)

_CODES: Final = [sort.code for sort in (*SORTS, LONE_EXCEPTION)]

_TRACEBACK: Final = b"Traceback (most recent call last)"
# The message about the end of a run is in this many bytes at the end of a text.
_ENDING_BYTES: Final = 1 << 14
_MESSAGE_TITLES: Final = {sort.code: sort.title for sort in SORTS} | {
    EventCode.TRACEBACK: "traceback",
    EventCode.LAST_WORDS: "the last line",
    EventCode.CLOSING_LINE: "the last line",
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


def find_message(data: bytes, start: int) -> int | None:
    """Return the position of the first message from ``start`` on, or None."""
    text = data[start:]
    anchors = words_in(text, _MESSAGE_ANCHORS)
    # The messages of an anchor are in order, and there may be many.
    firsts = (next(_find_messages(text, (anchor,)), None) for anchor in anchors)
    places = [first[0] for first in firsts if first is not None]
    places += islice(find_positions(text, _TRACEBACK), 1)
    return start + min(places) if places else None


def find_failure(data: bytes, longest: int) -> tuple[int, bytes] | None:
    """Return the position and the line of a report of a failure, or None.

    The first report of values that are not finite, with at most ``longest`` bytes, has priority
    over the last message at the end of the text, of a traceback its last line.
    """
    if may_report(data):
        begin = 0
        for line in data.split(b"\n"):
            if len(line) <= longest and states_failure(line):
                return begin, line
            begin += len(line) + 1
    # A single line may be longer.
    start = max(len(data) - _ENDING_BYTES, 0)
    start = max(data.find(b"\n", start) + 1, start) if start else 0
    end = data[start:]
    messages = [place for place, _, _ in _find_messages(end, _MESSAGE_ANCHORS)]
    exceptions = [_exception(end, place) for place in find_positions(end, _TRACEBACK)]
    # A traceback that breaks off does not name its exception.
    places = [*messages, *(place for line, place in exceptions if line != _TRACEBACK)]
    places = places or [place for _, place in exceptions]
    if not places:
        return None
    last = max(places)
    return start + last, end[last : line_end(end, last, _BYTES_AFTER)]


class Messages(Copyable):
    """Collects messages block by block."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._messages: dict[EventCode, list[_Message]] = {}
        self._counts: dict[EventCode, int] = {}

    def look(self, text: Text, offset: int, *, quick: bool = False) -> list[tuple[int, int]]:
        """Find the messages of a text, ``offset`` bytes into the log, and return their spans.

        With ``quick``, all lines are records, and only some messages are appended to them. A
        traceback is one message, from its first line to its last.
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
        alarm = find_alarm(text.data)
        if alarm is not None and not any(begin <= alarm <= end for begin, end in spans):
            line = text.data[alarm : line_end(text.data, alarm, _BYTES_AFTER)]
            if all(line not in other for _, _, other in messages):
                self._messages.pop(EventCode.LAST_WORDS, None)
                # The line itself may be a record of what it reports.
                end = alarm + max(len(line) - 1, 0)
                self._add(text, offset, end, EventCode.LAST_WORDS, line)
                spans.append((alarm, alarm))
        for place, last_line, end in followed:
            phase = _phase(text.data[place:end])
            self._add(text, offset, place, _code(last_line), last_line, phase)
            spans.append((place, end))
        return spans

    def look_at_end(self, text: Text, offset: int, used: int) -> list[tuple[int, int]]:
        """Keep the last line of a text as that of the log, and return its span in a list.

        Up to the position ``used``, the lines are records and other messages. There is no such line
        if the last one is among them, or if other rules know its words.
        """
        self._messages.pop(EventCode.CLOSING_LINE, None)
        begin = find_closing_line(text.data)
        if begin is None or begin <= used:
            return []
        line = text.data[begin : line_end(text.data, begin, _BYTES_AFTER)]
        self._add(text, offset, begin + len(line) - 1, EventCode.CLOSING_LINE, line)
        return [(begin, begin)]

    def add_report(self, text: Text, offset: int, place: int) -> None:
        """Add the line at a position, which reports a value that is not finite."""
        line = text.data[place : line_end(text.data, place, _BYTES_AFTER)]
        self._add(text, offset, place, EventCode.NOT_FINITE, line)

    def _add(
        self,
        text: Text,
        offset: int,
        place: int,
        code: EventCode,
        line: bytes,
        phase: Phase | None = None,
    ) -> None:
        repeats = code not in LAST_LINES
        self._counts[code] = repeats * self._counts.get(code, 0) + 1
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
        sorts = [sort for sort in (*SORTS, LONE_EXCEPTION) if anchor in sort.anchors]
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
    line of the traceback: the prefix may name the rank. If the text breaks off above it, the line
    is the heading.
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
