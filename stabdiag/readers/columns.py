"""Raw columns: what a log holds, before anyone has decided what it means; and how they grow.

A log is read in blocks, and each block has a piece of each column. A block may come from Arrow or
from a tolerant reader, and may have another type in a column than its neighbours do. Whether a
column holds numbers or words in the end is decided here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, Protocol, TypeAlias

import numpy as np

from stabdiag.model.arrays import Bytes, Floats, Mask, Positions
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, LeftOut
from stabdiag.readers.converted import Told
from stabdiag.readers.words import (
    ABSENT,
    NULL,
    NUMBER,
    WORD,
    counts_of,
    meaning,
    meaning_of,
    seconds_of,
)

Wanted: TypeAlias = Callable[[str], bool]

# How many unreadable records of a log are kept, to be shown with --verbose.
SHOWN: Final = 20

# What pandas calls the column of row numbers that it writes without a name.
INDEX: Final = "index"

NO_ROWS: Final[Positions] = np.empty(0, dtype=np.intp)

# From here on floats do not tell whole numbers apart.
EXACT: Final = 2.0**53


def every_column(_name: str) -> bool:
    """Want all columns, whatever their names."""
    return True


@frozen
class Column:
    """One column, with one entry for each record (all arrays have the length ``rows``).

    ``values`` are float64; they count only where ``present``. A NaN that was *written* (``NaN``,
    ``"nan"``, ``-inf``, …) is present. ``null`` marks entries that were explicitly written as null
    or blank, unlike keys that a record lacks; it is False wherever ``present``. ``is_text`` says
    that the column holds words: the values are then arbitrary codes, equal for equal words, that
    serve only to be compared. ``words`` has the word of each code; numbers among the words have
    the codes after these. ``is_time`` says that the words spelt times: the values are seconds.
    ``stray_rows`` are the records with a word among numbers, or with another text among times.
    A word without a digit is a null; all else is neither present nor null.
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
        """The number of entries that were left out: words among numbers."""
        return len(self.stray_rows)

    @property
    def logged(self) -> Floats:
        """The values that count, in the order of their records: no copy where all of them do."""
        return self.values if self.present.all() else self.values[self.present]


@frozen(eq=True)
class BadLine:
    """A line that is no record: where, and what was wrong with it, if anything.

    ``above`` is how many records stand above it, and ``text`` is what may say something else.
    """

    line: int
    reason: str
    above: int = field(default=0, compare=False)
    text: str = field(default="", compare=False, repr=False)

    def moved(self, lines: int) -> BadLine:
        """Return the same for a block that begins after so many lines of the log."""
        return replace(self, line=lines + self.line)


