"""Find lines that recur with other numbers, and build a pattern that finds their numbers.

A line is masked: a sign replaces each number, each time, each bar and each run of blanks. Lines
with equal masks differ only in their numbers. A record may take several lines, whose masks recur
in turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from stabdiag.model.patterns import lazy_pattern

# The most lines that are examined, and their longest.
_MAX_MASKED_LINES: Final = 300
_LONGEST_MASKED_LINE: Final = 300

# The fewest records, and the number of lines where the first one may begin.
_MIN_RECORDS: Final = 3
_RECORD_STARTS: Final = 12

_CLOCK_TIME: Final = (
    rb"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d)?(?:[.,]\d{1,9})?Z?"
    rb"|\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?"
)
_PLAIN_NUMBER: Final = (
    rb"[-+]?(?:(?:\d{1,60}(?:\.\d{1,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
    rb"|(?i:nan|inf)(?!\w))(?!\d|[.-]\d|\.\.)"
)
# A bar grows from line to line.
_BAR_SIGN: Final = rb"(?:[#=>]|[.-](?!\d)|\xe2[\x94-\x96][\x80-\xbf])"
_TOTAL_BEHIND: Final = rb" ?/ ?\d{1,12}(?![\w.])"
_MASKED_PIECE: Final = lazy_pattern(
    rb"(?P<time>(?<![\w.:])(?:%b)(?![\w:]))|(?P<number>(?:(?<![\w.])|(?<=\d_))%b)(?P<total>%b)?"
    rb"|(?P<blank>[ \t]{1,200}(?!%b))|(?P<bar>(?:[ \t]|%b){1,200})|(?<=\d)_(?=\d)|\w{1,60}|[^ \t]"
    % (_CLOCK_TIME, _PLAIN_NUMBER, _TOTAL_BEHIND, _BAR_SIGN, _BAR_SIGN)
)
_ANY_BAR: Final = rb"(?:[ \t]|%b){1,200}" % _BAR_SIGN
_ANY_BLANKS: Final = rb"[ \t]{1,200}"
_LINE_BREAK: Final = rb"[ \t\r]{0,40}(?:\n[ \t\r]{0,40}){1,4}"


class MaskedLine(NamedTuple):
    """A line, the spans of its numbers, its mask, and a pattern for the lines with this mask."""

    text: bytes
    numbers: tuple[tuple[int, int], ...]
    mask: bytes
    pattern: bytes


# The lines of one record.
Group: TypeAlias = tuple[MaskedLine, ...]


def mask_lines(head: bytes) -> list[MaskedLine]:
    """Mask the first lines of a text, without blank lines."""
    texts = map(bytes.strip, head.split(b"\n", _MAX_MASKED_LINES)[:_MAX_MASKED_LINES])
    return [_mask_line(text) for text in texts if text]


def _mask_line(text: bytes) -> MaskedLine:
    """Mask a line; a line that is too long stays as it is, without numbers."""
    masks: list[bytes] = []
    patterns: list[bytes] = []
    numbers: list[tuple[int, int]] = []
    for piece in _MASKED_PIECE.finditer(text) if len(text) <= _LONGEST_MASKED_LINE else ():
        mask, pattern = piece[0], re.escape(piece[0])
        if piece["blank"]:
            mask, pattern = b" ", _ANY_BLANKS
        elif piece["bar"]:
            mask, pattern = b"\0B", _ANY_BAR
        elif piece["time"]:
            mask, pattern = b"\0T", b"(?:%b)" % _CLOCK_TIME
        elif piece["number"]:
            numbers.append(piece.span("number"))
            mask = b"\0N/" if piece["total"] else b"\0N"
            pattern = b"(%b)%b" % (_PLAIN_NUMBER, _TOTAL_BEHIND if piece["total"] else b"")
        masks.append(mask)
        patterns.append(pattern)
    return MaskedLine(text, tuple(numbers), b"".join(masks) or text, b"".join(patterns))


def find_groups(lines: Sequence[MaskedLine], max_lines: int) -> Iterator[list[Group]]:
    """Yield the records of each mask, or of masks that recur in turn.

    A record has at most ``max_lines`` lines.
    """
    masks = [line.mask for line in lines]
    for size in range(1, max_lines + 1):
        # In the order of the log: the order of a set differs from run to run.
        firsts = dict.fromkeys(
            tuple(masks[at : at + size]) for at in range(min(len(lines), _RECORD_STARTS))
        )
        for first in firsts:
            groups: list[Group] = []
            at = 0
            while at + size <= len(lines):
                if tuple(masks[at : at + size]) == first:
                    groups.append((*lines[at : at + size],))
                    at += size
                else:
                    at += 1
            if len(groups) >= _MIN_RECORDS:
                yield groups


def of_last_run(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the records since the number at their start last began again, as in another run.

    It rises evenly in each run, from the same number on.
    """
    counts = [group[0].text[slice(*group[0].numbers[0])] for group in groups if group[0].numbers]
    if len(counts) < len(groups) or not all(map(bytes.isdigit, counts)):
        return groups
    numbers = [*map(int, counts)]
    begins = [at for at in range(1, len(numbers)) if numbers[at] <= numbers[at - 1]]
    strides = {numbers[at] - numbers[at - 1] for at in range(1, len(numbers)) if at not in begins}
    runs = [end - begin for begin, end in pairwise([0, *begins, len(numbers)])]
    is_of_runs = len(strides) == 1 and min(runs) >= _MIN_RECORDS
    if not begins or not is_of_runs or any(numbers[at] != numbers[0] for at in begins):
        return groups
    return groups[begins[-1] :]


def record_pattern(group: Group) -> tuple[bytes, list[int]]:
    """Return the pattern of a record, and the group of each number; the others are line breaks."""
    groups: list[int] = []
    count = 0
    for line in group:
        groups += range(count + 1, count + 1 + len(line.numbers))
        count += 1 + len(line.numbers)
    pattern = (b"(%b)" % _LINE_BREAK).join(line.pattern for line in group)
    return rb"(?m)^[ \t]{0,80}%b[ \t]{0,200}$" % pattern, groups
