"""The lines of no known format: those with a loss, those of an evaluation, and headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import compress
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import assign, can_judge_without_loss
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.clean import line_end
from stabdiag.readers.text.counters import (
    FIRST,
    POSITION,
    STEP,
    counted_in,
    counters_of,
    is_word,
    word_of,
)
from stabdiag.readers.text.grammar import (
    NUMBER,
    Kind,
    Part,
    is_a_loss,
    parts_of,
    trains,
)
from stabdiag.readers.text.prefix import LONGEST_LABEL
from stabdiag.readers.text.shapes import Cells, Look, by_names
from stabdiag.readers.text.tokens import (
    LONGEST,
    LOSS,
    VALIDATED,
    Spans,
    fields_of,
    held_out,
    lines_with_a_loss,
    makes_a_record,
    renamed,
    told_of_evaluations,
    under_its_heading,
)

_Found: TypeAlias = tuple[int, bytes, Spans]

# What the names of rates, norms and scales contain; without sets, which take longer.
_BESIDE: Final = re.compile(rb"lr|LR|rate|Rate|norm|Norm|scale|Scale|l2_|TPS|per_sec|eward")

# Prose says what to do if the loss is NaN, and a program that some log at their head sets one to 0.
_NO_LOG: Final = re.compile(
    rb"(?<![A-Za-z])(?:if|when|unless|whether)(?![A-Za-z])[^:=]{0,60} is "
    rb"|^\s{0,80}\w{1,80} = 0(?:\.0?)?\s{0,80}$",
    re.IGNORECASE,
)

# | train | epoch 001 | loss 4.5 | num_updates 500: fairseq's mean, at a step that has its own line.
_MEAN_OF_EPOCH: Final = re.compile(rb"\| train \| epoch \d{1,6} \|")

# How many lines below a heading of an evaluation its loss is searched for.
_BELOW: Final = 3

# Loss: 2.31 (2.25), as timm and many others print of each batch: the mean of all so far.
_MEAN: Final = re.compile(rb" ?\( {0,4}(%b)\)" % NUMBER)

# Every word for an evaluation contains one of these.
_WORDS: Final = (b"val", b"test", b"dev", b"cv", b"held", b"hold")


def spans_of(
    line: bytes, counter: bytes | None = None, word: bytes = LOSS, also: bytes | None = None
) -> Spans:
    """Return where the values of a line stand, by name; the first one of each name counts.

    The ``counter``, or what the log ``also`` calls it, is named step, and other counters by their
    words. What the log calls by the ``word`` is named a loss.
    """
    counters = counters_of(line)
    taken = set(counters.values())
    fields = [one for one in fields_of(line) if one.value not in taken]
    of_epoch = "train_" if _MEAN_OF_EPOCH.search(line) else ""
    pairs: Spans = {}
    for one, prefix in zip(fields, told_of_evaluations(line, fields), strict=True):
        name = one.name if trains(one.name) else f"{prefix or of_epoch}{one.name}"
        pairs.setdefault(name, one.value)
    if word != LOSS:
        pairs = renamed(pairs, word)
    if counter is None:
        return pairs
    others = {name.decode(): at for name, at in counters.items() if is_word(name)}
    named = {name: at for name, at in others.items() if name not in (STEP, counter.decode())}
    if counted := counters.get(counter, counters.get(also or b"")):
        named[STEP] = counted
    # Beside the loss of NeMo, Lightning's own mean is NaN.
    if "reduced_train_loss" in pairs:
        pairs.pop("loss", None)
    return {**pairs, **named}


def _start(begin: int, line: bytes) -> int:
    """Return a place in a line that is behind the label which may name its rank."""
    return begin + min(LONGEST_LABEL, len(line) - 1)


@frozen
class Heading(Kind):
    """Lines without a loss that tell the step of those below them, or another column."""

    counter: bytes
    column: str = STEP
    holds_below: bool = True

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        found = (one for one in counted_in(data) if word_of(one) == self.counter)
        told = ((one.start(), {self.column: data[slice(*one.span(2))]}) for one in found)
        return [replace(part, beside=True) for part in parts_of(told)]


def _lines_beside(data: bytes, end: int, until: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stretch that may tell of a rate, a norm or the like."""
    for match in _BESIDE.finditer(data, end, until):
        if match.start() >= end:
            begin = data.rfind(b"\n", 0, match.start()) + 1
            end = line_end(data, match.start(), LONGEST)
            if end - begin <= LONGEST:
                yield begin, data[begin:end]


