"""The meaning of the cells of a column: numbers, words, and cells without a value."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.pieces import Piece, piece_of_meanings, piece_of_numbers
from stabdiag.readers.text.lines.shapes import Cells
from stabdiag.readers.text.lines.values import NULL_CELL
from stabdiag.readers.words import ABSENT, NULL, meaning

_THOUSANDS_COMMA: Final = lazy_pattern(rb",(?=\d{3}(?:\D|$))")


def make_cell_piece(cells: Cells) -> Piece:
    """Return cells as a piece. None marks a cell that is missing from its line."""
    if NULL_CELL not in cells:
        try:
            numbers = map(float, cells)  # type: ignore[arg-type]  # None is caught
            return piece_of_numbers(np.fromiter(numbers, np.float64, len(cells)))
        except (TypeError, ValueError):
            pass
    return piece_of_meanings(map(_meaning, cells))


def _meaning(cell: bytes | None) -> tuple[int, float, str]:
    """Return the meaning of a cell. A number may have thousands separators: 7,012."""
    if cell is None:
        return ABSENT, np.nan, ""
    if cell == NULL_CELL:
        return NULL, np.nan, ""
    return meaning(
        (_THOUSANDS_COMMA.sub(b"", cell) if b"," in cell else cell).decode("utf-8", "replace")
    )
