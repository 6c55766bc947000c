"""A text with one record, as a JSON line above what ended the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from io import BytesIO

from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.messages.search import find_message
from stabdiag.readers.words import spelled_number


def with_only_record(
    stream: Stream,
    data: bytes,
    values: Iterable[tuple[str, str]],
    detect: Callable[[Stream], Reader | None],
    note: str,
) -> tuple[Stream, Reader] | None:
    """Return the stream with the only record of its text as a JSON line, and its reader.

    Args:
        stream: the text, which gets the ``note``.
        data: the whole text. Its first message of a failure, and what is below, stays below the
            record, on a line of the same number.
        values: the names and values of the record. Words are left out.
        detect: finds the reader of the record. Without one, the result is None.
        note: says what is read.
    """
    record: dict[str, float | str] = {}
    for name, value in values:
        number = spelled_number(value)
        if number is not None:
            record[name] = number if number - number == 0 else str(number)
    line = json.dumps(record).encode() + b"\n"
    reader = detect(Stream(stream.name, BytesIO(line)))
    if reader is None:
        return None
    stream.notes.append(note)
    message = find_message(data, 0)
    if message is None:
        return stream.rewritten(iter([line])), reader
    blank_lines = b"\n" * (data.count(b"\n", 0, message) - 1)
    return stream.rewritten(iter([line, blank_lines, data[message:]])), reader
