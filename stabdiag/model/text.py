"""Numbers, counts and sentences as text, for every part of the program; and the kept texts.

These are about outcomes, symptoms and questions: the files in ``stabdiag/explain``, in which
``{spike.sigma}`` is that limit's value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from operator import attrgetter
from urllib.parse import urlsplit

from stabdiag.model.limits import Limits

# Deviations have a floor, for logs that stand still: a score beyond this shows that it was reached.
_FAR_BEYOND = 1e4

# From here on a power of ten is easier to read than all the digits.
_PLAIN_BELOW = 1e7


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a table that is written as one text, with blanks between them."""
    return tuple(text.split())


def plural(count: int | str, one: str, many: str | None = None) -> str:
    """Return ``1 step`` or ``2 steps``; the count may be written already."""
    return f"{count} {one if str(count) == '1' else many or one + 's'}"


def listed(words: Sequence[str]) -> str:
    """Return words as an enumeration: ``A, B and C``."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def and_more(words: Sequence[object], shown: int = 1) -> str:
    """Return the first few words, and how many more there are."""
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return f"{', '.join(map(str, words[:shown]))}{more}"


def every(count: float | str, unit: str = "step") -> str:
    """Return ``every step`` or ``every 50 steps``; the number may be written already."""
    told = count if isinstance(count, str) else num(count)
    return f"every {unit}" if told == "1" else f"every {told} {unit}s"


def num(value: float, figures: int = 4) -> str:
    """Return a number in some significant figures, plain where that is short."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == int(value) and abs(value) < _PLAIN_BELOW:
        return str(int(value))
    if 10**figures <= abs(value) < _PLAIN_BELOW:
        return str(round(value))
    return f"{value:.{figures}g}"


def typed(value: float) -> float:
    """Return a number to set something to, as people type it: with two figures."""
    return float(f"{value:.1e}")


def digits(value: float) -> int:
    """Return how many digits a number was written with, without zeros at either end."""
    return len(f"{value:.12e}".partition("e")[0].replace(".", "").strip("-0"))


def times(ratio: float) -> str:
    """Return how many times as large: ``2.8 x``, or ``17%`` of what has become smaller."""
    return f"{num(ratio)} x" if ratio >= 1 else f"{100 * ratio:.2g}%"


def whole(value: float) -> str:
    """Return a count or identifier: in full where it is a whole number."""
    return str(int(value)) if value.is_integer() else num(value)


def sigmas(score: float) -> str:
    """Return a number of deviations, with its sign."""
    if score >= _FAR_BEYOND:
        return "far beyond all noise"
    return f"{num(score if abs(score) > 1 / _FAR_BEYOND else 0.0)}σ"


def sentence(words: str) -> str:
    """Return words with a capital letter and a full stop, to stand alone."""
    return f"{capitalised(words)}."


def whole_sentence(words: str) -> str:
    """Return words with a full stop unless they end a sentence already."""
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def capitalised(words: str) -> str:
    """Return words with a capital letter, to begin a sentence."""
    return words[0].upper() + words[1:]


def uncapitalised(words: str) -> str:
    """Return a sentence's words with a small letter, to stand within another."""
    return words[0].lower() + words[1:]


def shown(place: str) -> str:
    """Return a place as it may be passed on: a URL without a password or a signature."""
    if "://" not in place:
        return place
    try:
        parts = urlsplit(place)
    except ValueError:
        return f"{place.partition('://')[0]}://..."
    host = parts.netloc.rpartition("@")[2]
    query = "?..." if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}"


def clipped(words: str, most: int) -> str:
    """Return words cut to a number of characters, the last of them an ellipsis."""
    return words if len(words) <= most else f"{words[: most - 1]}…"


_LIMIT = re.compile(r"\{([a-z]+\.[a-z0-9_]+)\}")


def kept_text(kind: str, name: str) -> str:
    """Return a text as it is kept, limits not filled in; kind is ``questions``, for example."""
    from importlib.resources import files  # which a diagnosis does not wait for

    return files("stabdiag").joinpath("explain", kind, f"{name}.md").read_text(encoding="utf-8")


def kept_table(name: str) -> list[list[str]]:
    """Return the rows of a table that is kept as a text, without its head, cell by cell."""
    _, _, *lines = kept_text("reference", name).splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def limits_in(content: str) -> list[str]:
    """Return the names of the limits in a text, in order."""
    return _LIMIT.findall(content)


def filled(content: str, limits: Limits) -> str:
    """Return a text with the values of the limits that it names."""
    return _LIMIT.sub(lambda found: f"{attrgetter(found[1])(limits):g}", content)
