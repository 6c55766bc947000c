"""Merge several files of one run into one log.

Files with a training loss are consecutive attempts at the run, ordered by their first steps. If
their steps overlap, they are ordered by the numbers in their names (``slurm-101.out``,
``slurm-102.out``). Evaluation files and files without a training loss are joined to them by step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from stabdiag.model.arrays import Floats, Positions
from stabdiag.model.events import LeftOut
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.columns import MAX_BAD_RECORDS, Column, Columns
from stabdiag.sources.folder import note
from stabdiag.sources.logs import natural


@frozen
class _LogPart:
    """One file of a run.

    Attributes:
        columns: Its columns.
        file: The shortest end of its path that differs from the other files.
        names: Its column names by the names in the merged log.
        has_loss: Whether it has a training loss.
        steps: The step of each row, NaN where it has none.
    """

    columns: Columns
    file: str
    names: dict[str, str]
    has_loss: bool
    steps: Floats

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest step; infinite if there is none."""
        logged = self.steps[np.isfinite(self.steps)]
        return (float(logged.min()), float(logged.max())) if len(logged) else (np.inf, np.inf)


def merge_logs(files: Sequence[Columns], name: str) -> Columns:
    """Merge the columns of at least two files into one log with this name."""
    training, others = _split(files)
    training, rule = _ordered(training)
    parts = [*training, *others]
    rows = _merged_rows(training, others)
    total = 1 + max((int(where.max()) for where in rows if len(where)), default=-1)
    events = [note(_description(training, others, rule))]
    for part, where in zip(parts, rows, strict=True):
        events += [
            replace(
                event,
                message=f"{part.file}: {event.message}",
                path=part.columns.source,
                above=_merged_above(event.above, where),
            )
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
        load=lambda column: _merged_column(parts, rows, total, column),
        bad_lines=tuple(bad for part in parts for bad in part.columns.bad_lines)[:MAX_BAD_RECORDS],
        bad_count=sum(part.columns.bad_count for part in parts),
        notes=tuple(f"{part.file}: {message}" for part in parts for message in part.columns.notes),
        events=tuple(events),
        config=config,
        distinguishes_null=all(part.columns.distinguishes_null for part in parts),
        files=tuple(file for part in parts for file in part.columns.files),
        left_out=tuple(_left_out(training[-1], rows[len(training) - 1])) if training else (),
        # Only the rows of the attempts: other files share their steps.
        parts=tuple((p.columns.source, r) for p, r in zip(training, rows, strict=False)),
    )


def _split(files: Sequence[Columns]) -> tuple[list[_LogPart], list[_LogPart]]:
    """Return the attempts at the run, and the other files."""
    named = list(zip(files, _short_names([columns.source for columns in files]), strict=True))
    evaluations = [pair for pair in named if is_evaluation(pair[0].source.rpartition("/")[2])]
    training = [pair for pair in named if pair not in evaluations]
    roles: dict[str, str] = {}
    parts = [_part(columns, file, roles) for columns, file in training or evaluations]
    # If no column is named like a loss, the user may name it with an option.
    attempts = [part for part in parts if part.has_loss] or parts
    others = [part for part in parts if part not in attempts]
    if training:
        others += [_part(columns, file, roles, is_eval=True) for columns, file in evaluations]
    return attempts, others


def _left_out(last: _LogPart, rows: Positions) -> Iterator[LeftOut]:
    """Yield what the reader of the last attempt left out, with its row in the merged log."""
    for left_out in last.columns.left_out:
        above = _merged_above(left_out.above, rows)
        yield replace(left_out, above=above, message=f"{last.file}: {left_out.message}")


def _merged_above(above: int | None, rows: Positions) -> int | None:
    """Return the number of records above in the merged log, None if there are none in the file."""
    return int(rows[above - 1]) + 1 if above and above <= len(rows) else None


def _short_names(paths: Sequence[str]) -> list[str]:
    """Return the shortest unique end of each path, else the whole path."""
    parts = [path.split("/") for path in paths]
    ends = [["/".join(names[-n:]) for n in range(1, len(names) + 1)] for names in parts]
    counts = Counter(end for each in ends for end in each)
    return [next((end for end in each if counts[end] == 1), each[-1]) for each in ends]


