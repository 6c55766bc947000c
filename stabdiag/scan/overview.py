"""What the rows of a scan say together: counts, the worst runs, like failures, changes.

Rows are gone through a table at a time; of a run that is well nothing is held.
"""

from __future__ import annotations

import fnmatch
import heapq
import math
import operator
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.model.arrays import Ints
from stabdiag.model.scan import Change, Changes, Count, Group, Overview, Row, Unread
from stabdiag.scan.common import in_common
from stabdiag.scan.rows import SCHEMA, SEVERITIES, Rows, columns_of, rows_of

Place: TypeAlias = tuple[int, int, str, int]

_NOTE: Final = SEVERITIES.index("note")
_UNREAD: Final = SEVERITIES.index(None)

# Changes, and reasons why logs could not be read, that are held.
_MOST_CHANGES: Final = 1000
_MOST_REASONS: Final = 1000
_NUMBER: Final = re.compile(r"\d+")

# Steps lie together within this share of a run. Fewer runs than this, or less than half of a group,
# may do so by chance.
_NEAR: Final = 0.01
_FEWEST_NEAR: Final = 3

_CONDITION: Final = re.compile(r"\s*(.+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "!=": operator.ne,
}
_COLUMNS: Final = tuple(name for name in SCHEMA.names if name not in ("settings", "curve"))


def overview_of(
    rows: Rows | pa.Table | Iterable[Row],
    *,
    places: Sequence[str] = (),
    before: Rows | pa.Table | None = None,
    top: int = 10,
    seconds: float | None = None,
    reused: int = 0,
) -> Overview:
    """Return the overview of all rows of a scan.

    Args:
        rows: the rows; columns are read from them as they are needed.
        places: what was scanned.
        before: the rows of the last scan, if there was one.
        top: how many of the worst runs to name.
        seconds: how long the scan took.
        reused: how many rows the last scan has left.
    """
    rows = Rows.of(rows)
    tally = _Tally(top)
    for table in rows.batches(*_TALLIED):
        tally.add(table)
    common, compared = in_common(rows)
    return Overview(
        places=tuple(places),
        counts=tuple(tally.counts()),
        worst=tuple(rows_of(rows.take(np.array([at for *_, at in tally.worst], np.int64)))),
        groups=tuple(tally.groups(rows)),
        common=common,
        compared=compared,
        unread=tuple(tally.unread()),
        rows=rows,
        root=tally.root(),
        changes=None if before is None else _changes(rows, Rows.of(before)),
        seconds=seconds,
        reused=reused,
    )


_TALLIED: Final = (
    *("severity", "lost_steps", "path", "outcome", "action_kind", "step", "last_step", "reason"),
)


@dataclass(kw_only=True, eq=False)
class _Alike:
    """Runs that failed alike: the worst of them, where they failed, and how long they were."""

    worst: Place
    runs: int = 0
    lost: int = 0
    steps: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))


class _Tally:
    """What the rows come to that have been counted so far."""

    def __init__(self, top: int) -> None:
        self.worst: list[Place] = []
        self._top = top
        self._rows = 0
        self._outcomes: dict[tuple[int, str], list[int]] = {}
        self._alike: dict[tuple[str, str | None], _Alike] = {}
        self._reasons: dict[str, tuple[int, str]] = {}
        self._ends: set[str] = set()

    def add(self, table: pa.Table) -> None:
        """Count the rows of a table."""
        bad: list[Place] = []
        for row in columns_of(table, *_TALLIED):
            severity, lost, path, outcome, kind, step, last, reason = row
            rank = SEVERITIES.index(severity)
            count = self._outcomes.setdefault((rank, outcome), [0, 0])
            count[0] += 1
            count[1] += lost or 0
            if rank < _NOTE:
                bad.append((rank, -(lost or 0), path, self._rows))
                alike = self._alike.setdefault((outcome, kind), _Alike(worst=bad[-1]))
                alike.worst = min(alike.worst, bad[-1])
                alike.runs += 1
                alike.lost += lost or 0
                alike.steps.extend([] if step is None else [step])
                alike.last.extend([] if last is None else [last])
            elif severity is None:
                # Without what differs from log to log: names and numbers.
                bare = _NUMBER.sub("…", (reason or "").replace(path, "").lstrip(": "))
                if bare not in self._reasons and len(self._reasons) >= _MOST_REASONS:
                    bare = "other reasons"
                logs, example = self._reasons.get(bare, (0, path))
                self._reasons[bare] = logs + 1, example
            self._rows += 1
        self.worst = heapq.nsmallest(self._top, chain(self.worst, bad))
        if table.num_rows:
            ends: Any = pc.min_max(table["path"]).as_py()
            known = {*self._ends, *ends.values()}
            self._ends = {min(known), max(known)}

    def root(self) -> str:
        """Return the folder in which all paths lie: what the first and the last of them share."""
        shared: str = os.path.commonprefix(list(self._ends))  # noqa: RUF071 - URLs as well
        return shared[: shared.rfind("/") + 1] if len(self._ends) > 1 else ""

    def counts(self) -> Iterator[Count]:
        """Yield the outcomes, the worst first and of these the most frequent."""
        every = self._outcomes.items()
        for rank, runs, name, lost in sorted(
            (rank, -n, name, lost) for (rank, name), (n, lost) in every
        ):
            yield Count(outcome=name, severity=SEVERITIES[rank], runs=-runs, lost_steps=lost)

    def groups(self, rows: Rows) -> list[Group]:
        """Return the groups of like failures, the worst first and of these what lost most."""
        found = list(self._alike.values())
        worst = rows_of(rows.take(np.array([one.worst[-1] for one in found], np.int64)))
        groups = [_group(row, one) for row, one in zip(worst, found, strict=True)]
        return sorted(groups, key=lambda g: (g.severity, -g.lost_steps, -g.runs, g.outcome))

    def unread(self) -> list[Unread]:
        """Return why logs were not read, the most frequent reason first."""
        found = self._reasons.items()
        unread = [Unread(reason=why, logs=logs, example=path) for why, (logs, path) in found]
        return sorted(unread, key=lambda one: (-one.logs, one.reason))


