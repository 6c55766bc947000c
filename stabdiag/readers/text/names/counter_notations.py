"""Rewrite counters that are glued to words, in lists, or without a word, as usual ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import Final

from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.line_forms import is_frequent, outline

# Notations are searched for in this many bytes at the head.
NOTATION_BYTES: Final = 1 << 16


def find_counts(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements for counters that are not glued to their words."""
    return chain(
        _episodes(head),
        _counts_before_words(head),
        _positions_in_lists(head),
        _joined_positions(head),
        _counts_at_start(head),
    )


# [200, 3000]: the position and the total. In [2, 2000], an epoch and its last batch, the first
# number rises by one.
_IN_LIST: Final = rb"\[ {0,6}(\d{1,9}), {1,6}(\d{1,12})\]"
_MOST_LISTED_VALUES: Final = 200


def _positions_in_lists(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement for positions that are written as a list of two numbers."""
    listed = [*islice(re.finditer(_IN_LIST, head), _MOST_LISTED_VALUES)] if b", " in head else []
    counts = [int(pair[1]) for pair in listed]
    moves = {after - before for before, after in pairwise(counts)}
    strides = [move for move in moves if move > 0]
    is_position = len({pair[2] for pair in listed}) == 1 and max(counts) <= int(listed[0][2])
    # The count falls where an epoch begins.
    if is_position and min(strides, default=1) > 1:
        yield Normalization((), _IN_LIST, rb"[\1/\2]")


# The positions of an epoch and a batch without a blank between them: [3/100-20/600]
_JOINED: Final = rb"([\[(] {0,6}\d{1,9}/\d{1,9})[-:_](\d{1,12}/\d{1,12} {0,6}[\])])"


def _joined_positions(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that separates two positions in brackets."""
    if (b"[" in head or b"(" in head) and is_frequent(_JOINED, head):
        yield Normalization((), _JOINED, rb"\1, \2")


# Ep 12 next to a reward counts episodes, not epochs.
_EP: Final = rb"(?<![\w./-])[Ee][Pp]\.?(?=[ :#=]{1,3}\d{1,9}%b)"
_REWARD: Final = rb"[^\n]{0,300}(?:[Rr]eward|[Rr]eturn|[Ss]core|_[rR])[\w]{0,12}[ :=]{1,3}-?\d"


def _episodes(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names the episodes of a log with rewards."""
    if (
        b"poch" not in head
        and (b"Ep" in head or b"ep" in head)
        and is_frequent(_EP % _REWARD, head)
    ):
        # A reward may also be missing, or not finite.
        yield Normalization((), _EP % b"", b"episode")


# Loss after 100 iterations: 2.31, where the count is in front of its word. The number of a window
# does not rise: loss over the last 100 steps.
_COUNT_BEFORE_WORD: Final = (
    rb"(?m)(?<=[a-z]) (?:at|after|in|for|on) (?:the (?:first )?)?(\d{1,12})"
    rb" (?:training |global )?(step|iteration|epoch|batch|update|episode|game|generation|round)"
    rb"(?:e?s)?(?= ?[:=,-]| is | was )"
)


def _counts_before_words(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that puts the word of a rising counter in front of its count."""
    counts = [int(match[1]) for match in re.finditer(_COUNT_BEFORE_WORD, head)]
    if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
        yield Normalization((), _COUNT_BEFORE_WORD, rb" at \2 \1")


# 68 epochs, 480 batches  loss: 2.31, and 3rd epoch - loss: 2.31, behind the name of a logger or a
# time. Ten epochs without a better loss do not count, and neither does the 1 of Epi: 1 Steps: 2.
_COUNT_AT_START: Final = (
    rb"(?mi)^((?:[^\n]{0,60}[:\]|>] ?|[\d:., -]{8,40})?[ \t*>-]{0,8}"
    rb"(?:\d{1,9} (?:epoch|step|iteration|batch|update|round|episode)(?:e?s)?, ){0,2})"
    rb"(\d{1,9})(?:st|nd|rd|th)? (%b)(?:e?s)?"
    rb"(?! (?:without|with no|since|in a row|left|remaining|to go|ago)\b)"
    rb"(?![ \t]{0,4}[:=][ \t]{0,4}\d{1,12}(?![.\d]))"
    rb"(?=(?:,| done| completed?| finished)?[ \t]{0,4}[-:=|,(]{0,2}[ \t]{1,8}[A-Za-z\d(]|[:=])"
)
_WORDS_OF_COUNTS: Final = (
    *(b"epoch", b"step", b"iteration", b"batch", b"update", b"round", b"episode"),
)


def _counts_at_start(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that put the words of rising counts at the start of lines first."""
    lowered = outline(head).lower()
    # Coarse counts are behind finer ones only after these are replaced.
    for word in reversed(_WORDS_OF_COUNTS):
        if word not in lowered:
            continue
        pattern = _COUNT_AT_START % word
        counts = [int(match[2]) for match in re.finditer(pattern, head)]
        if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
            yield Normalization((), pattern, rb"\1\3 \2")


_MIN_COUNTS: Final = 3

# The first epoch may be longer than the head. Parts of this size are then searched, this many.
_PART_BYTES: Final = 1 << 12
_GLUED_PARTS: Final = 16

# Counters without a blank after their word: epoch1 loss=2.31, E001 loss 2.31, ep1_loss: 2.31. The
# words of each counter are at the start of a line that names a loss or a reward, or the key of a
# mapping of YAML: epoch_1:
_GLUED_WORDS: Final = (
    (rb"epoch|ep|e", rb"\1epoch \2 "),
    (rb"step|iter(?:ation)?|it|batch|round", rb"\1step \2 "),
    (rb"generation|gen", rb"\1generation \2 "),
    (rb"episode|game", rb"\1episode \2 "),
)
_AT_START: Final = (
    rb"(?mi)^([ \t\[(]{0,4})[\"']?(?:%b)[_-]?(\d{1,9})[\"']?"
    rb"(?=[ \t_:,;\])|-][^\n]{0,200}(?:oss|eward|itness|core\b)|:[ \t\r]{0,8}$)"
)
# The key of a mapping of YAML may be a count only, above lines with values.
_COUNT_AS_KEY: Final = (
    rb"(?m)^([ \t]{0,4})[\"']?(\d{1,9})[\"']?(?=:[ \t\r]{0,8}\n[ \t]{1,12}[\w\"'][^\n:]{0,60}: )"
)
# A count alone on the line above its values: #10, E10, t=10, [10], --- 10 ---
_COUNT_ALONE: Final = (
    rb"(?m)^([ \t]{0,4}[#\[(=*-]{0,12} ?)(?:[A-Za-z]{1,2} ?[=:]? ?)?"
    rb"(\d{1,9})(?=(?:/\d{1,9})?[ \t\])=*:.-]{0,12}\r?$)"
)
_WORD_OF_COUNT: Final = rb"(?i)(?<![a-z])(?:epoch|step|iter|round|batch|episode|update|game|gen)"
# A line names one of these next to a counter without a blank.
_GLUED_MEASURES: Final = (b"oss", b"eward", b"itness", b"core")


def find_glued_counters(data: bytes, head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that separate a rising counter from its word."""
    if not any(measure in head for measure in _GLUED_MEASURES):
        return
    yield from _counts_alone(head)
    glued = ((_AT_START % words, replacement) for words, replacement in _GLUED_WORDS)
    for pattern, replacement in (*glued, (_COUNT_AS_KEY, rb"\1step \2 ")):
        counts = [int(match[2]) for match in re.finditer(pattern, head)]
        if counts and len({*counts}) < _MIN_COUNTS and len(data) > len(head):
            counts += _counts_of_parts(data, pattern)
        if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
            yield Normalization((), pattern, replacement)


def _counts_alone(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names counts on lines of their own, with a measure below each.

    They rise evenly, which elapsed times do not, and no other counter has a name.
    """
    if b"\n" not in head or re.search(_WORD_OF_COUNT, outline(head)) is not None:
        return
    counts = [*re.finditer(_COUNT_ALONE, head)]
    strides = {int(after[2]) - int(before[2]) for before, after in pairwise(counts)}
    if len(counts) < _MIN_COUNTS or len(strides) > 1 or min(strides) < 1:
        return
    places = [0, *(place for count in counts for place in count.span())]
    blocks = [head[end:begin] for end, begin in zip(places[::2], places[1::2], strict=False)]
    measured = [any(measure in block for measure in _GLUED_MEASURES) for block in blocks]
    # A measure above the first count has its count below it.
    if measured == [False, *[True] * (len(counts) - 1)]:
        yield Normalization((), _COUNT_ALONE, rb"\1step \2")


def _counts_of_parts(data: bytes, pattern: bytes) -> list[int]:
    """Return the counts in parts of a long log, from below its head to its end."""
    stride = max((len(data) - NOTATION_BYTES) // _GLUED_PARTS, 1)
    begins = range(NOTATION_BYTES, len(data), stride)
    parts = (data[data.find(b"\n", at) + 1 : at + _PART_BYTES] for at in begins)
    return [int(match[2]) for part in parts for match in re.finditer(pattern, part)]
