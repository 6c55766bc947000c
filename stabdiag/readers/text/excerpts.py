"""The evidence in a paste of a few lines: an excerpt of a log, a single record, or a NaN loss."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise, starmap
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation, is_setting, name_words
from stabdiag.readers.text.counters import (
    COARSE,
    EPOCH,
    FIRST,
    NTH,
    counter_value,
    find_headings,
    is_word,
    line_counters,
)
from stabdiag.readers.text.grammar import NUMBER_PATTERN, is_a_loss
from stabdiag.readers.text.measure_words import LOSS_STEM, makes_a_record, renamed
from stabdiag.readers.text.sample import (
    MANY_VALUES,
    Sample,
    Shapes,
    TextEvidence,
    is_lost,
    loss_names,
)
from stabdiag.readers.text.tokens import (
    REPORTED_AT_STEP,
    Field,
    has_number,
    line_fields,
    lines_with_a_loss,
)

# The fewest lines of a pasted excerpt.
_EXCERPT: Final = 2

# The most lines of a paste with a single record, without the overflows that may follow it.
_MAX_PASTE: Final = 8
_SCALE_OR_OVERFLOW: Final = lazy_pattern(rb"(?:loss|grad)[ _]scale|overflow", re.IGNORECASE)

# The position in a bar of tqdm or Keras, and the other lines of a paste whose only record is a bar.
_PROGRESS_BAR: Final = lazy_pattern(
    rb"(?<![\d/])\d{1,9}(?:/\d{1,9})? \[\d{1,4}:\d\d(?::\d\d)?<"
    rb"|(?<![\d/])\d{1,9}/\d{1,9} (?:\[[=>.]{5,60}\]|(?:\xe2\x94\x81){5,60})[ \x1b]"
)
_MAX_AROUND_BAR: Final = 40

# A line with a name and a value, of a summary with the losses of two sets.
_PAIR_ALONE: Final = lazy_pattern(
    rb"[\s>*|-]{0,8}[A-Za-z][\w .()/-]{0,40}[:=]{1,2}[ \t]{0,8}%b[ \t%%*|]{0,8}" % NUMBER_PATTERN
)
_SETS: Final = 2
_LOG_TIME: Final = lazy_pattern(rb"[\[(]?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d")

# The fewest values and counters on the only record of a paste.
_MIN_RECORD: Final = 3

# The fewest lines of the only record of a paste whose values are on lines of their own, and the
# value of a loss instead of a setting.
_MIN_BLOCK: Final = 4
_LONG_VALUE: Final = lazy_pattern(rb"[-+]?\d{1,9}\.\d{3,60}(?:[eE][-+]?\d{1,4})?|[-+]?(?:nan|inf)")
_IS_LOSS: Final = lazy_pattern(r"(?i)loss$|^loss of ")
_WORD: Final = lazy_pattern(rb"[A-Za-z]{2}")
# The time at the start of a line: [INFO 2024-03-02 18:11:38,332 …
_LINE_STAMP: Final = lazy_pattern(
    rb"[\[(]?(?:[A-Z]{4,8} )?(?:\d{2,4}[-/.]\d\d[-/.]\d{2,4}[ T])?\d\d:\d\d:\d\d"
)
# (1.035 sec/step), and step 1200: loss = 2.31
_STEP_TIME: Final = lazy_pattern(rb"\d ?(?:m?s|secs?|seconds?)/(?:step|it|iter|batch|epoch)\b")
_ONLY_LOSS: Final = lazy_pattern(
    rb"[\W_]{0,20}(?:global[ _])?(?:step|iteration|iter|epoch|episode|batch)[\s:=#\[(]{1,6}\d{1,9}"
    rb"(?:/\d{1,9})?[\])]?[\s:,|-]{1,6}(?:(?:avg|average|mean|train|training|batch)[ _])?loss"
    rb"[\s:=]{1,4}\d{1,9}\.\d{2,20}[\W_]{0,20}",
    re.IGNORECASE,
)

# [12/60] and 12/600 at the start of the only record; 12/06 may be a date.
_STARTS_WITH_POSITION: Final = lazy_pattern(
    rb"\s{0,20}(?:\[ {0,8}\d{1,9} ?/ ?\d{1,9} {0,8}\]|\d{1,9}/\d{3,9})[\s:,|-]{1,6}[A-Za-z]"
)

# A short paste has at most this many bytes and words.
_MAX_SHORT: Final = 4000
_MAX_WORDS: Final = 150

# The name of the rank that wrote a record.
_RANK_NAME: Final = "rank"

# The most digits in the total of a position that may be a rank or a date.
_TOTAL_DIGITS: Final = 2

# Four words in a row are a sentence. In a record, nothing is between a loss and its value; blanks
# may align the values of several lines.
_SENTENCE: Final = lazy_pattern(rb"(?:(?<![\w-])(?!'?(?:nan|inf)\b)[A-Za-z']{2,20},? ){4}")
# A line that ends with the value: **avg loss in epoch = nan
_ENDS_WITH_VALUE: Final = lazy_pattern(
    rb"[\s*>#|-]{0,8}(?:[A-Za-z-]{1,20} ){2,4}(?:[:=]|is) ?[+-]?(?:nan|inf)[\s*.!`]{0,8}",
    re.IGNORECASE,
)
_ASSIGNS: Final = lazy_pattern(rb"[\"']?(?:[\s:=]{1,6}|[ \t]{1,40})[\"'\[(]?")


def find_excerpt(
    shapes: Shapes, *, reports_failure: bool = False, fewest: int = _EXCERPT
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


def find_single_record(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in the only record of a paste that has hardly any other line.

    The record may have several lines with the same count, each with another loss. Examples may
    follow it, whose lines have the same names and no count.
    """
    for names, lines in sample.shapes.items():
        counted = [{*filter(is_word, line)} for line in lines]
        is_above = len(names) >= _MIN_RECORD and len(lines) > 1 and counted[0]
        if is_above and not any(counted[1:]) and len(data) <= _MAX_SHORT:
            return find_excerpt({names: lines[:1]}, fewest=1)
    trained = {
        names: lines
        for names, lines in sample.shapes.items()
        if not all(map(is_evaluation, loss_names(names)))
    }
    bars = [line for _, line in lines_with_a_loss(data) if _PROGRESS_BAR.search(line)]
    limit = _MAX_AROUND_BAR if len(bars) == 1 else _MAX_PASTE
    counts = [*islice((dict(line) for lines in trained.values() for line in lines), _MAX_PASTE)]
    is_timed = any(_LOG_TIME.match(line) for _, line in lines_with_a_loss(data))
    others = (
        line
        for line in data.splitlines()
        if line.strip() and not _SCALE_OR_OVERFLOW.search(line) and not _shares_count(line, counts)
        # The messages of the logger that wrote the record are no prose.
        if not (is_timed and _LOG_TIME.match(line))
    )
    if len([*islice(others, limit + 1)]) > limit:
        is_prose = len(data) > _MAX_SHORT or _SENTENCE.search(data) is not None
        return None if is_prose else _full_record(trained)
    if sum(map(len, trained.values())) != 1:
        return _split_record(trained) or _ranked_record(trained)
    shapes = {names: lines for names, lines in trained.items() if len(names) >= MANY_VALUES}
    if shapes:
        return find_excerpt(shapes, fewest=1) or _uncounted_record(data, shapes)
    if not _has_one_record(data):
        return None
    # The only counter may be a position.
    is_positioned = bool(bars) or _starts_with_position(data)
    return find_excerpt(trained, fewest=1) or find_excerpt(trained, reports_failure=is_positioned)