@frozen
class Measured(Kind):
    """Lines with a loss and the counter, or with a loss alone where there is no counter.

    Beside them stand lines that tell what belongs to a loss, such as its rate. ``word`` is what the
    log calls its loss, or part of that; ``also`` is another word for the counter.
    """

    counter: bytes | None
    word: bytes = LOSS
    also: bytes | None = None

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind; those with the same names make one part."""
        found = [*self._lines(data)]
        lines = [
            line if self.counter or self.word not in line else under_its_heading(data, at, line)
            for at, line in found
        ]
        after = [at if self.counter == FIRST else _start(at, line) for at, line in found]
        parts = [
            self._part(names, [after[row] for row in rows], cells)
            for names, rows, cells in by_names(lines, self._look)
        ]
        told = [part for part in parts if not part.beside]
        usual = max(told, key=lambda part: len(part.starts), default=None)
        return [
            part if usual is None or part.beside else _evaluated_beside(usual, part)
            for part in parts
        ]

    def _lines(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with a loss, and those between them that may tell what belongs to one."""
        end = 0
        for begin, line in lines_with_a_loss(data, self.word):
            if begin > end + 1:
                yield from _lines_beside(data, end, begin)
            end = begin + len(line)
            yield begin, line
        yield from _lines_beside(data, end, len(data))

    def _part(self, names: tuple[str, ...], starts: list[int], cells: Sequence[Cells]) -> Part:
        """Return a part; of lines without a loss it has what belongs to one."""
        if any(makes_a_record(name, self.word) for name in names):
            return Part(names=names, starts=starts, cells=cells)
        kept = [name == STEP or _goes_with_a_loss(name) for name in names]
        names = tuple(compress(names, kept))
        return Part(names=names, starts=starts, cells=[*compress(cells, kept)], beside=True)

    def _look(self, line: bytes) -> Look:
        """Return the values of a line, without names if it is not of this kind."""
        spans = spans_of(line, self.counter, self.word, self.also)
        counted = self.counter is None or STEP in spans
        values = sorted(spans.items(), key=lambda item: item[1])
        wanted = counted and any(
            makes_a_record(name, self.word) or _goes_with_a_loss(name) for name in spans
        )
        fixed = [one.at for one in fields_of(line)]
        fixed += [one.span(1) for one in counted_in(line)]
        # What a position counts up to is part of its name: a bar of another length is another.
        fixed += [one.span(2) for one in POSITION.finditer(line)]
        names = (*(name for name, _ in values),) if wanted else ()
        return Look(names, [span for _, span in values], fixed)


def _evaluated_beside(usual: Part, part: Part) -> Part:
    """Return a part of an evaluation if it tells the steps of the usual part again, without rates.

    Step... (500 | Loss: 2.31, Learning Rate: 1e-4) and Step... (500 | Loss: 2.4, Acc: 0.4), as the
    Flax scripts of Hugging Face print them. Or the part alone names an evaluation: train acc: 0.5,
    loss: 2.31 and eval acc: 0.4, loss: 2.4.
    """
    alike = {STEP} | {name for name in part.names if is_a_loss(name)}
    rates = {name for name in usual.names if _goes_with_a_loss(name)}
    evaluates = any(map(is_evaluation, part.names)) and not any(map(is_evaluation, usual.names))
    if not ((rates or evaluates) and alike <= {*usual.names}) or not rates.isdisjoint(part.names):
        return part
    told, again = (one.cells[one.names.index(STEP)] for one in (usual, part))
    # A block may begin between the two lines of a step. A line alone may lack its rate as well.
    if len({*again} - {*told}) > min(1, len({*again}) - 1):
        return part
    names = (
        name if name == STEP or trains(name) or is_evaluation(name) else f"{VALIDATED}{name}"
        for name in part.names
    )
    return replace(part, names=tuple(names))


