"""The rows of several files as those of one log, and their columns.

Attempts at a run stand one after the other; what stands beside them goes to the rows of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.readers.columns import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stabdiag.model.arrays import Floats
    from stabdiag.readers.columns import Columns

    Rows = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """One file: its names of columns by those in the whole, and its steps, NaN if it has none.

    ``file`` is its name, just long enough to differ from those of the others.
    """

    columns: Columns
    file: str
    roles: dict[str, str]
    names: dict[str, str]
    steps: Floats

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest step; infinite where there is none."""
        logged = self.steps[np.isfinite(self.steps)]
        return (float(logged.min()), float(logged.max())) if len(logged) else (np.inf, np.inf)


def rows_of(training: list[Piece], beside: list[Piece]) -> list[Rows]:
    """Return the row in the whole of each row of each part.

    Rows beside the attempts go to the row of their step, or become new rows. Where steps go back,
    new rows come last, since the order of the others has a meaning.
    """
    steps = np.concatenate([part.steps for part in training])
    ends = np.cumsum([len(part.steps) for part in training])
    rows = [np.arange(end - len(part.steps), end) for end, part in zip(ends, training, strict=True)]
    for part in beside:
        order = np.argsort(steps, kind="stable")
        at = np.searchsorted(steps[order], part.steps, side="right") - 1
        last = order[np.maximum(at, 0)]
        there = (at >= 0) & (steps[last] == part.steps)
        new = len(steps) + np.cumsum(~there) - 1
        rows.append(np.where(there, last, new))
        steps = np.append(steps, part.steps[~there])
    if beside and np.all(np.diff(steps[: ends[-1]]) >= 0):  # False without steps, too
        place = np.empty(len(steps), np.intp)
        place[np.argsort(steps, kind="stable")] = np.arange(len(steps))
        rows = [place[where] for where in rows]
    return rows


def count_of(rows: Sequence[Rows]) -> int:
    """Return how many rows the whole has."""
    return 1 + max((int(where.max()) for where in rows if len(where)), default=-1)


def loaded(parts: Sequence[Piece], rows: Sequence[Rows], total: int, name: str) -> Column:
    """Return a column of the whole; words count only where no file has numbers."""
    values = np.full(total, np.nan)
    present, null = np.zeros(total, bool), np.zeros(total, bool)
    found = [
        (part.columns.load(part.names[name]), where)
        for part, where in zip(parts, rows, strict=True)
        if name in part.names
    ]
    is_text = all(column.is_text for column, _ in found)
    strays = codes = 0
    words: list[str] = []
    for column, where in found:
        strays += column.strays
        if column.is_text and not is_text:
            strays += int(column.present.sum())
            continue
        # The codes of words are each file's own: two files' words are never taken for equal.
        shift = codes if is_text else 0
        values[where[column.present]] = column.values[column.present] + shift
        if is_text:
            codes += int(np.max(column.values[column.present], initial=-1)) + 1
            words += column.words[: codes - shift]
            words += [""] * (codes - len(words))  # for the numbers among them
        present[where] |= column.present
        null[where] |= column.null
    return Column(
        values=values,
        present=present,
        null=null & ~present,
        is_text=is_text,
        is_time=any(column.is_time for column, _ in found),
        strays=strays,
        words=tuple(words),
    )
