"""A sample of the first lines with a loss, and the evidence of a log in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field, replace
from itertools import islice, pairwise
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.counters import (
    COARSE,
    EPOCH,
    NTH,
    STEP,
    counter_value,
    find_headings,
    is_word,
    line_counters,
)
from stabdiag.readers.text.lines.evaluated import under_its_heading
from stabdiag.readers.text.lines.grammar import (
    NUMBER_PATTERN,
    Grammar,
    Kind,
    Normalization,
    Step,
    as_float,
)
from stabdiag.readers.text.lines.measure_words import (
    LOSS_STEM,
    OTHER_MEASURES,
    is_word_of_scores,
    makes_a_record,
)
from stabdiag.readers.text.lines.spans import SpanFinder
from stabdiag.readers.text.lines.tokens import SAVES, lines_with_a_loss
from stabdiag.readers.text.lines.values import NULL_CELL
from stabdiag.readers.text.losses.evaluation import Evaluation
from stabdiag.readers.text.losses.measured import Heading, MeasuredLines, StageHeading
from stabdiag.readers.text.messages.failures import is_exception
from stabdiag.readers.text.messages.status_lines import OVERFLOWS, failure_lines

# The number of lines in a sample.
_MAX_LINES: Final = 500

# The last lines of a log are in this many bytes.
_TAIL_BYTES: Final = 1 << 12

# The epoch of a loss is searched for in this many bytes above it.
_EPOCH_BYTES: Final = 1 << 14

# A counter continues under another name on at least this many lines.
_MIN_RENAMED: Final = 2

# The name of an exception is in this many bytes at the start of a line.
_MAX_EXCEPTION: Final = 200

# The fewest losses of saved models that show how they change.
_MIN_BESTS: Final = 3

# A line with this many values is not prose.
MANY_VALUES: Final = 4

# nanoGPT, its descendants, and Darknet print their arguments in this form.
_CONFIG: Final = (
    rb"(?:\nOverriding: (?=\w{1,80} = )|(?=Learning Rate: |Momentum: |Decay: ))"
    rb"([\w ]{1,80})(?: = |: )((?<== )[^\n]{1,200}|%b)" % NUMBER_PATTERN
)

_CONFIG_TEXTS: Final = (b"Overriding: ", b"Learning Rate: ", b"Momentum: ", b"Decay: ")

# For each line with a counter and a loss: its epoch (or the epoch of a line above), and the count.
Counts: TypeAlias = list[tuple[int, int]]
# For each set of names on a line: the counters of the lines with these names.
Shapes: TypeAlias = dict[tuple[str, ...], list[dict[bytes, int]]]


@frozen
class Sample:
    """Lines with a loss: their counters, and the values of the loss by its name.

    Only the first loss of a line counts. ``not_finite`` are the shapes of lines with a NaN or
    infinite loss and enough other values that they are not prose. ``end`` is the start of the last
    line. ``word`` is part of the name of the loss. For each line, ``saved`` has the words for a
    saved model before its loss, and ``counted`` is whether it has a counter.
    """

    word: bytes = LOSS_STEM
    counters: dict[tuple[bytes, str], Counts] = field(default_factory=lambda: defaultdict(list))
    values: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    shapes: Shapes = field(default_factory=lambda: defaultdict(list))
    not_finite: Shapes = field(default_factory=lambda: defaultdict(list))
    end: int = 0
    saved: list[frozenset[bytes]] = field(default_factory=list)
    counted: list[bool] = field(default_factory=list)

    @property
    def repeats_saved(self) -> bool:
        """Whether some lines without a counter repeat the loss of a saved model."""
        repeats = [
            bool(words) and not counted
            for words, counted in zip(self.saved, self.counted, strict=True)
        ]
        return any(repeats) and not all(repeats)

    @property
    def has_only_bests(self) -> bool:
        """Whether all losses belong to saved models, each at most as high as the one before."""
        if len(self.values) != 1 or not all(self.saved):
            return False
        (values,) = self.values.values()
        losses = [as_float(value) for value in values]
        return len(losses) >= _MIN_BESTS and all(a >= b for a, b in pairwise(losses))


def loss_names(names: Iterable[str], word: bytes = LOSS_STEM) -> list[str]:
    """Return the names of losses, or of the other measure that ``word`` is part of."""
    return [name for name in names if makes_a_record(name, word)]


def sample_tail(data: bytes, word: bytes) -> Sample:
    """Return a sample of the last lines, without a first line that is cut."""
    begin = data.find(b"\n", max(len(data) - _TAIL_BYTES, 0))
    return take_sample(data[max(begin, 0) :], word)


def take_sample(data: bytes, word: bytes) -> Sample:
    """Return a sample of the first lines whose loss has a name with this word."""
    sample, finder = Sample(word=word), SpanFinder(word)
    end = epoch = 0
    for begin, alone in islice(lines_with_a_loss(data, word), _MAX_LINES):
        epoch = _last_epoch(data[max(end, begin - _EPOCH_BYTES) : begin], epoch)
        line = under_its_heading(data, begin, alone)
        spans = finder.find(line)
        losses = loss_names(spans, word)
        if not losses or is_exception(line[:_MAX_EXCEPTION]):
            continue
        loss, end = losses[0], begin
        sample.values[loss].append(line[slice(*spans[loss])])
        sample.saved.append(frozenset(SAVES.findall(line[: spans[loss][0]].lower())))
        counts = {name: counter_value(line[slice(*at)]) for name, at in line_counters(line).items()}
        sample.shapes[tuple(spans)].append(counts)
        sample.counted.append(bool(counts))
        lost = any(is_lost(line[slice(*spans[name])]) for name in losses)
        if lost and len(spans) >= MANY_VALUES:
            sample.not_finite[tuple(spans)].append(counts)
        for name, count in counts.items():
            sample.counters[name, loss].append((counts.get(EPOCH, epoch), count))
    return replace(sample, end=end)


def _last_epoch(between: bytes, epoch: int) -> int:
    """Return the last epoch on the lines above a loss, or else the epoch before."""
    if b"poch" not in between and b"POCH" not in between:
        return epoch
    for line in reversed(between.split(b"\n")):
        if b"poch" in line or b"POCH" in line:
            epochs = [count for _, name, count in find_headings(line) if name == EPOCH]
            if epochs:
                return epochs[-1]
    return epoch


def is_lost(value: bytes) -> bool:
    """Return True if a value is NaN or infinite."""
    return value != NULL_CELL and value.lstrip(b"+-").startswith((b"n", b"N", b"i", b"I"))


@frozen
class TextEvidence:
    """The evidence that a text is a log: its counter, its loss, and how often the counter rises.

    Attributes:
        counter: the counter on the lines of the loss, or ``above`` them; None without a counter.
        loss: the name of the loss.
        lines: the number of lines with the loss.
        rising: the fraction of rises among the changes of the counter.
        moves: how often the counter changes.
        restarts: the counter restarts with each epoch.
        above: the counter is on its own lines, above the lines of the loss.
        is_counted_below: the counter may also be below the only loss.
        epochs: lines above the losses name the epoch.
        total: the loss that is named just ``loss``, if there are several.
        word: a part of the name of the loss; the search for its lines uses it.
        counter_alias: another name of the counter, on lines of other losses.
        planned_steps: the last value of the counter: 100 for epoch 3/100.
        evaluation_first: each evaluation is printed above the line of its epoch.
        normalizations: the replacements that give the log standard names.
        has_evaluation_blocks: headings announce evaluation lines that look like training lines.
        is_unknown: ``word`` is the name of values whose meaning is unknown.
        is_assumed: a number without a name is taken as the loss.
        has_only_bests: only the losses of the best models so far are logged.
        repeats_saved: some lines repeat the loss of a saved model.
        has_stages: lines number the stages of the training.
        run_heading: finds the lines above each run of a log without a counter.
        lone_scores: the names of scores on lines of their own between the lines of the loss.
    """

    counter: bytes | None
    loss: str
    lines: int
    rising: float
    moves: int = 0
    restarts: bool = False
    above: bool = False
    is_counted_below: bool = False
    epochs: bool = False
    total: str | None = None
    word: bytes = LOSS_STEM
    counter_alias: bytes | None = None
    planned_steps: int | None = None
    evaluation_first: bool = False
    normalizations: tuple[Normalization, ...] = ()
    has_evaluation_blocks: bool = False
    is_unknown: bool = False
    is_assumed: bool = False
    has_only_bests: bool = False
    repeats_saved: bool = False
    has_stages: bool = False
    run_heading: bytes | None = None
    lone_scores: frozenset[str] = frozenset()

    @property
    def is_without_loss(self) -> bool:
        """Whether the log has only other measures, such as norms and scales, or scores."""
        return self.is_unknown or self.word in OTHER_MEASURES or is_word_of_scores(self.word)

    @property
    def grammar(self) -> Grammar:
        """The grammar that finds the records."""
        counter = None if self.above else self.counter
        measured = MeasuredLines(
            counter=counter,
            word=self.word,
            counter_alias=self.counter_alias,
            skips_saved=self.repeats_saved,
            step=Step.COMING if self.is_counted_below else Step.SAME,
        )
        kinds: tuple[Kind, ...] = (measured,)
        if counter is not None and (not self.is_without_loss or is_word_of_scores(self.word)):
            evaluation = Evaluation(
                counter=counter,
                word=self.word,
                counter_alias=self.counter_alias,
                scores=self.lone_scores,
                step=Step.COMING if self.evaluation_first else Step.SAME,
            )
            kinds = (*kinds, evaluation)
        loss = "loss" if self.is_without_loss else self.total or self.loss
        kinds = (*kinds, *failure_lines(loss, STEP), *OVERFLOWS)
        if self.above and self.counter is not None:
            kinds = (Heading(counter=self.counter), *kinds)
        elif self.epochs:
            kinds = (Heading(counter=EPOCH, column=EPOCH.decode(), is_record=False), *kinds)
        kinds = (StageHeading(), *kinds) if self.has_stages else kinds
        return Grammar(
            step=STEP,
            kinds=kinds,
            joined=self.above,
            config=_CONFIG,
            config_texts=_CONFIG_TEXTS,
            normalizations=self.normalizations,
            has_evaluation_blocks=self.has_evaluation_blocks,
            ended=self.run_heading,
        )

    @property
    def epoch_length(self) -> int | None:
        """The total of a position, in case it restarts with each epoch: 600 for 10/600."""
        if self.counter is None or not self.counter.startswith(NTH):
            return None
        return counter_value(self.counter.removeprefix(NTH))

    @property
    def certainty(self) -> str:
        """How certain it is that this is a training log, in one word."""
        if self.lines >= 50 and self.rising >= 0.99:
            return "sure"
        return "likely" if self.lines >= 10 and self.rising >= 0.9 else "unsure"


# Epoch 1/10, Epoch [1/10], epoch 1 of 10
_EPOCH_WITH_TOTAL: Final = lazy_pattern(
    rb"poch(?<=\b[Ee]poch)[ :#\[]{1,3}(\d{1,6}) {0,2}(?:/|of) {0,2}(\d{1,6})\b"
)
_MAX_EPOCHS: Final = 1000


def _has_one_epoch_of_several(data: bytes) -> bool:
    """Return True if a bar has the total of an epoch, the only one of several.

    A heading says Epoch 1/10, or a bar of epochs is above: 0/10 [00:00<?, ?epoch/s].
    """
    if b"epoch/s]" in data and b"batch/s" in data:
        return True
    matches = islice(_EPOCH_WITH_TOTAL.finditer(data) if b"poch" in data else (), _MAX_EPOCHS)
    epochs = {(int(match[1]), int(match[2])) for match in matches}
    return len(epochs) == 1 and all(total > 1 for _, total in epochs)


def names_several_epochs(data: bytes) -> bool:
    """Return True if headings name several epochs, in rising order: Epoch 1/10, Epoch 2/10."""
    matches = islice(_EPOCH_WITH_TOTAL.finditer(data) if b"poch" in data else (), _MAX_EPOCHS)
    epochs = [int(match[1]) for match in matches]
    return len({*epochs}) > 1 and epochs == sorted(epochs)


def find_planned_epochs(evidence: TextEvidence, data: bytes) -> int | None:
    """Return the total of the epochs above the losses: Epoch 1/80."""
    if evidence.counter != EPOCH or not evidence.above or b"poch" not in data:
        return None
    totals = {int(match[2]) for match in islice(_EPOCH_WITH_TOTAL.finditer(data), _MAX_EPOCHS)}
    return totals.pop() if len(totals) == 1 else None


def find_planned_steps(evidence: TextEvidence, sample: Sample, data: bytes) -> int | None:
    """Return the total of the only position that moves with the counter, unless an epoch has it."""
    if evidence.counter != EPOCH and _has_one_epoch_of_several(data):
        return None
    counts = sample.counters.get((evidence.counter or b"", evidence.loss), [])
    if evidence.epochs and len({epoch for epoch, _ in counts}) == 1:
        return None
    alike = [
        name
        for (name, loss), others in sample.counters.items()
        if loss == evidence.loss and name.startswith(NTH) and others == counts
    ]
    # Epoch 1/3 | batch 99/1991: the log may end within the first epoch.
    others = [name for name, loss in sample.counters if loss == evidence.loss and name not in alike]
    by_epoch = any(name.startswith(NTH) and name != NTH + b"1" for name in others)
    # Epoch 1 - iter 99/1991: while the first epoch lasts, the total may count an epoch.
    by_epoch |= EPOCH in others and len({epoch for epoch, _ in counts}) == 1
    once = all(before[1] < after[1] for before, after in pairwise(counts))
    is_planned = once and not by_epoch and len(alike) == 1
    return counter_value(alike[0].removeprefix(NTH)) if is_planned else None


def find_new_counter(evidence: TextEvidence, sample: Sample, tail: Sample) -> bytes | None:
    """Return the name of a counter after it is renamed: step 400, then iter 410.

    The ``tail`` is a sample of the last lines.
    """
    counter = evidence.counter
    if counter is None or not is_word(counter) or counter in COARSE or evidence.restarts:
        return None
    lines = [
        counts
        for part in (sample, tail)
        for names, shape in part.shapes.items()
        if evidence.loss in names
        for counts in shape
    ]
    counted = max((counts[counter] for counts in lines if counter in counts), default=0)
    others = [counts for counts in lines if counter not in counts]
    words = [word for word in others[-1] if is_word(word)] if others else []
    later = (
        word
        for word in words
        if word not in COARSE and all(counts.get(word, 0) > counted for counts in others)
    )
    return next(later, None) if len(others) >= _MIN_RENAMED else None


def find_counter_alias(evidence: TextEvidence, sample: Sample) -> bytes | None:
    """Return the name of the counter on lines of other losses: step 20: val loss, iter 20: loss."""
    counted: dict[bytes, set[int]] = defaultdict(set)
    for (word, _), counts in sample.counters.items():
        counted[word].update(count for _, count in counts)
    own_counts = counted[evidence.counter] if evidence.counter and not evidence.restarts else {0}
    last = max(own_counts, default=0)
    for word, loss in sample.counters:
        shared = {count for count in counted[word] if count <= last}
        is_candidate = (evidence.counter, loss) not in sample.counters and is_word(word)
        if (
            is_candidate
            and not {evidence.counter, word} & {*COARSE}
            and len(shared) > 1
            and shared <= own_counts
        ):
            return word
    return None
