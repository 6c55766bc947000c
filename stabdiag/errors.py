"""The exceptions of stabdiag.

Each message is one line that says what is wrong, where, and how to fix it.

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

    def __init__(self, message: str = "") -> None:
        """Keep the message on one line: the name of a file may have line ends."""
        super().__init__("\\n".join(message.splitlines()))


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


def refuse_unknown(format: str, formats: Collection[str]) -> None:
    """Raise an error for an unknown format."""
    if format not in formats:
        raise StabdiagError(
            f"unknown format {format!r}{did_you_mean(format, formats)} "
            f"(there are: {', '.join(formats)})"
        )


def unreadable(name: object, error: OSError | ValueError) -> str:
    """Return the message for a file or folder that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return f"{name}: no such file or folder; check the path"
    if isinstance(error, IsADirectoryError):
        return f"{name}: a folder; name a file in it"
    if isinstance(error, PermissionError):
        return f"{name}: may not be read by you; change its permissions"
    reason = getattr(error, "strerror", None) or error
    return f"{name}: cannot be opened ({reason}); check the path"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return ``"; did you mean X?"`` for the nearest known word, or an empty string."""
    matches = get_close_matches(word, list(words), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""
