"""Any log of names and values: ``Step 100 | loss: 2.31 | lr: 0.0003``.

There is no format to know here, only evidence: the same name of a loss on line after line, and
beside it a counter that rises. How good the evidence is stands in the report.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.history import Event, EventKind
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.grammar import Grammar, Kind
from stabdiag.readers.text.log import read_log
from stabdiag.readers.text.measured import (
    EPOCH,
    STEP,
    Heading,
    Measured,
    count_of,
    counters_of,
    headings_of,
    is_word,
    lines_with_a_loss,
    spans_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

# How far into the log evidence is looked for, and how much of it, at most.
_LOOKS: Final = (1 << 20, 1 << 24)
_LOOKED_AT: Final = 500
_FEWEST: Final = 3
_RISING: Final = 0.8

# Above the losses headings are looked for so far; each stands for so many of them at most.
_LOOK_ABOVE: Final = 1 << 22
_LINES_BELOW: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a log: which counter, over how many lines, and how often it rose.

    It stands on the lines of the loss, or ``above`` them on lines of its own. ``epochs`` says that
    lines above tell the epoch of a counter that starts again with each.
    """

    counter: bytes
    loss: str
    lines: int
    rising: float
    moves: int = 0
    above: bool = False
    epochs: bool = False

    @property
    def grammar(self) -> Grammar:
        """What finds the records."""
        kinds: tuple[Kind, ...] = (Measured(counter=None if self.above else self.counter),)
        if self.above:
            kinds = (Heading(counter=self.counter), *kinds)
        elif self.epochs:
            kinds = (Heading(counter=EPOCH, column=EPOCH.decode()), *kinds)
        return Grammar(name="text", step=STEP, kinds=kinds, joined=self.above)

    @property
    def certainty(self) -> str:
        """How sure it is that this is a log of a training, in a word."""
        if self.lines >= 50 and self.rising >= 0.99:
            return "sure"
        return "likely" if self.lines >= 10 and self.rising >= 0.9 else "unsure"


def evidence(data: bytes) -> Evidence | None:
    """Return what speaks for the lines being a log, or None if it is not enough."""
    counters: dict[tuple[bytes, str], list[int]] = defaultdict(list)
    losses: Counter[str] = Counter()
    end = 0
    for begin, line in islice(lines_with_a_loss(data), _LOOKED_AT):
        loss = next((name for name in spans_of(line) if "loss" in name.lower()), None)
        if loss is not None:
            end = begin
            losses[loss] += 1
            for word, (start, stop) in counters_of(line).items():
                counters[word, loss].append(count_of(line[start:stop]))
    beside = _beside(counters)
    if beside is not None and (beside.rising == 1 or (EPOCH, beside.loss) in counters):
        return beside
    headings: dict[bytes, list[int]] = defaultdict(list)
    for word, count in headings_of(data[: min(end, _LOOK_ABOVE)]):
        headings[word].append(count)
    if beside is not None:
        return replace(beside, epochs=_rising(headings[EPOCH]) == 1)
    return _above(headings, losses)


def _beside(counters: Mapping[tuple[bytes, str], list[int]]) -> Evidence | None:
    """Return what speaks for a counter on the lines of a loss."""
    found = [
        Evidence(
            counter=word,
            loss=loss,
            lines=len(counts),
            rising=_rising(counts),
            moves=_moves(counts),
        )
        for (word, loss), counts in counters.items()
        if len(set(counts)) >= _FEWEST
        # "Epoch 3/10" is one counter, and has a name.
        and (is_word(word) or counts != counters.get((EPOCH, loss)))
    ]
    # Of counters that stand on the same lines the finest tells the step, unless it starts over.
    found.sort(
        key=lambda one: (
            one.counter == EPOCH,
            -one.lines,
            0 if is_word(one.counter) else 1 / one.moves,
            -one.rising,
        )
    )
    return next((one for one in found if one.rising >= _RISING), None)


def _above(headings: Mapping[bytes, list[int]], losses: Counter[str]) -> Evidence | None:
    """Return what speaks for a counter on lines of its own, above those of a loss."""
    if not losses:
        return None
    loss, lines = losses.most_common(1)[0]
    found = (
        Evidence(counter=word, loss=loss, lines=lines, rising=_rising(counts), above=True)
        for word, counts in headings.items()
        # Several losses below each heading would all be of one step.
        if len(set(counts)) >= _FEWEST and lines <= _LINES_BELOW * len(counts)
    )
    return next((one for one in found if one.rising >= _RISING), None)


def _rising(counts: list[int]) -> float:
    steps = [after - before for before, after in pairwise(counts)]
    return sum(step > 0 for step in steps) / max(_moves(counts), 1)


def _moves(counts: list[int]) -> int:
    return sum(after != before for before, after in pairwise(counts))


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
    columns = read_log(stream, found.grammar)
    where = "below lines on which" if found.above else "on which"
    told = Event(
        kind=EventKind.COLUMN,
        message=(
            f"read by its names and values ({found.certainty}): {found.loss!r} stands on"
            f" {found.lines} lines {where} {found.counter.decode()!r} rises {found.rising:.0%} of"
            " the time"
        ),
    )
    return replace(columns, events=(told, *columns.events))
