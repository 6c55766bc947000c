"""CSV: a header of names, and lines of as many cells; and the runs of DVCLive, made of such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.text import and_more, plural
from stabdiag.readers.blocks import BLOCK, blocks, in_order
from stabdiag.readers.columns import EXACT, Column, Columns, Wanted
from stabdiag.readers.csv.cells import BLANKS, Parsed, read_lines
from stabdiag.readers.csv.dialect import (
    Dialect,
    assumed,
    describe_words,
    dialect_of,
    is_bare_header,
    table_of,
)
from stabdiag.readers.json.shapes import is_document
from stabdiag.readers.log_builder import LogBuilder
from stabdiag.readers.points import Points
from stabdiag.readers.source import Stream, open_stream

# Up to this size the tolerant reader (20 MB/s) is done before Arrow is imported (40 ms).
SMALL: Final = 1 << 19


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return whether the head of a file is CSV, with a header or without."""
    text = _with_line_ends(head.removeprefix(b"\xef\xbb\xbf"))
    if text.lstrip()[:1] == b"{" or is_document(text, is_complete=is_complete):
        return False
    return dialect_of(text, is_complete=is_complete) is not None or table_of(text) is not None


@dataclass(kw_only=True, eq=False)
class _Work:
    """The work on one block, under the header that holds by now: with Arrow, if it is ``fast``."""

    delimiter: str
    names: tuple[str, ...]
    commas: bool
    wanted: Wanted
    fast: bool
    texts: set[str] = field(default_factory=set)

    def __call__(self, block: bytes) -> Parsed:
        names = self.names
        if self.fast:
            from stabdiag.readers.csv.arrow import read_block

            table = read_block(block, names, self.delimiter, self.texts, self.wanted)
            if table is not None:
                return Parsed(chunk=table, under=names, names=names, lines=table.rows)
        return read_lines(block, names, self.delimiter, commas=self.commas)


def read(stream: Stream, *, small: int = SMALL, size: int = BLOCK) -> Columns:
    """Read a stream of CSV; a log of up to ``small`` bytes without Arrow.

    Columns that are not wanted are not parsed: that is what takes most of the time.
    """
    stream = _unwound(stream)
    dialect = _dialect(stream)
    arrows = not dialect.commas and dialect.delimiter != BLANKS
    fast = arrows and len(stream.peek(small + 1)) > small
    found = LogBuilder(lines=dialect.lines)
    if fast:
        from stabdiag.readers.arrow import slab_for

        found = slab_for(stream, len(dialect.names), lines=dialect.lines)
    stream.read(dialect.start)
    repeated: list[int] = []
    renamed: list[int] = []
    for parsed in _results(stream, dialect, size, fast=fast):
        repeated += [found.lines + line for line in parsed.repeated]
        renamed += [found.lines + line for line in parsed.renamed]
        found.take(parsed.chunk, parsed.lines, parsed.bad)
        found.is_ended = parsed.is_ended
    if not found.chunks:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected lines of"
            f" {len(dialect.names)} cells below the header"
        )
    stream.notes += _about_headers(dialect.above, repeated, renamed)
    columns = found.columns(stream.name, "csv", stream.notes)
    names = _of_monitor(dialect.shown(columns.names))
    load = columns.load
    if fast and stream.path is not None:
        load = _with_unwanted(columns, stream.path, stream.wanted)
    return replace(
        columns,
        names=tuple(names),
        load=lambda name: load(names.get(name, name)),
        events=(*filter(None, [dialect.assumed]), *columns.events),
        unnamed=dialect.assumed is not None,
    )


# The columns of a monitor.csv of Gym, Gymnasium and Stable-Baselines3, which writes a row for each
# episode: its reward, its length, and the time since the start.
_MONITOR: Final = {"r": "episode_reward", "l": "episode_length", "t": "time"}


def _of_monitor(names: dict[str, str]) -> dict[str, str]:
    """Return the columns by the names that a user sees; those of a monitor are spelled out."""
    if not _MONITOR.keys() <= names.keys():
        return names
    return {_MONITOR.get(name, name): own for name, own in names.items()}


