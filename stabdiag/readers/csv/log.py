"""CSV: a header, and lines with the same number of cells; also the CSV files of DVCLive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.frozen import mutable
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.text import and_more, plural
from stabdiag.readers.blocks import BLOCK, blocks, in_order
from stabdiag.readers.columns import EXACT, Column, ColumnFilter, Columns, every_column
from stabdiag.readers.csv.cells import BLANKS, DELIMITERS
from stabdiag.readers.csv.dialect import (
    LINES,
    Dialect,
    content_lines,
    describe_words,
    detect_dialect,
    is_bare_header,
)
from stabdiag.readers.csv.headerless import assumed, find_table, name_table, table_of_cells
from stabdiag.readers.csv.tolerant import CsvBlock, read_lines
from stabdiag.readers.json.shapes import is_document
from stabdiag.readers.log_builder import LogBuilder
from stabdiag.readers.points import Points
from stabdiag.readers.source import Stream, open_stream
from stabdiag.readers.text.lines.line_forms import outline
from stabdiag.readers.unnamed import (
    CSV_WITHOUT_NAMES,
    ROWS_WITHOUT_NAMES,
    is_named_score,
    measure_of_file,
    name_of_values,
)

# Up to this size the tolerant reader (20 MB/s) finishes before Arrow is imported (40 ms).
MAX_TOLERANT_CSV: Final = 1 << 19

# Names that say nothing: x1, V2, Column3, a
_PLACEHOLDER: Final = lazy_pattern(
    r"(?i)[abcuvwxyz]|[xyzv]_?\d{1,2}|(?:col|column|field|var)[_ ]?\d{1,2}"
)

# 'train_loss': [1.0625, at the end of a line, or without a name on a line of its own.
_LIST_BEGINS: Final = lazy_pattern(
    rb"(?m)(?:[\"'\w][:=] {0,4}|^[ \t]{0,8})"
    rb"\[(?:[-+]?\d{0,9}\.?\d{1,20}(?:e[-+]?\d{1,3})?|nan), {0,4}\n"
)


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if the head of a file is CSV, with or without a header."""
    text = _with_line_ends(head.removeprefix(b"\xef\xbb\xbf"))
    if text.lstrip()[:1] == b"{" or is_document(text, is_complete=is_complete):
        return False
    # The first of the numbers of a list that Python printed on many lines has a name.
    if b"[" in text and _LIST_BEGINS.search(outline(text) + b"\n") is not None:
        return False
    # The only commas may be within the tensors that a pasted loop printed.
    if b"\ntensor(" in text:
        from stabdiag.readers.text.lines.values import name_bare_tensors

        if name_bare_tensors(text) != text:
            return False
    return detect_dialect(text, is_complete=is_complete) is not None or find_table(text) is not None


@mutable
class _BlockParser:
    """Parses a block under the current header, with Arrow if ``fast``."""

    delimiter: str
    names: tuple[str, ...]
    commas: bool
    is_ragged: bool
    is_required: ColumnFilter
    fast: bool
    texts: set[str] = field(default_factory=set)

    def __call__(self, block: bytes) -> CsvBlock:
        names = self.names
        if self.fast:
            from stabdiag.readers.csv.arrow import read_block

            table = read_block(block, names, self.delimiter, self.texts, self.is_required)
            if table is not None:
                return CsvBlock(chunk=table, under=names, names=names, lines=table.rows)
        return read_lines(
            block, names, self.delimiter, commas=self.commas, is_ragged=self.is_ragged
        )


