"""The cells that were found in a text log, as columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.readers.chunks import Rows, join
from stabdiag.readers.columns import Columns
from stabdiag.readers.pieces import Piece, piece_of_meanings, piece_of_numbers
from stabdiag.readers.words import ABSENT, meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.readers.source import Stream
    from stabdiag.readers.text.grammar import Cells

_THOUSANDS: Final = re.compile(rb",(?=\d{3}(?:\D|$))")


def piece_of(cells: Cells) -> Piece:
    """Return the piece that cells make; None is a cell that its line does not have."""
    # int() takes half the time of float(), and gives up at the first cell that is no whole number.
    for number in (int, float):
        try:
            read = map(number, cells)  # type: ignore[arg-type]  # None is caught
            return piece_of_numbers(np.fromiter(read, np.float64, len(cells)))
        except (TypeError, ValueError, OverflowError):
            continue
    return piece_of_meanings(map(_meaning, cells))


def columns_of(stream: Stream, format: str, names: Sequence[str], rows: Sequence[Cells]) -> Columns:
    """Return the columns of a table that was printed; of equal names the first one counts."""
    pieces: dict[str, Piece] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        pieces.setdefault(name, piece_of(column))
    table = Rows.of(pieces)
    return Columns(
        source=stream.name,
        format=format,
        names=tuple(table.names),
        rows=table.rows,
        load=lambda name: join([table], name),
        notes=tuple(stream.notes),
    )


def _meaning(cell: bytes | None) -> tuple[int, float, str]:
    """Return what a cell means; the thousands of a number may be set apart: 7,012."""
    if cell is None:
        return ABSENT, np.nan, ""
    return meaning((_THOUSANDS.sub(b"", cell) if b"," in cell else cell).decode("utf-8", "replace"))
