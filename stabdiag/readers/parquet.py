"""Parquet: typed columns, each read only when it is asked for."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from stabdiag.errors import ColumnError, LogError, NoUsableRecord
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns, Wanted, every_column
from stabdiag.readers.compressed import refuse_bomb
from stabdiag.readers.source import Stream

# How many bytes a number takes once it is read.
_WIDTH: Final = 8


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return whether the head of a file is that of Parquet."""
    return head.startswith(b"PAR1")


def read(stream: Stream) -> Columns:
    """Read a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    # Here and not above: every binary file is held against this recogniser first.
    from stabdiag.readers.arrow import counted_index, leaf, leaves, piece_of_array
    from stabdiag.readers.columns import Rows, join
    from stabdiag.readers.converted import from_metadata
    from stabdiag.readers.words import NULL

    name = stream.name
    # A file is opened by its path; what comes through a pipe has to be held.
    held = b"" if stream.path else stream.read_all()
    size = stream.path.stat().st_size if stream.path else len(held)
    try:
        # What is read ahead of its turn stays in memory for as long as the file is open.
        file = parquet.ParquetFile(stream.path or io.BytesIO(held), pre_buffer=False)
        refuse_bomb(name, size, _unpacked(file.metadata, stream.wanted))
        # A text of a dictionary stands there once, however many rows it is in: it stays there.
        texts = [leaf.path for leaf in _leaves(file.schema) if leaf.physical_type == "BYTE_ARRAY"]
        if texts:
            again = stream.path or io.BytesIO(held)
            file = parquet.ParquetFile(again, read_dictionary=texts, pre_buffer=False)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LogError(
            f"{name}: a Parquet file that is cut off or damaged ({_first_line(error)});"
            " it cannot be read before its writer has closed it"
        ) from error
    places = leaves(schema)
    rows = file.metadata.num_rows
    if not rows or not places:
        raise NoUsableRecord(f"{name}: no record could be read; the Parquet file holds no rows")

    index = counted_index(schema.metadata, rows, places)
    wanted = {path[0] for column, path in places.items() if stream.wanted(column)}
    of_all = stream.wanted is every_column
    read_field = _reader(file, set() if of_all else {schema.field(at).name for at in wanted})

    def load(column: str) -> Column:
        if column in index:
            return join([Rows.of(index)], column)
        path = places[column]
        told = f"{name}: column {' '.join(column.split())}"
        try:
            cells = read_field(schema.field(path[0]).name)
            chunks = [
                Rows.of({column: piece_of_array(leaf(part, path[1:]), missing=NULL)})
                for part in cells.chunks
            ]
        except (pa.ArrowException, OSError) as error:
            raise ColumnError(
                f"{told} cannot be read ({_first_line(error)}); is the file whole?"
            ) from error
        if len(cells) != rows:
            raise ColumnError(
                f"{told} has {plural(len(cells), 'row')} where the file tells of {rows}; is the "
                "file whole?"
            )
        return join(chunks, column)

    kept = from_metadata(schema.metadata or {})
    return Columns(
        source=name,
        format="parquet",
        names=(*index, *places),
        rows=rows,
        load=load,
        notes=tuple(stream.notes),
        events=kept.events if kept else (),
        config=kept.config if kept else {},
        settled=kept if places.get("step") == (0,) else None,
    )


def _reader(file: Any, together: set[str]) -> Callable[[str], Any]:
    """Return what reads a field of a file: the first of several with the others.

    Arrow reads several fields on all cores, and one on one of them.
    """
    import pyarrow as pa

    waiting: dict[str, Any] = {}

    def read_field(name: str) -> Any:
        if name in together:
            # What cannot be read is told of when its turn comes.
            with suppress(pa.ArrowException, OSError):
                table = file.read(columns=sorted(together))
                waiting.update(zip(table.column_names, table.columns, strict=True))
            together.clear()
        found = waiting.pop(name, None)
        return file.read(columns=[name]).column(0) if found is None else found

    return read_field


def _unpacked(metadata: Any, wanted: Wanted) -> int:
    """Return how many bytes a file unpacks to: the numbers that are wanted, or all pages if more.

    A list has more values than its rows, and what has a fixed length may be longer than a number.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    pages: int = sum(group.total_byte_size for group in groups)
    numbers: int = metadata.num_rows * _WIDTH
    for place, leaf in enumerate(_leaves(metadata.schema)):
        if leaf.max_repetition_level:
            values = sum(group.column(place).num_values for group in groups)
        else:
            values = metadata.num_rows if wanted(leaf.path.replace(".", "/")) else 0
        numbers += values * max(leaf.length, _WIDTH)
    return max(numbers, pages)


def _leaves(schema: Any) -> Iterator[Any]:
    return map(schema.column, range(len(schema)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