def read(stream: Stream, *, small: int = MAX_TOLERANT_CSV, size: int = BLOCK) -> Columns:
    """Read a stream of CSV, without Arrow up to ``small`` bytes.

    Columns that are not requested are not parsed, as parsing takes most of the time.
    """
    stream = _normalize_line_ends(stream)
    dialect = _dialect(stream)
    arrows = not dialect.commas and dialect.delimiter != BLANKS
    fast = arrows and len(stream.peek(small + 1)) > small
    builder = LogBuilder(lines=dialect.lines)
    if fast:
        from stabdiag.readers.slab import make_slab

        builder = make_slab(stream, len(dialect.names), lines=dialect.lines)
    stream.read(dialect.start)
    repeated: list[int] = []
    renamed: list[int] = []
    for parsed in _results(stream, dialect, size, fast=fast):
        repeated += [builder.lines + line for line in parsed.repeated]
        renamed += [builder.lines + line for line in parsed.renamed]
        builder.take(parsed.chunk, parsed.lines, parsed.bad)
        builder.is_ended = parsed.is_ended
    if not builder.chunks:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected lines of"
            f" {len(dialect.names)} cells below the header"
        )
    stream.notes += _header_notes(dialect.above, repeated, renamed)
    columns = builder.columns(stream.name, "csv", stream.notes)
    names = _measure_names(_monitor_names(dialect.shown(columns.names)), stream.name)
    load = columns.load
    if fast and stream.path is not None:
        load = _with_unwanted(columns, stream.path, stream.is_required)
    return replace(
        columns,
        names=tuple(names),
        load=lambda name: load(names.get(name, name)),
        events=(*filter(None, [dialect.assumed]), *columns.events),
        unnamed=dialect.assumed is not None,
        is_unknown=dialect.is_unknown,
        is_parsed=stream.is_required if fast else every_column,
    )


# The columns of a monitor.csv of Gym, Gymnasium and Stable-Baselines3, with a row for each episode:
# its reward, its length, and the time since the start.
_MONITOR: Final = {"r": "episode_reward", "l": "episode_length", "t": "time"}


_COUNT_AND_VALUE: Final = 2
_NAMES_OF_ANYTHING: Final = frozenset(("values", "y", "rate", "mean", "avg", "average", "result"))


def _monitor_names(names: dict[str, str]) -> dict[str, str]:
    """Map displayed names to the names of columns, with full names for a monitor."""
    if not _MONITOR.keys() <= names.keys():
        return names
    return {_MONITOR.get(name, name): own for name, own in names.items()}


def _measure_names(names: dict[str, str], source: str) -> dict[str, str]:
    """Map displayed names to the names of columns, with the measure of the file for a value.

    TensorBoard exports a tag as a table of the columns Wall time, Step and Value. Next to a step
    alone, other names say as little in a file named after a score: step,y in reward.csv.
    """
    value = next((name for name in names if name.lower() == "value"), None)
    if value is None and len(names) == _COUNT_AND_VALUE and is_named_score(source):
        value = next((name for name in names if name.lower() in _NAMES_OF_ANYTHING), None)
    others = [name for name in names if name != value]
    counters = ("step",) if value is None or value.lower() == "value" else ("step", "epoch")
    if value is None or not assign(others).has(*counters) or len(others) > 2:
        return names
    measure = measure_of_file(source) or (name_of_values(source) if is_named_score(source) else "")
    return {measure or name if name == value else name: own for name, own in names.items()}


def _with_unwanted(
    columns: Columns, path: Path, is_required: ColumnFilter
) -> Callable[[str], Column]:
    """Return a loader of all columns that reads the file again for columns not requested before.

    This is rare. If the log has grown in the meantime, these columns are empty.
    """

    @cache
    def all_columns() -> Columns:
        with open_stream(path) as stream:
            return read(stream)

    def load(name: str) -> Column:
        is_loaded = is_required(name) or all_columns().rows != columns.rows
        return columns.load(name) if is_loaded else all_columns().load(name)

    return load


def _with_line_ends(head: bytes) -> bytes:
    """Return the head of a file with newlines if it has only carriage returns."""
    return head if b"\n" in head else head.replace(b"\r", b"\n")


def _normalize_line_ends(stream: Stream) -> Stream:
    """Return a stream with newlines if it has only carriage returns."""
    head, _ = stream.head()
    if head == _with_line_ends(head):
        return stream
    return stream.rewritten(
        data.replace(b"\r", b"\n") for data in iter(partial(stream.read, BLOCK), b"")
    )