def _with_unwanted(columns: Columns, path: Path, wanted: Wanted) -> Callable[[str], Column]:
    """Return a loader of all columns; for those that were not wanted the file is read again.

    That is seldom asked for. If the log has grown meanwhile, these columns are empty.
    """

    @cache
    def whole() -> Columns:
        with open_stream(path) as stream:
            return read(stream)

    def load(name: str) -> Column:
        known = wanted(name) or whole().rows != columns.rows
        return columns.load(name) if known else whole().load(name)

    return load


def _with_line_ends(head: bytes) -> bytes:
    """Return the head of a file with newlines, where old programs wrote carriage returns alone."""
    return head if b"\n" in head else head.replace(b"\r", b"\n")


def _unwound(stream: Stream) -> Stream:
    """Return a stream with newlines, where old programs wrote carriage returns alone."""
    head, _ = stream.head()
    if head == _with_line_ends(head):
        return stream
    return stream.rewritten(
        data.replace(b"\r", b"\n") for data in iter(partial(stream.read, BLOCK), b"")
    )


def _dialect(stream: Stream) -> Dialect:
    head, is_complete = stream.head()
    dialect = dialect_of(head, is_complete=is_complete)
    if dialect is not None:
        return dialect
    table = table_of(head)
    if table is not None:
        dialect = assumed(table, head, stream.name)
        if dialect is not None:
            return dialect
        raise LogError(
            f"{stream.name}: CSV without a header; add a first line that names the columns,"
            " such as step,loss"
        )
    if is_bare_header(head):
        raise NoUsableRecord(f"{stream.name}: nothing is logged below its header yet")
    why = describe_words(head) or (
        "expected a line of names, such as step,loss, over lines of numbers"
    )
    raise NoUsableRecord(f"{stream.name}: no record could be read; {why}")


def _results(stream: Stream, dialect: Dialect, size: int, *, fast: bool) -> Iterator[Parsed]:
    work = _Work(
        delimiter=dialect.delimiter,
        names=dialect.names,
        commas=dialect.commas,
        wanted=stream.wanted,
        fast=fast,
    )
    for block, found in in_order(work, blocks(stream, size=size), ahead=fast):
        # A block under another header than its predecessors left was read too early.
        parsed = found if found.under == work.names else work(block)
        work.names = parsed.names
        yield parsed


def _about_headers(above: int, repeated: list[int], renamed: list[int]) -> Iterator[str]:
    if above:
        yield f"{plural(above, 'line')} above the header of the columns left out"
    if repeated:
        yield f"the header stands again {_at(repeated)}: several logs in one file"
    if renamed:
        yield f"another header stands {_at(renamed)}: its columns hold from there on"


def _at(lines: list[int]) -> str:
    return f"on line{'s' * (len(lines) > 1)} {and_more(lines, 3)}"


# DVCLive keeps a table of steps and values for each metric: plots/metrics/train/loss.tsv has the
# columns step and loss of the metric train/loss.
_METRICS: Final = PurePosixPath("plots/metrics")
_STEP: Final = "step"


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the metrics of a run of DVCLive, each file with its path in the run's folder."""
    from stabdiag.readers.points import Points  # which a lone table does not wait for

    points = Points()
    notes: list[str] = []
    for path, stream in files:
        metric = str(path.relative_to(_METRICS).with_suffix(""))
        try:
            taken = _take(points, metric, read(stream))
        except LogError:
            taken = False
        if not taken:
            notes.append(f"{path} is no metric: expected the columns step and a value")
    return points.columns(source=name, format="dvclive", notes=tuple(notes))


def _take(points: Points, metric: str, table: Columns) -> bool:
    """Take the points of a metric, if the table is one; a blank value was NaN."""
    if _STEP not in table.names or len(table.names) < 2:
        return False
    steps, values = table.load(_STEP), table.load(table.names[-1])
    if steps.is_text or values.is_text:
        return False
    counts = steps.present & (np.abs(steps.values) < EXACT)
    logged = counts & (values.present | values.null)
    at, told = steps.values[logged].tolist(), values.values[logged].tolist()
    for step, value in zip(at, told, strict=True):
        points.add(metric, int(step), value)
    return True
