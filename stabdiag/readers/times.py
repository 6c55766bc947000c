"""Numbers that are spelt out: dates, durations, and positions such as 10/600."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Floats

# What ``datetime`` does not take: 2026/01/02, and the name of a zone, which can be ignored since
# only differences matter.
_SLASHES: Final = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?=[ T]|$)", re.ASCII)
_ZONE_NAME: Final = re.compile(r" ?\b(?:UTC|GMT|[A-Z]{2,3}T)$", re.ASCII)

# "1:02:03.5", "1 day, 2:03:04": how Python prints a duration. No run takes more digits.
_DURATION: Final = re.compile(
    r"(?:(\d{1,9}) days?,? )?(\d{1,9}):(\d\d):(\d\d(?:[.,]\d{1,20})?)", re.ASCII
)
_POSITION: Final = re.compile(r"(\d{1,12})/\d{1,12}", re.ASCII)
# 1h 2m 3s
_UNITS: Final = re.compile(
    r"(?:(\d{1,9})d ?)?(?:(\d{1,9})h ?)?(?:(\d{1,9})m ?)?(\d{1,12}(?:\.\d{1,20})?)s", re.ASCII
)


def seconds_of(words: Sequence[str]) -> Floats | None:
    """Return the seconds that texts spell, NaN for those that do not; None if most do not.

    Dates count from 1970, in UTC where they name no zone: only differences matter.
    """
    if not words or _seconds(words[0]) is None:
        return None
    found = [_seconds(word) for word in words]
    seconds = np.array([np.nan if one is None else one for one in found])
    return seconds if np.isfinite(seconds).sum() * 2 > len(words) else None


def counts_of(words: Sequence[str]) -> Floats | None:
    """Return the first numbers of positions such as 10/600; None if there is any other text."""
    if not words or _POSITION.fullmatch(words[0]) is None:
        return None
    found = [_POSITION.fullmatch(word) for word in words]
    if not all(found):
        return None
    return np.array([float(one[1]) for one in found if one is not None])


def _seconds(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _otherwise(text)
    return _since_1970(time)


def _otherwise(text: str) -> float | None:
    duration = _DURATION.fullmatch(text) or _UNITS.fullmatch(text)
    if duration is not None:
        days, hours, minutes, seconds = duration.groups(default="0")
        return (int(days) * 24 + int(hours)) * 3600 + int(minutes) * 60 + _number(seconds)
    plain = _ZONE_NAME.sub("", _SLASHES.sub(r"\1-\2-\3", text, count=1))
    if plain == text:
        return None
    try:
        return _since_1970(datetime.fromisoformat(plain))
    except ValueError:
        return None


def _since_1970(time: datetime) -> float | None:
    try:
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except OverflowError:
        return None


def _number(text: str) -> float:
    return float(text.replace(",", "."))