def _dialect(stream: Stream) -> Dialect:
    head, is_complete = stream.head()
    dialect = detect_dialect(head, is_complete=is_complete)
    if dialect is not None:
        return _with_meaning(dialect, head, stream.name)
    table = find_table(head, stream.name)
    if table is not None:
        dialect = assumed(table, head, stream.name)
        if dialect is not None:
            return dialect
        if table.delimiter == BLANKS:
            raise LogError(f"{stream.name}: {ROWS_WITHOUT_NAMES}")
        raise LogError(f"{stream.name}: {CSV_WITHOUT_NAMES}")
    if is_bare_header(head):
        raise NoUsableRecord(f"{stream.name}: nothing is logged below its header yet")
    reason = describe_words(head) or (
        "expected a line of names, such as step,loss, and lines of numbers"
    )
    raise NoUsableRecord(f"{stream.name}: no record could be read; {reason}")


def _results(stream: Stream, dialect: Dialect, size: int, *, fast: bool) -> Iterator[CsvBlock]:
    work = _BlockParser(
        delimiter=dialect.delimiter,
        names=dialect.names,
        commas=dialect.commas,
        is_ragged=dialect.is_ragged,
        is_required=stream.is_required,
        fast=fast,
    )
    for block, result in in_order(work, blocks(stream, size=size), ahead=fast):
        # The header changed in an earlier block: parse the block again.
        parsed = result if result.under == work.names else work(block)
        work.names = parsed.names
        yield parsed


def _header_notes(above: int, repeated: list[int], renamed: list[int]) -> Iterator[str]:
    if above:
        yield f"{plural(above, 'line')} above the header of the columns left out"
    if repeated:
        yield f"the header is repeated {_lines(repeated)}: several logs in one file"
    if renamed:
        yield f"a different header is {_lines(renamed)}: it applies from there on"


def _lines(lines: list[int]) -> str:
    return f"on line{'s' * (len(lines) > 1)} {and_more(lines, 3)}"


# DVCLive keeps a table of steps and values for each metric: plots/metrics/train/loss.tsv has the
# columns step and loss of the metric train/loss.
_DVCLIVE_FOLDER: Final = PurePosixPath("plots/metrics")
_DVCLIVE_STEP: Final = "step"


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the metrics of a run of DVCLive, each file with its path in the run's folder."""
    from stabdiag.readers.points import Points  # not needed for a single table

    points = Points()
    notes: list[str] = []
    for path, stream in files:
        metric = str(path.relative_to(_DVCLIVE_FOLDER).with_suffix(""))
        try:
            taken = _take(points, metric, read(stream))
        except LogError:
            taken = False
        if not taken:
            notes.append(f"{path} is not a metric: expected the columns step and a value")
    return points.columns(source=name, format="dvclive", notes=tuple(notes))


def _take(points: Points, metric: str, table: Columns) -> bool:
    """Add the points of a metric, and return False if the table is not one. Blank means NaN."""
    if _DVCLIVE_STEP not in table.names or len(table.names) < 2:
        return False
    steps, values = table.load(_DVCLIVE_STEP), table.load(table.names[-1])
    if steps.is_text or values.is_text:
        return False
    counts = steps.present & (np.abs(steps.values) < EXACT)
    logged = counts & (values.present | values.null)
    points_logged = zip(steps.values[logged].tolist(), values.values[logged].tolist(), strict=True)
    for step, value in points_logged:
        points.add(metric, int(step), value)
    return True


def _with_meaning(dialect: Dialect, head: bytes, source: str) -> Dialect:
    """Return a dialect whose header only numbers its columns with names after the file.

    The names of other headers are kept.
    """
    if not all(_PLACEHOLDER.fullmatch(name) for name in dialect.names):
        return dialect
    lines = head[dialect.start :].decode("utf-8", "replace").split("\n")[: LINES + 1]
    content = [lines[place] for place in content_lines(lines, LINES)]
    if dialect.delimiter not in DELIMITERS or not content or assign(dialect.names).columns:
        return dialect
    named = name_table(table_of_cells(content, dialect.delimiter, above=0), source)
    if named is None or named.is_unknown or len(named.names) != len(dialect.names):
        return dialect
    return replace(dialect, names=named.names, assumed=named.event)
