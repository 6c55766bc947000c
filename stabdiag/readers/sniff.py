"""Recognise the format of a file by its content, or say what it looks like and what to do."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection
from typing import Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers.compressed import SUFFIXES
from stabdiag.readers.reader import Turn
from stabdiag.readers.registry import READERS, Reader, reader
from stabdiag.readers.source import STANDARD_INPUT, Stream

_EXPORT: Final = (
    "export its scalars as CSV, JSON lines or Parquet with the columns step, loss, grad_norm, lr, …"
)

# These make JSON documents that are read: a list of numbers, or lists of numbers by name.
_ARRAY: Final = (
    'python -c "import json, sys, numpy as np; json.dump(np.load(sys.argv[1]).tolist(),'
    " open('run.json', 'w'))\" FILE"
)
_ARRAYS: Final = (
    'python -c "import json, sys, numpy as np; json.dump({k: v.tolist() for k, v in'
    " np.load(sys.argv[1]).items()}, open('run.json', 'w'))\" FILE"
)
_PICKLE: Final = (
    "python -c \"import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], 'rb')),"
    " open('run.json', 'w'), default=lambda v: v.tolist())\" FILE"
)

_PICTURE: Final = "a picture or a page; give the log that holds the numbers of its curves"

_MAGIC: Final = (
    (b"PK\x03\x04", "a ZIP archive; unpack it and give the log inside it"),
    (b"\x89HDF", f"an HDF5 file; {_EXPORT}"),
    (b"ARROW1", "an Arrow (Feather) file; save it as Parquet: pyarrow.parquet.write_table("
     "pyarrow.feather.read_table(FILE), 'run.parquet')"),
    (b"PARE", "an encrypted Parquet file; save it without encryption"),
    (b"\x93NUMPY", f"a NumPy array; make a log of it with: {_ARRAY}"),
    *((magic, _PICTURE) for magic in (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF")),
    (b"\x80", "a Python pickle; if you trust it (it may hold a program), make a log of it with:"
     f" {_PICKLE}"),
)  # fmt: skip

# What git LFS leaves in place of a file that was not fetched.
_POINTER: Final = b"version https://git-lfs.github.com/spec/"

_EVENTS: Final = "named like a TensorBoard event file, but it does not begin like one; is it whole?"
_BINARY: Final = (
    "a binary file, not a log that can be read; give a file of JSON lines, CSV or Parquet"
)

_WITHOUT_A_LOSS: Final = (
    "a text log in which no loss is found: no lines of a known framework, and no loss repeated"
    f" beside a rising step; {_EXPORT}"
)

# Hardly any of these stand in a text, but a twentieth of a packed file is made of them.
_CONTROL: Final = bytes({*range(32), 127} - set(b"\t\n\r\x1b\b\f"))
_MOSTLY: Final = 0.95

# How much of a text is searched for values, up to which length of line; how often one has to
# recur, and how many are named.
_LOOKED_AT: Final = 1 << 20
_LONGEST: Final = 2000
_OFTEN: Final = 3
_SHOWN: Final = 3

_JSON_IN_TEXT: Final = rb'(?m)^[^{\n]+\{"(?=.*loss").*\}[^\S\n]*$'
_PYTHON_DICT: Final = rb"(?m)^[^\S\n]*\{'(?!train_runtime)[^\n]*\}[^\S\n]*$"

# What NumPy writes without a header: three lines of nothing but numbers, at least two in each.
_NUMBER: Final = rb"[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"
_ROW: Final = rb"[ \t]*%b(?:[ \t]+%b)+[ \t]*\r?\n" % (_NUMBER, _NUMBER)
_ROWS: Final = rb"(?:[ \t]*#[^\n]*\n)*(?:%b){3}" % _ROW


def refuse_pointer(stream: Stream) -> None:
    """Refuse a file that only points to the log.

    Raises:
        LogError: If git LFS has not fetched the file.
    """
    if stream.peek(len(_POINTER)) == _POINTER:
        raise LogError(
            f"{stream.name}: a pointer of git LFS, not the log itself; fetch the log with:"
            " git lfs pull"
        )


def not_text(head: bytes) -> str | None:
    """Say what a file is that is not text; None for text."""
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    # A crash may leave NUL bytes in a text; only in the first line do they show another kind.
    return _BINARY if b"\0" in head.partition(b"\n")[0][:4096] else None


def archive_of(name: str, members: Collection[str]) -> str | None:
    """Say what a ZIP archive without a log is, by its members, and what to do about it."""
    if members and all(member.endswith(".npy") for member in members):
        what = f"{name}: NumPy arrays in an archive; make a log of them with: {_ARRAYS}"
        return what.replace("FILE", shlex.quote(name))
    if any(member.startswith("xl/") for member in members):
        return f"{name}: an Excel workbook; save the sheet with the losses as CSV"
    if any(member.endswith(("data.pkl", ".weights.h5")) for member in members):
        return f"{name}: a checkpoint of a model; give the log that the run wrote beside it"
    return None


def _about(stream: Stream, head: bytes) -> str:
    what = _EVENTS if "tfevents" in stream.name else not_text(head)
    if what is not None:
        return what.replace("FILE", shlex.quote(stream.name))
    if not head.strip():
        return "blank; has the run logged anything yet?"
    if len(head.translate(None, _CONTROL)) < _MOSTLY * len(head):
        return _BINARY
    given = _given(stream)
    if re.search(_PYTHON_DICT, head):
        return (
            "a text log with Python dicts; make JSON lines of them with:"
            f""" grep "^ *{{'" {given} | tr "'" '"' > run.jsonl"""
        )
    if re.search(_JSON_IN_TEXT, head):
        return (
            "a text log with JSON in its lines; extract it with:"
            f" grep -o '{{\".*}}' {given} > run.jsonl"
        )
    if re.match(_ROWS, head):
        return "rows of numbers without names; add a first line of names, such as: step loss lr"
    return _about_values(stream.peek(_LOOKED_AT))


def _about_values(data: bytes) -> str:
    """Say which values a text has that a log would have, and what it lacks."""
    from stabdiag.readers.text.clean import Text
    from stabdiag.readers.text.measured import spans_of
    from stabdiag.readers.text.sample import losses_of

    lines = Text(data).data.split(b"\n")
    found = Counter(name for line in lines if len(line) <= _LONGEST for name in spans_of(line))
    loss = next(iter(losses_of(found)), None)
    if loss is not None and found[loss] == 1:
        return (
            f"a text log of no known framework; {loss!r} is on one line only, too little to find"
            f" its step by; give more of the log, or {_EXPORT}"
        )
    if loss is not None:
        return (
            f"a text log of no known framework; {loss!r} is on {found[loss]} lines, but there is no"
            f" rising step, iteration or epoch with it; print one on the same line, or {_EXPORT}"
        )
    often = [repr(name) for name, count in found.most_common() if count >= _OFTEN]
    if often:
        return (
            f"a text log of no known framework; it repeats {', '.join(often[:_SHOWN])}, but nothing"
            f" called a loss; print one, or {_EXPORT}"
        )
    return _WITHOUT_A_LOSS


def _given(stream: Stream) -> str:
    return "< FILE" if stream.name == STANDARD_INPUT else f"< {shlex.quote(stream.name)}"


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
    if found is None and not_text(head) is None:
        found = _text(stream) or _not_shown(stream, head, whole=whole)
    if found is None:
        raise NoUsableRecord(f"{stream.name}: {_about(stream, head)}")
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
    if not_text(head) is None:
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
    if whole and not head.strip():
        return None
    stem = name.lower()
    for packed in SUFFIXES:
        stem = stem.removesuffix(packed)
    for one in _PROMISED:
        if stem.endswith(one.suffixes):
            return one
    return reader("jsonl") if head.lstrip().startswith(b'{"') else None
