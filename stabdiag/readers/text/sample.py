"""What the first lines with a loss hold, and the evidence of a log that is found in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field, replace
from itertools import islice
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.readers.text.asides import OVERFLOWS, alarms, spoken
from stabdiag.readers.text.counters import (
    COARSE,
    EPOCH,
    NTH,
    STEP,
    count_of,
    counters_of,
    headings_of,
    is_word,
)
from stabdiag.readers.text.grammar import NUMBER, Grammar, Kind, Spelling, Step
from stabdiag.readers.text.measured import Evaluation, Heading, Measured, spans_of
from stabdiag.readers.text.tokens import (
    LOSS,
    OTHER_MEASURES,
    lines_with_a_loss,
    makes_a_record,
    under_its_heading,
)
from stabdiag.readers.text.values import NULL_CELL

# How many lines are looked at.
_LOOKED_AT: Final = 500

# In how many bytes above a loss its epoch is searched for.
_BETWEEN: Final = 1 << 14

# A line with as many values is more than prose.
_MORE_THAN_PROSE: Final = 4

# How nanoGPT and its descendants, and Darknet, print the arguments that they were given.
_CONFIG: Final = (
    rb"(?:\nOverriding: (?=\w{1,80} = )|(?=Learning Rate: |Momentum: |Decay: ))"
    rb"([\w ]{1,80})(?: = |: )((?<== )[^\n]{1,200}|%b)" % NUMBER
)

# For each line with a counter and a loss: its epoch (or that of a line above it), and the count.
Counts: TypeAlias = list[tuple[int, int]]
# For each set of names on a line: what the counters of the lines with these names say.
Shapes: TypeAlias = dict[tuple[str, ...], list[dict[bytes, int]]]


@frozen
class Sample:
    """Lines with a loss: their counters, and the values of the loss by its name.

    Of each line the first loss counts. ``not_finite`` are the shapes of lines with a loss of NaN or
    infinite beside so many other values that they are no prose. ``end`` is where the last line
    begins.
    """

    counters: dict[tuple[bytes, str], Counts] = field(default_factory=lambda: defaultdict(list))
    values: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    shapes: Shapes = field(default_factory=lambda: defaultdict(list))
    not_finite: Shapes = field(default_factory=lambda: defaultdict(list))
    end: int = 0


def losses_of(names: Iterable[str], word: bytes = LOSS) -> list[str]:
    """Return the names of losses, or of what else a ``word`` stands for."""
    return [name for name in names if makes_a_record(name, word)]


def sample_of(data: bytes, word: bytes) -> Sample:
    """Return what the first lines say that call a loss by a word."""
    sample = Sample()
    end = epoch = 0
    for begin, alone in islice(lines_with_a_loss(data, word), _LOOKED_AT):
        epoch = _epoch_above(data[max(end, begin - _BETWEEN) : begin], epoch)
        line = under_its_heading(data, begin, alone)
        spans = spans_of(line, word=word)
        found = losses_of(spans, word)
        if not found:
            continue
        loss, end = found[0], begin
        sample.values[loss].append(line[slice(*spans[loss])])
        counts = {name: count_of(line[slice(*at)]) for name, at in counters_of(line).items()}
        sample.shapes[tuple(spans)].append(counts)
        lost = any(is_lost(line[slice(*spans[name])]) for name in found)
        if lost and len(spans) >= _MORE_THAN_PROSE:
            sample.not_finite[tuple(spans)].append(counts)
        for name, count in counts.items():
            sample.counters[name, loss].append((counts.get(EPOCH, epoch), count))
    return replace(sample, end=end)


def _epoch_above(between: bytes, epoch: int) -> int:
    """Return the epoch that the lines above a loss tell last, or else the one before."""
    for line in reversed(between.split(b"\n")):
        if b"poch" in line or b"POCH" in line:
            told = [count for _, name, count in headings_of(line) if name == EPOCH]
            if told:
                return told[-1]
    return epoch


def is_lost(value: bytes) -> bool:
    """Tell whether a value is NaN or infinite."""
    return value != NULL_CELL and value.lstrip(b"+-").startswith((b"n", b"N", b"i", b"I"))


@frozen
class Evidence:
    """The evidence: which counter there is, on how many lines, and how often it rises.

    The counter stands on the lines of the loss, or ``above`` them on lines of its own; it is None
    for losses without a counter. ``moves`` is how often it changes, ``restarts`` says that it
    starts again with each epoch, and ``epochs`` that lines above the losses name that epoch.
    ``total`` is the loss that is called just ``loss``, if there are several. ``word`` is what the
    log calls its loss. ``also`` counts the same as the counter on lines of another loss.
    ``planned`` is how far the counter is to go: 100 for epoch 3/100. ``ahead`` says that each
    evaluation stands above the line of its epoch. ``spelt`` puts the log in plain words.
    """

    counter: bytes | None
    loss: str
    lines: int
    rising: float
    moves: int = 0
    restarts: bool = False
    above: bool = False
    epochs: bool = False
    total: str | None = None
    word: bytes = LOSS
    also: bytes | None = None
    planned: int | None = None
    ahead: bool = False
    spelt: tuple[Spelling, ...] = ()

    @property
    def is_without_loss(self) -> bool:
        """Whether the log holds other measures alone: norms, scales, the largest activations."""
        return self.word in OTHER_MEASURES

    @property
    def grammar(self) -> Grammar:
        """The grammar that finds the records."""
        counter = None if self.above else self.counter
        kinds: tuple[Kind, ...] = (Measured(counter=counter, word=self.word, also=self.also),)
        if counter is not None and not self.is_without_loss:
            step = Step.COMING if self.ahead else Step.SAME
            kinds = (*kinds, Evaluation(counter=counter, word=self.word, also=self.also, step=step))
        loss = "loss" if self.is_without_loss else self.total or self.loss
        kinds = (*kinds, *alarms(loss, STEP), *spoken(loss), *OVERFLOWS)
        if self.above and self.counter is not None:
            kinds = (Heading(counter=self.counter), *kinds)
        elif self.epochs:
            kinds = (Heading(counter=EPOCH, column=EPOCH.decode(), is_record=False), *kinds)
        return Grammar(step=STEP, kinds=kinds, joined=self.above, config=_CONFIG, spelt=self.spelt)

    @property
    def epoch_length(self) -> int | None:
        """What a position counts up to, in case it restarts with each epoch: 600 for 10/600."""
        if self.counter is None or not self.counter.startswith(NTH):
            return None
        return count_of(self.counter.removeprefix(NTH))

    @property
    def certainty(self) -> str:
        """How certain it is that this is a log of a training, in one word."""
        if self.lines >= 50 and self.rising >= 0.99:
            return "sure"
        return "likely" if self.lines >= 10 and self.rising >= 0.9 else "unsure"


def planned(found: Evidence, sample: Sample) -> int | None:
    """Return what the one position counts up to that moves as the counter does."""
    counts = sample.counters.get((found.counter or b"", found.loss), [])
    alike = [
        name
        for (name, loss), others in sample.counters.items()
        if loss == found.loss and name.startswith(NTH) and others == counts
    ]
    once = len({count for _, count in counts}) == len(counts)
    return count_of(alike[0].removeprefix(NTH)) if once and len(alike) == 1 else None


def also_counted(found: Evidence, sample: Sample) -> bytes | None:
    """Return what lines of other losses call the counter: step 20: val loss 2.4, iter 20: loss."""
    counted: dict[bytes, set[int]] = defaultdict(set)
    for (word, _), counts in sample.counters.items():
        counted[word].update(count for _, count in counts)
    mine = counted[found.counter] if found.counter and not found.restarts else {0}
    for word, loss in sample.counters:
        same = {count for count in counted[word] if count <= max(mine, default=0)}
        others = (found.counter, loss) not in sample.counters and is_word(word)
        if others and not {found.counter, word} & {*COARSE} and len(same) > 1 and same <= mine:
            return word
    return None
