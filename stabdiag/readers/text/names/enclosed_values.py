"""Rewrite values in pairs, in brackets and behind arrows or ``==`` as a name, a colon and a value.

A log is rewritten if several lines in its head have the name of a loss, an error or a score in
front of a value like this: ``('loss', 2.31)``, ``cost -> 2.31``, ``nll == 2.31``, ``MSE(2.31)``. An
accuracy may be a count and a total: ``acc=5401/10000``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.line_forms import is_frequent
from stabdiag.readers.text.lines.measure_words import is_measure

_MIN_ENCLOSED: Final = 2
# This many values show which names are written in this way.
_VALUES_EXAMINED: Final = 100
_LONGEST_NAME_BEFORE: Final = 100

SCALAR: Final = rb"[-+]?(?:\d[\d.]{0,30}(?:[eE][-+]?\d{1,3})?|\.\d{1,30}|[nN]a[nN]|NAN|[iI]nf)"
_DECIMAL_OR_NAN: Final = rb"[-+]?(?:\d{0,20}\.\d{1,30}(?:[eE][-+]?\d{1,3})?|[nN]a[nN]|NAN|[iI]nf)"
# Any other word in place of a value: None, N/A, ***.
_BARE_WORD: Final = rb"[^\s,()\[\]{}<>'\"]{1,20}"
_VALUE_NAME: Final = rb"[A-Za-z_][\w/.@ -]{0,60}"
# A wrapper around a value: tensor(2.31), np.float64(2.31), <2.31>
_OPENING_WRAPPER: Final = rb"(?:(?:[a-z]{1,10}\.)?[A-Za-z]{1,12}\d{0,2}\(|<)?"

# ('loss', 2.31), ["loss", 2.31], also among others in a list; a cell of a longer tuple is none.
_QUOTED_PAIR: Final = (
    rb"(?<!\w)[(\[][(\[]?u?(?:'(%b)'|\"(%b)\"), {0,2}(%b|'\w{1,12}'|\"\w{1,12}\")"
    rb"(?: ?[)\]]){1,2},?" % (_VALUE_NAME, _VALUE_NAME, _BARE_WORD)
)
_END_OF_PAIR: Final = rb"(?<=\w)['\"], {0,2}%b ?[)\]]" % SCALAR

# loss -> 2.31, loss => 2.31, loss → 2.31, loss == 2.31; from 2.5 -> 2.31 has no name before it.
_ARROW: Final = rb"[ \t]{0,3}(?:[-=]>|\xe2\x86\x92|==)[ \t]{0,3}"
_AFTER_ARROW: Final = rb"([A-Za-z\x80-\xff]\d?[)\]]?)%b(?=[\"'<]?%b)" % (_ARROW, _BARE_WORD)
_ARROW_AND_VALUE: Final = rb"(?<=[A-Za-z\d)\]])%b%b[\"']?%b(?![\w.])" % (
    _ARROW,
    _OPENING_WRAPPER,
    _DECIMAL_OR_NAN,
)

# Epoch(3), loss(2.31), step {3}, loss=<2.31>, Loss[2.31]: 2.30 (2.31) is a mean, loss(x) a call,
# and loss[3] an item.
_COUNTERS_AND_RATES: Final = rb"epochs?|steps?|iter(?:ation)?s?|batch|round|lr|acc|accuracy"
_ENCLOSED_VALUE: Final = (
    rb"(?<![\w.'\"-])(?i:%%b)(?: ?= ?| )?(?:\((%b)\)|\{(%b)\}|<(%b)>|\[(%b)\])(?![\w(:])"
    % (4 * (_BARE_WORD,))
)
_ENCLOSED_DECIMAL: Final = rb"(?:\(%b\)|\{%b\}|<%b>|\[%b\](?!:))(?!\w)" % (4 * (_DECIMAL_OR_NAN,))
_COUNTER_IN_BRACKETS: Final = rb"(?m)^(?i:epoch|step|iter(?:ation)?|round)\(\d{1,12}\)"

# acc=5401/10000, val accuracy: 54 / 100, correct 54/100 (54%)
_CORRECT: Final = (
    rb"(?i)(?<![a-z_])((?:[a-z]{1,12}[ _])?)(?:acc(?:uracy)?|correct)"
    rb"([\"']?(?: {0,3}[:=] {0,3}| {1,3}))(\d{1,9}) ?/ ?(\d{2,9})"
    rb"(?: ?[(\[]\d{1,3}(?:\.\d{1,9})? ?%?[)\]])?(?![\w.])"
)

# The name before a value.
_NAME_OF_VALUE: Final = lazy_pattern(
    rb"(?:(?<![\w.'\"/-])|(?<=[(\[]['\"]))([A-Za-z][\w./@-]{0,60}(?: [A-Za-z][\w./@-]{0,30}){0,2})"
    rb"(?: ?= ?| )?\Z"
)


def find_enclosed_values(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that write a name, a colon and the value."""
    if (b"', " in head or b'", ' in head) and _measures(_END_OF_PAIR, head):
        yield Normalization((), _QUOTED_PAIR, as_named_value)
    if b"/" in head and is_frequent(_CORRECT, head):
        yield Normalization((), _CORRECT, _as_accuracy)
    has_sign = any(sign in head for sign in (b"->", b"=>", b"\xe2\x86\x92", b" == "))
    if has_sign and _measures(_ARROW_AND_VALUE, head):
        yield Normalization((), _AFTER_ARROW, rb"\1: ")
    if any(sign in head for sign in (b"(", b"{", b"<", b"[")):
        names = _measures(_ENCLOSED_DECIMAL, head)
        if names or is_frequent(_COUNTER_IN_BRACKETS, head):
            words = b"|".join((*map(re.escape, sorted(names)), rb"[\w/]{0,30}loss(?:es)?"))
            pattern = _ENCLOSED_VALUE % (b"(%b|%b)" % (words, _COUNTERS_AND_RATES))
            yield Normalization((), pattern, as_named_value)


def as_named_value(match: re.Match[bytes]) -> bytes:
    """Return the name and the value in the groups of a match, with a colon between them."""
    name, value = (text for text in match.groups() if text is not None)
    value = value.strip(b"'\"")
    return b" %b: %b " % (name.strip(), value)


def _as_accuracy(match: re.Match[bytes]) -> bytes:
    """Return the fraction of the correct results, or the text if more are correct than all."""
    correct, total = int(match[3]), int(match[4])
    if not 0 < total >= correct:
        return match[0]
    return b"%baccuracy%b%.6g" % (match[1], match[2], correct / total)


def _measures(pattern: bytes, head: bytes) -> set[bytes]:
    """Return the names of measures in front of matches of a pattern, if they are at least two."""
    starts = (match.start() for match in re.finditer(pattern, head))
    matches = (
        _NAME_OF_VALUE.search(head, max(start - _LONGEST_NAME_BEFORE, 0), start)
        for start in islice(starts, _VALUES_EXAMINED)
    )
    names = [match[1] for match in matches if match is not None and _is_measure(match[1])]
    return {*names} if len(names) >= _MIN_ENCLOSED else set()


@lru_cache(maxsize=256)
def _is_measure(name: bytes) -> bool:
    # L == 2.31 may be a loss, which its values decide.
    return len(name) == 1 or is_measure(name.decode("utf-8", "replace"))