def find_single_epoch(
    data: bytes, sample: Sample, headings: Mapping[bytes, Sequence[int]]
) -> TextEvidence | None:
    """Return the evidence in the block of a single epoch, with its training and evaluation loss.

    Each has a line of its own; the epoch is named above them or on both.
    """
    counts = {*headings.get(EPOCH, ())}
    if len(counts) != 1 or len(data) > _MAX_SHORT or len(data.split()) > _MAX_WORDS:
        return None
    fields = [
        (item, line)
        for _, line in lines_with_a_loss(data, sample.word)
        for item in line_fields(line)
        if is_a_loss(item.name) or is_evaluation(item.name)
    ]
    losses = [
        (item, line)
        for item, line in fields
        if "loss" in item.name.lower()
        and _ASSIGNS.fullmatch(line[item.at[1] : item.value[0]])
        and not _SENTENCE.search(line)
    ]
    trained = [(item, line) for item, line in losses if not is_evaluation(item.name)]
    if len(trained) != 1 or len(losses) < _EXCERPT:
        return None
    item, line = trained[0]
    is_own = EPOCH in line_counters(line)
    return TextEvidence(counter=EPOCH, loss=item.name, lines=1, rising=1.0, above=not is_own)


def _full_record(shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in the only line with a loss, if it has many values."""
    full = {names: lines for names, lines in shapes.items() if len(names) >= MANY_VALUES}
    return find_excerpt(full, fewest=1) if sum(map(len, shapes.values())) == 1 else None


def _uncounted_record(data: bytes, shapes: Shapes) -> TextEvidence | None:
    """Return the evidence in a record of many values without a counter, not in a sentence."""
    loss = loss_names(next(iter(shapes)))[0]
    lines = (line for _, line in lines_with_a_loss(data))
    line = next((line for line in lines if not (_SENTENCE.search(line) or b" = " in line)), b"")
    values = {item.name for item in line_fields(line)}
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
    """Return the evidence in lines with the same count of the same counter and different losses."""
    lines = [line for shape in shapes.values() for line in shape]
    words = (word for word in lines[0] if is_word(word)) if len(lines) == len(shapes) > 1 else ()
    for word in words:
        if len({line.get(word) for line in lines}) == 1:
            loss = loss_names(next(iter(shapes)))[0]
            return TextEvidence(counter=word, loss=loss, lines=len(lines), rising=1.0)
    return None


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


def _has_one_record(data: bytes) -> bool:
    """Return True if the only line with a loss is a record, not a sentence or a setting.

    It is a progress bar, or has a counter with a word and its total, or two counters, or a second
    value.
    """
    records = [
        (line, [item for item in line_fields(line) if _trains(item.name)])
        for _, line in lines_with_a_loss(data)
    ]
    records = [(line, losses) for line, losses in records if losses]
    if len(records) != 1 or _SENTENCE.search(records[0][0]):
        return False
    line, losses = records[0]
    if not all(_ASSIGNS.fullmatch(line[item.at[1] : item.value[0]]) for item in losses):
        return False
    if _PROGRESS_BAR.search(line):
        return True
    counters = line_counters(line)
    values = {item.name for item in line_fields(line)} | {*counters}
    is_full = len(values) >= _MIN_RECORD or _STEP_TIME.search(line) or _ONLY_LOSS.fullmatch(line)
    is_counted = any(map(is_word, counters)) or _STARTS_WITH_POSITION.match(line)
    return bool(is_counted and is_full)


def _starts_with_position(data: bytes) -> bool:
    """Return True if a line with a loss begins with a position: [12/60] loss: 0.42."""
    return any(_STARTS_WITH_POSITION.match(line) for _, line in lines_with_a_loss(data))


def find_short_paste(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a paste of a few lines: two records, or a loss that is not finite.

    A longer paste counts if all its records have many values, and none a finite loss.
    """
    if len(data) > _MAX_SHORT or len(data.split()) > _MAX_WORDS:
        count, lines = (
            sum(map(len, shapes.values())) for shapes in (sample.not_finite, sample.shapes)
        )
        if not 1 < count == lines or len(data) > _MAX_SHORT * MANY_VALUES:
            return None
        loss = loss_names(next(iter(sample.not_finite)))[0]
        return TextEvidence(counter=None, loss=loss, lines=lines, rising=1.0)
    # Lines of the same loss may have other values next to it.
    by_loss: dict[str, list[dict[bytes, int]]] = {}
    for names, counters in sample.shapes.items():
        by_loss.setdefault(loss_names(names)[0], []).extend(counters)
    shapes = [*sample.shapes.items(), *(((loss,), counters) for loss, counters in by_loss.items())]
    counted = next(filter(None, starmap(_counted_twice, shapes)), None)
    if counted is not None:
        return counted
    summary = _summary_of_sets(data, sample)
    if summary is not None:
        return summary
    records = [
        (line, item)
        for _, line in lines_with_a_loss(data, sample.word)
        for item in line_fields(line)
        if all(map(_trains, renamed({item.name: item.value}, sample.word)))
    ]
    lost = [(line, item) for line, item in records if _is_lost_record(line, item)]
    stamped = _stamped_losses(data, sample)
    if len(stamped) >= _EXCERPT and len({*stamped}) == 1 and not lost:
        return TextEvidence(counter=None, loss=stamped[0], lines=len(stamped), rising=1.0)
    if not lost or 2 * len(lost) < len(records):
        return None
    line, item = lost[0]
    words = [word for word in line_counters(line) if _is_count(word)]
    counter = next(filter(is_word, words), words[0] if words and len(records) == 1 else None)
    return TextEvidence(counter=counter, loss=item.name, lines=len(records), rising=1.0)


def _stamped_losses(data: bytes, sample: Sample) -> list[str]:
    """Return the names of the losses on lines that begin with a time; they are no sentences."""
    return [
        item.name
        for _, line in lines_with_a_loss(data, sample.word)
        if _LINE_STAMP.match(line) and not _SENTENCE.search(line)
        for item in line_fields(line)
        if is_a_loss(item.name) and _ASSIGNS.fullmatch(line[item.at[1] : item.value[0]])
    ]


def find_few_rewards(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a paste of two records of a reward with another value."""
    if len(data) > _MAX_SHORT or _SENTENCE.search(data):
        return None
    records = (
        _counted_twice(names, lines, sample.word)
        for names, lines in sample.shapes.items()
        if len(names) > 1
    )
    return next(filter(None, records), None)


def find_few_scores(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a paste of two epochs of several scores, on one line or on more."""
    if len(data) > _MAX_SHORT or _SENTENCE.search(data):
        return None
    records = [
        _counted_twice(names, lines, sample.word)
        for names, lines in sample.shapes.items()
        if any(makes_a_record(name, sample.word) for name in names)
    ]
    counted = [result for result in records if result is not None and result.counter in COARSE]
    is_record = len(counted) > 1 or any(len(names) > 1 for names in sample.shapes)
    return counted[0] if is_record and len(counted) == len(records) > 0 else None


def find_block_record(data: bytes) -> TextEvidence | None:
    """Return the evidence in the only record of a paste, with each value on a line of its own.

    One of the lines counts, and one has a loss with several digits: settings are round.
    """
    if len(data) > _MAX_SHORT:
        return None
    headings = [*find_headings(data)]
    counters = {(word, count) for _, word, count in headings}
    lines = [line for line in data.split(b"\n") if _WORD.search(line)]
    fields = [list(line_fields(line)) for line in lines]
    single = [
        (line, items[0]) for line, items in zip(lines, fields, strict=True) if len(items) == 1
    ]
    names = [item.name for _, item in single]
    losses = [
        item.name
        for line, item in single
        if _IS_LOSS.search(item.name)
        and _trains(item.name)
        and _LONG_VALUE.fullmatch(line[slice(*item.value)])
    ]
    is_block = _MIN_BLOCK <= len(names) == len({*names}) and 2 * len(names) > len(lines)
    if len(counters) != 1 or not losses or not is_block or any(map(is_setting, names)):
        return None
    return TextEvidence(
        counter=headings[0][1],
        loss=losses[0],
        lines=1,
        rising=1.0,
        above=True,
        is_counted_below=True,
    )


def _summary_of_sets(data: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a summary of one loss of the training and one of an evaluation.

    Each is on a line of its own, and so is each other value.
    """
    names = [names[0] for names in sample.shapes if len(names) == 1]
    evaluations = [name for name in names if is_evaluation(name)]
    lines = [line for line in data.splitlines() if has_number(line)]
    is_pair = len(names) == len(sample.shapes) == _SETS and len(evaluations) == 1
    if (
        not is_pair
        or not all(map(_is_plain_loss, names))
        or sum(map(len, sample.shapes.values())) != _SETS
    ):
        return None
    others = (line for line in lines if _PAIR_ALONE.fullmatch(line) is None)
    if len(lines) > _MAX_PASTE or not all(map(_SENTENCE.search, others)):
        return None
    loss = next(name for name in names if name != evaluations[0])
    return TextEvidence(counter=None, loss=loss, lines=1, rising=1.0) if _trains(loss) else None


def _is_plain_loss(name: str) -> bool:
    """Return True for Train Loss and loss_val, but not for train_loss_weight."""
    words = name_words(name)
    return "loss" in (*words[:1], *words[-1:])


def _trains(name: str) -> bool:
    """Return True if a name is the name of a loss of the training."""
    return is_a_loss(name) and not is_evaluation(name)


def _is_lost_record(line: bytes, item: Field) -> bool:
    """Return True if a line is a record, not a sentence, and this field of it is not finite."""
    gap, value = line[item.at[1] : item.value[0]], line[slice(*item.value)]
    is_assigned = is_lost(value) and (
        _ASSIGNS.fullmatch(gap) is not None or REPORTED_AT_STEP.search(line) is not None
    )
    is_record = not _SENTENCE.search(line) or _ENDS_WITH_VALUE.fullmatch(line) is not None
    return is_assigned and is_record


def _counted_twice(
    names: tuple[str, ...], lines: list[dict[bytes, int]], word: bytes = LOSS_STEM
) -> TextEvidence | None:
    """Return the evidence in two or more lines with equal names and any counter that rises."""
    shared = (name for name in lines[0] if all(name in line for line in lines))
    counters = filter(_is_count, shared)
    rising = (name for name in counters if all(b[name] > a[name] for a, b in pairwise(lines)))
    counter = next(rising, None) if len(lines) >= _EXCERPT else None
    if counter is None:
        return None
    return TextEvidence(
        counter=counter, loss=loss_names(names, word)[0], lines=len(lines), rising=1.0
    )


def _is_count(word: bytes) -> bool:
    """Return True for a word and a position, but not one of a small total: a rank or a date."""
    return is_word(word) or len(word) > len(NTH) + _TOTAL_DIGITS
