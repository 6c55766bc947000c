"""Raw columns: what a log holds, before anyone has decided what it means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.model.history import Event
    from stabdiag.readers.converted import Told

    Wanted: TypeAlias = Callable[[str], bool]


# How many unreadable records of a log are kept, to be shown with --verbose.
SHOWN: Final = 20

# What pandas calls the column of row numbers that it writes without a name.
INDEX: Final = "index"

# From here on floats do not tell whole numbers apart.
EXACT: Final = 2.0**53


def every_column(_name: str) -> bool:
    """Want all columns, whatever their names."""
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """One column, with one entry for each record (all arrays have the length ``rows``).

    ``values`` are float64; they count only where ``present``. A NaN that was *written* (``NaN``,
    ``"nan"``, ``-inf``, …) is present. ``null`` marks entries that were explicitly written as null
    or blank, unlike keys that a record lacks; it is False wherever ``present``. ``is_text`` says
    that the column holds words: the values are then arbitrary codes, equal for equal words, that
    serve only to be compared. ``words`` has the word of each code; numbers among the words have
    the codes after these. ``is_time`` says that the words spelt times: the values are seconds.
    ``strays`` counts the words among numbers, and what is no time among times; they are neither
    present nor null.
    """

    values: Floats
    present: Mask
    null: Mask
    is_text: bool = False
    is_time: bool = False
    strays: int = 0
    words: tuple[str, ...] = ()

    @property
    def logged(self) -> Floats:
        """The values that count, in the order of their records: no copy where all of them do."""
        return self.values if self.present.all() else self.values[self.present]


@dataclass(frozen=True, kw_only=True)
class BadLine:
    """A record that could not be read: where, and what was wrong with it."""

    line: int
    reason: str

    def moved(self, lines: int) -> BadLine:
        """Return the same for a block that begins after so many lines of the log."""
        return BadLine(line=lines + self.line, reason=self.reason)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """The columns of one log by name, in the order in which they first appear.

    ``load(name)`` returns one column, so that a log of thousands of columns costs only those that
    are used. ``bad_lines`` holds the first few unreadable records, ``bad_count`` counts them all.
    ``events`` are messages found in the log, and ``config`` is what the log itself says about the
    run's configuration, in the form of a manifest. ``tells_null`` says that the format
    distinguishes a null that was written from a value that was not. ``settled`` is what a converted
    log says: each of its columns has the name of its role, and the steps rise. ``unnamed`` says
    that the log names no column, so that what they are was assumed, and ``by_words`` that its names
    are the words on lines of no known format. ``files`` are the files on disk
    that were read, and ``parts`` has the rows of each attempt by its file, where several files make
    one log. ``runs_beside`` is how many other runs lie in the folder in which it was chosen.
    ``ends`` are the rows before which the log says that a training had ended. ``epoch_length`` is
    what a step counter that restarts with each epoch counts up to, if
    the log says so.
    """

    source: str
    format: str
    names: tuple[str, ...]
    rows: int
    load: Callable[[str], Column]
    bad_lines: tuple[BadLine, ...] = ()
    bad_count: int = 0
    notes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    tells_null: bool = False
    settled: Told | None = None
    unnamed: bool = False
    by_words: bool = False
    files: tuple[str, ...] = ()
    parts: tuple[tuple[str, NDArray[np.intp]], ...] = ()
    ends: tuple[int, ...] = ()
    epoch_length: int | None = None
    runs_beside: int = 0
