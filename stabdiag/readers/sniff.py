"""What a file is, by its content; its suffix is asked only where the content does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers import refusals
from stabdiag.readers.registry import READERS, Reader, reader

if TYPE_CHECKING:
    from stabdiag.readers.source import Stream

# The formats that may be damaged from their first line on and are still known by their suffix.
_PROMISED: Final = ("jsonl", "csv")


def refuse_empty(stream: Stream) -> None:
    """Raise an error if there is nothing to read."""
    if not stream.peek(1):
        raise NoUsableRecord(f"{stream.name}: empty; has the run logged anything yet?")


def sniff(stream: Stream) -> Reader:
    """Return the reader of a stream, or raise a LogError that says what the stream looks like."""
    head, whole = stream.head()
    name = recognised(head, whole=whole) or _by_suffix(stream.name, head)
    if name is None:
        raise LogError(refusals.sentence(stream, head))
    return reader(name)


def recognised(head: bytes, *, whole: bool) -> str | None:
    """Return the name of the format that the head of a file shows, if any; never fails."""
    is_text = refusals.binary(head) is None
    asked = (one for one in READERS if one.binary or is_text)
    return next((one.name for one in asked if one.recognises(head, whole=whole)), None)


def _by_suffix(name: str, head: bytes) -> str | None:
    """Return the format that the name promises, unless the content plainly breaks the promise."""
    if refusals.binary(head) is not None:
        return None
    stem = name.lower()
    for packed in (".gz", ".bz2", ".xz", ".zst"):
        stem = stem.removesuffix(packed)
    for one in map(reader, _PROMISED):
        if stem.endswith(one.suffixes):
            return one.name
    return "jsonl" if head.lstrip().startswith(b'{"') else None
