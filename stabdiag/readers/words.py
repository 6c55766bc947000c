"""The meaning of a written value: a number, nothing, or a word; and words that spell numbers.

All formats share this module, so that a ``"NaN"`` in JSON lines and a ``nan`` in CSV are one thing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.values import NULL_WORDS, not_finite

ABSENT: Final = 0
NUMBER: Final = 1
NULL: Final = 2
WORD: Final = 3

# The notebook tables of the HF Trainer have it above the first training loss. It is not a NaN,
# unlike a null.
_NOT_LOGGED: Final = "No log"
_JOINED_NOT_LOGGED: Final = "No_log"

_TRUTH_VALUES: Final = {"true": 1.0, "false": 0.0}

# Python output around one number: [2.31], np.float64(2.31), array([2.31], dtype=float32),
# tensor(2.31, device='cuda:0', grad_fn=<MeanBackward0>), tf.Tensor(2.31, shape=(), dtype=float32),
# <tf.Tensor: shape=(), dtype=float32, numpy=2.31>, Paddle's Tensor(shape=[1], …, [2.31]),
# {'loss': 2.31}, and the real part of (2.31+0j)
_PRINTED_NUMBER_WRAPPER: Final = (
    r"(?ai)\[ ?([-+\w.]{1,60}) ?\]"
    r"|(?:[a-z]{1,10}\.){0,2}(?:tensor|array|b?float\d{2}|u?int\d{1,2})"
    r"\(\[{0,3} ?([-+\w.]{1,60}) ?\]{0,3}(?:, [^\[\]]{1,200})?\)"
    r"|<tf\.(?:tensor|variable)\b[^<>]{1,120}\bnumpy=([-+\w.]{1,60})>"
    r"|tensor\(shape=\[[\d, ]{0,40}\][^<>\[\]]{1,160},\s{0,20}\[{0,3}([-+\w.]{1,60})\]{0,3}\)"
    r"|\{ ?[\"']?\w{1,40}[\"']? ?: ?([-+\w.]{1,60}) ?\}"
    r"|\(?([-+]?(?:[\d.]{1,30}(?:e[-+]?\d{1,4})?|nan|inf))[-+](?:[\d.]{1,30}(?:e[-+]?\d{1,4})?|nan|inf)j\)?"
)

_OTHER_EXPONENT: Final = r"([-+]?[0-9]{1,20}\.[0-9]{0,20})[fd]([-+]?[0-9]{1,3})"

# Bold numbers and marks behind a number in a table, such as the best of a column: **0.91**, 0.91 ✓,
# 0.91*, 3.2 ↓
_MARKED_NUMBER: Final = (
    r"(?P<bold>\*{1,3}|__|`)?"
    r"(?P<number>[-+]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:e[-+]?[0-9]{1,4})?%?)"
    r"(?(bold)(?P=bold)|\*{0,3})(?:[ ]?[^\w\s\x00-\u00bf\u2010-\u203f\ufffd]{1,3})?"
)
# A word in brackets says what a number is: 2.31 (mean), 2.31 (tracked) of Julia
_QUALIFIED_NUMBER: Final = (
    r"(?a)([-+]?(?:\d{1,30}(?:\.\d{0,30})?(?:e[-+]?\d{1,4})?|nan|inf)) {1,2}\([a-z][a-z ]{1,20}\)"
)
_MARKS: Final = ("*", "_", "`")


def spelled_number(text: str) -> float | None:
    """Return the number that a text spells, or None if it spells none."""
    # float() takes "1_000" and digits of every script, which no logger writes as a number.
    if "_" not in text and text.isascii():
        try:
            return float(text)
        except ValueError:
            pass
    text = text.lower()
    # 1.5f-5 in Julia and 1.5D-05 in Fortran
    other_exponent = re.fullmatch(_OTHER_EXPONENT, text) if "." in text else None
    if other_exponent is not None:
        return spelled_number("{}e{}".format(*other_exponent.groups()))
    if text.endswith((")", "]", ">", "}", "j")):
        printed = re.fullmatch(_PRINTED_NUMBER_WRAPPER, text)
        if printed is not None:
            return spelled_number(next(filter(None, printed.groups())))
        qualified = re.fullmatch(_QUALIFIED_NUMBER, text)
        if qualified is not None:
            return spelled_number(qualified[1])
    if text.endswith("%") and text[:1] in "+-.0123456789":
        percent = spelled_number(text[:-1].rstrip())
        return None if percent is None else percent / 100
    number = _TRUTH_VALUES.get(text)
    if number is None and (text.endswith(_MARKS) or not text.isascii()):
        marked = re.fullmatch(_MARKED_NUMBER, text)
        number = None if marked is None else spelled_number(marked["number"])
    return not_finite(text) if number is None else number


def meaning(text: str) -> tuple[int, float, str]:
    """Return the state, number and word of a written cell; the state says which of them counts."""
    text = text.strip()
    number = spelled_number(text)
    if number is not None:
        return NUMBER, number, ""
    if text.lower() in NULL_WORDS:
        return NULL, math.nan, ""
    if text in (_NOT_LOGGED, _JOINED_NOT_LOGGED):
        return ABSENT, math.nan, ""
    return WORD, math.nan, text


# Names of several words in the header of a table with single blanks between cells, as copied from a
# browser: Step Training Loss Validation Loss, epoch train loss valid loss error rate.
_SEVERAL_WORDS: Final = lazy_pattern(
    r"(?<![\w./-])"
    r"(?:(?:train|training|valid|validation|val|eval|test|avg|average|mean|total|dev) "
    r"(?:(?:sparse |masked )?(?:categorical |binary |top )|token )?"
    r"(?:loss|acc|accuracy|error|perplexity|ppl|f1|precision|recall|wer|cer|bleu)"
    r"|(?:macro|micro|weighted) (?:f1|precision|recall)|f1 (?:score|macro|micro|weighted)"
    r"|exact match|bleu score|gen len|error rate|learning rate|grad norm"
    r"|gradient norm|no log)(?![\w./-])",
    re.IGNORECASE,
)


def with_joined_names(line: str) -> str:
    """Join names of several words in a header into one cell."""
    return _SEVERAL_WORDS.sub(lambda name: name[0].replace(" ", "_"), line)


def with_joined_words(line: str) -> str:
    """Return a row of a table with blanks only between its cells, not within a cell."""
    return line.replace(_NOT_LOGGED, _JOINED_NOT_LOGGED)


def cell_states(cells: Sequence[str]) -> list[int]:
    """Return the states of written cells; plain numbers take a tenth of the time."""
    joined = "".join(cells)
    plain = "_" not in joined and joined.isascii()
    return [_state(cell) if plain else meaning(cell)[0] for cell in cells]


def _state(cell: str) -> int:
    if not cell:
        return NULL
    try:
        float(cell)
    except ValueError:
        return meaning(cell)[0]
    return NUMBER


def is_prose(cells: Sequence[str]) -> bool:
    """Return True if all cells are words, as in a sentence with commas, or a progress bar."""
    if any(meaning(cell)[0] != WORD for cell in cells):
        return False
    return not cells[0][:1].isdigit() or any("=" in cell for cell in cells)


def has_lost_cell(cells: Sequence[str], width: int) -> bool:
    """Return True if a row of ``width`` values has several words in place of one of them.

    >>> has_lost_cell(["120", "not", "finite", "0.71"], 3)
    True
    """
    if len(cells) <= width or not cells[0].isdecimal():
        return False
    is_word = [not any(map(str.isdigit, cell)) for cell in cells]
    words = is_word.count(True)
    first = is_word.index(True) if words else 0
    return words == len(cells) - width + 1 and all(is_word[first : first + words])


def decoded_meaning(value: object) -> tuple[int, float, str]:
    """Return the state, number and word of a value that ``json`` or Arrow has decoded."""
    # A list of one value or list, or of numbers, counts as its first.
    while isinstance(value, list | tuple) and value:
        if len(value) > 1 and not all(isinstance(item, int | float) for item in value):
            break
        value = value[0]
    if isinstance(value, int | float):
        return NUMBER, _as_float(value), ""
    if isinstance(value, str):
        return meaning(value)
    if value is None:
        return NULL, math.nan, ""
    return ABSENT, math.nan, ""


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# Dates, durations, positions such as 10/600 and 3 of 80, and counts such as Epoch 3, 5k and 1 500.
# What ``datetime`` does not take: 2026/01/02, and the name of a zone, which is ignored: only
# differences matter.
_SLASHES: Final = r"(?a)(\d{4})/(\d\d)/(\d\d)(?=[ T]|$)"
_ZONE_NAME: Final = r"(?a) ?\b(?:UTC|GMT|[A-Z]{2,3}T)$"

# "1:02:03.5", "1 day, 2:03:04": how Python prints a duration. No run takes more digits.
_DURATION: Final = r"(?a)(?:(\d{1,9}) days?,? )?(\d{1,9}):(\d\d):(\d\d(?:[.,]\d{1,20})?)"
_COUNT_IN_WORDS: Final = (
    r"(?a)~?(?:(\d{1,12})(?: {0,12}/ {0,12}| of )[1-9]\d{0,11}"
    r"|(?i:epoch|ep|step|iter|iteration|round|gen|generation|episode)[ _.:#-]{0,3}(\d{1,12})"
    r"(?:(?: {0,12}/ {0,12}| of )[1-9]\d{0,11})?"
    r"|([1-9]\d{0,2}(?:[ _'\u00a0\u2009\u202f]\d{3}){1,4})|(\d{1,6}(?:\.\d{1,3})?) ?([kKM]))"
)
_UNITS_OF_COUNTS: Final = {"k": 1e3, "K": 1e3, "M": 1e6}
# 1h 2m 3s
_DURATION_UNITS: Final = (
    r"(?a)(?:(\d{1,9})d ?)?(?:(\d{1,9})h ?)?(?:(\d{1,9})m ?)?(\d{1,12}(?:\.\d{1,20})?)s"
)


def spelled_seconds(words: Sequence[str]) -> Floats | None:
    """Return the seconds that texts spell, NaN for those that do not; None if most do not.

    Dates count from 1970, in UTC where they name no zone: only differences matter.
    """
    if not words or _seconds(words[0]) is None:
        return None
    parsed = [_seconds(word) for word in words]
    seconds = np.array([np.nan if value is None else value for value in parsed])
    return seconds if np.isfinite(seconds).sum() * 2 > len(words) else None


def leading_counts(words: Sequence[str]) -> Floats | None:
    """Return the first numbers of positions such as 10/600, and counts such as Epoch 3 and 5k.

    None if there is any other text.
    """
    matches = list(takewhile(bool, (re.fullmatch(_COUNT_IN_WORDS, word) for word in words)))
    if not words or len(matches) < len(words):
        return None
    return np.array([_count(*match.groups()) for match in matches if match])


def _count(position: str, named: str, grouped: str, number: str, unit: str) -> float:
    if unit:
        return round(float(number) * _UNITS_OF_COUNTS[unit], 3)
    return float(position or named or re.sub(r"\D", "", grouped))


def _seconds(text: str) -> float | None:
    date = _since_1970(text)
    if date is not None:
        return date
    duration = re.fullmatch(_DURATION, text) or re.fullmatch(_DURATION_UNITS, text)
    if duration is not None:
        days, hours, minutes, seconds = duration.groups(default="0")
        full_minutes = (int(days) * 24 + int(hours)) * 3600 + int(minutes) * 60
        return full_minutes + float(seconds.replace(",", "."))
    plain = re.sub(_ZONE_NAME, "", re.sub(_SLASHES, r"\1-\2-\3", text, count=1))
    return None if plain == text else _since_1970(plain)


def _since_1970(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
