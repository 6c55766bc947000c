"""The evidence in a paste of a few lines: an excerpt of a log, a summary, or a NaN loss."""

from __future__ import annotations

import re
from itertools import islice, pairwise, starmap
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.evidence.sample import Sample, Shapes, TextEvidence, is_lost, loss_names
from stabdiag.readers.text.lines.counters import COARSE, DIGITS, FIRST, NTH, is_word, line_counters
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, is_a_loss
from stabdiag.readers.text.lines.measure_words import LOSS_STEM, makes_a_record, renamed
from stabdiag.readers.text.lines.tokens import (
    REPORTED_AT_STEP,
    Field,
    has_number,
    line_fields,
    lines_with_a_loss,
)

# The fewest lines of a pasted excerpt.
MIN_EXCERPT: Final = 2

# The most lines of a paste with a single record or summary, without the overflows that may follow
# it.
MAX_PASTE: Final = 8

# A line with a name and a value, of a summary with the losses of two sets.
_PAIR_ALONE: Final = lazy_pattern(
    rb"[\s>*|-]{0,8}[A-Za-z][\w .()/-]{0,40}[:=]{1,2}[ \t]{0,8}%b[ \t%%*|]{0,8}" % NUMBER_PATTERN
)
_SETS: Final = 2

# The time at the start of a line: [INFO 2024-03-02 18:11:38,332 …
_LINE_STAMP: Final = lazy_pattern(
    rb"[\[(]?(?:[A-Z]{4,8} )?(?:\d{2,4}[-/.]\d\d[-/.]\d{2,4}[ T])?\d\d:\d\d:\d\d"
)

# A fraction of the training data that was seen.
_EPOCH_FRACTION: Final = lazy_pattern(rb"\d{1,6}\.\d{1,12}")

# The fewest records of a longer text without a finite loss.
_MIN_LOST: Final = 3

# A short paste has at most this many bytes and words.
MAX_SHORT: Final = 4000
MAX_WORDS: Final = 150

# The name of the rank that wrote a record.
_RANK_NAME: Final = "rank"

# The most digits in the total of a position that may be a rank or a date.
_TOTAL_DIGITS: Final = 2

# Four words in a row are a sentence.
SENTENCE: Final = lazy_pattern(rb"(?:(?<![\w-])(?!'?(?:nan|inf)\b)[A-Za-z']{2,20},? ){4}")
# A line that ends with the value: **avg loss in epoch = nan
_ENDS_WITH_VALUE: Final = lazy_pattern(
    rb"[\s*>#|-]{0,8}(?:[A-Za-z-]{1,20} ){2,4}(?:[:=]|is) ?[+-]?(?:nan|inf)[\s*.!`]{0,8}",
    re.IGNORECASE,
)
# In a record, nothing else is between a loss and its value; blanks may align several lines.
ASSIGNS: Final = lazy_pattern(rb"[\"']?(?:[\s:=]{1,6}|[ \t]{1,40})[\"'\[(]?")


def find_excerpt(
    shapes: Shapes, *, reports_failure: bool = False, fewest: int = MIN_EXCERPT
) -> TextEvidence | None:
    """Return the evidence in a short excerpt: lines with equal names and a counter that only rises.

    If a line reports a failure of the training, one line with any counter is enough.
    """
    fewest = 1 if reports_failure else fewest
    for names, all_lines in shapes.items():
        # The last record may break off above its counter.
        lines = all_lines[:-1] if len(all_lines) > fewest and not all_lines[-1] else all_lines
        named = [word for word in lines[0] if is_word(word)]
        # A position counts only if the only word on the line names its epoch.
        finest = reports_failure or (named and all(word in COARSE for word in named))
        words = [
            word for word in (lines[0] if finest else named) if all(word in line for line in lines)
        ]
        if len(lines) == 1:
            # The number at the start of the only line may be a day.
            words = [word for word in words if word != FIRST]
        # Words come before positions. A position may be a date, but has a small total then.
        words.sort(key=lambda word: (word in COARSE, 0 if is_word(word) else 99 - len(word)))
        for word in words:
            counts = [line[word] for line in lines]
            # Several ranks write a record for each step.
            are_ranks = word not in COARSE and _RANK_NAME in names and counts[0] < counts[-1]
            least = -1 if reports_failure or are_ranks else 0
            if len(counts) >= fewest and all(b > a + least for a, b in pairwise(counts)):
                loss = loss_names(names)[0]
                return TextEvidence(counter=word, loss=loss, lines=len(counts), rising=1.0)
    return None