@frozen
class Columns:
    """The columns of one log by name, in the order in which they first appear.

    ``load(name)`` returns one column, so that a log of thousands of columns costs only those that
    are used. ``bad_lines`` holds the first few unreadable records, ``bad_count`` counts them all.
    ``events`` are messages found in the log, and ``config`` is what the log itself says about the
    run's configuration, in the form of a manifest. ``tells_null`` says that the format
    distinguishes a null that was written from a value that was not. ``settled`` is what a converted
    log says: each of its columns has the name of its role, and the steps rise. ``unnamed`` says
    that the log names no column, so that what they are was assumed. ``files`` are the files on disk
    that were read, and ``parts`` has the rows of each attempt by its file, where several files make
    one log. ``other_runs`` is the number of other runs in the folder in which it was chosen.
    ``ends`` are the rows before which the log says that a training had ended. ``epoch_length`` is
    what a step counter that restarts with each epoch counts up to, if
    the log says so. ``left_out`` is what a reader could not use although it may hold a loss: only
    what follows the last loss counts, and ``assemble`` decides that.
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
    files: tuple[str, ...] = ()
    parts: tuple[tuple[str, Positions], ...] = ()
    ends: tuple[int, ...] = ()
    epoch_length: int | None = None
    other_runs: int = 0
    left_out: tuple[LeftOut, ...] = ()


_PLAIN = frozenset({float, int, bool})


@frozen
class Piece:
    """A stretch of one column.

    ``states`` says whether each entry is absent, a number, null or a word (see ``words.py``);
    ``values`` holds the numbers, and ``words`` the words in their order.
    """

    values: Floats
    states: Bytes
    words: Sequence[str] = ()


def piece_of_numbers(numbers: Floats, gaps: Mask | None = None, *, gap: int = NULL) -> Piece:
    """Return the piece that numbers make; where there are ``gaps``, they have the state ``gap``."""
    states = np.full(len(numbers), NUMBER, dtype=np.uint8)
    if gaps is not None:
        states[gaps] = gap
    return Piece(values=numbers, states=states)


def piece_of(values: Sequence[object]) -> Piece:
    """Return the piece that Python values make."""
    if _PLAIN.issuperset(map(type, values)):
        try:
            return piece_of_numbers(np.array(values, dtype=np.float64))
        except OverflowError:
            pass
    return piece_of_meanings(map(meaning_of, values))


def piece_of_cells(cells: Sequence[str]) -> Piece:
    """Return the piece that cells make, which are texts."""
    joined = "".join(cells)
    if "_" not in joined and joined.isascii():
        try:
            if all(cells):
                return piece_of_numbers(np.fromiter(map(float, cells), np.float64, len(cells)))
            # Most columns of a table of several kinds of records have blanks.
            numbers = np.array([float(cell) if cell else np.nan for cell in cells])
            return piece_of_numbers(numbers, np.array([not cell for cell in cells]))
        except ValueError:
            pass
    return piece_of_meanings(map(meaning, cells))


def piece_of_meanings(meanings: Iterable[tuple[int, float, str]]) -> Piece:
    """Return the piece that entries make, given as state, number and word (``words.meaning``)."""
    entries = list(meanings)
    return Piece(
        values=np.array([number for _, number, _ in entries], dtype=np.float64),
        states=np.array([state for state, _, _ in entries], dtype=np.uint8),
        words=[word for state, _, word in entries if state == WORD],
    )


class Chunk(Protocol):
    """One block of records, read."""

    @property
    def rows(self) -> int:
        """How many records the block holds."""

    @property
    def names(self) -> Sequence[str]:
        """The columns that the block knows, in the order in which they first appear."""

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column, or None if it has none."""


@frozen
class Rows:
    """A chunk in which each column has its own rows, or all of them (None).

    A log whose records all have different keys thus takes memory for its entries alone, not for a
    table of all rows and all columns.
    """

    rows: int
    parts: dict[str, list[tuple[Positions | None, Piece]]] = field(default_factory=dict)

    @classmethod
    def of(cls, pieces: Mapping[str, Piece]) -> Rows:
        """Return the chunk of columns that all have an entry in each row."""
        rows = len(next(iter(pieces.values())).values)
        return cls(rows=rows, parts={name: [(None, piece)] for name, piece in pieces.items()})

    @property
    def names(self) -> Sequence[str]:
        """The columns in the order in which they first appear."""
        return list(self.parts)

    def piece(self, name: str) -> Piece | None:
        """Return the column spread over all rows."""
        parts = self.parts.get(name)
        if parts is None:
            return None
        if len(parts) == 1 and parts[0][0] is None:
            return parts[0][1]
        values = np.full(self.rows, np.nan)
        states = np.full(self.rows, ABSENT, dtype=np.uint8)
        spelt = np.full(self.rows, None, dtype=object)
        for rows, part in parts:
            where = np.arange(self.rows) if rows is None else rows
            values[where] = part.values
            states[where] = part.states
            spelt[where[part.states == WORD]] = part.words
        return Piece(values=values, states=states, words=spelt[states == WORD].tolist())


