"""Join the lines of a log that a terminal or a mail program broke at a fixed width.

A terminal breaks a line in the middle of a word, a mail program at a blank. Both are recognized at
the head: records begin alike, and all lines of a record except the last fill the width.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import blocks
from stabdiag.readers.source import Stream
from stabdiag.readers.text.lines.line_forms import ALL_DIGITS

# The bytes of the head that are examined.
_HEAD_BYTES: Final = 1 << 14

# The narrowest terminal or mail. Shorter lines are lines of their own.
_MIN_WRAP_WIDTH: Final = 60

# At least this many records begin alike, and this fraction of them are broken as expected.
_MIN_RECORDS: Final = 3
_MIN_BROKEN: Final = 0.5
_MIN_EXPLAINED: Final = 0.9

# At least this fraction of the breaks of a terminal is inside a word, a number or a pair. A line of
# a table ends with a bar, and the next one begins with a bar.
_MIN_INSIDE: Final = 0.5
_NUMBER_BREAK: Final = lazy_pattern(rb"[\d.][\d.]|[^\s|][:,;=)\]|}]")
_WORD_BREAK: Final = lazy_pattern(rb"[A-Za-z_][a-z_]|\S['\"]|%b" % _NUMBER_BREAK.pattern)

_FILE_END: Final = lazy_pattern(rb"\.[A-Za-z]\w{0,6}\Z")

# A record is not continued beyond this length.
_MAX_RECORD: Final = 4000

# The first words of a line.
_FIRST_WORDS: Final = lazy_pattern(rb"\s{0,8}(\S{1,16}(?:\s{1,12}\S{1,8})?)")
_FIRST_BYTES: Final = 8 + 16 + 12 + 8
_NUMBERS: Final = lazy_pattern(rb"[\d\s]+")
_COUNT_AND_COLON: Final = lazy_pattern(rb" ?\d{1,9}: ")

# A label that a viewer, a launcher or a search puts before every line: 118:, 0: , 1707642001.482
_LINE_LABEL: Final = lazy_pattern(
    rb"\s{0,8}(?:\d{1,9} ?[:|)]|\d{6,12}\.\d{1,6}(?= )|[\w./-]{1,60}:(?:\d{1,9}:)?)"
)


@frozen
class _Wrap:
    """How a log was broken: where its records begin, and how its lines continue.

    Attributes:
        opening: the first words of each record, with each number as 0.
        width: the number of characters of a full line.
        at_blanks: lines are broken at blanks, and one blank is left at the break.
    """

    opening: bytes
    width: int
    at_blanks: bool

    def is_full(self, line: bytes, following: bytes) -> bool:
        """Return True if a line was broken because it and the next word exceed the width."""
        length = _length(line)
        if not self.at_blanks:
            return length == self.width
        has_blank = line.endswith(b" ") != following.startswith(b" ")
        # Two blanks at the end are a line break in Markdown. A count and a colon begin a line.
        is_separate = following.startswith(b"  ") or line.endswith(b"  ")
        is_separate |= _COUNT_AND_COLON.match(following) is not None
        if not (following.strip() and has_blank) or is_separate:
            return False
        next_word = following.split(None, 1)[0]
        return length <= self.width <= len(line.rstrip()) + 1 + len(next_word)

    def continues(self, line: bytes, following: bytes) -> bool:
        """Return True if the next line is the rest of a line."""
        begins = _opening(following) == self.opening or not following.strip()
        return not begins and self.is_full(line, following)


def joined_lines(stream: Stream) -> Stream:
    """Return the stream with its broken lines joined, or the stream itself."""
    wrap = _find_wrap(stream.peek(_HEAD_BYTES))
    return stream if wrap is None else stream.rewritten(_joined_blocks(stream, wrap))


def _find_wrap(head: bytes) -> _Wrap | None:
    """Return the line breaks that a program inserted into the records of a head, or None."""
    lines = head.replace(b"\r\n", b"\n").split(b"\n")[:-1]
    if len(lines) <= _MIN_RECORDS or b"\0" in head:
        return None
    if all(line[:1] == b"{" and line[-1:] == b"}" for line in lines):
        return None  # each line is a JSON object
    if max(map(len, lines)) < _MIN_WRAP_WIDTH:
        return None
    openings = [_opening(line) for line in lines]
    counts = Counter(opening for opening in openings if opening)
    for opening, count in counts.most_common(2):
        begins = [row for row, other in enumerate(openings) if other == opening]
        if count < _MIN_RECORDS or begins[-1] - begins[0] < (1 + _MIN_BROKEN) * (count - 1):
            continue
        records = [_before_blank(lines[begin:end]) for begin, end in pairwise(begins)]
        if _are_labeled(records) or _are_counted(records):
            continue
        width = max(_length(line) for record in records for line in record)
        if width < _MIN_WRAP_WIDTH:
            continue
        wraps = [
            _Wrap(opening=opening, width=width, at_blanks=at_blanks) for at_blanks in (False, True)
        ]
        explained = [_count_explained(wrap, records) for wrap in wraps]
        if any(explained):
            return wraps[explained.index(max(explained))]
    return None


def _opening(line: bytes) -> bytes:
    """Return the first words of a line, with each number as 0."""
    return _opening_of_form(line[:_FIRST_BYTES].translate(ALL_DIGITS))


# The lines of a log begin in a few ways.
@lru_cache(maxsize=1 << 8)
def _opening_of_form(line: bytes) -> bytes:
    words = _FIRST_WORDS.match(line)
    return _NUMBERS.sub(b"0", words[1]) if words else b""


def _are_labeled(records: list[list[bytes]]) -> bool:
    """Return True if every line begins with the label of a record: no line continues another."""
    labels: set[bytes] = set()
    for line in chain.from_iterable(records):
        label = _LINE_LABEL.match(line)
        if label is None:
            return False
        labels.add(_NUMBERS.sub(b"0", label[0]))
        if len(labels) > 1:
            return False
    return bool(labels)


def _are_counted(records: list[list[bytes]]) -> bool:
    """Return True if the first cells count the lines, as in a table that pandas prints."""
    firsts = [line.split(None, 1)[0] for line in chain.from_iterable(records) if line.strip()]
    if not all(map(bytes.isdigit, firsts)):
        return False
    counts = [*map(int, firsts)]
    return all(after - before == 1 for before, after in pairwise(counts))


def _length(line: bytes) -> int:
    """Return the number of characters of a line."""
    return len(line) if line.isascii() else len(line.decode("utf-8", "replace"))


def _before_blank(lines: list[bytes]) -> list[bytes]:
    """Return the lines above the first blank one."""
    return lines[: next((row for row, line in enumerate(lines) if not line.strip()), len(lines))]


def _count_explained(wrap: _Wrap, records: list[list[bytes]]) -> int:
    """Return the number of records whose lines fill the width, 0 if too many do not."""
    broken = [record for record in records if len(record) > 1]
    fewest = math.ceil(max(2, _MIN_BROKEN * len(records), _MIN_EXPLAINED * len(broken)))
    expected: list[list[bytes]] = []
    for row, record in enumerate(broken):
        # The first records of most logs are not broken.
        if len(expected) + len(broken) - row < fewest:
            return 0
        if all(wrap.is_full(line, following) for line, following in pairwise(record)):
            expected.append(record)
    is_broken = len(expected) >= fewest and (wrap.at_blanks or _breaks_words(expected))
    return len(expected) if is_broken else 0


def _breaks_words(records: list[list[bytes]]) -> bool:
    """Return True if lines break off inside a word, a number or a pair.

    The second line of a record of two statements always begins with the same word. A terminal
    breaks lines elsewhere as numbers get longer.
    """
    breaks = [pair for record in records for pair in pairwise(record)]
    varies = len({_opening(following).rstrip(b"0") for _, following in breaks}) > max(
        map(len, records)
    )
    pattern = _WORD_BREAK if varies else _NUMBER_BREAK
    inside = [
        _is_open(line)
        or (
            pattern.search(line[-1:] + following[:1]) is not None
            # The digit of a file name, weights.h5, is not a number that continues below.
            and (varies or _FILE_END.search(line) is None)
        )
        for line, following in breaks
    ]
    return sum(inside) >= _MIN_INSIDE * len(inside)


def _is_open(line: bytes) -> bool:
    """Return True if a line ends inside quotation marks or braces."""
    return (
        line.count(b"'") % 2 == 1
        or line.count(b'"') % 2 == 1
        or line.count(b"{") > line.count(b"}")
    )


def _joined_blocks(stream: Stream, wrap: _Wrap) -> Iterator[bytes]:
    """Yield the blocks of a log with its broken lines joined."""
    record: bytes | None = None
    last = b""
    for block in blocks(stream):
        done: list[bytes] = []
        for line in block.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n"):
            if record is None:
                record = line
            elif wrap.continues(last, line) and len(record) < _MAX_RECORD:
                record += line
            else:
                done.append(record.rstrip(b" ") + b"\n")
                record = line
            last = line
        yield b"".join(done)
    yield (record or b"") + b"\n"
