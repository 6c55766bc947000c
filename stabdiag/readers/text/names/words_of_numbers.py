"""The words next to the numbers of a record, which may be their names or their units."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_a_reward
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.lines.grammar import is_a_loss
from stabdiag.readers.text.names.printed_statements import name_of_column
from stabdiag.readers.text.names.recurring_lines import Group

# Times, sizes, speeds, percentages and counts such as 2.5 errors are not losses.
_UNIT_BEHIND: Final = lazy_pattern(
    rb" ?(?:%|(?:[mu]?s|secs?|seconds?|min(?:ute)?s?|h|hours?|[KMGT](?:i?B)?"
    rb"|[a-z]{1,12}/s(?:ec(?:ond)?)?)(?!\w))"
)
# A noun may be the unit of a number, unless it is the name of the next one.
_NOUN_BEHIND: Final = lazy_pattern(rb" [a-z]{3,20}(?!\w| ?[:=\[(]| [-+\d])")
# A name in front of a value: train - 2.31, lr=(0.1; and one behind it: 2.31 (train), 2.31 is the
# loss.
_NAME_BEFORE: Final = lazy_pattern(
    rb"(?<![\w./])([A-Za-z][\w./]{0,40}(?:[ -][A-Za-z]\w{0,30}){0,2})[\"'\])]{0,2}[ \t]{0,20}"
    rb"(?:(?:[:=(\[{<>|~-]|[,;](?!\s)){1,3}[ \t]{0,20}){0,2}[\"'(\[]{0,2}\Z"
)
_NAME_BEHIND: Final = lazy_pattern(
    rb" ?\(([A-Za-z]\w{0,20})\)| is (?:the |my |our )?((?:[a-z]{1,20} )?loss)\b"
    rb"| ((?:[A-Za-z]{1,20} )?[Ll]oss)(?=[ \t]{0,8}(?:[,;|)]|\Z))"
)

# A list of numbers without names: [0.52 207.]
_NUMBERS_IN_BRACKETS: Final = lazy_pattern(rb"\[[^\[\]A-Za-z:=]{1,200}\]")

# The words of a line above the records: mIoU for each epoch
_WORD_ABOVE: Final = lazy_pattern(rb"[A-Za-z][\w@-]{1,20}")
_LONGEST_HEADING: Final = 120


def find_vectors(text: bytes) -> list[tuple[int, int]]:
    """Return the spans of the lists on a line that have several numbers."""
    lists = _NUMBERS_IN_BRACKETS.finditer(text)
    return [numbers.span() for numbers in lists if b" " in numbers[0]]


def find_name_above(head: bytes, first: bytes, *, is_training: bool) -> bytes:
    """Return the measure that a text names above its first record, or nothing.

    It is the loss or reward of a column, or a score above records that count a training: other
    scores may be those of folds.
    """
    column = name_of_column(head, first)
    if is_a_loss(column.decode()) or is_a_reward(column.decode()):
        return column
    return _find_score_above(head, first) if is_training else b""


def _find_score_above(head: bytes, first: bytes) -> bytes:
    """Return the score that the line above the first record names, or nothing."""
    above = head[: head.find(first)].rstrip().rpartition(b"\n")[2]
    words = _WORD_ABOVE.findall(above) if len(above) <= _LONGEST_HEADING else []
    return next((word for word in words if score_direction(word.decode()) is not None), b"")


def find_words(group: Group) -> list[tuple[bytes, bool]]:
    """Return the name of each number of a record, or b"", and whether it cannot be a loss.

    A number with a unit cannot, and neither can a later item of a list that has a name.
    """
    words: list[tuple[bytes, bool]] = []
    in_list = False
    above = b""
    for line in group:
        end = 0
        for begin, after in line.numbers:
            before = line.text[end:begin] if end else above + b" " + line.text[:begin]
            behind = line.text[after:]
            unit = _UNIT_BEHIND.match(behind)
            name = _name(before, behind)
            if name:
                in_list = before.rstrip().endswith(b"[")
            elif b"]" in before:
                in_list = False
            is_other = in_list or _NOUN_BEHIND.match(behind) is not None
            # A counter has no name: #3 nll 2.31
            is_count = line.text[begin:after].isdigit()
            words.append((name, unit is not None or (is_other and not name and not is_count)))
            end = after + (unit.end() if unit is not None else 0)
        above = b"" if line.numbers else line.text
    return words


def _name(before: bytes, behind: bytes) -> bytes:
    """Return the name of a number from the words in front of it or behind it."""
    match = _NAME_BEHIND.match(behind)
    if match is not None:
        return bytes(match[1] or match[2] or match[3])
    match = _NAME_BEFORE.search(before)
    return b"" if match is None else bytes(match[1])
