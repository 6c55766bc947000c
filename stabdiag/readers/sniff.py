"""Recognise the format of a file by its content, and by its suffix only where that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers import refusals
from stabdiag.readers.compressed import SUFFIXES
from stabdiag.readers.reader import Turn
from stabdiag.readers.registry import READERS, Reader, reader

if TYPE_CHECKING:
    from stabdiag.readers.source import Stream

# A log of these formats may be damaged from its first line on: then its suffix decides.
_PROMISED: Final = tuple(one for one in READERS if one.suffixes)

# How far into a text log lines of a known format are searched for: first a little, then further.
_LOOKS: Final = (1 << 22, 1 << 24)

_QUICK, _TEXT, _PATIENT, _LAST = (
    tuple(one for one in READERS if one.turn is turn) for turn in Turn
)


def refuse_empty(stream: Stream) -> None:
    """Refuse a stream in which there is nothing to read."""
    if stream.under and not stream.head()[0].strip():
        raise NoUsableRecord(f"{stream.name}: nothing was printed that is kept in it")
    if stream.peek(1):
        return
    if stream.notes:
        # It is packed, and cut or damaged right at its start.
        why = stream.notes[-1].partition(";")[0]
        raise NoUsableRecord(
            f"{stream.name}: nothing of it unpacks: {why}; is it still being written?"
        )
    raise NoUsableRecord(f"{stream.name}: empty; has the run logged anything yet?")


def sniff(stream: Stream) -> Reader:
    """Return the reader of a stream, or raise an error that says what the stream looks like."""
    head, whole = stream.head()
    found = _first(_QUICK, head, whole=whole)
    if found is None and refusals.binary(head) is None:
        found = _text(stream) or _not_shown(stream, head, whole=whole)
    if found is None:
        raise NoUsableRecord(refusals.sentence(stream, head))
    return found


def recognised(head: bytes, *, whole: bool) -> str | None:
    """Return the name of the format that the head of a file shows, if any."""
    found = _first(READERS, head, whole=whole)
    return None if found is None else found.name


def settles(found: Reader, stream: Stream) -> bool:
    """Tell whether the format that a long stream was found to have is that of any that goes on."""
    head = stream.peek(_LOOKS[0])
    early = found.turn in (Turn.QUICK, Turn.TEXT)
    return (early and found.recognises(head, whole=False)) or len(
        stream.peek(_LOOKS[-1])
    ) == _LOOKS[-1]


def _first(readers: tuple[Reader, ...], head: bytes, *, whole: bool) -> Reader | None:
    asked = [one for one in readers if one.binary]
    if refusals.binary(head) is None:
        # Binary formats import much: a small text log does not wait for them.
        asked = [one for one in readers if not one.binary] + asked
    return next((one for one in asked if one.recognises(head, whole=whole)), None)


def _text(stream: Stream) -> Reader | None:
    """Recognise a text log, whose first lines may be anything, by a longer head; see ``Reader``."""
    for size in _LOOKS:
        head = stream.peek(size)
        found = _first(_TEXT, head, whole=len(head) < size)
        if found is not None or len(head) < size:
            break
    return found or _first(_PATIENT, head, whole=len(head) < size)


def _not_shown(stream: Stream, head: bytes, *, whole: bool) -> Reader | None:
    """Return a format for content that shows none: that of its suffix, or one of last resort."""
    promised = None if stream.under else _by_suffix(stream.name, head, whole=whole)
    # JSON lines may be damaged from the first one on; what is named CSV may be another table.
    if promised is reader("jsonl"):
        return promised
    far = stream.peek(_LOOKS[-1])
    return _first(_LAST, far, whole=len(far) < _LOOKS[-1]) or promised


def _by_suffix(name: str, head: bytes, *, whole: bool) -> Reader | None:
    """Return the format that the suffix of a name promises."""
    if whole and not head.strip():
        return None
    stem = name.lower()
    for packed in SUFFIXES:
        stem = stem.removesuffix(packed)
    for one in _PROMISED:
        if stem.endswith(one.suffixes):
            return one
    return reader("jsonl") if head.lstrip().startswith(b'{"') else None
