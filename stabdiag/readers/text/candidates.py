"""The counters that may be the steps of a text, and the evidence for each of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from stabdiag.readers.text.counters import BATCH_OF_EPOCH, COARSE, FIRST, is_word
from stabdiag.readers.text.evidence import Evidence
from stabdiag.readers.text.names import VALIDATED
from stabdiag.readers.text.sample import losses_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.text.sample import Counts, Shapes

    Counters = Mapping[tuple[bytes, str], Counts]
    Values = Mapping[str, list[bytes]]

# The fewest different values of a counter, and the share of its moves in which it has to rise.
_FEWEST: Final = 3
_RISING: Final = 0.8

# The fewest lines of an excerpt that somebody pasted.
_EXCERPT: Final = 2

# The fewest lines, and different values, of one loss that make a log without a counter: the same
# value again and again stands in a program, or in prose.
_UNCOUNTED: Final = 20
_VALUES: Final = 10

# How many lines with a loss may stand below a heading, on average.
_LINES_BELOW: Final = 1.5


def beside(counters: Counters) -> Evidence | None:
    """Return the evidence for the best counter on the lines of a loss."""
    found = [
        _about(word, loss, counts)
        for (word, loss), counts in counters.items()
        if word != FIRST and len(set(counts)) >= _FEWEST and _may_count(word, loss, counters)
    ]
    # Of counters on the same lines the finest one is the step, even if it restarts with each epoch.
    found.sort(
        key=lambda one: (
            COARSE.index(one.counter) + 1 if one.counter in COARSE else 0,
            one.counter != BATCH_OF_EPOCH,
            one.restarts,
            -one.lines,
            0 if one.counter and is_word(one.counter) else 1 / one.moves,
            -one.rising,
        )
    )
    return next((one for one in found if one.rising >= _RISING), None)


def above(
    headings: Mapping[bytes, list[int]], values: Values, fewest: int = _FEWEST
) -> Evidence | None:
    """Return the evidence for a counter on lines of its own, above those of a loss."""
    if not values:
        return None
    loss, lines = _most_told(values)
    found = (
        Evidence(
            counter=word,
            loss=loss,
            lines=lines,
            rising=rising(counts) if len(counts) > 1 else 1.0,
            above=True,
        )
        for word, counts in headings.items()
        # Several losses below each heading would all be of one step.
        if len(set(counts)) >= fewest and lines <= _LINES_BELOW * len(counts)
    )
    return next((one for one in found if one.rising >= _RISING), None)


def excerpt(shapes: Shapes, *, alarmed: bool = False) -> Evidence | None:
    """Return the evidence in an excerpt: lines of the same names, and a counter that only rises.

    It is too short for any other evidence. One line is enough, and any counter, if it or another
    line says that the training went wrong (``alarmed``).
    """
    fewest = 1 if alarmed else _EXCERPT
    for names, lines in shapes.items():
        named = [word for word in lines[0] if is_word(word)]
        # A position counts only if there is no word but that of its epoch.
        finest = alarmed or (named and all(word in COARSE for word in named))
        words = [
            word for word in (lines[0] if finest else named) if all(word in one for one in lines)
        ]
        for word in sorted(words, key=_coarseness):
            counts = [one[word] for one in lines]
            if len(counts) >= fewest and all(b > a for a, b in pairwise(counts)):
                loss = losses_of(names)[0]
                return Evidence(counter=word, loss=loss, lines=len(counts), rising=1.0)
    return None


def first(values: Values, counters: Counters) -> Evidence | None:
    """Return the evidence for a number at the start of each line, which has to rise every time."""
    if not values:
        return None
    loss, lines = _most_told(values)
    counts = [count for _, count in counters.get((FIRST, loss), [])]
    if len(counts) < max(_FEWEST, lines) or any(b <= a for a, b in pairwise(counts)):
        return None
    return Evidence(counter=FIRST, loss=loss, lines=lines, rising=1.0, moves=lines - 1)


def uncounted(values: Values, counters: Counters) -> Evidence | None:
    """Return the evidence in losses without a counter: that there are many, of many values.

    A counter that moves but does not rise shows that they are not in order.
    """
    if not values:
        return None
    loss, lines = _most_told(values)
    moves = any(
        _moves([n for _, n in at])
        for (word, of), at in counters.items()
        if of == loss and word != FIRST
    )
    if moves or lines < _UNCOUNTED or len(set(values[loss])) < _VALUES:
        return None
    return Evidence(counter=None, loss=loss, lines=lines, rising=0.0)


def rising(counts: list[int]) -> float:
    """Return in which share of its moves a counter rises."""
    steps = [after - before for before, after in pairwise(counts)]
    return sum(step > 0 for step in steps) / max(_moves(counts), 1)


def _rising_within(counts: Counts) -> float:
    """Return the same for the moves within an epoch."""
    steps = [after[1] - before[1] for before, after in pairwise(counts) if before[0] == after[0]]
    return sum(step > 0 for step in steps) / max(sum(step != 0 for step in steps), 1)


def _moves(counts: list[int]) -> int:
    return sum(after != before for before, after in pairwise(counts))


def _most_told(values: Values) -> tuple[str, int]:
    """Return the loss on most lines, and the number of these."""
    loss = max(values, key=lambda name: len(values[name]))
    return loss, len(values[loss])


def _about(word: bytes, loss: str, counts: Counts) -> Evidence:
    alone = [count for _, count in counts]
    overall, within = rising(alone), _rising_within(counts)
    restarts = overall < _RISING <= within
    return Evidence(
        counter=word,
        loss=loss,
        lines=len(counts),
        rising=within if restarts else overall,
        moves=max(_moves(alone), 1),
        restarts=restarts,
    )


def _may_count(word: bytes, loss: str, counters: Counters) -> bool:
    """Tell whether a counter may be that of the steps, given the others on the same lines."""
    counts = counters[word, loss]
    if word == BATCH_OF_EPOCH:
        # If it stays while the number before it moves, it is a total: Batch 10/600. And the batches
        # of an evaluation are no steps.
        before = counters.get((b"batch", loss), [])
        goes_on = _moves([n for _, n in counts]) > _moves([n for _, n in before])
        return goes_on and not loss.startswith(VALIDATED)
    # A position may have a name, as in "Epoch 3/10": they are one counter.
    return is_word(word) or all(counts != counters.get((one, loss)) for one in COARSE)


def _coarseness(word: bytes) -> tuple[bool, int]:
    """Return a sort key for the counters of an excerpt: words come before positions.

    A position may be a date; one with a larger total is not.
    """
    return word in COARSE, 0 if is_word(word) else 99 - len(word)
