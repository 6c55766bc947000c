"""``trainer_state.json`` of the HF Trainer: its records lie in ``log_history``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.readers.json.document import columns_of
from stabdiag.readers.json.shapes import holds_history, is_document
from stabdiag.readers.json.tables import read_tables

if TYPE_CHECKING:
    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the head of a file is one JSON document with a ``log_history``."""
    return is_document(head, whole=whole) and holds_history(head)


def read(stream: Stream) -> Columns:
    """Read the history; the fields beside it belong to the configuration."""
    tables = read_tables(stream)
    found = [path for path in tables.records if path[-1:] == ("log_history",)]
    records = tables.records[found[0]] if found else []
    above = found[0][:-1] if found else ()
    values = tables.values.items()
    beside = {path[-1]: value for path, value in values if path and path[:-1] == above}
    columns = columns_of(stream, records, tables, "trainer-state", beside)
    return _without_the_summary(columns)


def _without_the_summary(columns: Columns) -> Columns:
    """Leave out the mean loss of the whole run, which the last record holds with the run's time."""
    mean, time = "train_loss", "train_runtime"
    if mean not in columns.names or time not in columns.names:
        return columns
    if (columns.load(mean).present & ~columns.load(time).present).any():
        return columns
    return replace(columns, names=tuple(name for name in columns.names if name != mean))
