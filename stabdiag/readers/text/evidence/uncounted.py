"""The evidence in losses without a counter: many lines, or lines that differ only in numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.evidence.counter_evidence import (
    count_moves,
    may_count,
    most_frequent_loss,
)
from stabdiag.readers.text.evidence.excerpts import SENTENCE
from stabdiag.readers.text.evidence.sample import MANY_VALUES, Sample, TextEvidence, is_lost
from stabdiag.readers.text.lines.counters import EPOCH, FIRST, NTH, counter_value, is_word
from stabdiag.readers.text.lines.grammar import NUMBER_TOKEN, as_float
from stabdiag.readers.text.lines.spans import find_spans
from stabdiag.readers.text.lines.tokens import lines_with_a_loss

# The fewest lines and different values of one loss in a log without a counter. Source code and
# prose repeat one value.
_UNCOUNTED: Final = (20, 10)

# Fewer are enough if the lines differ only in their numbers and follow each other closely.
_ALIKE: Final = (4, 3)

# Three lines with several values each are enough if no other line is between them.
_CONSECUTIVE: Final = (3, 3)

# Two lines that differ only in their numbers are enough if they have several values, and one loss
# is not finite.
_MIN_NON_FINITE_LINES: Final = (2, 1)

_DECIMALS: Final = lazy_pattern(rb"\.\d{2}")

# Blanks, and the signs that a bar is drawn with.
_BAR_SIGNS: Final = lazy_pattern(rb"[\s#=>.*|\x80-\xff-]+")

# A comment that a user adds behind a record of a paste.
_USER_COMMENT: Final = lazy_pattern(
    rb"(?<=[\d)\]}])[ \t]{1,20}(?:<[-=]{1,8}|[-=]{1,8}>|#|//|\xe2\x86\x90)[ \t]{0,8}[A-Za-z][^\n]*"
)

# Two lines with different losses are enough if the text has no other lines and no other numbers.
# Three are enough if it has other numbers.
_MIN_ALONE: Final = 2

# Two lines are enough if they have many values.
_MIN_FULL_RECORDS: Final = 2

# The result of a fold or of a seed.
_FOLD_RESULT: Final = lazy_pattern(
    rb"[\W_]{0,8}(?:fold|seed|split|cv)[ _#:=-]{0,3}(\d{1,9})\b", re.IGNORECASE
)

# At least one in this many lines has the loss.
_LINES_APART: Final = 3
# At least one in this many, if the values of an evaluation follow those of the training.
_LINES_OF_PAIR: Final = 12


def find_uncounted(
    data: bytes, values: Mapping[str, list[bytes]], sample: Sample
) -> TextEvidence | None:
    """Return the evidence in losses without a counter: many losses with many values.

    A counter that falls shows that they are not in order. An epoch may have any number of losses.
    """
    loss, lines = most_frequent_loss(values)
    counts = {
        word: [count for _, count in pairs]
        for (word, counted_loss), pairs in sample.counters.items()
        if counted_loss == loss and word != FIRST and count_moves([count for _, count in pairs])
    }
    losses = values.get(loss, ())
    fewest, different = _UNCOUNTED
    restarts = any(is_word(word) and len(counted) == lines for word, counted in counts.items())
    if restarts or _are_alike(data, loss, sample):
        fewest, different = _fewest_alike(data, loss, losses, sample)
    if _are_results(_loss_lines(data, loss, sample)):
        return None
    too_few = lines < fewest or len({*losses}) < different
    if too_few or not all(map(_is_in_order, counts.values())):
        return None
    ranked = _counter_of_ranks(sample, loss, values[loss])
    counter = ranked or (EPOCH if len(counts.get(EPOCH, ())) == lines else None)
    return TextEvidence(counter=counter, loss=loss, lines=lines, rising=float(counter is not None))


def _fewest_alike(
    data: bytes, loss: str, losses: Sequence[bytes], sample: Sample
) -> tuple[int, int]:
    """Return the fewest lines, and the fewest different losses, if the lines look alike."""
    lines, width = len(losses), max(map(len, sample.shapes), default=0)
    several = width > 1 or lines >= _ALIKE[0]
    lost = several and any(map(is_lost, losses))
    fewest, different = _MIN_NON_FINITE_LINES if lost else _ALIKE
    # A record with many values is not prose, and neither is a full bar.
    if width > 1 and _are_consecutive(data, loss, sample):
        fewest, different = min((fewest, different), _CONSECUTIVE)
    if width >= MANY_VALUES or _are_full_bars(sample, loss, lines):
        fewest, different = min(fewest, _MIN_FULL_RECORDS), min(different, _MIN_FULL_RECORDS)
    if _has_twin(loss, sample) or (lines < _ALIKE[0] and _are_all(data, lines)):
        fewest = different = _MIN_ALONE
    # A loss of exactly 0 on line after line.
    is_zero = lines >= _ALIKE[0] and not any(map(as_float, losses))
    different = 1 if is_zero else different
    # Records of a constant loss with several values, and many of a loss that hardly moves, differ
    # in their other values.
    if len({*_loss_lines(data, loss, sample)}) >= different:
        suffices = width > 2 and lines >= _ALIKE[0]
        suffices |= is_zero and _lines_between(data, loss, sample) < 2 * lines
        different = 1 if suffices else 2 if lines >= _UNCOUNTED[1] else different
    # Many lines of a loss that is always the same, with several decimals.
    if lines >= _UNCOUNTED[0] and all(map(_DECIMALS.search, losses)):
        different = 1
    return fewest, different


def _counter_of_ranks(sample: Sample, loss: str, losses: Sequence[bytes]) -> bytes | None:
    """Return a counter that rises once, if every line with the same count repeats the loss.

    Each rank may print the same line.
    """
    for (word, counted_loss), pairs in sample.counters.items():
        counts = [count for _, count in pairs]
        if counted_loss == loss and word not in (FIRST, EPOCH) and len(counts) == len(losses):
            is_rise = count_moves(counts) == 1 and counts[0] < counts[-1]
            repeats = len({*zip(counts, losses, strict=True)}) == len({*counts})
            if is_rise and repeats and may_count(word, loss, sample.counters):
                return word
    return None


def _are_results(lines: Sequence[bytes]) -> bool:
    """Return True if each line has the result of another fold or seed, not of another step."""
    numbers = [match[1] for match in map(_FOLD_RESULT.match, lines) if match is not None]
    return bool(numbers) and len({*numbers}) == len(lines)


def _are_full_bars(sample: Sample, loss: str, lines: int) -> bool:
    """Return True if each line has a bar that is full: 245/245."""
    return any(
        len(pairs) == lines and {n for _, n in pairs} == {counter_value(word.removeprefix(NTH))}
        for (word, counted_loss), pairs in sample.counters.items()
        if counted_loss == loss and word.startswith(NTH)
    )


def _is_in_order(counts: list[int]) -> bool:
    """Return True if a counter only rises, or begins again at its first or its lowest value."""
    begins = {counts[0], min(counts)} if counts else set()
    return all(after >= before or after in begins for before, after in pairwise(counts))


def _are_alike(data: bytes, loss: str, sample: Sample) -> bool:
    """Return True if lines with a loss differ only in their numbers, with few lines in between."""
    lines = _loss_lines(data, loss, sample)
    records = [_without_comment(line) for line in lines]
    forms = [_BAR_SIGNS.sub(b"", NUMBER_TOKEN.sub(b"", record)) for record in records]
    # A paste may begin within the first line.
    is_cut = len(forms) >= _ALIKE[0] and forms[1].endswith(forms[0])
    alike = len({*(forms[1:] if is_cut else forms)}) == 1
    apart = _LINES_OF_PAIR if _has_twin(loss, sample) else _LINES_APART
    return alike and _lines_between(data, loss, sample) <= apart * len(lines)


def _lines_between(data: bytes, loss: str, sample: Sample) -> int:
    """Return the number of lines from the first one with a loss to the end of the sample."""
    lines = _loss_lines(data, loss, sample)
    first = data.find(lines[0]) if lines else 0
    between = data[first : sample.end].split(b"\n") if lines else ()
    return sum(map(bool, map(bytes.strip, between)))


def _are_consecutive(data: bytes, loss: str, sample: Sample) -> bool:
    """Return True if no other line is between those with a loss, and none is a sentence."""
    lines = _loss_lines(data, loss, sample)
    if any(map(SENTENCE.search, lines)):
        return False
    return _lines_between(data, loss, sample) == len(lines)


def _without_comment(line: bytes) -> bytes:
    """Return a line without the comment that a user added: {'loss': 2.5} <-- here, … # spike."""
    comment = _USER_COMMENT.search(line)
    return line if comment is None else line[: comment.start()]


def _has_twin(loss: str, sample: Sample) -> bool:
    """Return True if a loss alternates with an evaluation of the same name below a heading."""
    lines = len(sample.values.get(loss, ()))
    evaluated = (
        len(values)
        for name, values in sample.values.items()
        if name.endswith(f" {loss}")
        and all(map(is_evaluation, name.removesuffix(f" {loss}").split()))
    )
    return lines >= _MIN_ALONE and any(abs(lines - count) <= 1 for count in evaluated)


def _are_all(data: bytes, lines: int) -> bool:
    """Return True if a text has no other lines than these, with one number each if they are two."""
    texts = [*filter(None, map(bytes.strip, data.split(b"\n", _UNCOUNTED[0])))]
    return len(texts) == lines and (
        lines > _MIN_ALONE or all(len(NUMBER_TOKEN.findall(text)) == 1 for text in texts)
    )


def _loss_lines(data: bytes, loss: str, sample: Sample) -> list[bytes]:
    """Return the lines of a sample with a loss of this name."""
    lines = (line for _, line in lines_with_a_loss(data[: sample.end], sample.word))
    return [line for line in lines if loss in find_spans(line, word=sample.word)]
