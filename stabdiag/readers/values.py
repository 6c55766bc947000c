"""Spellings of values that are not finite numbers: one table for all readers.

Programs print a value that is not finite in many ways: ``nan``, ``(nan)``, ``-nan(ind)`` and
``1.#QNAN`` (Microsoft's C runtime), ``tensor(nan, device='cuda:0')``, ``"nan"``, ``nan%``,
``#NUM!``, or asterisks where a number does not fit its column (Fortran). Others print a word for
"no value": ``None``, ``N/A``, ``-``. Whether the latter means NaN depends on the series.
"""

from __future__ import annotations

import math
import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern

# Words for "no value" in lower case: JavaScript, Python, R, Arrow, spreadsheets, and by hand.
NULL_WORDS: Final = frozenset(
    {
        *("", "null", "none", "nil", "na", "n/a", "n.a.", "<na>", "#n/a", "undefined", "missing"),
        *("-", "--", "---", "–", "—"),
    }
)

# The spellings of NaN and infinity, inside quotes and brackets or bare; to be matched regardless of
# case. The number of digits that follow 1.#INF depends on the format: 1.#INF00, and 1.#J when a
# format of two digits rounds the word. YAML writes .nan.
_NAN: Final = r"\.?nan(?:\(\w{0,40}\))?|nan\d{2}|1\.\#(?:[qs]?nan|ind|j)\d{0,12}"
_INFINITY_SPELLINGS: Final = r"\.?inf(?:inity)?(?:\d{2})?|1\.\#(?:inf|r)\d{0,12}"
# A sum or a cell that has no result, and a number that is wider than its column.
_FAILED_CELL: Final = r"\#(?:num|div/0|value|inf)!|overflow(?:ed)?|diverged|\*{2,60}"
NOT_FINITE: Final = rf"[-+]?(?:{_NAN}|{_INFINITY_SPELLINGS})|{_FAILED_CELL}"

_OPENING: Final = r"[\"'(\[<]"
_CLOSING: Final = r"[\"')\]>]"
_BAD_VALUE: Final = lazy_pattern(
    rf"{_OPENING}{{0,2}}\s?(?P<sign>[-+]?)"
    rf"(?:(?P<infinite>{_INFINITY_SPELLINGS})|{_NAN}|{_FAILED_CELL})\s?%?{_CLOSING}{{0,2}}",
    re.IGNORECASE | re.ASCII,
)
# Each of these spellings contains one of these, which are found much faster.
_BAD_VALUE_PARTS: Final = ("nan", "inf", "#", "*", "overflow", "diverged")


def not_finite(text: str) -> float | None:
    """Return NaN or an infinity if a cell spells one, else None."""
    lowered = text.lower()
    if not any(part in lowered for part in _BAD_VALUE_PARTS):
        return None
    cell = _BAD_VALUE.fullmatch(text)
    if cell is None:
        return None
    if not cell["infinite"]:
        return math.nan
    return -math.inf if cell["sign"] == "-" else math.inf
