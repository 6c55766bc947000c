"""What a file is, by its content; its suffix is asked only where the content does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers import refusals
from stabdiag.readers.csv_dialect import dialect_of, has_no_header
from stabdiag.readers.json_rows import decode_line
from stabdiag.readers.registry import READERS, Reader, reader

if TYPE_CHECKING:
    from stabdiag.readers.source import Stream

_PARQUET = b"PAR1"

# A first line that breaks off is no reason to give up on the ones below it.
_LINES = 20


def refuse_empty(stream: Stream) -> None:
    """Raise an error if there is nothing to read."""
    if not stream.peek(1):
        raise NoUsableRecord(f"{stream.name}: empty; has the run logged anything yet?")


def sniff(stream: Stream) -> Reader:
    """Return the reader of a stream, or raise a LogError that says what the stream looks like."""
    head, whole = stream.head()
    name = recognised(head, whole=whole) or _by_suffix(stream.name, head)
    if name is None:
        raise LogError(refusals.sentence(stream, head, whole=whole))
    return reader(name)


def recognised(head: bytes, *, whole: bool) -> str | None:
    """Return the name of the format that the head of a file shows, if any; never fails."""
    if head.startswith(_PARQUET):
        return "parquet"
    if refusals.binary(head) is not None:
        return None
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _is_json_lines(text, whole=whole):
        return "jsonl"
    if text.lstrip()[:1] in {b"{", b"["}:
        return None
    if dialect_of(text, whole=whole) is not None or has_no_header(text):
        return "csv"
    return None


def _is_json_lines(head: bytes, *, whole: bool) -> bool:
    lines = [line.strip() for line in head.split(b"\n", _LINES + 1)]
    if not whole and len(lines) > 1:
        lines.pop()
    lines = [line for line in lines if line][:_LINES]
    if not lines or refusals.is_document(head, whole=whole):
        return False
    decoded = (decode_line(line.decode("utf-8", "replace")) for line in lines)
    return any(records and not reason for records, reason in decoded)


def _by_suffix(name: str, head: bytes) -> str | None:
    """Return the format that the name promises, unless the content plainly breaks the promise."""
    if refusals.binary(head) is not None or refusals.is_document(head, whole=True):
        return None
    stem = name.lower()
    for packed in (".gz", ".bz2", ".xz", ".zst"):
        stem = stem.removesuffix(packed)
    for one in READERS:
        if one.name != "parquet" and stem.endswith(one.suffixes):
            return one.name
    return "jsonl" if head.lstrip().startswith(b'{"') else None