@lru_cache(maxsize=1 << 10)
def _goes_with_a_loss(name: str) -> bool:
    """Tell whether a name is that of a rate, of a norm, of a scale or of a reward."""
    found = assign([name])
    return found.has("lr", "tokens_per_second") or can_judge_without_loss(found.columns)


@frozen
class Evaluation(Kind):
    """Lines with the loss of an evaluation, and without the counter that other lines have.

    They belong to the step before them. Of a name that recurs before the next line of the training,
    the last mean counts that stands behind a value, if any does: these lines are of the batches
    of an evaluation. Without a mean, they may be of several evaluations, and none counts.
    """

    counter: bytes
    word: bytes = LOSS
    also: bytes | None = None

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        return parts_of(self._told_once(data))

    def _told_once(self, data: bytes) -> Iterator[tuple[int, dict[str, bytes]]]:
        for stretch in self._stretches(data):
            times = Counter(name for _, _, spans in stretch for name in spans)
            means = {
                name: (row, mean[1])
                for row, (_, line, spans) in enumerate(stretch)
                for name, at in spans.items()
                if times[name] > 1 and (mean := _MEAN.match(line, at[1])) is not None
            }
            for row, (begin, line, spans) in enumerate(stretch):
                told = {name: line[slice(*at)] for name, at in spans.items() if times[name] == 1}
                told |= {name: mean for name, (last, mean) in means.items() if last == row}
                if any(map(is_a_loss, told)):
                    yield _start(begin, line), told

    def _stretches(self, data: bytes) -> Iterator[list[_Found]]:
        """Yield the lines between two of the training."""
        stretch: list[_Found] = []
        end = 0
        for one in self._lines(data):
            begin, line, _ = one
            if stretch and data.find(self.word, end, begin) >= 0:
                yield stretch
                stretch = []
            stretch.append(one)
            end = begin + len(line)
        yield stretch

    def _lines(self, data: bytes) -> Iterator[_Found]:
        """Yield the lines of this kind, in order."""
        for begin, line in _lines_with_a_word(data):
            if len(line) > LONGEST:
                continue
            if self.word not in line:
                yield from self._below(data, begin, line)
            elif not self._has_the_counter(line):
                spans = self._spans(line)
                if spans and not _NO_LOG.search(line):
                    yield begin, line, spans

    def _below(self, data: bytes, begin: int, heading: bytes) -> Iterator[_Found]:
        """Yield the line shortly below the heading of an evaluation that tells its loss."""
        if not (prefix := held_out(heading, len(heading))):
            return
        end = begin + len(heading)
        for _ in range(_BELOW):
            begin, end = end + 1, line_end(data, end + 1, LONGEST)
            line = data[begin:end]
            if self.word.lower() in line.lower():
                if not self._has_the_counter(line):
                    told = spans_of(line, word=self.word)
                    spans = {f"{prefix}{name}": at for name, at in told.items() if not trains(name)}
                    # A line that names the evaluation is found without the heading.
                    if any(map(is_a_loss, spans)) and not any(map(is_evaluation, told)):
                        yield begin, line, spans
                return

    def _has_the_counter(self, line: bytes) -> bool:
        """Tell whether a line has the counter; most are seen to have it by its word alone."""
        if is_word(self.counter) and self.counter in line.lower():
            return True
        return not counters_of(line).keys().isdisjoint((self.counter, self.also))

    def _spans(self, line: bytes) -> Spans:
        """Return the spans of what a line tells of an evaluation, none if it tells no loss."""
        told = spans_of(line, word=self.word).items()
        spans = {name: span for name, span in told if is_evaluation(name)}
        return spans if any(map(is_a_loss, spans)) else {}


def _lines_with_a_word(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line that may be of an evaluation, and where it begins."""
    plain = data.lower()
    # A word that does not occur at all is left out of the pattern.
    words = [word for word in _WORDS if word in plain]
    after = 0
    for match in re.finditer(b"|".join(words), plain) if words else ():
        if match.start() >= after:
            begin = data.rfind(b"\n", 0, match.start()) + 1
            after = line_end(data, match.end(), len(data))
            yield begin, data[begin:after]