def _group(worst: Row, alike: _Alike) -> Group:
    steps = np.sort(np.array(alike.steps))
    return Group(
        outcome=worst.outcome,
        severity=worst.severity or "",
        runs=alike.runs,
        lost_steps=alike.lost,
        worst=worst,
        steps=(int(steps[0]), int(np.median(steps)), int(steps[-1])) if len(steps) else None,
        near=_near(steps, np.array(alike.last), alike.runs),
    )


def _near(steps: Ints, last: Ints, runs: int) -> tuple[int, int, int] | None:
    """Return where most of the steps lie next to each other, if they do, and how many."""
    if len(steps) < _FEWEST_NEAR or not len(last):
        return None
    within = np.searchsorted(steps, steps + _NEAR * np.median(last), side="right")
    count = within - np.arange(len(steps))
    most = int(count.argmax())
    if count[most] < max(_FEWEST_NEAR, runs / 2):
        return None
    return int(steps[most]), int(steps[within[most] - 1]), int(count[most])


def _changes(rows: Rows, before: Rows) -> Changes:
    """Return what became of the runs since the last scan."""
    ends: dict[tuple[int, str], int] = {}
    (runs, now), (old, was) = _ended(rows, ends), _ended(before, ends)
    order = np.argsort(old, kind="stable")
    place = np.searchsorted(old, runs, sorter=order)
    known = np.flatnonzero(place < np.searchsorted(old, runs, "right", sorter=order))
    pairs = np.stack([known, order[place[known]]])
    pairs = pairs[:, now[pairs[0]] != was[pairs[1]]]
    ranks = np.array([rank for rank, _ in ends], np.int64)
    after, then = ranks[now[pairs[0]]], ranks[was[pairs[1]]]
    worse = np.where((after == _UNREAD) | (then == _UNREAD), 0, then - after)
    return Changes(
        new=len(rows) - len(known),
        gone=len(before) - len(known),
        worse=_named(rows, before, pairs[:, worse > 0]),
        better=_named(rows, before, pairs[:, worse < 0]),
        other=_named(rows, before, pairs[:, worse == 0]),
    )


def _ended(rows: Rows, ends: dict[tuple[int, str], int]) -> tuple[Ints, Ints]:
    """Return numbers that tell each run from others, and how it ended, which ``ends`` numbers."""
    # A file may hold several runs. Texts of all runs would take up memory; their hashes do not.
    runs, ended = array("q"), array("q")
    for table in rows.batches("path", "run", "severity", "outcome"):
        for path, run, severity, outcome in columns_of(table, *table.column_names):
            runs.append(hash((path, run)))
            ended.append(ends.setdefault((SEVERITIES.index(severity), outcome), len(ends)))
    return np.array(runs), np.array(ended)


def _named(rows: Rows, before: Rows, pairs: Ints) -> tuple[Change, ...]:
    now, then = pairs[:, :_MOST_CHANGES]
    ends = columns_of(rows.take(now, "path", "run", "outcome"), "path", "run", "outcome")
    earlier: Any = before.take(then, "outcome")["outcome"].to_pylist()
    return tuple(
        Change(path=path, run=run, before=was, after=outcome)
        for (path, run, outcome), was in zip(ends, earlier, strict=True)
    )


def where(rows: Rows, condition: str) -> Rows:
    """Return the rows that meet a condition on a field or a setting, such as ``peak_lr>=0.003``.

    Numbers compare as numbers. In a text ``*`` stands for anything, ``?`` for one character. A
    value that a run does not have equals nothing.

    Raises:
        StabdiagError: if it is no condition, or no run has what it names.
    """
    found = _CONDITION.fullmatch(condition)
    if found is None:
        raise StabdiagError(
            f"--where {condition!r}: wants NAME=VALUE, such as severity=error or 'peak_lr>=0.003'"
        )
    name, sign, value = found.groups()
    number, orders = _number(value), sign not in ("=", "!=")
    like = re.compile(fnmatch.translate(value.replace("[", "[[]"))).match
    names: set[str] = set()
    meets = bytearray()
    any_number = False
    for told in _values(rows, name, names):
        if math.isnan(number):
            meets.append((told is not None and like(str(told)) is not None) == (sign == "="))
            continue
        held = _number(told)
        any_number = any_number or not math.isnan(held)
        meets.append(_SIGNS[sign](held, number))
    if name not in {*_COLUMNS, *names}:
        hint = did_you_mean(name, [*_COLUMNS, *sorted(names)])
        raise StabdiagError(f"--where {name}: no run has such a field or setting{hint}")
    if orders and not any_number:
        raise StabdiagError(
            f"--where {condition!r}: {sign} compares numbers, and {name} or {value!r} is none"
        )
    return rows.filter(np.frombuffer(meets, np.bool_))


def _values(rows: Rows, name: str, names: set[str]) -> Iterator[object]:
    """Yield the value of each row, None where it has none; collect the names of settings."""
    is_column = name in _COLUMNS
    for table in rows.batches(name if is_column else "settings"):
        for (told,) in columns_of(table, *table.column_names):
            if is_column:
                yield told
            else:
                settings = dict(told or ())
                names.update(settings)
                yield settings.get(name)


def _number(told: object) -> float:
    """Return a value as a number; NaN if it is none."""
    try:
        return float(str(told))
    except ValueError:
        return math.nan
