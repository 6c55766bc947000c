"""Remove the text that a launcher, a viewer or a post adds to each line of a log.

Formats that need no fixed layout skip labels by themselves. The others, such as tables, are read
without the labels, if they are not recognized with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from io import BytesIO
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import blocks
from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream

# The bytes of the head that are examined, the fewest lines, and the fraction of them that have a
# decoration.
_HEAD_BYTES: Final = 1 << 14
_DECORATED_BYTES: Final = 1 << 20
_MIN_LABELED: Final = 3
_MIN_DECORATED: Final = 0.85

_DATE: Final = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL: Final = rb"(?:DEBUG|INFO|WARN|WARNING)"
# A decimal number is a value, not a label: 12 | 2.31 | 0.45, [2.31] [0.001]. 10.0.0.7 is a host.
_NOT_DECIMAL: Final = rb"(?![-+]?\d{0,9}\.\d{1,20}(?:[eE][-+]?\d{1,3})?[ |\]])"

# A number that counts the lines, or the rank of all of them.
_LINE_NUMBER: Final = lazy_pattern(
    rb"[ \t]{0,10}L?(\d{1,9})(?: ?(?:[:|)]|\.(?!\d))|\t|(?= ))[ \t]?"
)

# A value behind a step, not behind a line number: 12: 2.31, 12 -> 2.31
_ONLY_VALUE: Final = lazy_pattern(rb"[^\w\n]{0,8}\d{0,9}\.\d{1,20}(?:[eE][-+]?\d{1,3})?\W{0,8}$")

# The time, the level and the names of a logger, in any order and between any signs, and the
# function behind them, which is not a counter.
_LABEL_SIGNS: Final = rb"[ \t|:,()\[\]-]{1,12}"
_LOGGER_LABEL: Final = (
    rb"[\[(]?%b%b(?:[\w.<>$/-]{1,80}%b){0,2}?%b%b(?:%b[\w.<>:$-]{1,80}(?: - |: {1,12}))?"
    % (
        _DATE,
        _LABEL_SIGNS,
        _LABEL_SIGNS,
        _LEVEL,
        _LABEL_SIGNS,
        rb"(?!(?i:epoch|step|iter|batch|round|episode|gen))",
    )
)

# Labels at the start of a line, in the order of the attempts.
_LABELS: Final = tuple(
    lazy_pattern(pattern)
    for pattern in (
        # A color that was set for the line, and blanks without a width.
        rb"(?:\xe2\x80\x8b|\xef\xbb\xbf)+",
        rb"(?:\x1b|\^\[|\xe2\x90\x9b)?\[(?:\d{1,3};){0,3}\d{1,3}m",
        # GitHub Actions, Docker, Kubernetes; pm2, Compose; pods, ranks, Ray
        rb"(?:[\w -]{1,60}\t){1,2}(?=%b)" % _DATE,
        rb"(?:\d{1,4}\|)?%b[\w.-]{1,60} {0,24}\| " % _NOT_DECIMAL,
        rb"\[%b[\w./:-]{1,100}\]:? " % _NOT_DECIMAL,
        rb"\[\d{1,6},[\w:,-]{1,60}\]<std(?:out|err)>: ?",
        rb"\(\w{1,60} (?:rank=\d{1,6} )?pid=\d{1,9}(?:, ip=[\d.]{7,15})?\) ",
        # syslog, journalctl
        rb"<\d{1,3}>\d [^ \n]{1,40} (?:[^ \n]{1,60} ){5}",
        rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|%b) [\w.-]{1,60} [\w./-]{1,60}(?:\[\d{1,9}\])?: "
        % _DATE,
        # loguru, Python's logging, absl, log4j
        _LOGGER_LABEL,
        rb"%b:\w{1,40}:" % _LEVEL,
        rb"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{1,6} {1,4}\d{1,20} [\w.]{1,60}:\d{1,6}\] ",
        rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d %b [\w.$]{1,80}: " % _LEVEL,
        # Times alone
        rb"\[?%b\]? " % _DATE,
        rb"\[\+?[\d.]{1,16} ?s\] |\d{10}(?:\.\d{1,9})? ",
        rb"\d{1,2}:\d\d(?::\d\d)? [AP]M ",
        # A file that was searched, a list, a comment, a quotation, a difference, a border
        rb"[\w./-]{1,80}\.(?:log|txt|out|err|csv):(?:\d{1,9}:)?",
        rb"(?:[-*+] |\xe2\x80\xa2 )",
        rb"(?:\#{1,3}|%{1,3}|//|;|--) ?",
        rb"(?:> ?){1,4}",
        rb"[+-](?![\d.])|\+(?=[\d.])",
        rb"(?:\xe2\x94\x82|\|(?= {1,2}\d)) ?",
        rb"(?:\*\*|`|[\"'])",
        rb"[ \t]{1,16}",
    )
)

# Decorations at the end of a line.
_TAILS: Final = tuple(
    lazy_pattern(pattern)
    for pattern in (
        rb"(?:\x1b|\^\[|\xe2\x90\x9b)?\[0?m[ \t]{0,8}$",
        rb"<br ?/?>[ \t]{0,8}$",
        rb"\^M$",
        rb"(?:\\n)?[\"'],?[ \t]{0,8}$",
        rb"(?:\*\*|`)[ \t]{0,8}$",
        rb"\\$",
        rb"[ \t]{0,200}\xe2\x94\x82$",
    )
)

# Lines that belong to the decoration, not to the log.
_FRAME: Final = lazy_pattern(
    rb"(?:diff --git |index [0-9a-f]{6,}|--- |\+\+\+ |@@ |```|~~~|</?(?:pre|code)|new file mode"
    rb"|[\[\]]\s*$|(?:\xe2\x94[\x80-\xbf]){3,})"
)

# At most this many decorations are removed from a line.
_MAX_DECORATIONS: Final = 6


def undecorated(
    stream: Stream, detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream without the decorations of its lines, and its reader.

    Decorations are removed one by one, from the outside, until ``detect`` recognizes the rest: the
    innermost may be the counter of the log. Return None if it recognizes none.
    """
    head = stream.peek(_HEAD_BYTES)
    if b"\0" in head:
        return None
    longer = stream.peek(_DECORATED_BYTES)
    lines = [line for line in head.splitlines() if line.strip() and not _FRAME.match(line)]
    decorations = _find_decorations(lines[:-1] if len(head) == _HEAD_BYTES else lines)
    is_framed = any(map(_FRAME.match, head.splitlines()))
    for count in range(0 if is_framed else 1, len(decorations) + 1):
        removed = decorations[:count]
        trial = Stream(stream.name, BytesIO(_without(longer, removed)))
        reader = detect(trial)
        if reader is None:
            continue
        if removed:
            stream.notes.append("the labels that other programs added to each line are ignored")
        pieces = (_without(block, removed) for block in blocks(stream))
        return stream.rewritten(pieces), reader
    return None


