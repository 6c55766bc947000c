"""Combine scalars that were written one by one into records.

TensorBoard and MLflow write one point (tag, step, value) at a time. All points of a step become one
record. If the step of a tag falls, a new attempt begins.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.model.arrays import Ints, Mask
from stabdiag.model.events import Event
from stabdiag.readers.columns import Columns
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.pieces import Rows, piece_of_numbers
from stabdiag.readers.words import ABSENT

_STEP_COLUMN = "step"
_TIME_COLUMN = "wall_time"


class Points:
    """Points in the order of writing, or ordered by their times (``by_time``)."""

    def __init__(self, *, by_time: bool = False) -> None:
        self._by_time = by_time
        self._numbers: dict[str, int] = {}
        self._tags = array("q")
        self._steps = array("q")
        self._values = array("d")
        self._clock = array("d")

    def __len__(self) -> int:
        return len(self._tags)

    def add(self, tag: str, step: int, value: float, *, clock: float = 0.0) -> None:
        """Add a point; ``clock`` is its time in seconds, or 0 if unknown.

        Points with the same time keep the order of insertion.
        """
        self._tags.append(self._numbers.setdefault(tag, len(self._numbers)))
        self._steps.append(step)
        self._values.append(value)
        self._clock.append(clock)

    def extend(self, later: Points, rename: Callable[[str], str] = str) -> None:
        """Add the points that were written after these, with other names for their tags."""
        names = [rename(tag) for tag in later._numbers]
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names]
        self._tags.extend(numbers[number] for number in later._tags)
        self._steps.extend(later._steps)
        self._values.extend(later._values)
        self._clock.extend(later._clock)

    def columns(
        self,
        *,
        source: str,
        format: str,
        notes: tuple[str, ...] = (),
        events: tuple[Event, ...] = (),
        config: Mapping[str, object] | None = None,
    ) -> Columns:
        """Return a column of steps, one for each tag, and one of the time if there is any.

        If all points have the same step, they were written without one: row numbers are used.

        Raises:
            NoUsableRecord: If no point was added.
        """
        if not len(self):
            note = f" ({notes[0]})" if notes else ""
            raise NoUsableRecord(f"{source}: no record could be read; it holds no scalars{note}")
        clock = np.frombuffer(self._clock, dtype=np.float64)
        order = np.argsort(clock, kind="stable") if self._by_time else np.arange(len(clock))
        tags = np.frombuffer(self._tags, dtype=np.int64)[order]
        steps = np.frombuffer(self._steps, dtype=np.int64)[order]
        values = np.frombuffer(self._values, dtype=np.float64)[order]
        row_of_point, at = _records(tags, steps)
        counted = len(at) == 1 or bool((steps != steps[0]).any())
        by_tag = np.argsort(tags, kind="stable")
        ends = np.cumsum(np.bincount(tags)).tolist()
        rows = Rows(rows=len(at))
        if counted:
            step = piece_of_numbers(at.astype(np.float64))
            rows.parts[_STEP_COLUMN] = [(None, step)]
        for name, number in self._numbers.items():
            own_points = by_tag[ends[number - 1] if number else 0 : ends[number]]
            if name not in rows.parts:
                rows.parts[name] = [
                    (row_of_point[own_points], piece_of_numbers(values[own_points]))
                ]
        # The time of the last point of each record, 0 if unknown.
        written = np.zeros(len(at))
        written[row_of_point] = clock[order]
        if (written > 0).any():
            times = piece_of_numbers(written, written <= 0, gap=ABSENT)
            rows.parts.setdefault(_TIME_COLUMN, [(None, times)])
        columns = columns_from_chunks([rows], source=source, format=format, notes=notes)
        return replace(columns, events=events, config=config or {})


def _records(tags: Ints, steps: Ints) -> tuple[Ints, Ints]:
    """Return the record of each point, shape (points,), and the step of each record.

    There is one for each attempt, step, and repetition of a tag at a step.
    """
    attempts = _attempts(tags, steps)
    order = np.lexsort((steps, tags, attempts))
    is_repeated = _same(order, attempts, tags, steps)
    number = np.arange(len(order))
    repetition = np.empty(len(order), dtype=np.int64)
    repetition[order] = number - np.maximum.accumulate(np.where(is_repeated, 0, number))
    order = np.lexsort((repetition, steps, attempts))
    first = ~_same(order, attempts, steps, repetition)
    rows = np.empty(len(order), dtype=np.int64)
    rows[order] = np.cumsum(first) - 1
    return rows, steps[order][first]


def _same(order: Ints, *keys: Ints) -> Mask:
    """Return a mask of the points with the same keys as the previous point in the order."""
    same = np.ones(len(order), dtype=np.bool_)
    same[0] = False
    for key in keys:
        ordered = key[order]
        same[1:] &= ordered[1:] == ordered[:-1]
    return same


def _attempts(tags: Ints, steps: Ints) -> Ints:
    """Number the attempts: a new one begins where the step of a tag falls."""
    order = np.argsort(tags, kind="stable")
    falls = (np.diff(tags[order]) == 0) & (np.diff(steps[order]) < 0)
    attempts = np.zeros(len(tags), dtype=np.int64)
    if not falls.any():
        return attempts
    last: dict[int, int] = {}
    attempt = 0
    for point, (tag, step) in enumerate(zip(tags.tolist(), steps.tolist(), strict=True)):
        if step < last.get(tag, step):
            attempt += 1
            last.clear()
        last[tag] = step
        attempts[point] = attempt
    return attempts
