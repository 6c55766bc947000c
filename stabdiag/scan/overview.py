"""What the rows of a scan say together: counts, the worst runs, like failures, changes."""

from __future__ import annotations

import math
import operator
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.model.scan import Change, Changes, Count, Group, Overview, Unread
from stabdiag.scan.common import in_common
from stabdiag.scan.store import SCHEMA, Ordered, Rows, coded, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.scan import Row

SEVERITIES: Final = ("error", "warning", "note", "ok", None)

_MOST_CHANGES: Final = 1000
_NUMBER: Final = re.compile(r"\d+")

# Steps lie together within this share of a run. Fewer runs than this, or less than half of a group,
# may do so by chance.
_NEAR: Final = 0.01
_FEWEST_NEAR: Final = 3

_CONDITION: Final = re.compile(r"\s*(.+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_TEXT: Final = ("=", "!=")
_SIGNS: Final[dict[str, Callable[[Any, Any], Any]]] = {
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
    held = _Held.of(rows)
    bad = int((held.rank < SEVERITIES.index("note")).sum())
    common, compared = in_common(rows)
    return Overview(
        places=tuple(places),
        counts=tuple(_counts(held)),
        worst=tuple(rows_of(rows.take(held.order[: min(top, bad)]))),
        groups=tuple(_groups(held)),
        common=common,
        compared=compared,
        unread=tuple(_unread(rows)),
        rows=Ordered(rows=rows, order=held.order),
        root=held.root,
        changes=None if before is None else _changes(rows, Rows.of(before)),
        seconds=seconds,
        reused=reused,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Held:
    """What runs are counted by; arrays have shape (runs,), NaN is an unknown step."""

    rows: Rows
    rank: Ints
    lost: Ints
    step: Floats
    last: Floats
    outcomes: tuple[list[Any], Ints]
    kinds: tuple[list[Any], Ints]
    order: Ints
    root: str

    @classmethod
    def of(cls, rows: Rows) -> _Held:
        table = rows.columns(
            "severity", "outcome", "action_kind", "lost_steps", "step", "last_step"
        )
        rank = _ranks(table["severity"])
        lost = np.nan_to_num(_numbers(table, "lost_steps")).astype(np.int64)
        paths = rows.columns("path")["path"]
        keys = pa.table([pa.array(rank), pa.array(-lost), paths], names=["rank", "lost", "path"])
        order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
        return cls(
            rows=rows,
            rank=rank,
            lost=lost,
            step=_numbers(table, "step"),
            last=_numbers(table, "last_step"),
            outcomes=coded(table["outcome"]),
            kinds=coded(table["action_kind"]),
            order=order.to_numpy().astype(np.int64),
            root=_root(paths),
        )


def _numbers(table: pa.Table, name: str) -> Floats:
    """Return a column of numbers, NaN where there is none."""
    return np.asarray(table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)


def _ranks(severity: pa.ChunkedArray[Any]) -> Ints:
    """Return how bad each run is, 0 the worst; that of an unread log is the last."""
    ranks = pc.index_in(severity, value_set=pa.array(SEVERITIES[:-1]))
    found: Ints = ranks.fill_null(len(SEVERITIES) - 1).to_numpy().astype(np.int64)
    return found


def _root(paths: pa.ChunkedArray[Any]) -> str:
    """Return the folder in which all paths lie: what the first and the last of them share."""
    first, last = pc.min(paths).as_py(), pc.max(paths).as_py()
    if first == last:
        return ""
    shared: str = os.path.commonprefix([first, last])  # noqa: RUF071 - URLs as well
    return shared[: shared.rfind("/") + 1]


def _counts(held: _Held) -> list[Count]:
    """Return the outcomes, the worst first and of these the most frequent."""
    names, codes = held.outcomes
    counts = [
        Count(
            outcome=name,
            severity=SEVERITIES[int(held.rank[at[0]])],
            runs=len(at),
            lost_steps=int(held.lost[at].sum()),
        )
        for name, at in ((name, np.flatnonzero(codes == i)) for i, name in enumerate(names))
    ]
    return sorted(counts, key=lambda c: (SEVERITIES.index(c.severity), -c.runs, c.outcome))


def _groups(held: _Held) -> list[Group]:
    """Return the groups of like failures, the worst first and of these what lost most."""
    kinds, kind = held.kinds
    bad = held.rank < SEVERITIES.index("note")
    both = np.where(bad, held.outcomes[1] * len(kinds) + kind, -1)[held.order]
    members = [held.order[both == code] for code in np.unique(both[both >= 0]).tolist()]
    worst = rows_of(held.rows.take(np.array([at[0] for at in members], np.int64)))
    groups = []
    for row, at in zip(worst, members, strict=True):
        steps = np.sort(held.step[at][np.isfinite(held.step[at])]).astype(np.int64)
        middle = (int(steps[0]), int(np.median(steps)), int(steps[-1])) if len(steps) else None
        groups.append(
            Group(
                outcome=row.outcome,
                severity=row.severity or "",
                runs=len(at),
                lost_steps=int(held.lost[at].sum()),
                worst=row,
                steps=middle,
                near=_near(steps, held.last[at], len(at)),
            )
        )
    return sorted(groups, key=lambda g: (g.severity, -g.lost_steps, -g.runs, g.outcome))


def _near(steps: Ints, last: Floats, runs: int) -> tuple[int, int, int] | None:
    """Return where most of the steps lie next to each other, if they do, and how many."""
    known = last[np.isfinite(last)]
    if len(steps) < _FEWEST_NEAR or not len(known):
        return None
    within = np.searchsorted(steps, steps + _NEAR * np.median(known), side="right")
    count = within - np.arange(len(steps))
    most = int(count.argmax())
    if count[most] < max(_FEWEST_NEAR, runs / 2):
        return None
    return int(steps[most]), int(steps[within[most] - 1]), int(count[most])


def _unread(rows: Rows) -> list[Unread]:
    """Return why logs were not read, without what differs from log to log: names and numbers."""
    found: dict[str, tuple[int, str]] = {}
    for table in rows.batches(["severity", "path", "reason"]):
        left = table.filter(table["severity"].is_null())
        columns: Any = (left["path"].to_pylist(), left["reason"].to_pylist())
        for path, reason in zip(*columns, strict=True):
            bare = _NUMBER.sub("…", (reason or "").replace(path, "").lstrip(": "))
            logs, example = found.get(bare, (0, path))
            found[bare] = logs + 1, example
    unread = [Unread(reason=r, logs=logs, example=path) for r, (logs, path) in found.items()]
    return sorted(unread, key=lambda one: (-one.logs, one.reason))


def _changes(rows: Rows, before: Rows) -> Changes:
    """Return what became of the runs since the last scan."""
    (runs, now, outcome), (old, was, earlier) = _ended(rows), _ended(before)
    order = np.argsort(old, kind="stable")
    place = np.searchsorted(old, runs, sorter=order)
    known = np.flatnonzero(place < np.searchsorted(old, runs, "right", sorter=order))
    at = order[place[known]]
    pairs = np.stack([known, at])
    differs = pairs[:, outcome[pairs[0]] != earlier[pairs[1]]]
    unread = SEVERITIES.index(None)
    after, then = now[differs[0]], was[differs[1]]
    worse = np.where((after == unread) | (then == unread), 0, then - after)
    return Changes(
        new=len(rows) - len(known),
        gone=len(before) - len(known),
        worse=_named(rows, before, differs[:, worse > 0]),
        better=_named(rows, before, differs[:, worse < 0]),
        other=_named(rows, before, differs[:, worse == 0]),
    )


def _ended(rows: Rows) -> tuple[Ints, Ints, Ints]:
    """Return what tells each run from others, how bad it is, and its outcome, as numbers."""
    # A file may hold several runs. Texts of all runs would take up memory; their hashes do.
    runs, ranks, outcomes = [np.zeros(0, np.int64)], [], [np.zeros(0, np.int64)]
    for table in rows.batches(["path", "run", "severity", "outcome"]):
        names = zip(table["path"].to_pylist(), table["run"].to_pylist(), strict=True)
        runs.append(np.fromiter(map(hash, names), np.int64))
        outcomes.append(np.fromiter(map(hash, table["outcome"].to_pylist()), np.int64))
        ranks.append(_ranks(table["severity"]))
    return np.concatenate(runs), np.concatenate([runs[0], *ranks]), np.concatenate(outcomes)


def _named(rows: Rows, before: Rows, pairs: Ints) -> tuple[Change, ...]:
    pairs = pairs[:, :_MOST_CHANGES]
    new, old = rows.take(pairs[0], ["path", "run", "outcome"]), before.take(pairs[1], ["outcome"])
    columns = (new["path"], new["run"], old["outcome"], new["outcome"])
    changed = zip(*(column.to_pylist() for column in columns), strict=True)
    return tuple(Change(path=p, run=run, before=was, after=now) for p, run, was, now in changed)


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
    column = _column(rows, name)
    try:
        return rows.filter(_compared(column, sign, value))
    except ValueError:
        raise StabdiagError(
            f"--where {condition!r}: {sign} compares numbers, and {name} or {value!r} is none"
        ) from None


def _column(rows: Rows, name: str) -> pa.ChunkedArray[Any]:
    if name in _COLUMNS:
        return rows.columns(name)[name]
    names: set[str] = set()
    chunks = []
    for table in rows.batches(["settings"]):
        settings: Any = table["settings"].combine_chunks()
        names |= set(pc.unique(settings.keys).to_pylist())
        chunks.append(pc.map_lookup(settings, pa.scalar(name), "first"))
    if name not in names:
        hint = did_you_mean(name, [*_COLUMNS, *sorted(names)])
        raise StabdiagError(f"--where {name}: no run has such a field or setting{hint}")
    return pa.chunked_array(chunks)


def _compared(column: pa.ChunkedArray[Any], sign: str, value: str) -> Mask:
    """Return for which rows it holds.

    Raises:
        ValueError: if the sign wants numbers and there are none.
    """
    number = _number(value)
    if not math.isnan(number):
        numbers = np.array([_number(told) for told in column.to_pylist()])
        if sign in _TEXT or not np.isnan(numbers).all():
            return np.asarray(_SIGNS[sign](numbers, number), dtype=np.bool_)
    if sign not in _TEXT:
        raise ValueError
    pattern = re.sub(r"([\\%_])", r"\\\1", value).replace("*", "%").replace("?", "_")
    like: Any = pc.match_like(column.cast(pa.string()), pattern)
    found = np.asarray(like.fill_null(False).to_numpy(), dtype=np.bool_)
    return found if sign == "=" else ~found


def _number(told: object) -> float:
    """Return a value as a number; NaN if it is none."""
    try:
        return float(str(told))
    except ValueError:
        return math.nan
