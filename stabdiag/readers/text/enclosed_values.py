"""Values that stand between signs after their names.

Pairs such as ``('loss', 2.31)`` and ``["loss", 2.31]``, arrows such as ``loss -> 2.31``, and values
in parentheses such as ``Epoch(3)`` and ``loss(2.31)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stabdiag.readers.text.grammar import Normalization

_ENCLOSED_HEAD_BYTES: Final = 1 << 16
_MIN_ENCLOSED: Final = 2

_SCALAR: Final = rb"[-+]?(?:\d[\d.]{0,30}(?:[eE][-+]?\d{1,3})?|\.\d{1,30}|[nN]a[nN]|NAN|[iI]nf)"
# Any other word in place of a value: None, N/A, ***.
_BARE_WORD: Final = rb"[^\s,()\[\]{}<>'\"]{1,20}"
_VALUE_NAME: Final = rb"[A-Za-z_][\w/.@ -]{0,60}"

# ('loss', 2.31), ["loss", 2.31], also among others in a list; a cell of a longer tuple is none.
_QUOTED_PAIR: Final = (
    rb"(?<!\w)[(\[][(\[]?u?(?:'(%b)'|\"(%b)\"), {0,2}(%b|'\w{1,12}'|\"\w{1,12}\")"
    rb"(?: ?[)\]]){1,2},?" % (_VALUE_NAME, _VALUE_NAME, _BARE_WORD)
)
_LOSS_PAIR: Final = rb"oss\w{0,20}['\"], {0,2}%b ?[)\]]" % _SCALAR

# loss -> 2.31, loss => 2.31, loss → 2.31; from 2.5 -> 2.31 has no name before it.
_ARROW: Final = rb"([A-Za-z][)\]]?) ?(?:[-=]>|\xe2\x86\x92) ?(?=[\"']?%b)" % _BARE_WORD
_LOSS_ARROW: Final = rb"oss\w{0,20} ?(?:[-=]>|\xe2\x86\x92) ?%b(?![\w.])" % _SCALAR

# Epoch(3), loss(2.31), step {3}, loss=<2.31>: 2.30 (2.31) is a mean, and loss(x) a call.
_VALUE_NAMES: Final = (
    rb"(?i:epochs?|steps?|iter(?:ation)?s?|batch|round|[\w/]{0,30}loss(?:es)?|lr|acc|accuracy)"
)
_BRACKETS: Final = rb"(?<![\w.'\"])(%b)(?: ?= ?| )?(?:\((%b)\)|\{(%b)\}|<(%b)>)(?![\w(:])" % (
    _VALUE_NAMES,
    _BARE_WORD,
    _BARE_WORD,
    _BARE_WORD,
)
_LOSS_IN_BRACKETS: Final = rb"oss(?:es)?(?: ?= ?| )?(?:\(%b\)|\{%b\}|<%b>)(?!\w)" % ((_SCALAR,) * 3)
_COUNTER_IN_BRACKETS: Final = rb"(?m)^(?i:epoch|step|iter(?:ation)?|round)\(\d{1,12}\)"


def find_enclosed_values(data: bytes) -> Iterator[Normalization]:
    """Yield the replacements that write a name, a colon and the value."""
    head = data[:_ENCLOSED_HEAD_BYTES]
    if (b"', " in head or b'", ' in head) and _is_frequent(_LOSS_PAIR, head):
        yield Normalization((), _QUOTED_PAIR, _as_named_value)
    if (b">" in head or b"\xe2\x86\x92" in head) and _is_frequent(_LOSS_ARROW, head):
        yield Normalization((), _ARROW, rb"\1: ")
    is_enclosed = any(sign in head for sign in (b"(", b"{", b"<"))
    if is_enclosed and any(
        _is_frequent(pattern, head) for pattern in (_LOSS_IN_BRACKETS, _COUNTER_IN_BRACKETS)
    ):
        yield Normalization((), _BRACKETS, _as_named_value)


def _is_frequent(pattern: bytes, head: bytes) -> bool:
    matches = re.finditer(pattern, head)
    return sum(1 for _ in zip(matches, range(_MIN_ENCLOSED), strict=False)) == _MIN_ENCLOSED


def _as_named_value(match: re.Match[bytes]) -> bytes:
    name, value = (text for text in match.groups() if text is not None)
    value = value.strip(b"'\"")
    return b" %b: %b " % (name.strip(), value)
