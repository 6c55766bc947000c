"""Decimal commas in the cells of CSV, as spreadsheets write them in most of Europe."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.words import meaning

# Numbers with a decimal comma, and a point between the thousands.
DECIMAL_COMMA: Final = lazy_pattern(
    r"[-+]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d+(?:[eE][-+]?\d+)?", re.ASCII
)
_COMMA_IN_NUMBER: Final = lazy_pattern(r"\d,\d")
_POINT_THOUSANDS: Final = lazy_pattern(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+", re.ASCII)
_COMMA_THOUSANDS: Final = lazy_pattern(r"[-+]?[1-9]\d{0,2},\d{3}", re.ASCII)


def with_points(cells: Sequence[str]) -> list[str]:
    """Replace the decimal commas of cells by points."""
    return [
        cell.replace(".", "").replace(",", ".")
        if ("," in cell and DECIMAL_COMMA.fullmatch(cell))
        or ("." in cell and _POINT_THOUSANDS.fullmatch(cell))
        else cell
        for cell in cells
    ]


def without_decimal_commas(rows: list[list[str]], delimiter: str) -> tuple[list[list[str]], bool]:
    """Return rows with decimal points, and whether they had decimal commas."""
    commas = _has_commas(rows, delimiter)
    return (list(map(with_points, rows)) if commas else rows), commas


def _has_commas(rows: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Return True if these rows have decimal commas.

    They have none if a number has a decimal point: ``0,1`` is a list then. An ambiguous number such
    as 2.513 has a thousands separator only if a column that changes has mostly commas. Quoted cells
    between commas, as in 12,"2,513", may have thousands separators only.
    """
    cells = [cell for row in rows for cell in row]
    if _COMMA_IN_NUMBER.search(" ".join(cells)) is None:
        return False
    with_comma = list(filter(DECIMAL_COMMA.fullmatch, cells))
    if not with_comma or (delimiter == "," and all(map(_COMMA_THOUSANDS.fullmatch, with_comma))):
        return False
    with_point = [cell for cell in cells if "." in cell and not DECIMAL_COMMA.fullmatch(cell)]
    decimals = [cell for cell in with_point if not _POINT_THOUSANDS.fullmatch(cell)]
    # torch.nan is none of them.
    if any(math.isfinite(meaning(cell)[1]) for cell in decimals):
        return False
    thousands = len(with_point) > len(decimals)
    columns = zip(*(row for row in rows if len(row) == len(rows[0])), strict=True)
    return not thousands or any(
        len(set(column)) > 1
        and 2 * sum(map(bool, map(DECIMAL_COMMA.fullmatch, column))) > len(column)
        for column in columns
    )
