"""Any log of names and values: ``Step 100 | loss: 2.31 | lr: 0.0003``.

There is no format to know here, only evidence: the same name of a loss on line after line, and
beside it a counter that rises. How good the evidence is stands in the report.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.history import Event, EventKind
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.grammar import NUMBER, Grammar, Part, Step
from stabdiag.readers.text.log import read_log
from stabdiag.readers.text.ranks import LONGEST_LABEL
from stabdiag.readers.text.shapes import by_names, pattern_of, usual_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream
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
_COUNTER: Final = re.compile(
    rb"(?<![A-Za-z])(global[ _]step|step|iteration|iter|num_updates|update|batch|epoch)s?"
    rb"[\"']?[\s:=#\[(]{1,12}(\d{1,12})(?![\d.\w])",
    re.IGNORECASE,
)
_EVALUATION: Final = re.compile(
    rb"(?<![A-Za-z])(?:val|valid|validation|eval|evaluation|test|dev)(?![A-Za-z_])", re.IGNORECASE
)

_STEP: Final = "step"

# How far into the log evidence is looked for, and how much of it, at most.
_LOOKS: Final = (1 << 20, 1 << 24)
_LOOKED_AT: Final = 1_000
_FEWEST: Final = 3
_RISING: Final = 0.8


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a log: which counter, over how many lines, and how often it rose."""

    counter: bytes
    loss: str
    lines: int
    rising: float

    @property
    def certainty(self) -> str:
        """How sure it is that this is a log of a training, in a word."""
        if self.lines >= 50 and self.rising >= 0.99:
            return "sure"
        return "likely" if self.lines >= 10 and self.rising >= 0.9 else "unsure"


def evidence(data: bytes) -> Evidence | None:
    """Return what speaks for the lines being a log, or None if it is not enough."""
    counters: dict[tuple[bytes, str], list[int]] = defaultdict(list)
    for _, line in islice(_lines(data), _LOOKED_AT):
        loss = next((name for name in _spans(line) if "loss" in name.lower()), None)
        if loss is not None:
            for word, count in _COUNTER.findall(line):
                counters[word.lower(), loss].append(int(count))
    found = [
        Evidence(counter=word, loss=loss, lines=len(counts), rising=_rising(counts))
        for (word, loss), counts in counters.items()
        if len(set(counts)) >= _FEWEST
    ]
    # Of counters that stand on the same lines the finest tells the step, unless it starts over.
    found.sort(key=lambda one: (one.counter == b"epoch", -one.lines, -one.rising))
    return next((one for one in found if one.rising >= _RISING), None)


def _rising(counts: list[int]) -> float:
    steps = [after - before for before, after in pairwise(counts)]
    moved = [step for step in steps if step]
    return sum(step > 0 for step in moved) / len(moved) if moved else 0.0


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
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


def _spans(line: bytes, counter: bytes | None = None) -> dict[str, tuple[int, int]]:
    """Return where the values of a line stand, by their names; the first of each name counts.

    The ``counter`` is called step, other counters by their own names.
    """
    counters = {one[1].lower(): one.span(2) for one in _COUNTER.finditer(line)}
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
    named = {_STEP if word == counter else word.decode(): at for word, at in counters.items()}
    return {**pairs, **named}


def _has_a_loss(names: Iterable[str]) -> bool:
    return any("loss" in name.lower() for name in names)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """Lines with a loss and the counter."""

    counter: bytes
    tells: bool = True
    begins: bool = False
    step: Step = Step.SAME
    is_record: bool = True

    def search(self, data: bytes) -> bool:
        """Return whether there is such a line."""
        return bool(self.find(data))

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind; those with the same names make one part."""
        after, lines = [], []
        for begin, line in _lines(data):
            # Where the rank of a line has been told.
            after.append(begin + min(LONGEST_LABEL, len(line) - 1))
            lines.append(line)
        return [
            Part(names=names, starts=[after[row] for row in rows], cells=cells)
            for names, rows, cells in by_names(lines, *self._usual(lines), self._apart)
        ]

    def _apart(self, line: bytes) -> tuple[tuple[str, ...], Cells] | None:
        """Return names and values of a line, or None if it is not of this kind."""
        spans = _spans(line, self.counter)
        if _STEP not in spans or not _has_a_loss(spans):
            return None
        return tuple(spans), [line[begin:end] for begin, end in spans.values()]

    def _usual(self, lines: list[bytes]) -> tuple[tuple[str, ...], re.Pattern[bytes] | None]:
        """Return the names of most lines, and the pattern that finds their values."""
        line = usual_line(lines)
        spans = _spans(line, self.counter) if line is not None else {}
        if line is None or _STEP not in spans or not _has_a_loss(spans):
            return (), None
        values = sorted(spans.items(), key=lambda item: item[1])
        names = [one.span(1 if one[2] is not None else 3) for one in _PAIR.finditer(line)]
        names += [one.span(1) for one in _COUNTER.finditer(line)]
        pattern = pattern_of(line, [span for _, span in values], names)
        return (tuple(name for name, _ in values), pattern) if pattern else ((), None)


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the same names recur, a loss among them, as a counter rises."""
    return evidence(Text(head, first_line=1).data) is not None


def read(stream: Stream) -> Columns:
    """Read a log by its names and values."""
    looks = (evidence(Text(stream.peek(size), first_line=1).data) for size in _LOOKS)
    found = next((one for one in looks if one is not None), None)
    if found is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected lines with a step and a loss, such"
            " as Step 100 | loss: 2.31"
        )
    grammar = Grammar(name="text", step=_STEP, kinds=(_Measured(counter=found.counter),))
    columns = read_log(stream, grammar)
    told = Event(
        kind=EventKind.COLUMN,
        message=(
            f"read by its names and values ({found.certainty}): {found.loss!r} stands on"
            f" {found.lines} lines on which {found.counter.decode()!r} rises {found.rising:.0%} of"
            " the time"
        ),
    )
    return replace(columns, events=(told, *columns.events))
