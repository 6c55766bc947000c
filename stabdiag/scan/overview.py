"""Summarize the rows of a scan: counts, the worst runs, groups of equal failures, changes.

Rows are read one table at a time; only counts of healthy runs stay in memory.
"""

from __future__ import annotations

import heapq
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.model.arrays import Ints
from stabdiag.model.conditions import Condition
from stabdiag.model.manifest.parsing import number
from stabdiag.model.scan import Changes, Count, Group, Overview, Row, ScanChange, UnreadLogs
from stabdiag.scan.common import find_common
from stabdiag.scan.rows import ROW_SCHEMA, SEVERITIES, StoredRows, read_columns, read_rows
from stabdiag.stats.quantiles import median

RankedRun: TypeAlias = tuple[int, int, str, int]

_NOTE: Final = SEVERITIES.index("note")
_UNREAD: Final = SEVERITIES.index(None)

# Changes and reasons to keep in memory.
_MAX_CHANGES: Final = 1000
_MAX_COUNTED_REASONS: Final = 1000
_DIGIT_GROUP: Final = re.compile(r"\d+")

# Steps within this fraction of a run are close together. Fewer runs than this, or less than half
# of a group, may be close by chance.
_CLOSE: Final = 0.01
_MIN_CLOSE: Final = 3

_READ_COLUMNS: Final = tuple(name for name in ROW_SCHEMA.names if name not in ("settings", "curve"))


def make_overview(
    rows: StoredRows | pa.Table | Iterable[Row],
    *,
    places: Sequence[str] = (),
    before: StoredRows | pa.Table | None = None,
    top: int = 10,
    seconds: float | None = None,
    reused: int = 0,
) -> Overview:
    """Return the overview of all rows of a scan.

    Args:
        rows: the rows; columns are read from them as they are needed.
        places: the folders, archives or URLs that were scanned.
        before: the rows of the previous scan, if any.
        top: how many of the worst runs to name.
        seconds: how long the scan took.
        reused: how many rows come from earlier scans.
    """
    rows = StoredRows.of(rows)
    tally = _Tally(top)
    for table in rows.batches(*_TALLIED):
        tally.add(table)
    common, compared = find_common(rows)
    return Overview(
        places=tuple(places),
        counts=tuple(tally.counts()),
        worst=tuple(read_rows(rows.take(np.array([at for *_, at in tally.worst], np.int64)))),
        groups=tuple(tally.groups(rows)),
        common=common,
        compared=compared,
        unread=tuple(tally.unread()),
        rows=rows,
        root=tally.root(),
        changes=None if before is None else _changes(rows, StoredRows.of(before)),
        seconds=seconds,
        reused=reused,
    )


_TALLIED: Final = (
    *("severity", "lost_steps", "path", "outcome", "title", "action_kind", "step", "last_step"),
    "reason",
)


@dataclass(kw_only=True, eq=False)
class _FailureGroup:
    """Runs with the same failure: the worst run, the steps of the failures, the last steps."""

    worst: RankedRun
    runs: int = 0
    lost: int = 0
    steps: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))


