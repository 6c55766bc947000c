"""The evidence in a paste with a single record: on one line, in one epoch, or in a block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation, is_perplexity
from stabdiag.readers.text.evidence.excerpts import (
    ASSIGNS,
    MAX_PASTE,
    MAX_SHORT,
    MAX_WORDS,
    SENTENCE,
    find_excerpt,
    names_training_loss,
)
from stabdiag.readers.text.evidence.sample import (
    MANY_VALUES,
    Sample,
    Shapes,
    TextEvidence,
    loss_names,
)
from stabdiag.readers.text.lines.counters import COARSE, NTH, counter_value, is_word, line_counters
from stabdiag.readers.text.lines.evaluated import is_evaluated
from stabdiag.readers.text.lines.line_forms import outline
from stabdiag.readers.text.lines.measure_words import makes_a_record
from stabdiag.readers.text.lines.spans import find_spans
from stabdiag.readers.text.lines.tokens import line_fields, lines_with_a_loss
from stabdiag.readers.text.messages.search import find_message

# How often a post has a line that it quotes once, and what may be around it.
_TIMES_QUOTED: Final = 2
_AROUND_QUOTE: Final = b" \t\r.,;:>*`\"'"

# Lines that may follow a single record.
_SCALE_OR_OVERFLOW: Final = lazy_pattern(rb"(?:loss|grad)[ _]scale|overflow", re.IGNORECASE)

# ## Troubleshooting, in Markdown
PAGE_HEADING: Final = lazy_pattern(rb"(?m)^#{1,6} \w")

# The position in a bar of tqdm or Keras, and the other lines of a paste whose only record is a bar.
_PROGRESS_BAR: Final = lazy_pattern(
    rb"(?<![\d/])\d{1,9}(?:/\d{1,9})? \[\d{1,4}:\d\d(?::\d\d)?<"
    rb"|(?<![\d/])\d{1,9} ?[a-z]{1,10} \[\d\d:\d\d(?::\d\d)?, "
    rb"|(?<![\d/])\d{1,9}/\d{1,9} (?:\[[=>.]{5,60}\]|(?:\xe2\x94\x81){5,60})[ \x1b]"
)
_MAX_AROUND_BAR: Final = 40
_LOG_TIME: Final = lazy_pattern(rb"[\[(]?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d")

# A program that prints a record prints few sentences, such as warnings: one of this many lines.
_FEWEST_OTHERS: Final = 4

# A counter at the start of a record has at most this many bytes before its number.
_LONGEST_LABEL: Final = 16

# The fewest values and counters on the only record of a paste.
_MIN_RECORD: Final = 3

# (1.035 sec/step)
_STEP_TIME: Final = lazy_pattern(rb"\d ?(?:m?s|secs?|seconds?)/(?:step|it|iter|batch|epoch)\b")

# [12/60] and 12/600 at the start of the only record; 12/06 may be a date.
_STARTS_WITH_POSITION: Final = lazy_pattern(
    rb"\s{0,20}(?:\[ {0,8}\d{1,9} ?/ ?\d{1,9} {0,8}\]|\d{1,9}/\d{3,9})[\s:,|-]{1,6}[A-Za-z]"
)


def find_single_record(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in the only record of a paste that has hardly any other line.

    The record may have several lines with the same count, each with another loss. Examples may
    follow it, whose lines have the same names and no count. A post may quote it twice.
    """
    shapes = sample.shapes
    if _is_quoted(data, sample):
        shapes = {names: lines[:1] for names, lines in shapes.items()}
    for names, lines in shapes.items():
        counted = [{*filter(is_word, line)} for line in lines]
        is_above = len(names) >= _MIN_RECORD and len(lines) > 1 and counted[0]
        if is_above and not any(counted[1:]) and len(data) <= MAX_SHORT:
            return find_excerpt({names: lines[:1]}, fewest=1)
    repeated = _repeated_record(shapes)
    if repeated is not None:
        return repeated
    trained = {
        names: lines
        for names, lines in shapes.items()
        if not all(map(is_evaluation, loss_names(names)))
    }
    trained = _without_summary(trained)
    if not trained:
        return None
    if _is_above_failure(data, sample.word):
        return find_excerpt(trained, fewest=1) or find_excerpt(trained, reports_failure=True)
    forms = [form for _, form in lines_with_a_loss(outline(data))]
    named = lines_with_a_loss(data) if any(map(_PROGRESS_BAR.search, forms)) else ()
    few_bars = [*islice((line for _, line in named if _PROGRESS_BAR.search(line)), 2)]
    limit = _MAX_AROUND_BAR if len(few_bars) == 1 else MAX_PASTE
    if _has_more_lines(data, trained, limit, is_timed=any(map(_LOG_TIME.match, forms))):
        is_prose = len(data) > MAX_SHORT or (
            SENTENCE.search(data) is not None and not _is_counted_first(data)
        )
        return None if is_prose else _full_record(trained)
    if sum(map(len, trained.values())) != 1:
        return _split_record(trained) or _ranked_record(trained)
    shapes = {names: lines for names, lines in trained.items() if len(names) >= MANY_VALUES}
    # The only counter may be a position.
    is_positioned = bool(few_bars) or _starts_with_position(data)
    if shapes:
        result = find_excerpt(shapes, fewest=1)
        if result is None and is_positioned:
            result = find_excerpt(shapes, reports_failure=True)
        return result or _uncounted_record(data, shapes)
    if not _has_one_record(data, sample.word):
        return None
    return find_excerpt(trained, fewest=1) or find_excerpt(trained, reports_failure=is_positioned)


