"""Raw columns: the content of a log before its meaning is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import Enum, auto
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from stabdiag.model.arrays import Floats, Mask, Positions
from stabdiag.model.events import Event, LeftOut
from stabdiag.model.frozen import frozen
from stabdiag.readers.converted import ConversionMetadata

ColumnFilter: TypeAlias = Callable[[str], bool]

# This many unreadable records of a log are kept for --verbose.
MAX_BAD_RECORDS: Final = 20

# The name in pandas of the row numbers, which it writes without a name.
INDEX: Final = "index"

NO_ROWS: Final[Positions] = np.empty(0, dtype=np.intp)

# Floats represent all integers below this limit.
EXACT: Final = 2.0**53


def every_column(_name: str) -> bool:
    """Accept all columns."""
    return True


@frozen
class Column:
    """One column, with one entry for each record (all arrays have the length ``rows``).

    Attributes:
        values: float64; they count only where ``present``.
        present: a value was logged. A *written* NaN (``NaN``, ``"nan"``, ``-inf``, …) is present.
        null: the entry was explicitly written as null or blank, or as a word without a digit among
            numbers. It is False where ``present``, and where a record lacks the key.
        is_text: the column has words. The values are arbitrary codes, equal for equal words.
        is_time: the words are times. The values are seconds.
        stray_rows: the records with a word among numbers, or with another text among times.
        words: the word of each code. Numbers among the words have the codes after these.
    """

    values: Floats
    present: Mask
    null: Mask
    is_text: bool = False
    is_time: bool = False
    stray_rows: Positions = field(default_factory=lambda: NO_ROWS)
    words: tuple[str, ...] = ()

    @property
    def strays(self) -> int:
        """The number of words among numbers, which were left out."""
        return len(self.stray_rows)

    @property
    def logged(self) -> Floats:
        """The present values, in the order of their records; not copied if all are present."""
        return self.values if self.present.all() else self.values[self.present]


@frozen(eq=True)
class BadLine:
    """A line that is not a record: its number, and the reason if it should be one.

    ``above`` is the number of records above it, and ``text`` may contain a message. A line
    ``is_short`` if it has fewer cells than the header, and ``has_words`` if several words replace a
    number.
    """

    line: int
    reason: str
    above: int = field(default=0, compare=False)
    text: str = field(default="", compare=False, repr=False)
    is_short: bool = field(default=False, compare=False, repr=False)
    has_words: bool = field(default=False, compare=False, repr=False)

    def moved(self, lines: int) -> BadLine:
        """Return a copy for a block that begins after this many lines of the log."""
        return replace(self, line=lines + self.line)


@frozen(eq=True)
class StoredRun:
    """One of several runs in a database: its id there, and its name."""

    id: str
    name: str


class Bar(Enum):
    """A progress bar: Keras, and maybe others, shows the mean loss since the epoch began."""

    KERAS = auto()
    OTHER = auto()


# This many columns are kept after they were loaded: step, epoch, loss, and a few more.
_RECENT_COLUMNS: Final = 8


@frozen
class Columns:
    """The columns of one log by name, in order of first appearance.

    Attributes:
        load: returns one column by name, so that unused columns cost nothing.
        bad_lines: the first few unreadable records.
        bad_count: the number of unreadable records.
        events: messages found in the log.
        config: the configuration in the log, in the form of a manifest.
        distinguishes_null: the format distinguishes a written null from a missing value.
        converted: the metadata of a converted log, whose columns are named by their roles and whose
            steps rise.
        unnamed: the log does not name its columns, so that their names were assumed.
        files: the files on disk that were read.
        parts: the rows of each attempt by its file, if several files make one log.
        ends: the rows before which a training ended.
        restarts: the rows with which another run begins, according to the total of its steps.
        epoch_length: the length of an epoch, if the step counter restarts and the log shows it.
        bar: the kind of progress bar that shows the losses, if one does.
        counter: the word in front of the steps of a text, such as ``episode``.
        other_runs: the number of other runs in the folder.
        stored: the runs of a database that holds several, the one that was read first.
        left_out: content that was not read but may have a loss. Only content after the last loss
            counts, which ``assemble`` decides.
        is_unknown: the values have a counter, but their names say nothing about their meaning.
        is_parsed: whether a column loads fast; the others may be read from the log again.
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
    distinguishes_null: bool = False
    converted: ConversionMetadata | None = None
    unnamed: bool = False
    files: tuple[str, ...] = ()
    parts: tuple[tuple[str, Positions], ...] = ()
    ends: tuple[int, ...] = ()
    restarts: tuple[int, ...] = ()
    epoch_length: int | None = None
    bar: Bar | None = None
    counter: str = ""
    other_runs: int = 0
    stored: tuple[StoredRun, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    is_unknown: bool = False
    is_parsed: ColumnFilter = every_column

    def with_columns(self, columns: Mapping[str, Column]) -> Columns:
        """Return a copy with derived columns, which replace columns of the same name."""
        load = self.load
        return replace(
            self,
            names=tuple(dict.fromkeys((*self.names, *columns))),
            load=lambda name: columns[name] if name in columns else load(name),
        )

    def with_recent(self) -> Columns:
        """Return a copy that keeps the columns loaded last: naming and counting use them again."""
        return replace(self, load=lru_cache(maxsize=_RECENT_COLUMNS)(self.load))

    def with_changed(self, change: Callable[[str, Column], Column]) -> Columns:
        """Return a copy whose columns are changed when they are loaded."""
        load = self.load
        return replace(self, load=lambda name: change(name, load(name)))