def _find_decorations(lines: list[bytes]) -> list[re.Pattern[bytes]]:
    """Return the decorations that nearly all lines have, from the outside."""
    decorations: list[re.Pattern[bytes]] = []
    for _ in range(_MAX_DECORATIONS):
        decoration = _next_decoration(lines)
        if decoration is None:
            break
        decorations.append(decoration)
        lines = [stripped for line in lines if (stripped := _strip(line, decoration)).strip()]
    return decorations


def _next_decoration(lines: Sequence[bytes]) -> re.Pattern[bytes] | None:
    if len(lines) < _MIN_LABELED:
        return None
    # A cut line lacks its end.
    least = min(_MIN_DECORATED * len(lines), max(_MIN_LABELED, len(lines) - 1))
    for label in _LABELS:
        if sum(label.match(line) is not None for line in lines) >= least:
            return label
    for tail in _TAILS:
        if sum(tail.search(line) is not None for line in lines) >= least:
            return tail
    numbers = [
        int(match[1])
        for line in lines
        if (match := _LINE_NUMBER.match(line)) and not _ONLY_VALUE.match(line, match.end())
    ]
    steps = {after - before for before, after in pairwise(numbers)}
    return _LINE_NUMBER if len(numbers) >= least and steps in ({1}, {0}) else None


def _strip(line: bytes, decoration: re.Pattern[bytes]) -> bytes:
    match = decoration.search(line) if decoration in _TAILS else decoration.match(line)
    return line if match is None else line[: match.start()] + line[match.end() :]


def _without(block: bytes, decorations: Sequence[re.Pattern[bytes]]) -> bytes:
    """Return a block without decorations and without the lines that belong to them."""
    lines = block.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")
    # A text that is refused may repeat a few lines.
    bare = {line: reduce(_strip, decorations, line) for line in {*lines} if not _FRAME.match(line)}
    return b"\n".join(bare[line] for line in lines if line in bare) + b"\n"