def _has_more_lines(data: bytes, records: Shapes, limit: int, *, is_timed: bool) -> bool:
    """Return True if a text has more than ``limit`` other lines than its records.

    If records have a time, other lines with a time do not count: the messages of the logger that
    wrote the records are not prose.
    """
    counts = [*islice((dict(line) for lines in records.values() for line in lines), MAX_PASTE)]
    others = (
        repeat(line, count)
        for line, count in Counter(data.splitlines()).items()
        if line.strip() and not _SCALE_OR_OVERFLOW.search(line) and not _shares_count(line, counts)
        if not (is_timed and _LOG_TIME.match(line))
    )
    return len([*islice(chain.from_iterable(others), limit + 1)]) > limit


def _without_summary(shapes: Shapes) -> Shapes:
    """Return the shapes of lines without those that repeat the values of the only counted record.

    Averaged stats: lr: 0.001 loss: 2.31
    """
    counted = [names for names, lines in shapes.items() if any(lines)]
    if len(counted) != 1 or len(shapes[counted[0]]) != 1 or len(counted[0]) < MANY_VALUES:
        return shapes
    return {
        names: lines
        for names, lines in shapes.items()
        if names in counted or counted[0][: len(names)] != names
    }


def _is_above_failure(data: bytes, word: bytes) -> bool:
    """Return True if the only record is above a report of a failure, such as a traceback.

    Other output may be above the record, and source code in the traceback. A page with headings
    describes errors.
    """
    begin = next((begin for begin, _ in lines_with_a_loss(data, word)), len(data))
    end = find_message(data, begin)
    return end is not None and not PAGE_HEADING.search(data) and _has_one_record(data[:end], word)


def _is_quoted(data: bytes, sample: Sample) -> bool:
    """Return True if a post has its only record with a counter twice."""
    counted = [line for lines in sample.shapes.values() for line in lines if line]
    return len(counted) == _TIMES_QUOTED and len([*_distinct_records(data, sample.word)]) == 1


def _distinct_records(data: bytes, word: bytes) -> Iterator[bytes]:
    """Yield the lines with a loss, without quotation marks and those that repeat another one."""
    seen: set[bytes] = set()
    for _, line in lines_with_a_loss(data, word):
        text = line.strip(_AROUND_QUOTE)
        has_loss = any(makes_a_record(item.name, word) for item in line_fields(line))
        if has_loss and text not in seen:
            seen.add(text)
            yield text


