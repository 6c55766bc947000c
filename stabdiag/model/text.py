"""Numbers, counts and sentences as text, and the stored texts.

The stored texts in ``stabdiag/explain`` describe outcomes, symptoms and questions.
``{spike.sigma}`` in them is replaced by the value of that limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from urllib.parse import urlsplit

from stabdiag.model.limits import Limits
from stabdiag.model.patterns import lazy_pattern

# Constant logs use a minimum deviation; larger scores show that it was reached.
_MAX_SHOWN_SCORE = 1e4

# Larger numbers are easier to read as a power of ten.
_PLAIN_BELOW = 1e7

# Sentences name this many layers, columns or runs and count the others.
SHOWN_NAMES = 3

# Longer names are cut.
_MAX_LENGTH = 60

# The significant figures that show the limits of a dtype in full, such as 65504.
EXACT_FIGURES = 5

# The significant figures of a level that is only compared, such as both ends of a range.
ROUGH_FIGURES = 3

_PERCENT = 100
_MINUTE, _HOUR = 60, 3600


def storable_text(text: str) -> str:
    """Return a text that is valid Unicode, as not every file name is."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def word_list(text: str) -> tuple[str, ...]:
    """Return the words of a text, for tables written as one string."""
    return tuple(text.split())


def plural(count: int | str, noun: str, plural_noun: str | None = None) -> str:
    """Return ``1 step`` or ``2 steps``; the count may be a formatted number."""
    return f"{count} {noun if str(count) == '1' else plural_noun or noun + 's'}"


def listed(words: Sequence[str]) -> str:
    """Return words as an enumeration: ``A, B and C``."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def and_more(words: Sequence[object], shown: int = 1) -> str:
    """Return the first few words and the number of other ones."""
    suffix = f" and {len(words) - shown} more" if len(words) > shown else ""
    return f"{', '.join(map(str, words[:shown]))}{suffix}"


def every(count: float | str, unit: str = "step") -> str:
    """Return ``every step`` or ``every 50 steps``; the count may be a formatted number."""
    text = count if isinstance(count, str) else num(count)
    return f"every {unit}" if text == "1" else f"every {text} {unit}s"


def num(value: float, figures: int = 4) -> str:
    """Return a number with some significant figures, without an exponent if that is short."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == int(value) and abs(value) < _PLAIN_BELOW:
        return str(int(value))
    if 10**figures <= abs(value) < _PLAIN_BELOW:
        return str(round(value))
    return f"{value:.{figures}g}"


def number_range(low: float, high: float) -> str:
    """Return a range as text: ``0.1 to 0.25``, or one number if both look the same."""
    first, last = num(low, ROUGH_FIGURES), num(high, ROUGH_FIGURES)
    return first if first == last else f"{first} to {last}"


def percent(fraction: float, figures: int = 4) -> str:
    """Return a fraction in percent, with some significant figures."""
    return f"{num(_PERCENT * fraction, figures)}%"


def typed(value: float) -> float:
    """Return a value for a setting, rounded to two figures."""
    return float(f"{value:.1e}")


def digits(value: float) -> int:
    """Return the number of significant digits of a number, without trailing zeros."""
    return len(f"{value:.12e}".partition("e")[0].replace(".", "").strip("-0"))


def times(ratio: float) -> str:
    """Return a ratio as text: ``2.8 x``, or ``17%`` if it is below 1."""
    return f"{num(ratio)} x" if ratio >= 1 else f"{100 * ratio:.2g}%"


def whole(value: float) -> str:
    """Return a count or identifier, in full if it is a whole number."""
    return str(int(value)) if value.is_integer() else num(value)


def sigmas(score: float) -> str:
    """Return a number of standard deviations as text."""
    if score >= _MAX_SHOWN_SCORE:
        return "far beyond all noise"
    return f"{num(score if abs(score) > 1 / _MAX_SHOWN_SCORE else 0.0)}σ"


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 2 * _MINUTE:
        return f"{num(seconds)} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def sentence(words: str) -> str:
    """Return words as a sentence, with a capital letter and a full stop."""
    return f"{capitalized(words)}."


def whole_sentence(words: str) -> str:
    """Return words with a full stop unless they already end a sentence."""
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def capitalized(words: str) -> str:
    """Return words with a capital first letter."""
    return words[0].upper() + words[1:]


def uncapitalized(words: str) -> str:
    """Return words with a lower-case first letter, for use within a sentence."""
    return words[0].lower() + words[1:]


def shown(location: str) -> str:
    """Return a path or URL that is safe to print, without a password or a signature."""
    if "://" not in location:
        return location
    try:
        parts = urlsplit(location)
    except ValueError:
        return f"{location.partition('://')[0]}://..."
    host = parts.netloc.rpartition("@")[2]
    query = "?..." if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}"


def clipped(words: str, max_length: int = _MAX_LENGTH) -> str:
    """Return words cut to a number of characters, with an ellipsis."""
    return words if len(words) <= max_length else f"{words[: max_length - 1]}…"


_LIMIT = lazy_pattern(r"\{([a-z]+\.[a-z0-9_]+)\}")


def kept_text(kind: str, name: str) -> str:
    """Return a stored text without limits filled in; kind is ``questions``, for example.

    The text of a symptom is in the folder of its family, next to its check.
    """
    from importlib.resources import files  # imported late: a diagnosis does not need it

    package, file = files("stabdiag"), f"{name}.md"
    folders = (
        package.joinpath("symptoms").iterdir()
        if kind == "symptoms"
        else [package.joinpath("explain", kind)]
    )
    text = next(path for folder in folders if (path := folder.joinpath(file)).is_file())
    return text.read_text(encoding="utf-8")


def kept_table(name: str) -> list[list[str]]:
    """Return the cells of a stored table without its header, row by row."""
    _, _, *lines = kept_text("reference", name).splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def find_limit_names(content: str) -> list[str]:
    """Return the names of the limits in a text, in order."""
    return _LIMIT.findall(content)


def filled(content: str, limits: Limits) -> str:
    """Return a text with the values of its limits filled in."""
    return _LIMIT.sub(lambda match: f"{attrgetter(match[1])(limits):g}", content)