class _Tally:
    """Counts over the rows so far."""

    def __init__(self, top: int) -> None:
        self.worst: list[RankedRun] = []
        self._top = top
        self._rows = 0
        self._outcomes: dict[tuple[int, str], list[int]] = {}
        self._titles: dict[str, str] = {}
        self._alike: dict[tuple[str, str | None], _FailureGroup] = {}
        self._reasons: dict[str, tuple[int, str]] = {}
        self._ends: set[str] = set()

    def add(self, table: pa.Table) -> None:
        """Count the rows of a table."""
        bad: list[RankedRun] = []
        for row in read_columns(table, *_TALLIED):
            severity, lost, path, outcome, title, kind, step, last, reason = row
            rank = SEVERITIES.index(severity)
            count = self._outcomes.setdefault((rank, outcome), [0, 0])
            count[0] += 1
            count[1] += lost or 0
            if title and outcome not in self._titles:
                self._titles[outcome] = title
            if rank < _NOTE:
                bad.append((rank, -(lost or 0), path, self._rows))
                alike = self._alike.setdefault((outcome, kind), _FailureGroup(worst=bad[-1]))
                alike.worst = min(alike.worst, bad[-1])
                alike.runs += 1
                alike.lost += lost or 0
                alike.steps.extend([] if step is None else [step])
                alike.last.extend([] if last is None else [last])
            elif severity is None:
                # Drop names and numbers, which differ between logs.
                bare = _DIGIT_GROUP.sub("…", (reason or "").replace(path, "").lstrip(": "))
                if bare not in self._reasons and len(self._reasons) >= _MAX_COUNTED_REASONS:
                    bare = "other reasons"
                logs, example = self._reasons.get(bare, (0, path))
                self._reasons[bare] = logs + 1, example
            self._rows += 1
        self.worst = heapq.nsmallest(self._top, chain(self.worst, bad))
        if table.num_rows:
            ends: Any = pc.min_max(table["path"]).as_py()
            paths = {*self._ends, *ends.values()}
            self._ends = {min(paths), max(paths)}

    def root(self) -> str:
        """Return the folder that contains all paths, from the first and the last of them."""
        shared: str = os.path.commonprefix(list(self._ends))  # noqa: RUF071 - URLs as well
        return shared[: shared.rfind("/") + 1] if len(self._ends) > 1 else ""

    def counts(self) -> Iterator[Count]:
        """Yield the outcomes, worst first, then the most frequent."""
        every = self._outcomes.items()
        for rank, runs, name, lost in sorted(
            (rank, -n, name, lost) for (rank, name), (n, lost) in every
        ):
            yield Count(
                outcome=name,
                severity=SEVERITIES[rank],
                runs=-runs,
                lost_steps=lost,
                title=self._titles.get(name, ""),
            )

    def groups(self, rows: StoredRows) -> list[Group]:
        """Return the groups of equal failures, worst first, then those that lost most."""
        groups_of_runs = list(self._alike.values())
        numbers = np.array([group.worst[-1] for group in groups_of_runs], np.int64)
        worst = read_rows(rows.take(numbers))
        groups = [_group(row, group) for row, group in zip(worst, groups_of_runs, strict=True)]
        return sorted(groups, key=lambda g: (g.severity, -g.lost_steps, -g.runs, g.outcome))

    def unread(self) -> list[UnreadLogs]:
        """Return the reasons for unread logs, the most frequent first."""
        reasons = self._reasons.items()
        unread = [UnreadLogs(reason=why, logs=logs, example=path) for why, (logs, path) in reasons]
        return sorted(unread, key=lambda reason: (-reason.logs, reason.reason))


def _group(worst: Row, alike: _FailureGroup) -> Group:
    steps = np.sort(np.array(alike.steps))
    return Group(
        outcome=worst.outcome,
        severity=worst.severity or "",
        runs=alike.runs,
        lost_steps=alike.lost,
        worst=worst,
        steps=_range_of_steps(steps) if len(steps) else None,
        near=_largest_cluster(steps, np.array(alike.last), alike.runs),
    )


def _range_of_steps(steps: Ints) -> tuple[int, int, int]:
    """Return the first, the middle and the last of sorted steps."""
    return int(steps[0]), int(median(steps.astype(np.float64))), int(steps[-1])


def _largest_cluster(steps: Ints, last: Ints, runs: int) -> tuple[int, int, int] | None:
    """Return the first and last step and the size of the largest cluster of steps, if any."""
    if len(steps) < _MIN_CLOSE or not len(last):
        return None
    within = np.searchsorted(steps, steps + _CLOSE * median(last.astype(np.float64)), side="right")
    count = within - np.arange(len(steps))
    largest = int(count.argmax())
    if count[largest] < max(_MIN_CLOSE, runs / 2):
        return None
    return int(steps[largest]), int(steps[within[largest] - 1]), int(count[largest])


