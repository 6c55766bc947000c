"""Lines with names and values of no known format, a loss and a counter among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.readers.text.counters import (
    COUNTER,
    FIRST,
    POSITION,
    STEP,
    counters_of,
    is_word,
    word_of,
)
from stabdiag.readers.text.grammar import Kind, Part, is_a_loss, parts_of, trains
from stabdiag.readers.text.names import (
    LOSS,
    PAIR,
    TOLD_AT,
    VALIDATED,
    Spans,
    evaluated,
    in_turn,
    listed,
    renamed,
    told_at,
)
from stabdiag.readers.text.ranks import LONGEST_LABEL
from stabdiag.readers.text.shapes import by_names, pattern_of, usual_line

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from stabdiag.readers.text.grammar import Cells

_LONGEST: Final = 2000


def lines_with_a_loss(data: bytes, word: bytes = LOSS) -> Iterator[tuple[int, bytes]]:
    """Yield each line that may name a loss, and where it begins; long lines in pieces."""
    begin = 0
    for line in data.split(b"\n"):
        if word in line:
            if len(line) <= _LONGEST:
                yield begin, line
            else:
                yield from ((begin + at, line[at:to]) for at, to in _pieces(line, word))
        begin += len(line) + 1


def _pieces(line: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each piece of a long line that may name a loss."""
    end = 0
    place = line.find(word)
    while place >= 0:
        begin = max(place - _LONGEST, end)
        end = max(min(begin + _LONGEST, len(line)), place + len(word))
        yield begin, end
        place = line.find(word, end)


def spans_of(line: bytes, counter: bytes | None = None, word: bytes = LOSS) -> Spans:
    """Return where the values of a line stand, by name; the first one of each name counts.

    The ``counter`` is named step, and other counters by their words. What the log calls by the
    ``word`` is named a loss.
    """
    counters = counters_of(line)
    taken = set(counters.values())
    pairs: Spans = {}
    first = None
    for match in PAIR.finditer(line):
        group = 2 if match[2] is not None else 4
        if match.span(group) not in taken:
            first = match.start() if first is None else first
            pairs.setdefault(match[group - 1].decode("utf-8", "replace"), match.span(group))
    for name, span in in_turn(line).items():
        if span not in taken:
            pairs.setdefault(name, span)
    pairs |= listed(line)
    for name, begin, span in told_at(line):
        first = begin if first is None else min(first, begin)
        pairs.setdefault(name, span)
    if first and evaluated(line, first):
        pairs = {
            name if trains(name) else f"{VALIDATED}{name}": span for name, span in pairs.items()
        }
    if word != LOSS:
        pairs = renamed(pairs, word)
    if counter is None:
        return pairs
    named = {name.decode(): at for name, at in counters.items() if is_word(name)}
    if counter in counters:
        named.pop(counter.decode(), None)
        named[STEP] = counters[counter]
    return {**pairs, **named}


@dataclass(frozen=True, kw_only=True)
class Heading(Kind):
    """Lines without a loss that tell the step of those below them, or another column."""

    counter: bytes
    column: str = STEP
    is_record: bool = False
    holds_below: bool = True

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        return parts_of(
            (match.start(), {self.column: match[2]})
            for match in COUNTER.finditer(data)
            if word_of(match) == self.counter
        )


@dataclass(frozen=True, kw_only=True)
class Measured(Kind):
    """Lines with a loss and the counter, or with a loss alone where there is no counter.

    ``word`` is what the log calls its loss, or part of that.
    """

    counter: bytes | None
    word: bytes = LOSS

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind; those with the same names make one part."""
        after, lines = [], []
        for begin, line in lines_with_a_loss(data, self.word):
            # The start of a line, after the label that may name its rank, if that is none.
            label = 0 if self.counter == FIRST else LONGEST_LABEL
            after.append(begin + min(label, len(line) - 1))
            lines.append(line)
        return [
            Part(names=names, starts=[after[row] for row in rows], cells=cells)
            for names, rows, cells in by_names(lines, *self._usual(lines), self._apart)
        ]

    def _spans(self, line: bytes) -> Spans:
        """Return the spans of a line, none if it is not of this kind."""
        spans = spans_of(line, self.counter, self.word)
        counted = self.counter is None or STEP in spans
        return spans if counted and any(map(is_a_loss, spans)) else {}

    def _apart(self, line: bytes) -> tuple[tuple[str, ...], Cells] | None:
        """Return names and values of a line, or None if it is not of this kind."""
        spans = self._spans(line)
        if not spans:
            return None
        return tuple(spans), [line[begin:end] for begin, end in spans.values()]

    def _usual(self, lines: list[bytes]) -> tuple[tuple[str, ...], re.Pattern[bytes] | None]:
        """Return the names of most lines, and the pattern that finds their values."""
        line = usual_line(lines)
        spans = self._spans(line) if line is not None else {}
        if line is None or not spans:
            return (), None
        values = sorted(spans.items(), key=lambda item: item[1])
        names = [one.span(1 if one[2] is not None else 3) for one in PAIR.finditer(line)]
        names += [one.span(1) for one in (*TOLD_AT.finditer(line), *COUNTER.finditer(line))]
        # What a position counts up to is part of its name: a bar of another length is another.
        names += [one.span(2) for one in POSITION.finditer(line)]
        pattern = pattern_of(line, [span for _, span in values], names)
        return (tuple(name for name, _ in values), pattern) if pattern else ((), None)
