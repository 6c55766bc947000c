"""What a single written value means: a number, nothing, or a word.

All formats share this module, so that a ``"NaN"`` in JSON lines and a ``nan`` in CSV are one thing.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ABSENT: Final = 0
NUMBER: Final = 1
NULL: Final = 2
WORD: Final = 3

# How JavaScript, Python, R and Arrow write a missing number.
_NULL_WORDS: Final = frozenset({"", "null", "none", "na", "n/a", "<na>"})

# "1.#QNAN" and its kin are what older C runtimes on Windows print.
_NUMBER_WORDS: Final = {
    "true": 1.0,
    "false": 0.0,
    "1.#qnan": math.nan,
    "-1.#ind": math.nan,
    "1.#inf": math.inf,
    "-1.#inf": -math.inf,
}
_NAN_WITH_PAYLOAD: Final = re.compile(r"[-+]?nan\(\w*\)", re.ASCII)

# What Python prints around one number: [2.31], np.float64(2.31), array([2.31], dtype=float32),
# tensor(2.31, device='cuda:0', grad_fn=<MeanBackward0>), tf.Tensor(2.31, shape=(), dtype=float32)
_PRINTED: Final = re.compile(
    r"\[ ?([-+\w.]{1,60}) ?\]"
    r"|(?:[a-z]{1,10}\.){0,2}(?:tensor|array|b?float\d{2}|u?int\d{1,2})"
    r"\(\[{0,3} ?([-+\w.]{1,60}) ?\]{0,3}(?:, [^\[\]]{1,200})?\)",
    re.ASCII | re.IGNORECASE,
)


def number_of(text: str) -> float | None:
    """Return the number that a text spells, or None if it spells none."""
    # float() takes "1_000" and digits of every script, which no logger writes as a number.
    if "_" not in text and text.isascii():
        try:
            return float(text)
        except ValueError:
            pass
    text = text.lower()
    if text.endswith((")", "]")):
        if _NAN_WITH_PAYLOAD.fullmatch(text):
            return math.nan
        printed = _PRINTED.fullmatch(text)
        return number_of(printed[1] or printed[2]) if printed else None
    return _NUMBER_WORDS.get(text)


def meaning(text: str) -> tuple[int, float, str]:
    """Return the state, number and word of a written cell; the state says which of them counts."""
    text = text.strip()
    number = number_of(text)
    if number is not None:
        return NUMBER, number, ""
    if text.lower() in _NULL_WORDS:
        return NULL, math.nan, ""
    return WORD, math.nan, text


def states_of(cells: Sequence[str]) -> list[int]:
    """Return the states of written cells; plain numbers are told in a tenth of the time."""
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


def meaning_of(value: object) -> tuple[int, float, str]:
    """Return the state, number and word of a value that ``json`` or Arrow has decoded."""
    if isinstance(value, list | tuple):
        value = _representative(value)
    if isinstance(value, int | float):
        return NUMBER, _as_float(value), ""
    if isinstance(value, str):
        return meaning(value)
    if value is None:
        return NULL, math.nan, ""
    return ABSENT, math.nan, ""


def _representative(values: list[object] | tuple[object, ...]) -> object:
    """Return the first element of a list of one value, or of numbers; else nothing."""
    if len(values) == 1 or (values and all(isinstance(v, int | float) for v in values)):
        first = values[0]
        return first if isinstance(first, int | float | str) or first is None else _NOTHING
    return _NOTHING


_NOTHING: Final = object()


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
