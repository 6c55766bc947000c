"""Lines that list the names of their values first: epoch, loss, acc: 3, 2.31, 0.18.

A statement such as ``print("epoch, loss, acc:", epoch, loss, acc)`` prints them. The replacements
put each name in front of its value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.lines.measure_words import SPLIT
from stabdiag.readers.text.lines.tokens import has_number, lines_with_a_loss

# A name and its list, up to the numbers: (epoch, loss) = (, epoch/loss:, epoch loss acc, and
# train, round, loss, acc ===> , where the first word is the split. In Loss main/total=, in
# losses (main, total): and in Loss:(main, total)/( all names share the first word. Julia shows the
# call that gives a value: (i, loss(x, y)) = (3, 2.31).
_CALL: Final = lazy_pattern(rb"\([^()\n]{0,60}\)")
_LISTED_NAME: Final = rb"[A-Za-z][\w.-]{0,30}(?:\([^()\n]{0,60}\)|(?: [A-Za-z][\w.-]{0,20}){0,2})"
_LISTED_NAMES: Final = lazy_pattern(
    rb"(?<![\w./,-])((?:(loss(?:es)?)(?: (?=\w{1,30}/)|[:=]? ?(?=[\[(])))?[\[(]? ?"
    rb"(%b(?: ?[,/|] ?%b){1,7}|[A-Za-z]\w{0,20}(?: [A-Za-z]\w{0,20}){1,7})"
    rb" ?[\])]? ?(?:[:=]{1,6}|[=-]{0,6}>|/(?=[\[(]))?[ \t]{0,4}[\[(]? ?)"
    rb"((?:%b[,/| \t\])]{1,4}){1,7}(?:%b)?)"
    % (_LISTED_NAME, _LISTED_NAME, NUMBER_PATTERN, NUMBER_PATTERN),
    re.IGNORECASE,
)
_NAME_SEPARATOR: Final = lazy_pattern(rb" ?[,/|] ?")
# In "loss nan, accuracy 74,0 %" the first number belongs to the second name.
_LISTED_NON_FINITE: Final = lazy_pattern(
    rb"(?i)(?<![\w.-])(?:nan|inf|infinity|none|null)(?![\w.-])"
)
_LISTED_NUMBER: Final = lazy_pattern(rb"(?<![\w.])%b(?![\w.])" % NUMBER_PATTERN)

# Lists are searched for at the start of this many lines, and have to be on this many.
_LIST_LINES: Final = 50
_MIN_LIST_LINES: Final = 2
_START: Final = 300

# Words of a list whose names are separated by blanks: other words may form a sentence.
_KNOWN_WORDS: Final = frozenset(
    b"epoch step iter iteration batch round episode loss acc accuracy lr cost error auc f1 mse mae "
    b"train_loss val_loss test_loss train_acc val_acc test_acc reward".split()
)
# A mean squared error and a cost are losses.
_NOT_LOSSES: Final = frozenset(b"acc accuracy lr auc f1 reward train_acc val_acc test_acc".split())


def find_name_lists(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements for the lists of names at the head of a log."""
    lists = Counter(
        entry
        for _, line in islice(lines_with_a_loss(data), _LIST_LINES)
        for match in _LISTED_NAMES.finditer(line[:_START] if has_number(line[:_START]) else b"")
        if (entry := _parse(match)) is not None
    )
    return tuple(
        _replacement(head, names, by_slash=by_slash)
        for (head, names, by_slash), count in lists.items()
        if count >= _MIN_LIST_LINES
    )


def _parse(match: re.Match[bytes]) -> tuple[bytes, tuple[bytes, ...], bool] | None:
    """Return the text of a list, its names, and whether slashes separate them, or None."""
    shared, listed, values = match[2], _CALL.sub(b"", match[3]), match[4]
    by_slash = b"/" in listed
    count = len(_LISTED_NUMBER.findall(values))
    names = _names(listed, count=count) if shared is None else _losses(listed, count=count)
    has_loss = any(b"loss" in name.lower() for name in names)
    if not has_loss or len({*names}) < len(names) or by_slash != (b"/" in values):
        return None
    if _LISTED_NON_FINITE.search(listed) is not None:
        return None
    return match[1], names, by_slash


def _names(listed: bytes, *, count: int) -> tuple[bytes, ...]:
    """Return the names of a list of ``count`` values, or none if their number differs.

    A split in front of the other names is a part of them: train, loss, acc.
    """
    names = _NAME_SEPARATOR.split(listed)
    if len(names) == 1:
        names = listed.split()
        if not all(name.lower() in _KNOWN_WORDS for name in names):
            return ()
    first, others = names[0], names[1:]
    if _is_split(first) and len(others) == count > 1:
        return tuple(name if _is_counter(name) else first + b" " + name for name in others)
    return tuple(names) if len(names) == count and not any(map(_is_split, names)) else ()


def _losses(listed: bytes, *, count: int) -> tuple[bytes, ...]:
    """Return the names of a list of ``count`` losses, or none if another measure is in the list."""
    names = _NAME_SEPARATOR.split(listed)
    others = any(name.lower() in _NOT_LOSSES for name in names)
    if len(names) != count or others:
        return ()
    return tuple(name + b" loss" for name in names)


def _is_split(name: bytes) -> bool:
    return SPLIT.fullmatch(name.decode()) is not None


def _is_counter(name: bytes) -> bool:
    return name.lower() in (b"epoch", b"step", b"iter", b"iteration", b"batch", b"round")


def _replacement(head: bytes, names: Sequence[bytes], *, by_slash: bool) -> Normalization:
    separator = rb" ?/ ?" if by_slash else rb"(?: ?[,|] ?|[ \t]{1,4})"
    values = separator.join([rb"(%b)" % NUMBER_PATTERN] * len(names))
    named = b" ".join(rb"%b: \%d," % (name, n) for n, name in enumerate(names, start=1))
    return Normalization((head,), rb"%b%b[\])]?(?![\w.])" % (re.escape(head), values), named)