def _repeated_record(shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in one record of many values, each repeated on a line of its own.

    Estimators of TensorFlow print "Saving dict for global step 900: …", and BERT its values below.
    """
    full = {names: lines for names, lines in shapes.items() if len(names) >= _MIN_RECORD}
    if len(full) != 1 or len(shapes) < _MIN_RECORD:
        return None
    (record, lines), *_ = full.items()
    others = (names for names in shapes if names != record)
    is_repeated = all(len(names) == 1 and names[0] in record for names in others)
    return find_excerpt(full, fewest=1) if is_repeated and len(lines) == 1 else None


def _is_counted_first(data: bytes) -> bool:
    """Return True if a line with a loss begins with a counter, among few sentences."""
    lines = data.splitlines()
    if _FEWEST_OTHERS * sum(SENTENCE.search(line) is not None for line in lines) > len(lines):
        return False
    return any(
        not SENTENCE.search(line)
        and any(begin <= _LONGEST_LABEL for begin, _ in line_counters(line).values())
        for _, line in lines_with_a_loss(data)
    )


def find_single_epoch(
    data: bytes, sample: Sample, headings: Mapping[bytes, Sequence[int]]
) -> TextEvidence | None:
    """Return the evidence in the block of a single epoch, with its training and evaluation loss.

    Each has a line of its own; the epoch is named above them or on both.
    """
    counts = {word: {*headings[word]} for word in COARSE if headings.get(word)}
    if [*map(len, counts.values())] != [1]:
        return None
    if len(data) > MAX_SHORT or len(data.split()) > MAX_WORDS:
        return None
    trained = [name for name in sample.values if not is_evaluated(name)]
    evaluated = sample.values.keys() - {*trained}
    if len(trained) != 1 or len(sample.values[trained[0]]) != 1 or not evaluated:
        return None
    ((epoch, _),) = counts.items()
    line = next(
        (
            line
            for _, line in lines_with_a_loss(data, sample.word)
            if trained[0] in find_spans(line, word=sample.word)
        ),
        b"",
    )
    if not line or SENTENCE.search(line):
        return None
    is_own = epoch in line_counters(line)
    return TextEvidence(counter=epoch, loss=trained[0], lines=1, rising=1.0, above=not is_own)


def _full_record(shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in the only line with a loss, if it has many values."""
    full = {names: lines for names, lines in shapes.items() if len(names) >= MANY_VALUES}
    return find_excerpt(full, fewest=1) if sum(map(len, shapes.values())) == 1 else None


def _uncounted_record(data: bytes, shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in a record of many values without a counter, not in a sentence."""
    loss = loss_names(next(iter(shapes)))[0]
    lines = (line for _, line in lines_with_a_loss(data))
    line = next((line for line in lines if not (SENTENCE.search(line) or b" = " in line)), b"")
    # The first number of a list is the value of the first epoch, not of a record.
    values = {
        item.name
        for item in line_fields(line)
        if not (line[: item.value[0]].endswith(b"[") and line[item.value[1] :].startswith(b","))
    }
    if loss not in values or len(values) < MANY_VALUES:
        return None
    return TextEvidence(counter=None, loss=loss, lines=1, rising=1.0)


def _shares_count(line: bytes, records: Sequence[Mapping[bytes, int]]) -> bool:
    """Return True if a line has the same count of the same counter as a record: step:2."""
    return any(
        record.get(word) == counter_value(line[slice(*at)])
        for word, at in line_counters(line).items()
        for record in records
        if is_word(word)
    )


def _split_record(shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in lines with the same count of the same counter and different losses.

    A program may print a line again. Of positions, 1000/5000, several lines have to be the same.
    """
    lines = [line for shape in shapes.values() for line in _distinct(shape)]
    if len(lines) != len(shapes) or len(lines) == 1:
        return None
    for word in lines[0]:
        is_counter = is_word(word) or (word.startswith(NTH) and len(lines) >= _MIN_RECORD)
        if is_counter and len({line.get(word) for line in lines}) == 1:
            loss = loss_names(next(iter(shapes)))[0]
            return TextEvidence(counter=word, loss=loss, lines=len(lines), rising=1.0)
    return None


def _distinct(lines: Sequence[Mapping[bytes, int]]) -> list[Mapping[bytes, int]]:
    """Return the counters of lines without those that repeat the line above."""
    return [line for at, line in enumerate(lines) if line not in lines[:at]]


def _ranked_record(shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in lines of several ranks, which have the same counts: (1/4) step 50.

    The last line may be cut.
    """
    names = max(shapes, key=len, default=())
    if len(names) < MANY_VALUES or any(names[: len(other)] != other for other in shapes):
        return None
    lines = [line for shape in shapes.values() for line in shape]
    words = [[(word, line[word]) for word in line if is_word(word)] for line in lines]
    counters = [word for word, _ in words[0] if word not in COARSE]
    if not counters or any(line != words[0] for line in words):
        return None
    return TextEvidence(counter=counters[0], loss=loss_names(names)[0], lines=len(lines), rising=1)


def _has_one_record(data: bytes, word: bytes) -> bool:
    """Return True if the only line with a loss is a record, not a sentence or a setting.

    It is a progress bar, or has a counter with a word and its total, or two counters, or a second
    value.
    """
    records = [
        (line, [item for item in line_fields(line) if _is_trained(item.name, word)])
        for line in _distinct_records(data, word)
    ]
    records = [(line, losses) for line, losses in records if losses]
    if len(records) != 1 or SENTENCE.search(records[0][0]):
        return False
    line, losses = records[0]
    if not all(ASSIGNS.fullmatch(line[item.at[1] : item.value[0]]) for item in losses):
        return False
    if _PROGRESS_BAR.search(line):
        return True
    counters = line_counters(line)
    values = {item.name for item in line_fields(line)} | {*counters}
    is_full = len(values) >= _MIN_RECORD or _STEP_TIME.search(line)
    is_counted = any(map(is_word, counters)) or _STARTS_WITH_POSITION.match(line)
    return bool(is_counted and is_full)


def _is_trained(name: str, word: bytes) -> bool:
    """Return True for the name of a loss of the training, or of a perplexity found by a word."""
    is_named = is_perplexity(name) and name.encode().endswith(word)
    return names_training_loss(name) or (is_named and not is_evaluation(name))


def _starts_with_position(data: bytes) -> bool:
    """Return True if a line with a loss begins with a position: [12/60] loss: 0.42."""
    return any(_STARTS_WITH_POSITION.match(line) for _, line in lines_with_a_loss(data))
