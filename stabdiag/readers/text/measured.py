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

# Loss is the one word whose capital may follow another's.
_LOSS_OF: Final = rb"(?:Train(?:ing)?|Val(?:id(?:ation)?)?\.?|Eval(?:uation)?|Test|Dev|Total) Loss"

# What Python prints around a number: [1e-4], np.float64(2.31), tensor(2.31, device='cuda:0')
_AROUND: Final = rb"(?:\[|(?:np\.float(?:16|32|64)|tensor|[Aa]rray)\()?"

# loss: 2.31, "lr"=1e-4, grad norm: 0.5, loss is 2.31 – and loss 2.31 for words that are known to be
# measured.
_PAIR: Final = re.compile(
    rb"(?<!\d)(%b|[A-Za-z][\w./-]{0,60}(?: [a-z]\w{0,20}){0,2}?)(?:[\"']? ?[:=] {0,12}| is )"
    rb"%b(%b)(?![\w./\[-]|:\w)"
    rb"|(?<![\w./-])"
    rb"((?:[A-Za-z]\w{0,20}[ /])?[\w./-]{0,40}?(?:[Ll]oss|lr|[Nn]orm|ppl|[Aa]cc(?:uracy)?))"
    rb" {1,12}(%b)(?![\w./\[-]|:\w)" % (_LOSS_OF, _AROUND, NUMBER, NUMBER)
)
# 3000, or 3,000
_COUNT: Final = rb"\d{1,3}(?:,\d{3}){1,4}|\d{1,12}"
_COUNTER: Final = re.compile(
    rb"(?<![A-Za-z])(global[ _]step|step|iteration|iter|num_updates|update|batch|epoch)s?"
    rb"(?:\([a-z]{1,10}\))?[\"']?[\s:=#\[(.]{1,12}(%b)(?![\d\w%%]|[.,]\d)" % _COUNT,
    re.IGNORECASE,
)
# [ 640/60000 (1%)], 3/10 [00:01<00:02, and the bars that count 3.0it/10.0it.
_POSITION: Final = re.compile(
    rb"(?<![\w./:,-])(%b)(?:\.0)?(?:it)?/ {0,6}(%b)(?![\d/:-]|\.[1-9])" % (_COUNT, _COUNT)
)
# [1/5][20/600], where the first is the epoch
_TWO_POSITIONS: Final = re.compile(rb"\[ {0,6}(\d{1,9})/ {0,6}\d{1,9}\] ?\[ {0,6}\d{1,12}/")
# [1,  2000], an epoch and a batch; 1epoch:train:51-100batch
_EPOCH_AND_BATCH: Final = re.compile(
    rb"\[ {0,6}(\d{1,9}), {1,6}(\d{1,12})\]|(\d{1,9})epoch:train:\d{1,12}-(\d{1,12})batch"
)

_EVALUATION: Final = re.compile(
    rb"(?<![A-Za-z])(?:val|valid|validation|eval|evaluation|test|dev)(?![A-Za-z_])", re.IGNORECASE
)

STEP: Final = "step"
EPOCH: Final = b"epoch"


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


def counters_of(line: bytes) -> dict[bytes, tuple[int, int]]:
    """Return where the counters of a line stand, by what each counts.

    That is a word, or for a position such as 10/600 what it counts up to.
    """
    found = {b"N/" + one[2]: one.span(1) for one in _POSITION.finditer(line)}
    positions = _TWO_POSITIONS.search(line)
    if positions is not None:
        found[EPOCH] = positions.span(1)
    pair = _EPOCH_AND_BATCH.search(line)
    if pair is not None:
        epoch, batch = (1, 2) if pair[1] is not None else (3, 4)
        found |= {EPOCH: pair.span(epoch), b"[epoch, N]": pair.span(batch)}
    return found | _words_of(line)


def _words_of(text: bytes) -> dict[bytes, tuple[int, int]]:
    """Return where the counters stand that have names."""
    return {one[1].lower(): one.span(2) for one in _COUNTER.finditer(text)}


def headings_of(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the counters that have names, and what they count, in all lines."""
    return ((one[1].lower(), count_of(one[2])) for one in _COUNTER.finditer(data))


def count_of(digits: bytes) -> int:
    """Return the number that a counter has come to."""
    return int(digits.replace(b",", b""))


def is_word(counter: bytes) -> bool:
    """Tell whether a counter has a name."""
    return counter[:1].islower()


def spans_of(line: bytes, counter: bytes | None = None) -> dict[str, tuple[int, int]]:
    """Return where the values of a line stand, by their names; the first of each name counts.

    The ``counter`` is called step, other counters by their own names, if they have some.
    """
    counters = counters_of(line)
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
    named = {word.decode(): at for word, at in counters.items() if is_word(word)}
    if counter in counters:
        named.pop(counter.decode(), None)
        named[STEP] = counters[counter]
    return {**pairs, **named}


def _has_a_loss(names: Iterable[str]) -> bool:
    return any("loss" in name.lower() for name in names)


@dataclass(frozen=True, kw_only=True)
class Heading(Kind):
    """Lines without a loss that tell the step of those below them, or another column."""

    counter: bytes
    column: str = STEP
    is_record: bool = False
    holds_below: bool = True

    def search(self, data: bytes) -> bool:
        """Return whether there is such a line."""
        return bool(self.find(data))

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        found = [
            (match.start(), match[2])
            for match in _COUNTER.finditer(data)
            if match[1].lower() == self.counter
        ]
        if not found:
            return []
        starts, cells = zip(*found, strict=True)
        return [Part(names=(self.column,), starts=starts, cells=[cells])]


@dataclass(frozen=True, kw_only=True)
class Measured(Kind):
    """Lines with a loss and the counter, or with a loss alone where there is no counter."""

    counter: bytes | None

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

    def _spans(self, line: bytes) -> dict[str, tuple[int, int]]:
        """Return the spans of a line, none if it is not of this kind."""
        spans = spans_of(line, self.counter)
        counted = self.counter is None or STEP in spans
        return spans if counted and _has_a_loss(spans) else {}

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
        names = [one.span(1 if one[2] is not None else 3) for one in _PAIR.finditer(line)]
        names += [one.span(1) for one in _COUNTER.finditer(line)]
        # Of a position what it counts up to: a bar of another length is another counter.
        names += [one.span(2) for one in _POSITION.finditer(line)]
        pattern = pattern_of(line, [span for _, span in values], names)
        return (tuple(name for name, _ in values), pattern) if pattern else ((), None)
