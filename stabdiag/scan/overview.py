"""What the rows of a scan say together: counts, the worst runs, like failures, changes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.model.scan import Change, Changes, Count, Group, Overview, Unread
from stabdiag.scan.common import in_common
from stabdiag.scan.rows import rows_of, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.scan import Row

SEVERITIES = ("error", "warning", "note", "ok", None)

_AT_ONCE = 1000
_MOST_CHANGES = 1000
_NUMBER = re.compile(r"\d+")

# Steps are next to each other within this share of a run; as few runs, or less than half of a
# group, may be so by chance.
_NEAR = 0.01
_FEWEST_NEAR = 3


def overview_of(
    rows: pa.Table | Iterable[Row],
    *,
    places: Sequence[str] = (),
    before: pa.Table | None = None,
    top: int = 10,
    seconds: float | None = None,
    reused: int = 0,
) -> Overview:
    """Return the overview of all rows of a scan.

    Args:
        rows: a table as ``stabdiag.scan.rows`` makes one, or the rows themselves.
        places: what was scanned.
        before: the rows of the last scan, if there was one.
        top: how many of the worst runs are named.
        seconds: how long the scan took.
        reused: how many rows are those of the last scan.
    """
    table = rows if isinstance(rows, pa.Table) else table_of(rows)
    held = _Held.of(table)
    bad = int((held.rank < SEVERITIES.index("note")).sum())
    common, compared = in_common(table)
    return Overview(
        places=tuple(places),
        counts=tuple(_counts(held)),
        worst=tuple(rows_of(table.take(held.order[: min(top, bad)]))),
        groups=tuple(_groups(held)),
        common=common,
        compared=compared,
        unread=tuple(_unread(table)),
        rows=_Sorted(table=table, order=held.order),
        root=_root(table["path"]),
        changes=None if before is None else _changes(table, before),
        seconds=seconds,
        reused=reused,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sorted:
    """The rows of a table in an order, made when they are gone through."""

    table: pa.Table
    order: Ints

    def __iter__(self) -> Iterator[Row]:
        for begin in range(0, len(self.order), _AT_ONCE):
            yield from rows_of(self.table.take(self.order[begin : begin + _AT_ONCE]))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Held:
    """The columns by which runs are counted: each of shape (runs,); NaN is a step not known."""

    table: pa.Table
    rank: Ints
    lost: Ints
    step: Floats
    last: Floats
    order: Ints

    @classmethod
    def of(cls, table: pa.Table) -> _Held:
        rank = _ranks(table["severity"])
        lost = np.nan_to_num(_numbers(table, "lost_steps")).astype(np.int64)
        paths = pc.rank(table["path"].combine_chunks()).to_numpy()
        return cls(
            table=table,
            rank=rank,
            lost=lost,
            step=_numbers(table, "step"),
            last=_numbers(table, "last_step"),
            order=np.lexsort((paths, -lost, rank)),
        )


def _numbers(table: pa.Table, name: str) -> Floats:
    """Return a column of numbers, NaN where there is none."""
    return np.asarray(table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)


def _ranks(severity: pa.ChunkedArray[Any]) -> Ints:
    """Return how bad each run is, 0 the worst; that of an unread log is the last."""
    ranks = pc.index_in(severity, value_set=pa.array(SEVERITIES[:-1]))
    found: Ints = ranks.fill_null(len(SEVERITIES) - 1).to_numpy().astype(np.int64)
    return found


def _coded(column: pa.ChunkedArray[Any]) -> tuple[list[Any], Ints]:
    """Return the different values of a column, and the number of each row's."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _root(paths: pa.ChunkedArray[Any]) -> str:
    """Return the folder in which all paths lie: what the first and the last of them share."""
    first, last = pc.min(paths).as_py(), pc.max(paths).as_py()
    if first == last:
        return ""
    shared: str = os.path.commonprefix([first, last])  # noqa: RUF071 - URLs as well
    return shared[: shared.rfind("/") + 1]


def _counts(held: _Held) -> list[Count]:
    """Return the outcomes, the worst first and of these the most frequent."""
    names, codes = _coded(held.table["outcome"])
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
    outcomes, outcome = _coded(held.table["outcome"])
    kinds, kind = _coded(held.table["action_kind"])
    both = np.where(held.rank < SEVERITIES.index("note"), outcome * len(kinds) + kind, -1)
    groups = []
    for code in np.unique(both[both >= 0]).tolist():
        at = held.order[both[held.order] == code]
        steps = np.sort(held.step[at][np.isfinite(held.step[at])]).astype(np.int64)
        (worst,) = rows_of(held.table.take(at[:1]))
        middle = (int(steps[0]), int(np.median(steps)), int(steps[-1])) if len(steps) else None
        groups.append(
            Group(
                outcome=outcomes[code // len(kinds)],
                severity=worst.severity or "",
                runs=len(at),
                lost_steps=int(held.lost[at].sum()),
                worst=worst,
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


def _unread(table: pa.Table) -> list[Unread]:
    """Return why logs were not read, without what is but one log's: its name, and numbers."""
    left = table.filter(table["severity"].is_null()).select(["path", "reason"])
    found: dict[str, tuple[int, str]] = {}
    for batch in left.to_batches(max_chunksize=_AT_ONCE):
        for path, reason in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            bare = _NUMBER.sub("…", reason.replace(path, "").lstrip(": "))
            logs, example = found.get(bare, (0, path))
            found[bare] = logs + 1, example
    unread = [Unread(reason=r, logs=logs, example=path) for r, (logs, path) in found.items()]
    return sorted(unread, key=lambda one: (-one.logs, one.reason))


def _changes(table: pa.Table, before: pa.Table) -> Changes:
    """Return what became of the runs since the last scan."""
    columns = ["path", "run", "severity", "outcome"]
    table, before = table.select(columns), before.select(columns)
    at = pc.index_in(_keys(table), value_set=_keys(before).combine_chunks())
    known = np.flatnonzero(at.is_valid().to_numpy())
    old, new = before.take(at.drop_null()), table.take(known)
    was, now = _ranks(old["severity"]), _ranks(new["severity"])
    differs = np.flatnonzero(old["outcome"].to_numpy() != new["outcome"].to_numpy())
    unread = SEVERITIES.index(None)
    worse = np.where((was == unread) | (now == unread), 0, was - now)[differs]
    return Changes(
        new=table.num_rows - len(known),
        gone=before.num_rows - len(known),
        worse=_named(new, old, differs[worse > 0]),
        better=_named(new, old, differs[worse < 0]),
        other=_named(new, old, differs[worse == 0]),
    )


def _keys(table: pa.Table) -> pa.ChunkedArray[Any]:
    """Return what no two rows share: a file may hold several runs."""
    columns: list[Any] = [table["path"], table["run"], pa.scalar("\n")]
    keys: pa.ChunkedArray[Any] = pc.binary_join_element_wise(*columns)
    return keys


def _named(new: pa.Table, old: pa.Table, at: Ints) -> tuple[Change, ...]:
    at = at[:_MOST_CHANGES]
    columns = (new["path"], new["run"], old["outcome"], new["outcome"])
    rows = zip(*(column.take(at).to_pylist() for column in columns), strict=True)
    return tuple(Change(path=p, run=run, before=was, after=now) for p, run, was, now in rows)