def _part(columns: Columns, file: str, roles: dict[str, str], *, is_eval: bool = False) -> _LogPart:
    columns_by_role = dict(assign(columns.names).columns)
    names: dict[str, str] = {}
    for role, name in columns_by_role.items():
        if not is_eval or role in ("step", "epoch"):
            names[roles.setdefault(role, name)] = name
    for name in columns.names:
        if name not in names.values():
            names.setdefault(f"eval/{name}" if is_eval and not is_evaluation(name) else name, name)
    steps = np.full(columns.rows, np.nan)
    counter = columns_by_role.get("step") or columns_by_role.get("epoch")
    if counter is not None and not (column := columns.load(counter)).is_text:
        steps[column.present] = column.logged
    return _LogPart(
        columns=columns, file=file, names=names, has_loss="loss" in columns_by_role, steps=steps
    )


def _ordered(parts: list[_LogPart]) -> tuple[list[_LogPart], str]:
    """Return the attempts in the order of execution, and the rule of that order."""
    parts = sorted(parts, key=lambda part: part.span[0])
    spans = [part.span for part in parts]
    are_disjoint = all(left[1] < right[0] for left, right in pairwise(spans))
    if not are_disjoint and _are_numbered([part.columns.source for part in parts]):
        return sorted(parts, key=lambda part: natural(part.columns.source)), "of their numbers"
    return parts, "of their first steps"


def _are_numbered(names: list[str]) -> bool:
    """Return True if the first difference between adjacent names is a number."""
    keys = sorted(map(natural, names))
    for left, right in pairwise(keys):
        differ = [(a, b) for a, b in zip(left, right, strict=False) if a != b]
        if not differ or differ[0][0][0] != differ[0][1][0]:
            return False
    return True


def _description(training: list[_LogPart], others: list[_LogPart], rule: str) -> str:
    text = f"read as one run: {', '.join(part.file for part in training)}"
    if len(training) > 1:
        text += f", in the order {rule}"
    if others:
        text += f"; joined by step: {', '.join(part.file for part in others)}"
    return text


def _merged_rows(training: list[_LogPart], others: list[_LogPart]) -> list[Positions]:
    """Return the row in the merged log of each row of each part.

    Rows of other files join the row with their step, or become new rows. New rows are sorted by
    step, but come last if the steps of the attempts ever go back.
    """
    steps = np.concatenate([part.steps for part in training])
    ends = np.cumsum([len(part.steps) for part in training])
    rows = [np.arange(end - len(part.steps), end) for end, part in zip(ends, training, strict=True)]
    for part in others:
        order = np.argsort(steps, kind="stable")
        at = np.searchsorted(steps[order], part.steps, side="right") - 1
        last = order[np.maximum(at, 0)]
        has_row = (at >= 0) & (steps[last] == part.steps)
        new = len(steps) + np.cumsum(~has_row) - 1
        rows.append(np.where(has_row, last, new))
        steps = np.append(steps, part.steps[~has_row])
    if others and np.all(np.diff(steps[: ends[-1]]) >= 0):  # also False without steps
        position = np.empty(len(steps), np.intp)
        position[np.argsort(steps, kind="stable")] = np.arange(len(steps))
        rows = [position[part_rows] for part_rows in rows]
    return rows


def _merged_column(
    parts: Sequence[_LogPart], rows: Sequence[Positions], total: int, name: str
) -> Column:
    """Return a column of the merged log; it is text only if no file has numbers."""
    pieces = [
        (part.columns.load(part.names[name]), where)
        for part, where in zip(parts, rows, strict=True)
        if name in part.names
    ]
    is_text = all(column.is_text for column, _ in pieces)
    values = np.full(total, np.nan)
    present, null = np.zeros(total, bool), np.zeros(total, bool)
    words: list[str] = []
    strays = [where[column.stray_rows] for column, where in pieces]
    for column, where in pieces:
        if column.is_text and not is_text:
            strays.append(where[column.present])
            continue
        # Each file has its own codes for words: words of two files never count as equal.
        values[where[column.present]] = column.logged + len(words)
        present[where] |= column.present
        null[where] |= column.null
        if is_text:
            codes = int(column.logged.max(initial=-1)) + 1
            words += [*column.words, *[""] * codes][:codes]  # numbers have no word
    return Column(
        values=values,
        present=present,
        null=null & ~present,
        is_text=is_text,
        is_time=any(column.is_time for column, _ in pieces),
        stray_rows=np.concatenate(strays),
        words=tuple(words),
    )
