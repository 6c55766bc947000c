"""Where another run begins in a log: with another total, or below the heading of a run.

[200/3452] is followed by [200/1823], or a line such as Run 1 above the first loss by Run 2.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.counters import DIGITS, NTH, POSITION, counter_value
from stabdiag.readers.text.lines.grammar import Normalization, as_float
from stabdiag.readers.text.lines.spans import SpanFinder
from stabdiag.readers.text.lines.tokens import lines_with_a_loss

# A total has at least this many lines.
_MIN_LINES_OF_TOTAL: Final = 2

_WORD_OF_LINE: Final = lazy_pattern(rb"[A-Za-z]+")

# The position gets this name, which no bar of an evaluation has.
_NAME_OF_POSITION: Final = b"iteration "
_POSITION_OF_TOTAL: Final = rb"(?<![\w./:,-])(?=\d{1,12} ?/ {0,6}(?:%b)(?![\d/.]))"
# What is behind a slash and may be another total.
_OTHER_TOTAL: Final = rb"/ {0,6}(?!%b(?![\w.,]))\d"


def find_changed_totals(data: bytes, counter: bytes, word: bytes) -> Normalization | None:
    """Return the replacement that names a position if each run in a log has another total.

    The total of a run never comes back in a later one, and the count falls at the change. Bars of
    the training and its evaluation take turns. Return None for another log.
    """
    total = counter.removeprefix(NTH)
    # A search for all positions takes far longer.
    if not counter.startswith(NTH) or data.count(total) >= data.count(word):
        return None
    # Most logs have one total, which needs no look at each line.
    if re.search(_OTHER_TOTAL % re.escape(total), data) is None:
        return None
    positions = (
        (line, [(match[2], counter_value(match[1])) for match in POSITION.finditer(line)])
        for _, line in lines_with_a_loss(data, word)
        if b"/" in line
    )
    words, place = next(
        (
            (_words(line), [own for own, _ in counted].index(total))
            for line, counted in positions
            if total in (own for own, _ in counted)
        ),
        ([b""], 0),
    )
    counts: Counter[bytes] = Counter()
    last = (b"", 0)
    for _, line in lines_with_a_loss(data, word):
        matches = [*POSITION.finditer(line)] if _words(line) == words else []
        if len(matches) <= place:
            continue
        own, count = matches[place][2], counter_value(matches[place][1])
        if counts and own != last[0] and (own in counts or count >= last[1]):
            return None
        counts[own] += 1
        last = (own, count)
    if len(counts) < 2 or min(counts.values()) < _MIN_LINES_OF_TOTAL:
        return None
    return Normalization((), _POSITION_OF_TOTAL % b"|".join(sorted(counts)), _NAME_OF_POSITION)


# A heading is at most this many lines above the first loss of a run, and a run has at least this
# many losses.
_MAX_LINES_TO_RUN: Final = 4
_MIN_LOSSES_OF_RUN: Final = 3

# The losses at both ends of a run are in this many bytes, and a heading has at most this many.
_BYTES_OF_RUN: Final = 1 << 12
_LONGEST_RUN_HEADING: Final = 300

# The start of a heading, up to its second word.
_START_OF_HEADING: Final = lazy_pattern(
    rb"[^A-Za-z\n]{0,100}[A-Za-z]{2,20}(?:[^A-Za-z\n]{1,20}[A-Za-z]{2,20})?"
)


def find_run_headings(data: bytes, loss: str, word: bytes) -> bytes | None:
    """Return a pattern of the lines above each run if no counter shows where the runs begin.

    They begin like a line above the first loss. Below each of them, the loss returns to its start.
    """
    first = next((begin for begin, _ in lines_with_a_loss(data, word)), 0)
    above = data[:first].split(b"\n")[-_MAX_LINES_TO_RUN - 1 :]
    for start in dict.fromkeys(filter(None, map(_start_of, above))):
        pattern = rb"(?m)^%b" % start
        headings = [match.start() for match in re.compile(pattern).finditer(data, first)]
        # Several lines in a row may begin alike.
        between = pairwise([first, *headings])
        begins = [at for last, at in between if data.count(word, last, at)]
        if begins and _return_to_start(data, [first, *begins], loss, word):
            return pattern
    return None


def _return_to_start(data: bytes, begins: list[int], loss: str, word: bytes) -> bool:
    """Return True if each run begins nearer to the first loss than to the one above it."""
    lengths = [data.count(word, begin, end) for begin, end in pairwise([*begins, len(data)])]
    if min(lengths) < _MIN_LOSSES_OF_RUN:
        return False
    start = _losses(data[begins[0] : begins[0] + _BYTES_OF_RUN], loss, word)[:1]
    for begin in begins[1:]:
        last = _losses(data[max(begin - _BYTES_OF_RUN, 0) : begin], loss, word)[-1:]
        new = _losses(data[begin : begin + _BYTES_OF_RUN], loss, word)[:1]
        if not (start and last and new):
            return False
        # A last loss that is not finite is far from any other.
        if abs(new[0] - last[0]) <= abs(new[0] - start[0]):
            return False
    return True


def _losses(data: bytes, loss: str, word: bytes) -> list[float]:
    """Return the values of a loss in a part of a text."""
    finder = SpanFinder(word)
    lines = (line for _, line in lines_with_a_loss(b"\n" + data, word))
    spans = ((line, finder.find(line).get(loss)) for line in lines)
    return [as_float(line[slice(*at)]) for line, at in spans if at is not None]


def _start_of(line: bytes) -> bytes:
    """Return the pattern of the first words of a line, which may have other numbers."""
    match = _START_OF_HEADING.match(line) if len(line) <= _LONGEST_RUN_HEADING else None
    return b"" if match is None else DIGITS.sub(rb"\\d+", re.escape(match[0]))


def _words(line: bytes) -> list[bytes]:
    """Return the words of a line, without values that are not finite."""
    return [word for word in _WORD_OF_LINE.findall(line) if word.lower() not in (b"nan", b"inf")]
