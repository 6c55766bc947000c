"""Read several files of one run as one log.

Files with a training loss are attempts at the run, one after the other: in the order of their first
steps, or where these overlap in the order of the numbers in their names (``slurm-101.out``,
``slurm-102.out``). What an evaluation's file holds, or one without a training loss, stands beside
them, step by step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from stabdiag.model.arrays import Floats, Positions
from stabdiag.model.frozen import frozen
from stabdiag.model.history import LeftOut
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.columns import SHOWN, Column, Columns
from stabdiag.sources.folder import note
from stabdiag.sources.logs import natural


@frozen
class _Piece:
    """One file: its names of columns by those in the whole, and its steps, NaN where it has none.

    ``file`` is its name, just long enough to differ from those of the others.
    """

    columns: Columns
    file: str
    names: dict[str, str]
    has_loss: bool
    steps: Floats

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest step; infinite where there is none."""
        logged = self.steps[np.isfinite(self.steps)]
        return (float(logged.min()), float(logged.max())) if len(logged) else (np.inf, np.inf)


def merge_logs(files: Sequence[Columns], name: str) -> Columns:
    """Return the columns of several files, at least two, as those of one log of this name."""
    training, beside = _sorted_out(files)
    training, rule = _in_order(training)
    parts = [*training, *beside]
    rows = _rows_of(training, beside)
    total = 1 + max((int(where.max()) for where in rows if len(where)), default=-1)
    events = [note(_told(training, beside, rule))]
    for part in parts:
        events += [
            replace(event, message=f"{part.file}: {event.message}", path=part.columns.source)
            for event in part.columns.events
        ]
    config: dict[str, object] = {}
    for part in training:
        config |= part.columns.config
    return Columns(
        source=name,
        format=" + ".join(dict.fromkeys(part.columns.format for part in parts)),
        names=tuple(dict.fromkeys(name for part in parts for name in part.names)),
        rows=total,
        load=lambda column: _loaded(parts, rows, total, column),
        bad_lines=tuple(bad for part in parts for bad in part.columns.bad_lines)[:SHOWN],
        bad_count=sum(part.columns.bad_count for part in parts),
        notes=tuple(f"{part.file}: {one}" for part in parts for one in part.columns.notes),
        events=tuple(events),
        config=config,
        tells_null=all(part.columns.tells_null for part in parts),
        files=tuple(file for part in parts for file in part.columns.files),
        left_out=tuple(_left_out(training[-1], rows[len(training) - 1])) if training else (),
        # The rows of the attempts come first; what stands beside them is of the same steps.
        parts=tuple((p.columns.source, where) for p, where in zip(training, rows, strict=False)),
    )


def _sorted_out(files: Sequence[Columns]) -> tuple[list[_Piece], list[_Piece]]:
    """Return the attempts at the run, and the other files beside them."""
    called = list(zip(files, _told_apart([one.source for one in files]), strict=True))
    evaluations = [one for one in called if is_evaluation(one[0].source.rpartition("/")[2])]
    training = [one for one in called if one not in evaluations]
    roles: dict[str, str] = {}
    parts = [_part(one, file, roles) for one, file in training or evaluations]
    # If none has a name that looks like a loss, the user may yet name it.
    attempts = [part for part in parts if part.has_loss] or parts
    beside = [part for part in parts if part not in attempts]
    if training:
        beside += [_part(one, file, roles, is_eval=True) for one, file in evaluations]
    return attempts, beside


def _left_out(last: _Piece, rows: Positions) -> Iterator[LeftOut]:
    """Yield what the reader of the last attempt left out, by its place in the whole."""
    for left_out in last.columns.left_out:
        above = left_out.above
        if above is not None:
            above = int(rows[above - 1]) + 1 if 0 < above <= len(rows) else None
        yield replace(left_out, above=above, message=f"{last.file}: {left_out.message}")


def _told_apart(paths: Sequence[str]) -> list[str]:
    """Return the shortest end of each path that no other path has, else the whole path."""
    parts = [path.split("/") for path in paths]
    ends = [["/".join(one[-n:]) for n in range(1, len(one) + 1)] for one in parts]
    counts = Counter(end for each in ends for end in each)
    return [next((end for end in each if counts[end] == 1), each[-1]) for each in ends]


def _part(columns: Columns, file: str, roles: dict[str, str], *, is_eval: bool = False) -> _Piece:
    own = dict(assign(columns.names).columns)
    names: dict[str, str] = {}
    for role, name in own.items():
        if not is_eval or role in ("step", "epoch"):
            names[roles.setdefault(role, name)] = name
    for name in columns.names:
        if name not in names.values():
            names.setdefault(f"eval/{name}" if is_eval and not is_evaluation(name) else name, name)
    steps, counter = np.full(columns.rows, np.nan), own.get("step") or own.get("epoch")
    if counter is not None and not (column := columns.load(counter)).is_text:
        steps[column.present] = column.logged
    return _Piece(columns=columns, file=file, names=names, has_loss="loss" in own, steps=steps)


def _in_order(parts: list[_Piece]) -> tuple[list[_Piece], str]:
    """Return the attempts in the order in which they ran, and a name of that order."""
    parts = sorted(parts, key=lambda part: part.span[0])
    spans = [part.span for part in parts]
    apart = all(one[1] < other[0] for one, other in pairwise(spans))
    if not apart and _are_numbered([part.columns.source for part in parts]):
        return sorted(parts, key=lambda part: natural(part.columns.source)), "of their numbers"
    return parts, "of their first steps"


def _are_numbered(names: list[str]) -> bool:
    """Tell whether the first difference between neighbouring names is a number."""
    keys = sorted(map(natural, names))
    for one, other in pairwise(keys):
        differ = [(a, b) for a, b in zip(one, other, strict=False) if a != b]
        if not differ or differ[0][0][0] != differ[0][1][0]:
            return False
    return True


def _told(training: list[_Piece], beside: list[_Piece], rule: str) -> str:
    told = f"read as one run: {', '.join(part.file for part in training)}"
    if len(training) > 1:
        told += f", in the order {rule}"
    if beside:
        told += f"; beside it {', '.join(part.file for part in beside)}"
    return told


def _rows_of(training: list[_Piece], beside: list[_Piece]) -> list[Positions]:
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


def _loaded(parts: Sequence[_Piece], rows: Sequence[Positions], total: int, name: str) -> Column:
    """Return a column of the whole; words count only where no file has numbers."""
    found = [
        (part.columns.load(part.names[name]), where)
        for part, where in zip(parts, rows, strict=True)
        if name in part.names
    ]
    is_text = all(column.is_text for column, _ in found)
    values = np.full(total, np.nan)
    present, null = np.zeros(total, bool), np.zeros(total, bool)
    words: list[str] = []
    strays = [where[column.stray_rows] for column, where in found]
    for column, where in found:
        if column.is_text and not is_text:
            strays.append(where[column.present])
            continue
        # The codes of words are each file's own: two files' words are never taken for equal.
        values[where[column.present]] = column.logged + len(words)
        present[where] |= column.present
        null[where] |= column.null
        if is_text:
            codes = int(column.logged.max(initial=-1)) + 1
            words += [*column.words, *[""] * codes][:codes]  # none for the numbers among them
    return Column(
        values=values,
        present=present,
        null=null & ~present,
        is_text=is_text,
        is_time=any(column.is_time for column, _ in found),
        stray_rows=np.concatenate(strays),
        words=tuple(words),
    )
