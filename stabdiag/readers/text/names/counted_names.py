"""Names with a count: loss_0: 2.31, train_loss_e3 = 2.31, loss of epoch3is: 2.31, epoch3loss: 2.31.

The names contain the step, so each line has another name. The replacements put the step in front.
A number of a part of the model, as in Head 2 loss: 2.31, is not a step. A counter may also have a
range of counts: iter [201, 300].
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Final, NamedTuple

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import word_list
from stabdiag.readers.text.lines.counters import EPOCH, STEP
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization

# This many lines at the head are searched, and a name has the fewest of them: a model may have
# several numbered losses.
_NAMED_LINES: Final = 300
_MIN_NAMED_LINES: Final = 6

_VALUE_OF_COUNT: Final = (
    rb"[\"')\]]?(?: ?(?:is|was))?(?: ?[:=] ?|[ \t]{1,8})(?=%b[ \t\r]{0,8}$)" % NUMBER_PATTERN
)
_NAME_OF_COUNT: Final = (
    rb"((?:[A-Za-z][A-Za-z_-]{0,20}[ _-]){0,3}?[A-Za-z]{0,12}?(?:oss|OSS|ost|acc|Acc|ccuracy))"
)
_COUNT_BEHIND: Final = lazy_pattern(
    _NAME_OF_COUNT + rb"([ _-]?(?:(?:of|at|after|in|for) (?:the )?)?"
    rb"(?:e|ep|epochs?|it|iter|iteration|step|[sin])?[ #_-]?)(\d{1,9})" + _VALUE_OF_COUNT
)
_COUNT_BEFORE: Final = lazy_pattern(
    rb"((?:[Ee]poch|EPOCH|[Ss]tep|[Ii]ter(?:ation)?)[_-]?)(\d{1,9})([_-]?)"
    + _NAME_OF_COUNT
    + _VALUE_OF_COUNT
)
_COUNTS_EPOCHS: Final = lazy_pattern(rb"(?i)(?:^|.*[^a-z])ep?(?:ochs?)?[ #_-]?")
_EPOCH_FIRST: Final = lazy_pattern(rb"(?i)^epochs?[ _-]")

# Words for the parts of a model or of an experiment, which are numbered as well.
_MODEL_PARTS: Final = frozenset(
    word_list(
        "layer head level scale class cls task aux stage block branch output expert group part "
        "style content discriminator generator critic encoder decoder codebook quantizer"
    )
)
_NUMBERED_PARTS: Final = _MODEL_PARTS | frozenset(
    word_list("fold weight out seed worker gpu rank client top k best model split")
)

# Style 2 loss: 2.31, Head 2 Loss = 2.31
_NUMBERED_PART: Final = lazy_pattern(
    rb"(?<![\w.])((?:[A-Za-z]{2,20}[ _-])?([A-Za-z]{3,20})) (\d{1,2}) ([Ll]oss)"
    rb"(?=[ \t]?[:=]?[ \t]{0,8}%b)" % NUMBER_PATTERN
)


def _join_part(part: re.Match[bytes]) -> bytes:
    if part[2].lower().decode() not in _MODEL_PARTS:
        return part[0]
    return b"%b_%b_%b" % (part[1], part[3], part[4])


_JOINED_PARTS: Final = Normalization((), _NUMBERED_PART.pattern, _join_part)


def numbers_parts(lines: Sequence[bytes]) -> bool:
    """Return True if several parts of a model have a loss: Head 1 loss: 2.3, Head 2 loss: 2.5.

    Many numbers that never recur are a counter.
    """
    parts = (part for line in lines if b"oss" in line for part in _NUMBERED_PART.finditer(line))
    counts = Counter((part[1], part[3]) for part in parts if _join_part(part) != part[0])
    words = Counter(word for word, _ in counts)
    are_few = max(words.values(), default=0) < _MIN_NAMED_LINES
    return len({number for _, number in counts}) > 1 and (are_few or max(counts.values()) > 1)


class _CountedName(NamedTuple):
    """A name, and what is before and behind its count."""

    name: bytes
    before: bytes
    behind: bytes


def find_counted_names(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements for names that have a count if most lines have one."""
    lines = [*filter(None, map(bytes.strip, data.split(b"\n", _NAMED_LINES)[:_NAMED_LINES]))]
    if numbers_parts(lines):
        return (_JOINED_PARTS,)
    counts: dict[_CountedName, list[int]] = defaultdict(list)
    for line in lines:
        if (match := _COUNT_BEHIND.match(line)) is not None:
            counts[_CountedName(match[1], match[1] + match[2], b"")].append(int(match[3]))
        elif (match := _COUNT_BEFORE.match(line)) is not None:
            counts[_CountedName(match[4], match[1], match[3] + match[4])].append(int(match[2]))
    if 2 * sum(map(len, counts.values())) < len(lines) or not all(map(_is_course, counts.values())):
        return ()
    words = {*chain.from_iterable(name_words(counted.name.decode()) for counted in counts)}
    # The accuracies of classes are numbered, too.
    if words.isdisjoint(("loss", "cost")) or not words.isdisjoint(_NUMBERED_PARTS):
        return ()
    return tuple(map(_replacement, counts))


def _is_course(counts: list[int]) -> bool:
    """Return True if counts rise evenly, line by line."""
    strides = {after - before for before, after in pairwise(counts)}
    return len(counts) >= _MIN_NAMED_LINES and len(strides) == 1 and min(strides) > 0


def _replacement(counted: _CountedName) -> Normalization:
    name, before, behind = counted
    is_epoch = _EPOCH_FIRST.match(name) is not None or _COUNTS_EPOCHS.fullmatch(
        before.removeprefix(name)
    )
    return Normalization(
        (),
        rb"(?m)^([ \t]{0,8})%b(\d{1,9})%b%b"
        % (re.escape(before), re.escape(behind), _VALUE_OF_COUNT),
        rb"\1%b \2 %b: " % (EPOCH if is_epoch else STEP.encode(), _EPOCH_FIRST.sub(b"", name)),
    )


# iter [201, 300], steps 201-300, between batches 51 and 100: each range begins where the range
# before it ends.
_RANGE: Final = (
    rb"\b(?:(?:between|from) )?((?i:iter(?:ation)?|step|batch|episode|epoch|update))(?:e?s)?"
    rb"[ :=#]{1,3}[\[(]?(\d{1,9})(?: ?(?:-|,|\.\.\.?|\xe2\x80\x93|~) ?| to | and )(\d{1,9})[\])]?"
    rb"(?![\w.,]*\d)"
)
_RANGES_EXAMINED: Final = 40
_MIN_RANGES: Final = 2


def find_ranges(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that counts the end of the range of each record."""
    matches = islice(re.finditer(_RANGE, head), _RANGES_EXAMINED)
    ranges = [*dict.fromkeys((int(match[2]), int(match[3])) for match in matches)]
    follow = (0 <= after[0] - before[1] <= 1 for before, after in pairwise(ranges))
    if len(ranges) >= _MIN_RANGES and all(first < last for first, last in ranges) and all(follow):
        yield Normalization((), _RANGE, rb"at \1 \3")
