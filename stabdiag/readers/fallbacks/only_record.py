"""Rewrite a text with one or a few records as JSON lines above the message that ended the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Final

from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.evidence.excerpts import MAX_SHORT
from stabdiag.readers.text.lines.clean import cleaned
from stabdiag.readers.text.messages.search import find_message
from stabdiag.readers.words import spelled_number

# A text with a few records is at most this long.
MAX_SUMMARY_BYTES: Final = 1 << 20


def short_text(stream: Stream) -> bytes | None:
    """Return the lines of a short text, or None for a longer stream or one of other bytes."""
    data = stream.peek(MAX_SHORT + 1)
    return None if len(data) > MAX_SHORT or b"\0" in data else cleaned(data)


def with_only_records(
    stream: Stream,
    records: Iterable[Iterable[tuple[str, str]]],
    detect: Callable[[Stream], Reader | None],
    note: str,
) -> tuple[Stream, Reader] | None:
    """Return the stream with the only records of its text as JSON lines, and their reader.

    Args:
        stream: the text, which gets the ``note``. The first message of a failure and the text below
            it stay below the records, on the same lines.
        records: the names and values of each record. Words are left out.
        detect: finds the reader of the record. Without one, the result is None.
        note: says what is read.
    """
    lines = b"".join(map(_json_line, records))
    reader = detect(Stream(stream.name, BytesIO(lines)))
    if reader is None:
        return None
    stream.notes.append(note)
    data = stream.peek(MAX_SUMMARY_BYTES)
    message = find_message(data, 0)
    if message is None:
        return stream.rewritten(iter([lines])), reader
    blank_lines = b"\n" * (data.count(b"\n", 0, message) - lines.count(b"\n"))
    return stream.rewritten(iter([lines, blank_lines, data[message:]])), reader


def _json_line(values: Iterable[tuple[str, str]]) -> bytes:
    """Return a record as a JSON line."""
    record: dict[str, float | str] = {}
    for name, value in values:
        number = spelled_number(value)
        if number is not None:
            record[name] = number if number - number == 0 else str(number)
    return json.dumps(record).encode() + b"\n"
