"""Look in any text for what speaks for it being a log."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from stabdiag.readers.text.alarms import alarms
from stabdiag.readers.text.counters import (
    BATCH_OF_EPOCH,
    COARSE,
    EPOCH,
    STEP,
    count_of,
    counters_of,
    headings_of,
    is_word,
)
from stabdiag.readers.text.evidence import Evidence
from stabdiag.readers.text.measured import lines_with_a_loss, spans_of
from stabdiag.readers.text.names import LOSS, OTHER_LOSSES, VALIDATED

if TYPE_CHECKING:
    from collections.abc import Mapping

# So many lines are looked at.
_LOOKED_AT: Final = 500
_FEWEST: Final = 3
_RISING: Final = 0.8

# So many lines make an excerpt that somebody pasted, and one if it tells so much.
_EXCERPT: Final = 2
_MORE_THAN_PROSE: Final = 4

# Losses that nothing counts are a log if so many lines have one of a name, of so many values: the
# same one again and again stands in a program, or in prose.
_UNCOUNTED: Final = 20
_VALUES: Final = 10

# So far above each loss its epoch is looked for.
_BETWEEN: Final = 1 << 14

# Above the losses headings are looked for so far; each stands for so many of them at most.
_LOOK_ABOVE: Final = 1 << 22
_LINES_BELOW: Final = 1.5


# Of each line with a counter and a loss the epoch that it tells, or a line above it, and the count.
_Counts: TypeAlias = list[tuple[int, int]]
# What the counters of lines say, by the names on these.
_Shapes: TypeAlias = dict[tuple[str, ...], list[dict[bytes, int]]]


def evidence(data: bytes) -> Evidence | None:
    """Return what speaks for the lines being a log, or None if it is not enough.

    Only where nothing is called a loss may it be called by another name.
    """
    for word in (LOSS, *(word for word in OTHER_LOSSES if word in data)):
        every: set[str] = set()
        found = _evidence(data, _seen(data, word, every))
        if found is not None:
            total = next((name for name in sorted(every) if name.lower() == "loss"), None)
            return replace(found, word=word, total=total)
    return None


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What lines with a loss say: their counters and its values by what they call it.

    ``not_finite`` are the shapes of lines that tell more than prose does beside a loss that is
    NaN or infinite. ``end`` is where the last line begins.
    """

    counters: Mapping[tuple[bytes, str], _Counts]
    values: Mapping[str, list[bytes]]
    shapes: _Shapes
    not_finite: _Shapes
    end: int


def _seen(data: bytes, word: bytes, every: set[str]) -> _Seen:
    """Look at losses by a word; the names of all that are found go into ``every``."""
    counters: dict[tuple[bytes, str], _Counts] = defaultdict(list)
    values: dict[str, list[bytes]] = defaultdict(list)
    shapes: _Shapes = defaultdict(list)
    not_finite: _Shapes = defaultdict(list)
    end = epoch = 0
    for begin, line in islice(lines_with_a_loss(data, word), _LOOKED_AT):
        epoch = _epoch_above(data[max(end, begin - _BETWEEN) : begin], epoch)
        spans = spans_of(line, word=word)
        named = [name for name in spans if "loss" in name.lower() and "scale" not in name.lower()]
        loss = next(iter(named), None)
        if loss is not None:
            every.update(named)
            end = begin
            values[loss].append(line[slice(*spans[loss])])
            counts = {name: count_of(line[slice(*at)]) for name, at in counters_of(line).items()}
            shapes[tuple(spans)].append(counts)
            if len(spans) >= _MORE_THAN_PROSE and any(
                line[slice(*spans[name])].lstrip(b"+-")[:1] in b"nNiI" for name in named
            ):
                not_finite[tuple(spans)].append(counts)
            for name, count in counts.items():
                counters[name, loss].append((counts.get(EPOCH, epoch), count))
    return _Seen(counters=counters, values=values, shapes=shapes, not_finite=not_finite, end=end)


def _epoch_above(between: bytes, epoch: int) -> int:
    """Return the epoch that the lines above a loss tell last, or else the one before."""
    if b"poch" in between or b"POCH" in between:
        for name, count in headings_of(between):
            epoch = count if name == EPOCH else epoch
    return epoch


def _evidence(data: bytes, seen: _Seen) -> Evidence | None:
    trained = {name: one for name, one in seen.values.items() if not name.startswith(VALIDATED)}
    of_these = {key: counts for key, counts in seen.counters.items() if key[1] in trained}
    beside = _beside(of_these) or _beside(seen.counters)
    of_training = beside is not None and (beside.loss in trained or not trained)
    if beside and of_training:
        on_its_line = (EPOCH, beside.loss) in seen.counters
        if on_its_line or (beside.rising == 1 and not beside.restarts):
            return beside
    headings: dict[bytes, list[int]] = defaultdict(list)
    for name, count in headings_of(data[: min(seen.end, _LOOK_ABOVE)]):
        headings[name].append(count)
    if beside and not of_training:
        # A counter beside the losses of evaluations tells little of those of the training.
        beside = _above(headings, trained) or beside
    if beside is not None:
        return beside if beside.above else replace(beside, epochs=_rising(headings[EPOCH]) == 1)
    found = _above(headings, seen.values) or _excerpt(seen.shapes)
    if found is None and seen.shapes and any(one.search(data) for one in alarms("loss", STEP)):
        found = _excerpt(seen.shapes, alarmed=True)
    if found is None and 2 * _lines(seen.not_finite) >= _lines(seen.shapes):
        found = _excerpt(seen.not_finite, alarmed=True)
    return found or _uncounted(trained, seen.counters)


