"""The evidence that any text is a log: a loss on line after line, and a counter that rises.

``evidence`` looks at the first lines that name a loss. Of the counters on them, or above them, the
finest one that rises is the step.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.asides import alarms, spoken
from stabdiag.readers.text.counters import (
    COARSE,
    EPOCH,
    FIRST,
    GAMES,
    NTH,
    STEP,
    headings_of,
    is_word,
)
from stabdiag.readers.text.failures import Failures
from stabdiag.readers.text.grammar import NUMBER, trains
from stabdiag.readers.text.measured import spans_of
from stabdiag.readers.text.sample import (
    Counts,
    Evidence,
    Sample,
    Shapes,
    also_counted,
    is_lost,
    losses_of,
    planned,
    sample_of,
)
from stabdiag.readers.text.spelling import plainly, spellings_of
from stabdiag.readers.text.tokens import (
    BY_SPLIT,
    EVALUATED,
    LOSS,
    OTHER_LOSSES,
    OTHER_MEASURES,
    REWARDS,
    SCORE,
    SUMMED,
    TRAINED,
    lines_with_a_loss,
)

# In how many bytes at the head headings are searched for.
_LOOK_ABOVE: Final = 1 << 22

# The fewest different values of a counter, and the share of its moves in which it has to rise.
_FEWEST: Final = 3
_RISING: Final = 0.8

# The counter of rewards rises in this fraction of its moves, other than where a run starts again.
_NEARLY_RISING: Final = 0.9

# The fewest lines of an excerpt that somebody pasted.
_EXCERPT: Final = 2

# The fewest lines, and different values, of one loss that make a log without a counter, and of
# lines that are alike but for their numbers, with hardly a line between them: the same value again
# and again stands in a program, or in prose.
_UNCOUNTED: Final = (20, 10)
_ALIKE: Final = (4, 3)
# Of such lines, with other values beside the loss, two are enough if a loss is not finite.
_LOST: Final = (2, 1)
_VALUE: Final = re.compile(NUMBER)

# The fewest lines of a log without a loss.
_EVIDENT: Final = 10

# How many lines with a loss may stand below a heading, on average.
_LINES_BELOW: Final = 1.5

# So many times more lines than another name or counter of the loss has, and it is that of the
# training: the other was evaluated now and then.
_DENSER: Final = 4

# The largest score, in percent.
_LARGEST_SCORE: Final = 100

# What rsl_rl prints above the losses of an iteration:  Learning iteration 412/2000
_ITERATION: Final = b"iteration"
_ITERATION_ALONE: Final = re.compile(
    rb"\n[ \t]{0,80}Learning iteration \d{1,9}/\d{1,9}[ \t]{0,80}\n"
)

# What Keras and nnU-Net print above what they tell of each epoch: Epoch 1/10, …: Epoch 0, epoch:  0
_EPOCH_ALONE: Final = re.compile(
    rb"\n[\d:. -]{0,40}[Ee]poch:?[ ]{1,4}\d{1,6}(?:/\d{1,6})?[ \t]{0,8}\n"
)


@frozen
class _Log:
    """A text, and what it holds whatever its loss is called: it is searched for that once."""

    data: bytes

    @cached_property
    def headings(self) -> list[tuple[int, bytes, int]]:
        """The counters with a word at its head."""
        return [*headings_of(self.data[:_LOOK_ABOVE])]

    @cached_property
    def alarmed(self) -> bool:
        """Whether a line says that the training went wrong."""
        lines = (*alarms("loss", STEP), *spoken("loss"))
        if any(line.search(self.data) for line in lines):
            return True
        return bool(Failures(pattern=b"").find_exceptions(self.data))


@lru_cache(maxsize=1)
def evidence(data: bytes) -> Evidence | None:
    """Return the evidence that lines are a log, or None if there is not enough; kept for reading.

    The loss may have another name, such as a cost, only if nothing is called a loss.
    """
    spelt = spellings_of(data)
    found = _evident(plainly(data, spelt))
    return None if found is None else replace(found, spelt=spelt)


def _evident(data: bytes) -> Evidence | None:
    log = _Log(data=data)
    named = _called(log, LOSS)
    if named is not None:
        return named
    told = [one[1] for one in (SUMMED.search(data), BY_SPLIT.search(data)) if one is not None]
    words = [*told, *(word for word in OTHER_LOSSES if word in data)]
    found = [one for one in (_called(log, word) for word in words) if one is not None]
    # The names are in the order of preference.
    best = next(iter(found), None)
    if best is not None:
        best = next((one for one in found if one.lines >= _DENSER * best.lines), best)
    return best or _without_a_loss(data)


def _without_a_loss(data: bytes) -> Evidence | None:
    """Return the evidence in lines of other measures, if no line tells a loss.

    There has to be more of it: such words are as often in prose, and in the sizes of a model.
    """
    if sample_of(data, LOSS).values:
        return None
    samples = ((word, sample_of(data, word)) for word in OTHER_MEASURES if word in data)
    told = ((word, _beside(sample.counters)) for word, sample in samples)
    # The counter of a reward restarts where several runs follow each other in one log.
    found = [
        replace(evidence, word=word)
        for word, evidence in told
        if evidence
        and (evidence.rising == 1 or (word in REWARDS and evidence.rising >= _NEARLY_RISING))
    ]
    games = (one for one in found if one.word != SCORE or one.counter in GAMES)
    best = max(games, key=lambda one: one.lines, default=None)
    if best is None:
        return None
    fewest = _FEWEST if best.word in REWARDS and is_word(best.counter or b"") else _EVIDENT
    return best if best.lines >= fewest else None


def _called(log: _Log, word: bytes) -> Evidence | None:
    """Return the evidence in the lines that call a loss by a word."""
    sample = sample_of(log.data, word)
    found = _evidence(log, sample)
    if found is None or (word.lower() in TRAINED and _are_scores(sample.values[found.loss])):
        return None
    every = chain.from_iterable(sample.shapes)
    total = next((name for name in every if name.lower() == "loss"), None)
    also, until = also_counted(found, sample), planned(found, sample)
    return replace(found, word=word, total=total, also=also, planned=until)


def _are_scores(values: list[bytes]) -> bool:
    """Tell whether values may be scores: these rise from the start on, and are at most 100."""
    numbers = [float(value) for value in values]
    third = max(len(numbers) // 3, 1)
    rise = sum(numbers[-third:]) > sum(numbers[:third]) and min(numbers) in numbers[:third]
    return rise and max(numbers) <= _LARGEST_SCORE


def _evidence(log: _Log, sample: Sample) -> Evidence | None:
    trained = {
        name: values
        for name, values in sample.values.items()
        if not (name.startswith(EVALUATED) or (is_evaluation(name) and not trains(name)))
    }
    of_these = {key: counts for key, counts in sample.counters.items() if key[1] in trained}
    found = _beside(of_these) or _beside(sample.counters)
    of_training = found is not None and (found.loss in trained or not trained)
    first = _first(trained, sample.counters)
    if first is not None and (found is None or first.lines >= _DENSER * found.lines):
        return first
    if found and of_training:
        on_its_line = (EPOCH, found.loss) in sample.counters
        if on_its_line or (found.rising == 1 and not found.restarts):
            return found
    headings: dict[bytes, list[int]] = defaultdict(list)
    for place, name, count in log.headings:
        if place < sample.end:
            headings[name].append(count)
    if found and not of_training:
        # A counter beside the losses of evaluations tells little of those of the training.
        found = _above(headings, trained) or found
    if found is not None:
        return found if found.above else replace(found, epochs=_rising(headings[EPOCH]) == 1)
    return (
        _above(headings, sample.values)
        or _excerpt(sample.shapes)
        or _of_few_epochs(log.data, sample, headings)
        or _alarming(log, sample)
        or _uncounted(log.data, trained, sample)
    )


def _beside(counters: Mapping[tuple[bytes, str], Counts]) -> Evidence | None:
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
            one.restarts,
            -one.lines,
            0 if one.counter and is_word(one.counter) else 1 / one.moves,
            -one.rising,
            # iter 8 step 2: of words that move alike, the step is the optimizer's.
            -one.moves,
            one.counter != b"step",
        )
    )
    return next((one for one in found if one.rising >= _RISING and _goes_on(one, counters)), None)


def _goes_on(found: Evidence, counters: Mapping[tuple[bytes, str], Counts]) -> bool:
    """Tell whether a counter begins again with each epoch, or else goes on from one to the next.

    Bars that are drawn when they are full stay at their end.
    """
    assert found.counter is not None
    counts = counters[found.counter, found.loss]
    return found.restarts or len({count for _, count in counts}) >= _FEWEST


def _about(word: bytes, loss: str, counts: Counts) -> Evidence:
    alone = [count for _, count in counts]
    # Within an epoch a counter may begin again.
    inside = [(a[1], b[1]) for a, b in pairwise(counts) if a[0] == b[0]]
    within = sum(b > a for a, b in inside) / max(sum(b != a for a, b in inside), 1)
    overall = _rising(alone)
    restarts = overall < _RISING <= within
    return Evidence(
        counter=word,
        loss=loss,
        lines=len(counts),
        rising=within if restarts else overall,
        moves=max(_moves(alone), 1),
        restarts=restarts,
    )


def _may_count(word: bytes, loss: str, counters: Mapping[tuple[bytes, str], Counts]) -> bool:
    """Tell whether a counter may be that of the steps, given the others on the same lines."""
    counts = counters[word, loss]
    bars = _bars(STEP.encode(), loss, counters)
    if bars and (word == STEP.encode() or word in bars[1:]):
        return False
    # A position may have a name, as in "Epoch 3/10": they are one counter.
    return is_word(word) or all(counts != counters.get((one, loss)) for one in COARSE)


def _bars(word: bytes, loss: str, counters: Mapping[tuple[bytes, str], Counts]) -> list[bytes]:
    """Return the positions that a word names, if they are of bars that each begin again.

    Those are of the training and of its evaluation: step 10/100, and then step 10/30.
    """
    mine = Counter(counters.get((word, loss), []))
    bars = {
        name: counts
        for (name, of), counts in counters.items()
        if of == loss and name.startswith(NTH) and _rising([n for _, n in counts]) < 1
    }
    counted = sum((Counter(counts) for counts in bars.values()), Counter())
    return [*bars] if len(bars) > 1 and counted == mine else []


def _above(
    headings: Mapping[bytes, list[int]], values: Mapping[str, list[bytes]], fewest: int = _FEWEST
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
            rising=_rising(counts) if len(counts) > 1 else 1.0,
            above=True,
        )
        for word, counts in sorted(headings.items(), key=lambda one: one[0] in COARSE)
        # Several losses below each heading, or below those of one epoch, would all be of one step.
        if len(set(counts)) >= fewest
        and lines <= _LINES_BELOW * (_moves(counts) + 1 if word in COARSE else len(counts))
    )
    return next((one for one in found if one.rising >= _RISING), None)


def _excerpt(shapes: Shapes, *, alarmed: bool = False) -> Evidence | None:
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
        # Words come before positions. A position may be a date; one with a larger total is not.
        words.sort(key=lambda one: (one in COARSE, 0 if is_word(one) else 99 - len(one)))
        for word in words:
            counts = [one[word] for one in lines]
            if len(counts) >= fewest and all(b > a - alarmed for a, b in pairwise(counts)):
                loss = losses_of(names)[0]
                return Evidence(counter=word, loss=loss, lines=len(counts), rising=1.0)
    return None


def _of_few_epochs(
    data: bytes, sample: Sample, headings: Mapping[bytes, list[int]]
) -> Evidence | None:
    """Return the evidence in two epochs or iterations with a line of their own.

    One is enough if a loss in it is not finite.
    """
    by_iteration = _ITERATION_ALONE.search(data, 0, sample.end) is not None
    if not by_iteration and not _EPOCH_ALONE.search(data, 0, sample.end):
        return None
    lost = any(is_lost(value) for values in sample.values.values() for value in values)
    counter = _ITERATION if by_iteration else EPOCH
    return _above({counter: headings[counter]}, sample.values, fewest=1 if lost else 2)


def _alarming(log: _Log, sample: Sample) -> Evidence | None:
    """Return the evidence in an excerpt that says that the training went wrong."""
    if sample.shapes and log.alarmed and (found := _excerpt(sample.shapes, alarmed=True)):
        return found
    lost, lines = (sum(map(len, one.values())) for one in (sample.not_finite, sample.shapes))
    return _excerpt(sample.not_finite, alarmed=True) if 2 * lost >= lines else None


def _first(
    values: Mapping[str, list[bytes]], counters: Mapping[tuple[bytes, str], Counts]
) -> Evidence | None:
    """Return the evidence for a number at the start of each line, which has to rise every time."""
    loss, lines = _most_told(values)
    counts = [count for _, count in counters.get((FIRST, loss), [])]
    if len(counts) < max(_FEWEST, lines) or any(b <= a for a, b in pairwise(counts)):
        return None
    return Evidence(counter=FIRST, loss=loss, lines=lines, rising=1.0, moves=lines - 1)


def _uncounted(data: bytes, values: Mapping[str, list[bytes]], sample: Sample) -> Evidence | None:
    """Return the evidence in losses without a counter: that there are many, of many values.

    A counter that falls shows that they are not in order; an epoch may hold any number of them.
    """
    loss, lines = _most_told(values)
    counts = {
        word: [count for _, count in at]
        for (word, of), at in sample.counters.items()
        if of == loss and word != FIRST and _moves([count for _, count in at])
    }
    fewest, different = _UNCOUNTED
    if _are_alike(data, loss, sample.end):
        several = max(map(len, sample.shapes), default=0) > 1
        lost = several and any(map(is_lost, values.get(loss, ())))
        fewest, different = _LOST if lost else _ALIKE
    few = lines < fewest or len({*values.get(loss, ())}) < different
    if few or any(_rising(one) < 1 for one in counts.values()):
        return None
    epoch = EPOCH if len(counts.get(EPOCH, ())) == lines else None
    return Evidence(counter=epoch, loss=loss, lines=lines, rising=float(epoch is not None))


def _are_alike(data: bytes, loss: str, end: int) -> bool:
    """Tell whether lines with a loss differ in their numbers alone, and little is between them."""
    found = [(at, line) for at, line in lines_with_a_loss(data[:end]) if loss in spans_of(line)]
    between = data[found[0][0] : end].split(b"\n") if found else ()
    alike = len({b" ".join(_VALUE.sub(b"", line).split()) for _, line in found}) == 1
    return alike and sum(map(bool, map(bytes.strip, between))) <= 2 * len(found)


def _rising(counts: list[int]) -> float:
    """Return in which share of its moves a counter rises."""
    return sum(b > a for a, b in pairwise(counts)) / max(_moves(counts), 1)


def _moves(counts: list[int]) -> int:
    return sum(after != before for before, after in pairwise(counts))


def _most_told(values: Mapping[str, list[bytes]]) -> tuple[str, int]:
    """Return the loss on most lines, and the number of these: none if there is no loss."""
    return max(
        ((name, len(lines)) for name, lines in values.items()), key=itemgetter(1), default=("", 0)
    )
