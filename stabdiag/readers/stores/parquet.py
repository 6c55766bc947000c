"""Parquet: typed columns, each read on first use."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

from stabdiag.errors import ColumnError, LogError, NoUsableRecord
from stabdiag.model.frozen import mutable
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, ColumnFilter, Columns, every_column
from stabdiag.readers.pieces import Piece, Rows, join
from stabdiag.readers.source import Stream
from stabdiag.readers.unwrapping.compressed import refuse_bomb
from stabdiag.readers.words import NULL

# The size of a number in memory, in bytes.
_NUMBER_SIZE: Final = 8


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if the head of a file is Parquet."""
    return head.startswith(b"PAR1")


def read(stream: Stream) -> Columns:
    """Read a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    # Imported here, because every binary file is tried as Parquet first.
    from stabdiag.readers.arrow import counted_index, leaves
    from stabdiag.readers.converted import from_metadata

    name = stream.name
    # A file is opened by its path. A pipe has to be kept in memory.
    data = b"" if stream.path else stream.read_all()
    size = stream.path.stat().st_size if stream.path else len(data)
    try:
        # Data that is read ahead stays in memory until the file is closed.
        file = parquet.ParquetFile(stream.path or io.BytesIO(data), pre_buffer=False)
        refuse_bomb(name, size, _unpacked(file.metadata, stream.is_required))
        # Dictionary columns keep each text only once.
        texts = [leaf.path for leaf in _leaves(file.schema) if leaf.physical_type == "BYTE_ARRAY"]
        if texts:
            source = stream.path or io.BytesIO(data)
            file = parquet.ParquetFile(source, read_dictionary=texts, pre_buffer=False)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LogError(
            f"{name}: a Parquet file that is cut off or damaged ({_first_line(error)});"
            " it cannot be read before its writer has closed it"
        ) from error
    places = leaves(schema)
    rows = file.metadata.num_rows
    if not rows or not places:
        raise NoUsableRecord(f"{name}: no record could be read; the Parquet file has no rows")

    index = counted_index(schema.metadata, rows, places)
    requested = {path[0] for column, path in places.items() if stream.is_required(column)}
    reads_all = stream.is_required is every_column
    fields = _Fields(
        file=file,
        source=name,
        field_names=tuple(schema.names),
        places=places,
        index=index,
        requested=set() if reads_all else {schema.field(at).name for at in requested},
    )
    kept = from_metadata(schema.metadata or {})
    return Columns(
        source=name,
        format="parquet",
        names=(*index, *places),
        rows=rows,
        load=fields.column,
        notes=tuple(stream.notes),
        events=kept.events if kept else (),
        config=kept.config if kept else {},
        converted=kept if places.get("step") == (0,) else None,
        is_parsed=stream.is_required,
    )


@mutable
class _Fields:
    """The fields of a file, read when a column is loaded. The first call reads all requested ones.

    Arrow reads several fields on all cores, and a single field on one core.

    Attributes:
        field_names: the names of the fields; Arrow converts the whole schema for each look-up.
        places: the path of each column in the schema.
        index: the columns of an index that pandas does not store.
        requested: the names of fields that are not read yet.
        waiting: the fields that were read, until a column is loaded from them.
    """

    file: Any
    source: str
    field_names: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]
    index: Mapping[str, Piece]
    requested: set[str]
    waiting: dict[str, Any] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """Load a column.

        Raises:
            ColumnError: if it is damaged.
        """
        import pyarrow as pa

        from stabdiag.readers.arrow import leaf, piece_of_array

        if name in self.index:
            return join([Rows.of(self.index)], name)
        path, rows = self.places[name], self.file.metadata.num_rows
        label = f"{self.source}: column {' '.join(name.split())}"
        try:
            cells = self._read(self.field_names[path[0]])
            chunks = [
                Rows.of({name: piece_of_array(leaf(part, path[1:]), missing=NULL)})
                for part in cells.chunks
            ]
        except (pa.ArrowException, OSError) as error:
            raise ColumnError(
                f"{label} cannot be read ({_first_line(error)}); is the file complete?"
            ) from error
        if len(cells) != rows:
            raise ColumnError(
                f"{label} has {plural(len(cells), 'row')}, but the file should have {rows}; is the "
                "file complete?"
            )
        return join(chunks, name)

    def _read(self, name: str) -> Any:
        """Return the cells of a field, which is not kept."""
        import pyarrow as pa

        if name in self.requested:
            # Errors are raised when the damaged field is read.
            with suppress(pa.ArrowException, OSError):
                table = self.file.read(columns=sorted(self.requested))
                self.waiting.update(zip(table.column_names, table.columns, strict=True))
            self.requested.clear()
        cells = self.waiting.pop(name, None)
        return self.file.read(columns=[name]).column(0) if cells is None else cells


def _unpacked(metadata: Any, is_required: ColumnFilter) -> int:
    """Return the unpacked size of a file: the requested numbers, or all pages if larger.

    A list has more values than rows, and values of a fixed length may be longer than a number.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    pages: int = sum(group.total_byte_size for group in groups)
    numbers: int = metadata.num_rows * _NUMBER_SIZE
    for place, leaf in enumerate(_leaves(metadata.schema)):
        if leaf.max_repetition_level:
            values = sum(group.column(place).num_values for group in groups)
        else:
            values = metadata.num_rows if is_required(leaf.path.replace(".", "/")) else 0
        numbers += values * max(leaf.length, _NUMBER_SIZE)
    return max(numbers, pages)


def _leaves(schema: Any) -> Iterator[Any]:
    return map(schema.column, range(len(schema)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
