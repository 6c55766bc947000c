"""The rows of a scan as CSV, a column for each field and for each setting that any run tells."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING

from stabdiag.formats.measured import visible
from stabdiag.formats.scans.structured import SCALARS

if TYPE_CHECKING:
    from stabdiag.model.scan import Overview

# With one of these a cell begins that a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@")


def render(overview: Overview) -> str:
    """Return the rows as CSV, the worst first."""
    names = dict.fromkeys(key for row in overview.rows for key in row.settings)
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*SCALARS, *(escape(f"settings.{key}") for key in names)])
    for row in overview.rows:
        told = [getattr(row, name) for name in SCALARS]
        told += [row.settings.get(key) for key in names]
        writer.writerow([escape(one) if isinstance(one, str) else one for one in told])
    return text.getvalue()


def escape(text: str) -> str:
    """Return log text as a cell that no spreadsheet takes for a formula, on one line."""
    shown = visible(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) and not _number(shown) else shown


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
