"""Spellings of values that are not finite numbers: one table for all readers.

Programs print a value that is not finite in many ways: ``nan``, ``(nan)``, ``-nan(ind)`` and
``1.#QNAN`` (Microsoft's C runtime), ``tensor(nan, device='cuda:0')``, ``"nan"``, ``nan%``,
``#NUM!``, or asterisks where a number does not fit its column (Fortran). Others print a word for
"no value": ``None``, ``N/A``, ``-``. Whether the latter means NaN depends on the series.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final

from stabdiag.model.patterns import lazy_pattern

# Words for "no value" in lower case: JavaScript, Python, R, Arrow, spreadsheets, and by hand.
NULL_WORDS: Final = frozenset(
    {
        *("", "null", "none", "nil", "na", "n/a", "n.a.", "<na>", "#n/a", "undefined", "missing"),
        *("(null)", "<null>", "<none>", "(none)", "<nil>", "\\n", "n.d.", "k.a.", "n. a."),
        *("not available", "unavailable", "undef", "masked", "nicht verfügbar", "sin valor"),
        *("нет", "无", "無", "なし", "없음"),
        *("-", "--", "---", "–", "—"),
    }
)

# The names of these values in spreadsheets, C# and JavaScript in other languages, in lower case.
_NAN_PHRASES: Final = (
    *("not a number", "not-a-number", "notanumber", "non-finite", "nonfinite", "not finite"),
    *("indeterminate", "indefinite", "indefinido", "indéfini", "неопределено", "不定"),
    *("keine zahl", "n. def.", "non numérique", "pas un nombre", "non un numero reale"),
    *("no es un número", "não é um número", "nie jest liczbą", "не число", "нечисло"),
    *("非数", "非数字", "非數值", "不是数字", "不是一個數字"),
)
_INFINITY_PHRASES: Final = (
    *("infinite", "infini", "infinito", "unendlich", "nieskończoność", "бесконечность", "∞"),
    *("无穷", "无穷大", "正无穷大", "無限大", "무한대"),
)
PHRASES: Final = (*_NAN_PHRASES, *_INFINITY_PHRASES)

# The spellings of NaN and infinity; to be matched regardless of case. The number of digits that
# follow 1.#INF depends on the format: 1.#INF00, 1.#INFe+000, and 1.#J or 1.$ when a short format
# rounds it. YAML writes .nan, AIX writes NaNQ.
_NAN: Final = (
    r"\.?nan(?:\(\w{0,40}\)|[qf]0?(?!\w)|e[-+]?\d{1,3}|/nan)?|nan\d{2}"
    r"|1\.(?:\#(?:[qs](?:nan|n[ab]?|o)?|nan|ind?|io|j)\d{0,12}(?:e[-+]?\d{1,4})?|\$)"
)
_INFINITY: Final = (
    r"\.?[np]?inf(?:inity|/inf|f0)?(?:\d{2})?|1\.\#(?:inf|r)\d{0,12}(?:e[-+]?\d{1,4})?"
)
# A sum or a cell that has no result, as #NUM! and #ZAHL!, and a number wider than its column.
FAILED_CELL: Final = (
    r"\#[^\s\#!?]{1,12}[!?]|\#(?:div/0|value|num|ref|err(?:or)?|zahl|wert)|overflow(?:ed|error)?"
    r"|diverged|\*{2,60}|\#{3,60}|\+{3,60}"
)

# Around a spelling: brackets, quotes and other marks, as in "nan", **NaN** and nan ❌; the names of
# a module and of a type, as in jnp.nan and Decimal('NaN'); and a unit, as in nan bits.
_CELL_MARK: Final = r"[^\w\s#+.-]"
_BAD_VALUE: Final = lazy_pattern(
    rf"{_CELL_MARK}{{0,3}}\s?(?:[a-z]\w{{0,20}}\.){{0,3}}(?P<type>[a-z]\w{{0,20}}\({_CELL_MARK}{{0,3}}\s?)?"
    rf"(?P<sign>[-+]?)(?:(?P<infinite>{_INFINITY}|{'|'.join(_INFINITY_PHRASES)})"
    rf"|{_NAN}|{'|'.join(map(re.escape, _NAN_PHRASES))}|{FAILED_CELL})"
    rf"(?(type){_CELL_MARK}{{0,3}}(?:,[^()]{{0,100}}(?:\([^()]{{0,100}}\)[^()]{{0,100}})?)?\))"
    # A remark, as in nan (skipped), and a unit or a mark
    rf"(?:\.|\.{{3}}|\s\([a-z][a-z ]{{1,20}}\))?\s?%?{_CELL_MARK}{{0,3}}"
    rf"(?:\s(?:nats?|bits?|bp[bcd]|db|{_CELL_MARK}{{1,3}}|<[-=]{{1,3}}))?"
    # A second value, as in nan (nan), nan ± 0.2, nan/nan and nan+0j, not the next of a list
    rf"(?:(?:(?:(?!\s{{0,4}}\w)[^\w./]{{1,5}}|\s?\+/-\s?)(?:{_NAN}|{_INFINITY}|\d[\d.]{{0,20}}))j?"
    rf"{_CELL_MARK}{{0,3}}){{0,3}}",
    re.IGNORECASE,
)
# Each of these spellings in ASCII contains one of these, which are found much faster. Many logs
# have INFO on their lines.
_BAD_VALUE_PART: Final = lazy_pattern(
    r"nan|inf(?!o)|[#*]|\+\+\+|1\.\$|overflow|diverged|indetermin|indefini|finit|umber|zahl|def\."
    r"|endlich|nombre|numero reale"
)
# Longer texts are not values.
_LONGEST_VALUE: Final = 200

# <b>nan</b>, and the colors of a terminal, which may have lost their first sign.
_MARKUP: Final = lazy_pattern(
    r"</?(?:b|i|u|p|em|strong|code|mark|kbd|samp|span|font|small|td)(?:\s[^<>]{0,100})?>"
    r"|\x1b?\[(?:\d{1,3};?){1,4}m"
)


def not_finite(text: str) -> float | None:
    """Return NaN or an infinity if a cell spells one, else None."""
    if len(text) > _LONGEST_VALUE:
        return None
    lowered = text.lower()
    if text.isascii() and _BAD_VALUE_PART.search(lowered) is None:
        return None
    if "<" in text or "m" in text:
        text = _MARKUP.sub("", text)
    if "&" in text:
        from html import unescape

        text = unescape(text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")
    cell = _BAD_VALUE.fullmatch(text.strip())
    if cell is None:
        return None
    if not cell["infinite"]:
        return math.nan
    return -math.inf if cell["sign"] == "-" else math.inf
