"""Log text, numbers and their names as people read them; the JSON has the keys.

Every format's escape function begins with ``visible``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Scalar
from stabdiag.model.limits import Limits
from stabdiag.model.text import and_more, num

# Lines by which a job gives orders to the server that runs it, were they not changed: ``::error::``
# of GitHub where a line begins, ``##[error]`` and ``##vso[…]`` of Azure anywhere in it.
ORDERS = re.compile(r"(?<!\S):(?=:[A-Za-z])|#(?=#\w*\[)")

_LABELS: Final[Mapping[str, str]] = {
    "after": "mean after",
    "bar": "rise threshold",
    "base": "level before",
    "before": "mean before",
    "best": "best level",
    "bound": "recovered below",
    "checkpoint": "checkpoint to reload",
    "exceedances": "outliers",
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
    "turned": "turns at step",
    "window_points": "points in the window",
}

# A list, such as the steps of checkpoints, is cut after this many values.
_MAX_LISTED: Final = 8

# A smaller probability is rounding noise.
_NO_CHANCE: Final = 1e-12


def visible(text: str) -> str:
    r"""Write what is not printable, or an order to a server, as Python would: ``\x1b``, ``\n``.

    That is controls, escape sequences, line breaks, marks that turn the direction of writing, lone
    surrogates, and the first sign of ``::error::`` or ``##[error]``. All that is left stands on one
    line and can be encoded.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else code(c) for c in text)
    return ORDERS.sub(lambda sign: f"\\x{ord(sign.group()):02x}", text)


def code(char: str) -> str:
    """Return one character as Python writes it in ASCII."""
    return char.encode("unicode_escape").decode("ascii")


def span(values: Floats) -> str:
    """Write the range of values; one number if they are all the same."""
    low, high = (number(float(end), 3) for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def number(value: object, digits: int = 4) -> str:
    """Write a measured value in a few digits, whole numbers in full, lists by their first values.

    Manifest fields and template values may have any type. What is not a number is written as
    Python does.
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
        return and_more([number(part, digits) for part in value], _MAX_LISTED) or "none"
    return str(value)


def label(name: str) -> str:
    """Return what a measured value is called."""
    return _LABELS.get(name, name.replace("_", " "))


def in_words(name: str, measured: Scalar) -> str:
    """Return a measured value in words."""
    if name.endswith("p_value") and isinstance(measured, float) and measured < _NO_CHANCE:
        return f"below {_NO_CHANCE:g}"
    return "unknown" if measured is None else number(measured)


def pairs(values: Mapping[str, Scalar]) -> str:
    """Return values by name, side by side."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def changed_limits(limits: Limits) -> Iterator[str]:
    """Yield a clause for each limit that is not at its default."""
    for info in limits.changed:
        by = f", set by {info.set_by}" if info.set_by else ""
        yield f"{info.name} is {number(info.value)} (default {number(info.default)}{by})"