def rows_of(records: Sequence[dict[str, object]], order: Sequence[str] | None = None) -> Rows:
    """Return the chunk that flat records make, its columns in the order given."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, record in enumerate(records):
        groups.setdefault(tuple(record), []).append(row)
    chunk = Rows(rows=len(records), parts={_printable(name): [] for name in order or ()})
    for keys, rows in groups.items():
        where = None if len(rows) == len(records) else np.array(rows, dtype=np.intp)
        columns = zip(*(records[row].values() for row in rows), strict=True)
        for key, column in zip(keys, columns, strict=False):
            chunk.parts.setdefault(_printable(key), []).append((where, piece_of(column)))
    return chunk


def _printable(name: str) -> str:
    """Return the name without lone surrogates, which JSON can spell and no output can."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def names_in(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return the columns of all chunks, in the order in which they first appear."""
    return tuple(dict.fromkeys(name for chunk in chunks for name in chunk.names))


def rows_in(chunks: Iterable[Chunk]) -> int:
    """Return how many records all chunks hold."""
    return sum(chunk.rows for chunk in chunks)


def join(chunks: Sequence[Chunk], name: str) -> Column:
    """Return the whole column that the chunks' pieces make."""
    if len(chunks) == 1 and (whole := chunks[0].piece(name)) is not None:
        return _column(whole.values, whole.states, whole.words)
    rows = rows_in(chunks)
    values = np.empty(rows)
    states = np.zeros(rows, dtype=np.uint8)
    words: list[str] = []
    start = 0
    for chunk in chunks:
        piece = chunk.piece(name)
        if piece is not None:
            values[start : start + chunk.rows] = piece.values
            states[start : start + chunk.rows] = piece.states
            words.extend(piece.words)
        start += chunk.rows
    return _column(values, states, words)


def _column(values: Floats, states: Bytes, words: Sequence[str]) -> Column:
    """Return a column of numbers; if words outnumber them, of times, positions or codes."""
    numbers = states == NUMBER
    if numbers.all():
        return all_numbers(values)
    null = states == NULL
    if len(words) <= np.count_nonzero(numbers):
        values = np.where(numbers, values, np.nan)
        word = states == WORD
        counts = counts_of(words) if words else None
        if counts is not None:
            # 200/400 among steps that were written as 199.
            values[word] = counts
            return Column(values=values, present=numbers | word, null=null)
        strays = np.flatnonzero(word)
        # A word with digits in it may be a number that is spelled in another way: it is not a null.
        word[strays] = [not any(map(str.isdigit, text)) for text in words]
        return Column(values=values, present=numbers, null=null | word, stray_rows=strays)
    times = seconds_of(words)
    spelt = counts_of(words) if times is None else times
    if spelt is not None:
        return _spelt(spelt, states, is_time=times is not None)
    code = {word: number for number, word in enumerate(dict.fromkeys(words))}
    codes = np.full(len(values), np.nan)
    codes[states == WORD] = list(map(code.__getitem__, words))
    # Numbers among words are told apart by their value: 1 and 1.0 are one word.
    _, rank = np.unique(values[numbers], return_inverse=True)
    codes[numbers] = rank + len(code)
    return Column(
        values=codes, present=numbers | (states == WORD), null=null, is_text=True, words=tuple(code)
    )


def all_numbers(values: Floats) -> Column:
    """Return a column that holds nothing but numbers; to say so takes no memory."""
    rows = len(values)
    return Column(
        values=values, present=np.broadcast_to(True, rows), null=np.broadcast_to(False, rows)
    )


def _spelt(numbers: Floats, states: Bytes, *, is_time: bool) -> Column:
    values = np.full(len(states), np.nan)
    values[states == WORD] = numbers
    present = np.isfinite(values)
    null = states == NULL
    strays = np.flatnonzero(~present & ~null & (states != ABSENT))
    return Column(values=values, present=present, null=null, is_time=is_time, stray_rows=strays)
