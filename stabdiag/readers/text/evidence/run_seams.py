"""Where another run begins in a log: with another total, or below the heading of a run.

[200/3452] is followed by [200/1823], or a line such as Run 1 above the first loss by Run 2.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
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


def find_changed_totals(data: bytes, counter: bytes, word: bytes) -> Normalization | None:
    """Return the replacement that names a position if each run in a log has another total.

    The total of a run never comes back in a later one, and the count falls at the change. Bars of
    the training and its evaluation take turns. Return None for another log.
    """
    total = counter.removeprefix(NTH)
    # A search for all positions takes far longer.
    if not counter.startswith(NTH) or data.count(total) >= data.count(word):
        return None
    lines = [
        (line, [*POSITION.finditer(line)])
        for _, line in lines_with_a_loss(data, word)
        if b"/" in line
    ]
    first = next(((line, own) for line, own in lines if total in _totals(own)), None)
    if first is None:
        return None
    words, place = _words(first[0]), _totals(first[1]).index(total)
    positions = [
        (own[place][2], counter_value(own[place][1]))
        for line, own in lines
        if len(own) > place and _words(line) == words
    ]
    changes = [
        (before[1], after[1]) for before, after in pairwise(positions) if after[0] != before[0]
    ]
    totals = [own for own, _ in positions]
    kinds = {*totals}
    if (
        not changes
        or len(changes) != len(kinds) - 1
        or any(after >= before for before, after in changes)
        or min(map(totals.count, kinds)) < _MIN_LINES_OF_TOTAL
    ):
        return None
    return Normalization((), _POSITION_OF_TOTAL % b"|".join(sorted(kinds)), _NAME_OF_POSITION)


# A heading is at most this many lines above the first loss of a run, and a run has at least this
# many losses.
_MAX_LINES_TO_RUN: Final = 4
_MIN_LOSSES_OF_RUN: Final = 3

# The lines with a loss that are searched, and the bytes of a heading.
_MAX_LINES_FOR_RUNS: Final = 5000
_LONGEST_RUN_HEADING: Final = 300

# The start of a heading, up to its second word.
_START_OF_HEADING: Final = lazy_pattern(
    rb"[^A-Za-z\n]{0,100}[A-Za-z]{2,20}(?:[^A-Za-z\n]{1,20}[A-Za-z]{2,20})?"
)


def find_run_headings(data: bytes, loss: str, word: bytes) -> bytes | None:
    """Return a pattern of the lines above each run if no counter shows where the runs begin.

    The lines begin as one above the first loss does, and each time the loss returns to its start.
    """
    finder = SpanFinder(word)
    losses: list[tuple[int, int, float]] = []
    for begin, line in islice(lines_with_a_loss(data, word), _MAX_LINES_FOR_RUNS):
        if (at := finder.find(line).get(loss)) is not None:
            losses.append((begin, begin + len(line), as_float(line[slice(*at)])))
    if len(losses) < 2 * _MIN_LOSSES_OF_RUN:
        return None
    above = data[: losses[0][0]].split(b"\n")[-_MAX_LINES_TO_RUN - 1 :]
    for start in dict.fromkeys(filter(None, map(_start_of, above))):
        begins = [0]
        for n, ((_, end, _), (begin, _, _)) in enumerate(pairwise(losses), start=1):
            between = data[end:begin].split(b"\n")[1:-1]
            if any(_start_of(line) == start for line in between):
                begins.append(n)
        if len(begins) > 1 and _return_to_start([value for _, _, value in losses], begins):
            return rb"(?m)^%b" % start
    return None


def _return_to_start(losses: list[float], begins: list[int]) -> bool:
    """Return True if each run begins nearer to the first loss than to the one above it."""
    lengths = [end - begin for begin, end in pairwise([*begins, len(losses)])]
    jumps = (
        # A last loss that is not finite is far from any other.
        not abs(losses[begin] - losses[begin - 1]) <= abs(losses[begin] - losses[0])
        for begin in begins[1:]
    )
    return min(lengths) >= _MIN_LOSSES_OF_RUN and all(jumps)


def _start_of(line: bytes) -> bytes:
    """Return the pattern of the first words of a line, which may have other numbers."""
    match = _START_OF_HEADING.match(line) if len(line) <= _LONGEST_RUN_HEADING else None
    return b"" if match is None else DIGITS.sub(rb"\\d+", re.escape(match[0]))


def _totals(positions: list[re.Match[bytes]]) -> list[bytes]:
    return [position[2] for position in positions]


def _words(line: bytes) -> list[bytes]:
    """Return the words of a line, without values that are not finite."""
    return [word for word in _WORD_OF_LINE.findall(line) if word.lower() not in (b"nan", b"inf")]