def _beside(counters: Mapping[tuple[bytes, str], _Counts]) -> Evidence | None:
    """Return what speaks for a counter on the lines of a loss."""
    found = [
        _about(word, loss, counts)
        for (word, loss), counts in counters.items()
        if len(set(counts)) >= _FEWEST and _may_count(word, loss, counters)
    ]
    # Of counters that stand on the same lines the finest tells the step, even if it starts over
    # with each epoch.
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


def _about(word: bytes, loss: str, counts: _Counts) -> Evidence:
    alone = [count for _, count in counts]
    rising, within = _rising(alone), _rising_within(counts)
    restarts = rising < _RISING <= within
    return Evidence(
        counter=word,
        loss=loss,
        lines=len(counts),
        rising=within if restarts else rising,
        moves=max(_moves(alone), 1),
        restarts=restarts,
    )


def _may_count(word: bytes, loss: str, counters: Mapping[tuple[bytes, str], _Counts]) -> bool:
    """Tell whether a counter may be that of the steps, by those that stand on the same lines."""
    counts = counters[word, loss]
    if word == BATCH_OF_EPOCH:
        # What stays while the number before it goes on is how far that counts: Batch 10/600. And
        # the batches of an evaluation are no steps.
        before = counters.get((b"batch", loss), [])
        goes_on = _moves([n for _, n in counts]) > _moves([n for _, n in before])
        return goes_on and not loss.startswith(VALIDATED)
    # A position may have a name, as in "Epoch 3/10": they are one counter.
    return is_word(word) or all(counts != counters.get((one, loss)) for one in COARSE)


def _excerpt(shapes: _Shapes, *, alarmed: bool = False) -> Evidence | None:
    """Return what speaks for an excerpt: lines of the same names, and a counter that only rises.

    It is too short to see that in any other way. One line is enough, and any counter, if it or
    another line says that the training went wrong.
    """
    fewest = 1 if alarmed else _EXCERPT
    for names, lines in shapes.items():
        loss = next(
            name for name in names if "loss" in name.lower() and "scale" not in name.lower()
        )
        named = [word for word in lines[0] if is_word(word)]
        # A position counts where nothing else does, but the epoch that it stands in.
        finest = alarmed or (named and all(word in COARSE for word in named))
        words = [
            word for word in (lines[0] if finest else named) if all(word in one for one in lines)
        ]
        words.sort(key=_coarseness)
        for word in words:
            counts = [one[word] for one in lines]
            if len(counts) >= fewest and all(b > a for a, b in pairwise(counts)):
                return Evidence(counter=word, loss=loss, lines=len(counts), rising=1.0)
    return None


def _lines(shapes: _Shapes) -> int:
    return sum(map(len, shapes.values()))


def _coarseness(word: bytes) -> tuple[bool, int]:
    """Return what sorts counters of an excerpt: those with names go before positions.

    Of positions one may be a date; what counts further is none.
    """
    return word in COARSE, 0 if is_word(word) else 99 - len(word)


def _uncounted(
    values: Mapping[str, list[bytes]], counters: Mapping[tuple[bytes, str], _Counts]
) -> Evidence | None:
    """Return what speaks for losses that nothing counts: that there are many, and of many values.

    A counter that moves, but does not rise, says that they are not in order.
    """
    if not values:
        return None
    loss = max(values, key=lambda name: len(values[name]))
    found = values[loss]
    moves = any(_moves([n for _, n in at]) for (_, of), at in counters.items() if of == loss)
    if moves or len(found) < _UNCOUNTED or len(set(found)) < _VALUES:
        return None
    return Evidence(counter=None, loss=loss, lines=len(found), rising=0.0)


def _above(
    headings: Mapping[bytes, list[int]], values: Mapping[str, list[bytes]]
) -> Evidence | None:
    """Return what speaks for a counter on lines of its own, above those of a loss."""
    if not values:
        return None
    loss = max(values, key=lambda name: len(values[name]))
    lines = len(values[loss])
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


def _rising_within(counts: _Counts) -> float:
    """Return how often a counter rises from one line to the next of the same epoch."""
    steps = [after[1] - before[1] for before, after in pairwise(counts) if before[0] == after[0]]
    return sum(step > 0 for step in steps) / max(sum(step != 0 for step in steps), 1)


def _moves(counts: list[int]) -> int:
    return sum(after != before for before, after in pairwise(counts))
