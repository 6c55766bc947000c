"""Lines of names and values, a loss and a counter among them, of which nothing else is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.readers.text.grammar import NUMBER, Kind, Part
from stabdiag.readers.text.ranks import LONGEST_LABEL
from stabdiag.readers.text.shapes import by_names, pattern_of, usual_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stabdiag.readers.text.grammar import Cells

# What every line that counts has in common: loss, Loss, train_loss, …
_ANCHOR: Final = b"oss"
_LONGEST: Final = 2000

# loss: 2.31, "lr"=1e-4, grad norm: 0.5 – and loss 2.31 for words that are known to be measured.
_PAIR: Final = re.compile(
    rb"([A-Za-z][\w./-]{0,60}(?: [a-z]\w{0,20}){0,2})[\"']? ?[:=] {0,12}(%b)(?![\w.:/\[-])"
    rb"|(?<![\w./-])"
    rb"((?:[A-Za-z]\w{0,20}[ /])?[\w./-]{0,40}?(?:[Ll]oss|lr|[Nn]orm|ppl|[Aa]cc(?:uracy)?))"
    rb" {1,12}(%b)(?![\w.:/\[-])" % (NUMBER, NUMBER)
)
COUNTER: Final = re.compile(
    rb"(?<![A-Za-z])(global[ _]step|step|iteration|iter|num_updates|update|batch|epoch)s?"
    rb"[\"']?[\s:=#\[(]{1,12}(\d{1,12})(?![\d.\w])",
    re.IGNORECASE,
)
_EVALUATION: Final = re.compile(
    rb"(?<![A-Za-z])(?:val|valid|validation|eval|evaluation|test|dev)(?![A-Za-z_])", re.IGNORECASE
)

STEP: Final = "step"


def lines_with_a_loss(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line that may name a loss, and where it begins; a long one in pieces."""
    begin = 0
    for line in data.split(b"\n"):
        if _ANCHOR in line:
            if len(line) <= _LONGEST:
                yield begin, line
            else:
                yield from ((begin + at, line[at:to]) for at, to in _pieces(line))
        begin += len(line) + 1


def _pieces(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each piece of a long line that may name a loss."""
    end = 0
    place = line.find(_ANCHOR)
    while place >= 0:
        begin = max(place - _LONGEST, end)
        end = max(min(begin + _LONGEST, len(line)), place + len(_ANCHOR))
        yield begin, end
        place = line.find(_ANCHOR, end)


def spans_of(line: bytes, counter: bytes | None = None) -> dict[str, tuple[int, int]]:
    """Return where the values of a line stand, by their names; the first of each name counts.

    The ``counter`` is called step, other counters by their own names.
    """
    counters = {one[1].lower(): one.span(2) for one in COUNTER.finditer(line)}
    taken = set(counters.values())
    pairs: dict[str, tuple[int, int]] = {}
    first = None
    for match in _PAIR.finditer(line):
        group = 2 if match[2] is not None else 4
        if match.span(group) not in taken:
            first = match.start() if first is None else first
            pairs.setdefault(match[group - 1].decode("utf-8", "replace"), match.span(group))
    if first and _EVALUATION.search(line, 0, first):
        pairs = {f"val {name}": span for name, span in pairs.items()}
    if counter is None:
        return pairs
    named = {STEP if word == counter else word.decode(): at for word, at in counters.items()}
    return {**pairs, **named}


def _has_a_loss(names: Iterable[str]) -> bool:
    return any("loss" in name.lower() for name in names)


@dataclass(frozen=True, kw_only=True)
class Measured(Kind):
    """Lines with a loss and the counter."""

    counter: bytes

    def search(self, data: bytes) -> bool:
        """Return whether there is such a line."""
        return bool(self.find(data))

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind; those with the same names make one part."""
        after, lines = [], []
        for begin, line in lines_with_a_loss(data):
            # Where the rank of a line has been told.
            after.append(begin + min(LONGEST_LABEL, len(line) - 1))
            lines.append(line)
        return [
            Part(names=names, starts=[after[row] for row in rows], cells=cells)
            for names, rows, cells in by_names(lines, *self._usual(lines), self._apart)
        ]

    def _apart(self, line: bytes) -> tuple[tuple[str, ...], Cells] | None:
        """Return names and values of a line, or None if it is not of this kind."""
        spans = spans_of(line, self.counter)
        if STEP not in spans or not _has_a_loss(spans):
            return None
        return tuple(spans), [line[begin:end] for begin, end in spans.values()]

    def _usual(self, lines: list[bytes]) -> tuple[tuple[str, ...], re.Pattern[bytes] | None]:
        """Return the names of most lines, and the pattern that finds their values."""
        line = usual_line(lines)
        spans = spans_of(line, self.counter) if line is not None else {}
        if line is None or STEP not in spans or not _has_a_loss(spans):
            return (), None
        values = sorted(spans.items(), key=lambda item: item[1])
        names = [one.span(1 if one[2] is not None else 3) for one in _PAIR.finditer(line)]
        names += [one.span(1) for one in COUNTER.finditer(line)]
        pattern = pattern_of(line, [span for _, span in values], names)
        return (tuple(name for name, _ in values), pattern) if pattern else ((), None)
