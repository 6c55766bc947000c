"""Read the bytes of a log into raw columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.model.events import Event, EventKind
from stabdiag.model.roles.choice import assign
from stabdiag.readers.blocks import ended_lines
from stabdiag.readers.columns import BadLine, Column, ColumnFilter, Columns, every_column
from stabdiag.readers.reader import Reader
from stabdiag.readers.recorded_messages import with_recorded_messages
from stabdiag.readers.registry import reader
from stabdiag.readers.run_columns import with_measure, with_runs
from stabdiag.readers.sniff import (
    CSV,
    NUMPY_MAGIC,
    detect,
    has_known_names,
    not_text,
    reader_of_unknown,
    refuse_empty,
    refuse_pointer,
)
from stabdiag.readers.source import Stream, open_stream
from stabdiag.readers.unwrapping.compressed import decoded, unpacked
from stabdiag.readers.unwrapping.frames import plain_frames
from stabdiag.readers.unwrapping.letter_spacing import without_letter_spacing
from stabdiag.readers.unwrapping.line_wraps import joined_lines
from stabdiag.readers.unwrapping.listed import unlisted
from stabdiag.readers.unwrapping.omissions import without_omissions
from stabdiag.readers.unwrapping.python_dicts import with_json_lines
from stabdiag.readers.unwrapping.row_labels import (
    LABELED_BYTES,
    has_labeled_rows,
    process_label,
    without_process_label,
    without_row_labels,
)
from stabdiag.readers.unwrapping.typeset import untypeset
from stabdiag.readers.unwrapping.wrapped import unwrapped

# The formats whose records may have texts.
_RECORD_FORMATS: Final = ("jsonl", "json", "csv")
_TABLE_FORMATS: Final = ("csv", "printed-table")

# A log that cannot be read again is kept up to this size, to follow a change of its form.
_KEPT: Final = 1 << 22

__all__ = ["BadLine", "Column", "Columns", "as_written", "from_object", "read_stream"]


def read_stream(
    stream: Stream,
    *,
    format: str | None = None,
    is_required: ColumnFilter = every_column,
    grows: bool = False,
    run_id: str | None = None,
) -> Columns:
    """Read a log from a stream, packed or not.

    ``is_required`` selects the columns that must load fast: CSV takes a third of the time
    if few are selected. If the log still ``grows``, an unfinished last line is left out.
    ``run_id`` selects a run of a database that holds several; the newest by default.

    Raises:
        LogError: If the log cannot be read, in one line that says what to do about it.
    """
    chosen = None if format is None else reader(format)
    plain = as_written(stream) if chosen is None else decoded(unpacked(stream))
    kept = plain.peek(_KEPT) if stream.path is None else b""
    plain.is_required = is_required
    plain.run_id = run_id
    refuse_empty(plain)
    refuse_pointer(plain)
    under = plain.under
    if chosen is None:
        plain, chosen = _sniffed(plain)
    if grows and chosen.by_lines:
        plain = plain.rewritten(ended_lines(plain))
    columns = with_runs(with_measure(chosen.read(plain)), run_id)
    if chosen.name in _RECORD_FORMATS:
        columns = with_recorded_messages(columns)
    if chosen.by_lines:
        columns = _with_later_forms(columns, stream, kept)
    if chosen.name in _TABLE_FORMATS:
        from stabdiag.readers.later_forms.moved_columns import with_moved_columns

        columns = with_moved_columns(columns)
    if plain.left_out:
        columns = replace(columns, left_out=(*columns.left_out, *plain.left_out))
    if plain.omissions:
        columns = replace(columns, events=(*columns.events, *plain.omissions[:1]))
    if not under:
        return columns
    message = f"the lines of the log are in the field {under!r} of JSON records"
    event = Event(kind=EventKind.SOURCE, message=message)
    return replace(columns, events=(event, *columns.events))


def read_plain(stream: Stream) -> Columns:
    """Read a log that is not packed, in the format that is detected."""
    plain, chosen = _sniffed(as_written(stream))
    return chosen.read(plain)


def _with_later_forms(columns: Columns, stream: Stream, kept: bytes) -> Columns:
    """Return the columns with the rest of the log if it has another form.

    It is read again from its file, or from the bytes that were ``kept`` if these are all.
    """
    if not (columns.left_out or _ends_without_loss(columns)):
        return columns
    # Imported here, as nearly all logs have one form.
    from stabdiag.readers.later_forms.interleaved import with_interleaved_forms
    from stabdiag.readers.later_forms.later_form import LARGEST, with_later_forms

    def reopened() -> bytes:
        if stream.path is None:
            return kept if len(kept) < _KEPT else b""
        with open_stream(stream.path) as reopened_stream:
            pieces, size = [], 0
            for piece in as_written(reopened_stream).pieces():
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST:
                    return b""
        return b"".join(pieces)

    return with_later_forms(with_interleaved_forms(columns, reopened), reopened)


def _ends_without_loss(columns: Columns) -> bool:
    """Return True if the last of several objects lacks a finite training loss."""
    name = assign(columns.names).columns.get("loss") if columns.format == "jsonl" else None
    if name is None:
        return False
    loss = columns.load(name)
    return not (loss.present & np.isfinite(loss.values))[-1:].all()


def _sniffed(stream: Stream) -> tuple[Stream, Reader]:
    """Return a stream with its reader, if needed without the labels of its lines."""
    label = process_label(stream.peek(LABELED_BYTES))
    if label:
        stream = without_process_label(stream, label)
    chosen = detect(stream)
    if chosen is None and not_text(stream.head()[0]) is not None:
        return stream, reader_of_unknown(stream)
    if chosen is None or not has_known_names(chosen, stream):
        # Imported here, as nearly all logs are read as they are.
        from stabdiag.readers.fallbacks.decorations import undecorated
        from stabdiag.readers.fallbacks.named_rows import named
        from stabdiag.readers.fallbacks.run_summary import summarized
        from stabdiag.readers.fallbacks.single_evaluation import evaluated
        from stabdiag.readers.fallbacks.table_excerpt import excerpted

        # The label of a line may look like a value, so it is removed before names are unknown.
        fallbacks = (undecorated, named, excerpted, summarized, evaluated)
        results = (fallback(stream, _detect_known) for fallback in fallbacks)
        rewritten = next(filter(None, results), None)
        if rewritten is not None:
            return rewritten
        return _unknown(stream) if chosen is None else (stream, chosen)
    if chosen.name == CSV and has_labeled_rows(stream.peek(LABELED_BYTES)):
        from stabdiag.readers.fallbacks.decorations import undecorated

        return undecorated(stream, detect) or (without_row_labels(stream), chosen)
    return stream, chosen


def _unknown(stream: Stream) -> tuple[Stream, Reader]:
    """Return a stream of unknown names, or of a few evaluations, with its reader."""
    try:
        return stream, reader_of_unknown(stream)
    except NoUsableRecord:
        from stabdiag.readers.fallbacks.few_evaluations import few_evaluated

        evaluated = few_evaluated(stream, _detect_known)
        if evaluated is None:
            raise
        return evaluated


def _detect_known(stream: Stream) -> Reader | None:
    """Return the reader of a stream if it has known names, or None."""
    detected = detect(stream)
    return detected if detected is not None and has_known_names(detected, stream) else None


def as_written(stream: Stream) -> Stream:
    """Return a log as its program wrote it: unpacked, in UTF-8, and not wrapped."""
    plain = unpacked(stream)
    if plain.peek(len(NUMPY_MAGIC)) == NUMPY_MAGIC:
        from stabdiag.readers.unwrapping.arrays import array_rows  # few logs are arrays

        plain = array_rows(plain)
    plain = without_letter_spacing(decoded(plain))
    plain = unlisted(without_omissions(untypeset(unwrapped(plain))))
    return joined_lines(plain_frames(with_json_lines(plain)))


def from_object(table: object) -> Columns:
    """Return the columns of a DataFrame, an Arrow table, a mapping of arrays or a list of records.

    Raises:
        LogError: If the object has another type.
    """
    from stabdiag.readers.memory import memory_columns

    return memory_columns(table)
