"""Pieces: stretches of one column, from which whole columns are joined.

A log is read in blocks, and each block has a piece of each column. The pieces of one column may
come from Arrow or from a tolerant reader, and may be of different types: see ``chunks.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.readers.words import NULL, NUMBER, WORD, meaning, meaning_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stabdiag.model.arrays import Floats, Mask

_PLAIN = frozenset({float, int, bool})


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """A stretch of one column.

    ``states`` says whether each entry is absent, a number, null or a word (see ``words.py``);
    ``values`` holds the numbers, and ``words`` the words in their order.
    """

    values: Floats
    states: NDArray[np.uint8]
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


def stretched(pieces: Sequence[Piece]) -> Piece:
    """Return several pieces joined into one."""
    return Piece(
        values=np.concatenate([np.empty(0), *(piece.values for piece in pieces)]),
        states=np.concatenate([np.empty(0, np.uint8), *(piece.states for piece in pieces)]),
        words=[word for piece in pieces for word in piece.words],
    )
