"""What can go wrong on the way to a diagnosis, as one tree of errors.

Every message says what is wrong, where, and what to do about it, in one line.

    StabdiagError
    ├── LogError            the log cannot be read
    │   ├── NoUsableRecord  it was read, and nothing in it can be used
    │   │   └── NothingLogged   the run has logged nothing yet
    │   ├── ColumnError     a column that is named or needed is not there
    │   └── TooSlow         it does not arrive in a reasonable time
    ├── ManifestError       the manifest cannot be read
    ├── LimitError          an unknown limit, or a value out of its range
    └── ConfigError         a configuration file cannot be read
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class StabdiagError(Exception):
    """Base of all errors that stabdiag raises on purpose."""


class LogError(StabdiagError):
    """The log cannot be read."""


class NoUsableRecord(LogError):
    """The log was read and holds no usable record."""


class NothingLogged(NoUsableRecord):
    """The run has logged nothing yet."""


class ColumnError(LogError):
    """A column that is named or needed is not in the log."""


class TooSlow(LogError):
    """The file behind a URL does not arrive in a reasonable time."""


class ManifestError(StabdiagError):
    """The manifest cannot be read."""


class LimitError(StabdiagError):
    """An unknown limit, or a value outside of its range."""


class ConfigError(StabdiagError):
    """A configuration file cannot be read."""


def refuse_unknown(format: str, known: Collection[str]) -> None:
    """Raise an error for an unknown format."""
    if format not in known:
        raise StabdiagError(
            f"unknown format {format!r}{did_you_mean(format, known)} "
            f"(there are: {', '.join(known)})"
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean X?"`` for the nearest known word, or an empty string."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
