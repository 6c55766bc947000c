"""Build columns block by block, from a piece of each column in each block of a log.

A block may come from Arrow or from a tolerant reader, and the type of a column may differ between
blocks. Only this module decides whether a column has numbers or words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Protocol

import numpy as np

from stabdiag.model.arrays import Bytes, Floats, Mask, Positions
from stabdiag.model.frozen import frozen
from stabdiag.readers.columns import Column
from stabdiag.readers.words import (
    ABSENT,
    NULL,
    NUMBER,
    WORD,
    decoded_meaning,
    leading_counts,
    meaning,
    spelled_seconds,
)

_SCALAR_TYPES = frozenset({float, int, bool})


@frozen
class Piece:
    """A stretch of one column.

    ``states`` marks each entry as absent, a number, null or a word (see ``words.py``). ``values``
    has the numbers, and ``words`` the words in order.
    """

    values: Floats
    states: Bytes
    words: Sequence[str] = ()


def piece_of_numbers(numbers: Floats, gaps: Mask | None = None, *, gap: int = NULL) -> Piece:
    """Return a piece of numbers. Entries in ``gaps`` get the state ``gap``."""
    states = np.full(len(numbers), NUMBER, dtype=np.uint8)
    if gaps is not None:
        states[gaps] = gap
    return Piece(values=numbers, states=states)


def make_piece(values: Sequence[object]) -> Piece:
    """Return a piece of Python values."""
    if _SCALAR_TYPES.issuperset(map(type, values)):
        try:
            return piece_of_numbers(np.array(values, dtype=np.float64))
        except OverflowError:
            pass
    return piece_of_meanings(map(decoded_meaning, values))


def piece_of_cells(cells: Sequence[str]) -> Piece:
    """Return a piece of text cells."""
    joined = "".join(cells)
    if "_" not in joined and joined.isascii():
        try:
            if all(cells):
                return piece_of_numbers(np.fromiter(map(float, cells), np.float64, len(cells)))
            # If records differ in kind, most columns have blanks.
            numbers = np.array([float(cell) if cell else np.nan for cell in cells])
            return piece_of_numbers(numbers, np.array([not cell for cell in cells]))
        except ValueError:
            pass
    return piece_of_meanings(map(meaning, cells))


def piece_of_meanings(meanings: Iterable[tuple[int, float, str]]) -> Piece:
    """Return a piece of entries of state, number and word (``words.meaning``)."""
    entries = list(meanings)
    return Piece(
        values=np.array([number for _, number, _ in entries], dtype=np.float64),
        states=np.array([state for state, _, _ in entries], dtype=np.uint8),
        words=[word for state, _, word in entries if state == WORD],
    )


class Chunk(Protocol):
    """One block of records."""

    @property
    def rows(self) -> int:
        """The number of records in the block."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns, in the order of first appearance."""

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column, or None if it has none."""


@frozen
class Rows:
    """A chunk whose columns have their own rows, or all rows (None).

    If all records have different keys, this takes memory only for the entries, not for a table of
    all rows and all columns.
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
        """The columns in the order of first appearance."""
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
        if not parts:
            return Piece(values=values, states=states)
        words_by_row = np.full(self.rows, None, dtype=object)
        # Together: each record may have a part of its own.
        where = np.concatenate([np.arange(self.rows) if at is None else at for at, _ in parts])
        all_states = np.concatenate([part.states for _, part in parts])
        values[where] = np.concatenate([part.values for _, part in parts])
        states[where] = all_states
        words = [word for _, part in parts for word in part.words]
        words_by_row[where[all_states == WORD]] = words
        return Piece(values=values, states=states, words=words_by_row[states == WORD].tolist())


def record_rows(records: Sequence[dict[str, object]], order: Sequence[str] | None = None) -> Rows:
    """Return a chunk of flat records, with its columns in the given order."""
    chunk = Rows(rows=len(records), parts={_printable(name): [] for name in order or ()})
    for keys, rows in _rows_by_keys(records).items():
        where = None if rows is None else np.array(rows, dtype=np.intp)
        group = records if rows is None else [records[row] for row in rows]
        columns = zip(*map(dict.values, group), strict=True)
        for key, column in zip(keys, columns, strict=False):
            chunk.parts.setdefault(_printable(key), []).append((where, make_piece(column)))
    return chunk


def _rows_by_keys(
    records: Sequence[dict[str, object]],
) -> Mapping[tuple[str, ...], list[int] | None]:
    """Return the rows of the records with the same keys, or None if all records have them."""
    first = tuple(records[0]) if records else ()
    if all(map(first.__eq__, map(tuple, records))):
        return {first: None}
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, record in enumerate(records):
        groups.setdefault(tuple(record), []).append(row)
    return groups


def _printable(name: str) -> str:
    """Return the name without lone surrogates, which JSON can encode but no output can."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def column_names(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return the names of the columns of all chunks, in the order of first appearance."""
    return tuple(dict.fromkeys(name for chunk in chunks for name in chunk.names))


def count_rows(chunks: Iterable[Chunk]) -> int:
    """Return the number of records in all chunks."""
    return sum(chunk.rows for chunk in chunks)


def join(chunks: Sequence[Chunk], name: str) -> Column:
    """Join the pieces of a column."""
    if len(chunks) == 1 and (piece := chunks[0].piece(name)) is not None:
        return _column(piece.values, piece.states, piece.words)
    rows = count_rows(chunks)
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
    """Return a column of numbers, or of times, positions or codes if most entries are words."""
    numbers = states == NUMBER
    if numbers.all():
        return all_numbers(values)
    null = states == NULL
    if len(words) <= np.count_nonzero(numbers):
        values = np.where(numbers, values, np.nan)
        word = states == WORD
        counts = leading_counts(words) if words else None
        if counts is not None:
            # 200/400 among steps that were written as 199.
            values[word] = counts
            return Column(values=values, present=numbers | word, null=null)
        strays = np.flatnonzero(word)
        # A word with digits may be a number in an unknown format: it is not a null.
        word[strays] = [not any(map(str.isdigit, text)) for text in words]
        return Column(values=values, present=numbers, null=null | word, stray_rows=strays)
    times = spelled_seconds(words)
    if times is not None:
        return _from_times(times, states)
    counts = leading_counts(words)
    if counts is not None:
        values = np.where(numbers, values, np.nan)
        values[states == WORD] = counts
        return Column(values=values, present=numbers | (states == WORD), null=null)
    code = {word: number for number, word in enumerate(dict.fromkeys(words))}
    codes = np.full(len(values), np.nan)
    codes[states == WORD] = list(map(code.__getitem__, words))
    # Numbers among words are distinguished by value: 1 and 1.0 are one word.
    _, rank = np.unique(values[numbers], return_inverse=True)
    codes[numbers] = rank + len(code)
    return Column(
        values=codes, present=numbers | (states == WORD), null=null, is_text=True, words=tuple(code)
    )


def all_numbers(values: Floats) -> Column:
    """Return a column with only numbers. Its masks take no memory."""
    present, null = _constant_masks(len(values))
    return Column(values=values, present=present, null=null)


@lru_cache(maxsize=8)
def _constant_masks(rows: int) -> tuple[Mask, Mask]:
    return np.broadcast_to(True, rows), np.broadcast_to(False, rows)


def _from_times(times: Floats, states: Bytes) -> Column:
    values = np.full(len(states), np.nan)
    values[states == WORD] = times
    present = np.isfinite(values)
    null = states == NULL
    strays = np.flatnonzero(~present & ~null & (states != ABSENT))
    return Column(values=values, present=present, null=null, is_time=True, stray_rows=strays)
