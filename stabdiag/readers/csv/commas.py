"""Numbers whose decimal point is a comma, as Excel writes them in most of Europe."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stabdiag.readers.words import NUMBER, meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

# Numbers where the comma is the decimal point, and the point parts the thousands.
_COMMA: Final = re.compile(r"[-+]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][-+]?\d+)?", re.ASCII)
_THOUSANDS: Final = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+", re.ASCII)


def with_points(cells: Sequence[str]) -> list[str]:
    """Return cells whose numbers have decimal commas with points instead."""
    return [
        cell.replace(".", "").replace(",", ".")
        if _COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell)
        else cell
        for cell in cells
    ]


def pointed(rows: list[list[str]], delimiter: str) -> tuple[list[list[str]], bool]:
    """Return rows with decimal points, and whether they were written with decimal commas."""
    commas = _has_commas(rows, delimiter)
    return (list(map(with_points, rows)) if commas else rows), commas


def _has_commas(rows: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Tell whether the comma is the decimal point in these rows.

    A number with a point that sets no thousands apart rules that out: ``0,1`` beside it is a list.
    What may be either, such as 2.513, is thousands only if a column that changes has mostly commas.
    """
    cells = [cell for row in rows for cell in row]
    if delimiter == "," or not any(map(_COMMA.fullmatch, cells)):
        return False
    pointed = [cell for cell in cells if "." in cell and not _COMMA.fullmatch(cell)]
    decimals = [cell for cell in pointed if not _THOUSANDS.fullmatch(cell)]
    if any(meaning(cell)[0] == NUMBER for cell in decimals):
        return False
    thousands = len(pointed) > len(decimals)
    columns = zip(*(row for row in rows if len(row) == len(rows[0])), strict=True)
    return not thousands or any(
        len(set(column)) > 1 and 2 * sum(map(bool, map(_COMMA.fullmatch, column))) > len(column)
        for column in columns
    )