def _changes(rows: StoredRows, before: StoredRows) -> Changes:
    """Compare the outcomes with the previous scan."""
    ends: dict[tuple[int, str], int] = {}
    (runs, now), (old, was) = _ended(rows, ends), _ended(before, ends)
    order = np.argsort(old, kind="stable")
    place = np.searchsorted(old, runs, sorter=order)
    common = np.flatnonzero(place < np.searchsorted(old, runs, "right", sorter=order))
    pairs = np.stack([common, order[place[common]]])
    pairs = pairs[:, now[pairs[0]] != was[pairs[1]]]
    ranks = np.array([rank for rank, _ in ends], np.int64)
    after, earlier = ranks[now[pairs[0]]], ranks[was[pairs[1]]]
    worse = np.where((after == _UNREAD) | (earlier == _UNREAD), 0, earlier - after)
    return Changes(
        new=len(rows) - len(common),
        gone=len(before) - len(common),
        worse=_named(rows, before, pairs[:, worse > 0]),
        better=_named(rows, before, pairs[:, worse < 0]),
        other=_named(rows, before, pairs[:, worse == 0]),
    )


def _ended(rows: StoredRows, ends: dict[tuple[int, str], int]) -> tuple[Ints, Ints]:
    """Return a number that identifies each run, and the number of its outcome in ``ends``."""
    # A file may hold several runs. Hashes take less memory than the texts of all runs.
    runs, ended = array("q"), array("q")
    for table in rows.batches("path", "run", "severity", "outcome"):
        for path, run, severity, outcome in read_columns(table, *table.column_names):
            runs.append(hash((path, run)))
            ended.append(ends.setdefault((SEVERITIES.index(severity), outcome), len(ends)))
    return np.array(runs), np.array(ended)


def _named(rows: StoredRows, before: StoredRows, pairs: Ints) -> tuple[ScanChange, ...]:
    now, previous = pairs[:, :_MAX_CHANGES]
    ends = read_columns(rows.take(now, "path", "run", "outcome"), "path", "run", "outcome")
    earlier: Any = before.take(previous, "outcome")["outcome"].to_pylist()
    return tuple(
        ScanChange(path=path, run=run, before=was, after=outcome)
        for (path, run, outcome), was in zip(ends, earlier, strict=True)
    )


def where(rows: StoredRows, condition: str) -> StoredRows:
    """Return the rows that meet a condition on a field or a setting, such as ``peak_lr>=0.003``.

    Numbers compare as numbers. In text, ``*`` matches anything and ``?`` one character. A missing
    value equals nothing.

    Raises:
        StabdiagError: if the condition is malformed, or no run has the field or setting.
    """
    parsed = Condition.parse(condition)
    names: set[str] = set()
    meets = bytearray()
    any_number = False
    for recorded in _values(rows, parsed.name, names):
        meets.append(parsed.is_met(recorded))
        any_number = any_number or not parsed.needs_numbers or number(recorded) is not None
    if parsed.name not in {*_READ_COLUMNS, *names}:
        hint = did_you_mean(parsed.name, [*_READ_COLUMNS, *sorted(names)])
        raise StabdiagError(
            f"--where {parsed.name}: no run has a field or setting of this name{hint}"
        )
    if parsed.needs_numbers and not any_number:
        raise StabdiagError(
            f"--where {condition!r}: {parsed.sign} needs numbers, and no run has a number as "
            f"{parsed.name}"
        )
    return rows.filter(np.frombuffer(meets, np.bool_))


def _values(rows: StoredRows, name: str, names: set[str]) -> Iterator[object]:
    """Yield the value of each row, None if missing; collect the names of settings."""
    is_column = name in _READ_COLUMNS
    for table in rows.batches(name if is_column else "settings"):
        for (value,) in read_columns(table, *table.column_names):
            if is_column:
                yield value
            else:
                settings = dict(value or ())
                names.update(settings)
                yield settings.get(name)
