"""Log text, numbers and their names as people read them; the JSON has the keys.

The escape function of every format starts with ``visible``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Scalar
from stabdiag.model.limits import Limits
from stabdiag.model.text import and_more, num

# Commands that a CI server would execute: ``::error::`` at the start of a line on GitHub,
# ``##[error]`` and ``##vso[…]`` anywhere in a line on Azure.
ORDERS = re.compile(r"(?<!\S):(?=:[A-Za-z])|#(?=#\w*\[)")

_MEASURED_LABELS: Final[Mapping[str, str]] = {
    "after": "mean after",
    "bar": "rise threshold",
    "base": "level before",
    "before": "mean before",
    "best": "best level",
    "bound": "recovered below",
    "checkpoint": "checkpoint to reload",
    "family_limit": "noise reaches (σ)",
    "family_size": "losses in the noise estimate",
    "first_bad": "first non-finite step",
    "first_series": "first non-finite series",
    "first_step": "at step",
    "grad_ratio": "gradient norm / its mean",
    "grad_surge": "gradient norm / its mean",
    "groups": "groups logged",
    "largest_score": "largest deviation (σ)",
    "last": "level at the end",
    "last_good": "last finite step",
    "later": "later overflows",
    "lead_steps": "steps ahead of the loss",
    "logged": "losses logged",
    "lr_ratio": "lr after / before",
    "not_finite": "non-finite losses",
    "p_value": "p value of the trend",
    "progress": "decrease so far",
    "recent_p_value": "p value at the end",
    "rise": "rise above the best",
    "spike_score": "height of the spike (σ)",
    "tested": "losses tested",
    "turning_step": "turns at step",
    "window_points": "points in the window",
}

# Number of values shown of a list, for example of checkpoint steps.
_MAX_LISTED_VALUES: Final = 8

# Smaller probabilities are rounding noise.
_NO_CHANCE: Final = 1e-12


def visible(text: str) -> str:
    r"""Escape unprintable characters and server commands as Python would: ``\x1b``, ``\n``.

    These are controls, escape sequences, line breaks, marks that change the writing direction, lone
    surrogates, and the first sign of ``::error::`` or ``##[error]``. The result is a single line
    that can be encoded.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else code(c) for c in text)
    return ORDERS.sub(lambda sign: f"\\x{ord(sign.group()):02x}", text)


def code(char: str) -> str:
    """Return the ASCII escape of one character."""
    return char.encode("unicode_escape").decode("ascii")


def span(values: Floats) -> str:
    """Format the range of values, or the value if all are the same."""
    low, high = (number(float(end), 3) for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def number(value: object, digits: int = 4) -> str:
    """Format a measured value: few digits, whole numbers in full, lists by their first values.

    Manifest fields and template values may have any type; other types use ``str``.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, float):
        return num(value, digits)
    if isinstance(value, tuple | list):
        return and_more([number(part, digits) for part in value], _MAX_LISTED_VALUES) or "none"
    return str(value)


def label(name: str) -> str:
    """Return the label of a measured value."""
    return _MEASURED_LABELS.get(name, name.replace("_", " "))


def in_words(name: str, measured: Scalar) -> str:
    """Describe a measured value."""
    if name.endswith("p_value") and isinstance(measured, float) and measured < _NO_CHANCE:
        return f"below {_NO_CHANCE:g}"
    return "unknown" if measured is None else number(measured)


def pairs(values: Mapping[str, Scalar]) -> str:
    """Return named values as one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def changed_limits(limits: Limits) -> Iterator[str]:
    """Yield a clause for each limit that differs from its default."""
    for info in limits.changed:
        by = f", set by {info.set_by}" if info.set_by else ""
        yield f"{info.name} is {number(info.value)} (default {number(info.default)}{by})"