def find_short_paste(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a paste of a few lines: two records, or a loss that is not finite.

    A longer text counts if none of its records has a finite loss.
    """
    if len(data) > MAX_SHORT or len(data.split()) > MAX_WORDS:
        return _without_finite_loss(data, sample)
    # Lines of the same loss may have other values next to it.
    by_loss: dict[str, list[dict[bytes, int]]] = {}
    for names, counters in sample.shapes.items():
        by_loss.setdefault(loss_names(names)[0], []).extend(counters)
    shapes = [*sample.shapes.items(), *(((loss,), counters) for loss, counters in by_loss.items())]
    counted = next(filter(None, starmap(_counted_twice, shapes)), None)
    if counted is not None:
        return counted
    fractional = _at_fractions_of_epochs(data, sample)
    if fractional is not None:
        return fractional
    summary = _summary_of_sets(data, sample)
    if summary is not None:
        return summary
    records = [
        (line, item)
        for _, line in lines_with_a_loss(data, sample.word)
        for item in line_fields(line)
        if all(map(names_training_loss, renamed({item.name: item.value}, sample.word)))
    ]
    lost = [(line, item) for line, item in records if _is_lost_record(line, item)]
    stamped = _stamped_losses(data, sample)
    if len(stamped) >= MIN_EXCERPT and len({*stamped}) == 1 and not lost:
        return TextEvidence(counter=None, loss=stamped[0], lines=len(stamped), rising=1.0)
    if not lost or 2 * len(lost) < len(records):
        return None
    line, item = lost[0]
    words = [word for word in line_counters(line) if _is_count(word)]
    counter = next(filter(is_word, words), words[0] if words and len(records) == 1 else None)
    return TextEvidence(counter=counter, loss=item.name, lines=len(records), rising=1.0)


def _at_fractions_of_epochs(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a few losses at fractions of an epoch, which rise: epoch 0.25."""
    lines = [line for _, line in lines_with_a_loss(data, sample.word) if not SENTENCE.search(line)]
    values = [{item.name: line[slice(*item.value)] for item in line_fields(line)} for line in lines]
    epochs = [
        next((v for name, v in row.items() if name.lower() == "epoch"), b"") for row in values
    ]
    if len(lines) < MIN_EXCERPT or not all(map(_EPOCH_FRACTION.fullmatch, epochs)):
        return None
    loss = next((name for name in values[0] if names_training_loss(name)), None)
    if loss is None or not all(float(a) < float(b) for a, b in pairwise(epochs)):
        return None
    return TextEvidence(counter=None, loss=loss, lines=len(lines), rising=1.0)


def _without_finite_loss(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in several records whose losses are all NaN or infinite."""
    records = [
        (line, item)
        for _, line in islice(lines_with_a_loss(data, sample.word), MAX_WORDS)
        for item in line_fields(line)
        if is_a_loss(item.name)
    ]
    of_training = [item.name for _, item in records if names_training_loss(item.name)]
    # Records differ only in their numbers, sentences in their words.
    lines = {line for line, _ in records}  # a long line may have thousands of losses
    repeats = len({DIGITS.sub(b"", line) for line in lines}) < len(records)
    if len(records) < _MIN_LOST or not (repeats and of_training):
        return None
    if not all(starmap(_is_lost_record, records)):
        return None
    return TextEvidence(counter=None, loss=of_training[0], lines=len(records), rising=1.0)


def _stamped_losses(data: bytes, sample: Sample) -> list[str]:
    """Return the names of the losses on lines that begin with a time and are not sentences."""
    return [
        item.name
        for _, line in lines_with_a_loss(data, sample.word)
        if _LINE_STAMP.match(line) and not SENTENCE.search(line)
        for item in line_fields(line)
        if is_a_loss(item.name) and ASSIGNS.fullmatch(line[item.at[1] : item.value[0]])
    ]


def find_few_rewards(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a paste of two records of a reward.

    The records have another value, or the paste has hardly any other line.
    """
    if len(data) > MAX_SHORT or SENTENCE.search(data):
        return None
    is_whole = len([*filter(bytes.strip, data.splitlines())]) <= MIN_EXCERPT
    records = (
        _counted_twice(names, lines, sample.word)
        for names, lines in sample.shapes.items()
        if len(names) > 1 or is_whole
    )
    return next(filter(None, records), None)


def find_few_scores(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a paste of two epochs of several scores, on one line or on more."""
    if len(data) > MAX_SHORT or SENTENCE.search(data):
        return None
    records = [
        _counted_twice(names, lines, sample.word)
        for names, lines in sample.shapes.items()
        if any(makes_a_record(name, sample.word) for name in names)
    ]
    counted = [result for result in records if result is not None and result.counter in COARSE]
    is_record = len(counted) > 1 or any(len(names) > 1 for names in sample.shapes)
    return counted[0] if is_record and len(counted) == len(records) > 0 else None


def _summary_of_sets(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a summary of one loss of the training and one of an evaluation.

    Each value is on a separate line.
    """
    names = [names[0] for names in sample.shapes if len(names) == 1]
    evaluations = [name for name in names if is_evaluation(name)]
    lines = [line for line in data.splitlines() if has_number(line)]
    is_pair = len(names) == len(sample.shapes) == _SETS and len(evaluations) == 1
    are_losses = all(map(is_a_loss, names)) and sum(map(len, sample.shapes.values())) == _SETS
    if not (is_pair and are_losses):
        return None
    others = (line for line in lines if _PAIR_ALONE.fullmatch(line) is None)
    if len(lines) > MAX_PASTE or not all(map(SENTENCE.search, others)):
        return None
    loss = next(name for name in names if name != evaluations[0])
    return TextEvidence(counter=None, loss=loss, lines=1, rising=1.0)


def names_training_loss(name: str) -> bool:
    """Return True if a name is the name of a loss of the training."""
    return is_a_loss(name) and not is_evaluation(name)


def _is_lost_record(line: bytes, item: Field) -> bool:
    """Return True if a line is a record, not a sentence, and this field of it is not finite."""
    gap, value = line[item.at[1] : item.value[0]], line[slice(*item.value)]
    is_assigned = is_lost(value) and (
        ASSIGNS.fullmatch(gap) is not None or REPORTED_AT_STEP.search(line) is not None
    )
    is_record = not SENTENCE.search(line) or _ENDS_WITH_VALUE.fullmatch(line) is not None
    return is_assigned and is_record


def _counted_twice(
    names: tuple[str, ...], lines: list[dict[bytes, int]], word: bytes = LOSS_STEM
) -> TextEvidence | None:
    """Return the evidence in two or more lines with equal names and any counter that rises."""
    shared = (name for name in lines[0] if all(name in line for line in lines))
    counters = filter(_is_count, shared)
    rising = (name for name in counters if all(b[name] > a[name] for a, b in pairwise(lines)))
    counter = next(rising, None) if len(lines) >= MIN_EXCERPT else None
    if counter is None:
        return None
    return TextEvidence(
        counter=counter, loss=loss_names(names, word)[0], lines=len(lines), rising=1.0
    )


def _is_count(word: bytes) -> bool:
    """Return True for a word and a position, but not one of a small total: a rank or a date."""
    return is_word(word) or len(word) > len(NTH) + _TOTAL_DIGITS
