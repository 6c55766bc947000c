"""The columns of two tables below each other, under the names of the first one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from stabdiag.readers.columns import NO_ROWS, Column, Columns


def source_names(later: Columns, own: Mapping[str, str]) -> dict[str, str]:
    """Return the names in the second table by the names in both.

    ``own`` maps its names to names of the first table, or to "" to leave a column out. A column is
    also left out if another one is mapped to its name.
    """
    targets = set(own.values())
    sources = {own[name]: name for name in later.names if name in own}
    sources |= {name: name for name in later.names if name not in own and name not in targets}
    sources.pop("", None)
    return sources


def stacked(
    columns: Columns, later: Columns, sources: Mapping[str, str]
) -> Callable[[str], Column]:
    """Return a function that loads a column of both tables; see ``source_names``."""

    def load(name: str) -> Column:
        second = later.load(sources[name]) if name in sources else blank(later.rows)
        if name not in columns.names:
            first = replace(blank(columns.rows), is_text=second.is_text, words=second.words)
        else:
            first = columns.load(name)
            # The codes of the words differ, and words among numbers are unreadable values.
            if first.is_text or second.is_text:
                is_among_numbers = second.is_text and not first.is_text
                words = np.flatnonzero(second.present) if is_among_numbers else NO_ROWS
                second = replace(blank(later.rows), stray_rows=words)
        return replace(
            first,
            values=np.concatenate([first.values, second.values]),
            present=np.concatenate([first.present, second.present]),
            null=np.concatenate([first.null, second.null]),
            is_time=first.is_time or second.is_time,
            stray_rows=np.concatenate([first.stray_rows, second.stray_rows + columns.rows]),
        )

    return load


def blank(rows: int) -> Column:
    """Return a column without values."""
    return Column(
        values=np.full(rows, np.nan),
        present=np.zeros(rows, dtype=np.bool_),
        null=np.zeros(rows, dtype=np.bool_),
    )
