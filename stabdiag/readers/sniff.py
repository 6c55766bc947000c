"""Detect the format of a file by its content, or describe the file and suggest what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from io import BytesIO
from textwrap import shorten
from typing import Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers.in_text import are_objects_in_text, is_table_in_text
from stabdiag.readers.reader import SniffPriority
from stabdiag.readers.registry import READERS, Reader, reader
from stabdiag.readers.source import STANDARD_INPUT, Stream
from stabdiag.readers.unnamed import CSV_WITHOUT_NAMES, ROWS_RUN_ACROSS, ROWS_WITHOUT_NAMES
from stabdiag.readers.unwrapping.compressed import COMPRESSED_SUFFIXES

_EXPORT: Final = "export its scalars (step, loss, …) as CSV or JSON lines"

# These make readable JSON documents: a list of numbers, or lists of numbers by name.
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

_PICTURE: Final = "a picture or a page; pass the log with the numbers of its curves"

NUMPY_MAGIC: Final = b"\x93NUMPY"
_FOREIGN_FORMATS: Final = (
    (b"PK\x03\x04", "a ZIP archive; unpack it and pass the log inside it"),
    (b"\x89HDF", f"an HDF5 file; {_EXPORT}"),
    (b"ARROW1", "an Arrow (Feather) file; save it as Parquet: pyarrow.parquet.write_table("
     "pyarrow.feather.read_table(FILE), 'run.parquet')"),
    (b"PARE", "an encrypted Parquet file; save it without encryption"),
    (NUMPY_MAGIC, f"a NumPy array; convert it with: {_ARRAY}"),
    *((magic, _PICTURE) for magic in (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF")),
    (b"\x80", "a Python pickle; if you trust it (it can run code), convert it with:"
     f" {_PICKLE}"),
)  # fmt: skip

# A file that git LFS did not fetch begins with this.
_POINTER: Final = b"version https://git-lfs.github.com/spec/"

_BROKEN_EVENT_FILE: Final = (
    "named like a TensorBoard event file, but it does not begin like one; is it complete?"
)
_BINARY: Final = (
    "a binary file, not a log that can be read; pass a file of JSON lines, CSV or Parquet"
)

_SOURCE_CODE_REFUSAL: Final = "source code, not a log; pass the text that the program printed"

# Text has hardly any of these bytes. In a compressed file they are a twentieth of all bytes.
_CONTROL: Final = bytes({*range(32), 127} - set(b"\t\n\r\x1b\b\f"))
_MIN_TEXT: Final = 0.95
# They are counted in this part of the first line. A terminal adds a few to a text.
_FIRST_LINE_BYTES: Final = 1 << 12
_FEW_CONTROLS: Final = 20

# A message about a failure is searched for in this many bytes.
_VALUE_BYTES: Final = 1 << 20
# A longer line is not quoted.
_MAX_QUOTED: Final = 120
_MIN_REPEATS: Final = 3

_JSON_IN_TEXT: Final = rb'(?m)^[^{\n]+\{"(?=.*loss").*\}[^\S\n]*$'
_PYTHON_DICT: Final = rb"(?m)^[^\S\n]*\{'(?!train_runtime)[^\n]*\}[^\S\n]*$"

# The history of a run as W&B prints it: train/loss █▅▃▂▁
_DRAWN_CURVE: Final = rb"(?m)[\w)][ \t]{1,40}(?:\xe2\x96[\x81-\x88]){2,80}[ \t\r]{0,80}$"

# NumPy's text format without a header: three lines of numbers only, at least two in each.
_NUMPY_NUMBER: Final = rb"[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"
_NUMPY_ROW: Final = rb"[ \t]*%b(?:[ \t]+%b)+[ \t]*\r?\n" % (_NUMPY_NUMBER, _NUMPY_NUMBER)
_NUMPY_ROWS: Final = rb"(?:[ \t]*#[^\n]*\n)*(?:%b){3}" % _NUMPY_ROW


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
    """Describe a file that is not text; None for text."""
    for magic, description in _FOREIGN_FORMATS:
        if head.startswith(magic):
            return description
    # A crash may leave NUL bytes in a text. In the first line they mean that it is not text.
    first = head[:_FIRST_LINE_BYTES].partition(b"\n")[0]
    controls = len(first) - len(first.translate(None, _CONTROL))
    is_binary = b"\0" in first or controls > max(_FEW_CONTROLS, (1 - _MIN_TEXT) * len(first))
    return _BINARY if is_binary else None


def describe_archive(name: str, members: Collection[str]) -> str | None:
    """Describe a ZIP archive without a log by its members, and suggest what to do."""
    if members and all(member.endswith(".npy") for member in members):
        description = f"{name}: NumPy arrays in an archive; convert them with: {_ARRAYS}"
        return description.replace("FILE", shlex.quote(name))
    if any(member.startswith("xl/") for member in members):
        return f"{name}: an Excel workbook; save the sheet with the losses as CSV"
    if any(member.endswith(("data.pkl", ".weights.h5")) for member in members):
        return (
            f"{name}: a checkpoint of a model; pass the log of the run, which is usually next to it"
        )
    return None


def _describe(stream: Stream, head: bytes) -> str:
    description = _BROKEN_EVENT_FILE if "tfevents" in stream.name else not_text(head)
    if description is not None:
        return description.replace("FILE", shlex.quote(stream.name))
    if not head.strip():
        return "blank; has the run logged anything yet?"
    if len(head.translate(None, _CONTROL)) < _MIN_TEXT * len(head):
        return _BINARY
    redirect = _redirect(stream)
    if re.search(_PYTHON_DICT, head):
        return (
            "a text log with Python dicts; convert them to JSON lines with:"
            f""" grep "^ *{{'" {redirect} | tr "'" '"' > run.jsonl"""
        )
    if re.search(_JSON_IN_TEXT, head):
        return (
            "a text log with JSON in its lines; extract it with:"
            f" grep -o '{{\".*}}' {redirect} > run.jsonl"
        )
    if _runs_across(head):
        return ROWS_RUN_ACROSS
    if re.match(_NUMPY_ROWS, head):
        return ROWS_WITHOUT_NAMES
    if _lacks_header(head):
        return CSV_WITHOUT_NAMES
    if len(re.findall(_DRAWN_CURVE, head)) >= _MIN_REPEATS:
        return _PICTURE
    from stabdiag.readers.text.evidence.refused import describe_values

    values = describe_values(stream.peek(_HEAD_SIZES[-1]), _EXPORT)
    return f"{values}{_describe_failure(stream.peek(_VALUE_BYTES))}"


def _runs_across(head: bytes) -> bool:
    from stabdiag.readers.text.grammars.plain_lists import runs_across

    return runs_across(head)


def _lacks_header(head: bytes) -> bool:
    from stabdiag.readers.csv.dialect import lacks_header

    return lacks_header(head)


def _describe_failure(data: bytes) -> str:
    """Quote a line that reports a non-finite value or the end of the run, or return ""."""
    from stabdiag.readers.text.messages.search import find_failure

    failure = find_failure(data, _MAX_QUOTED)
    if failure is None:
        return ""
    place, line = failure
    number = data.count(b"\n", 0, place) + 1
    quote = shorten(line.decode("utf-8", "replace"), _MAX_QUOTED, placeholder=" …")
    return f"; line {number} mentions a failure: {quote!r}"


def _redirect(stream: Stream) -> str:
    return "< FILE" if stream.name == STANDARD_INPUT else f"< {shlex.quote(stream.name)}"


# The formats of a table of numbers, and of JSON objects.
CSV: Final = "csv"
JSON_LINES: Final = "jsonl"

# If the first line of a log is damaged, its suffix selects one of these formats.
_BY_SUFFIX: Final = tuple(candidate for candidate in READERS if candidate.suffixes)

# Lines of a known format are searched for in this many bytes at the head. If other lines fill them,
# which is rare, the search takes the second size.
_HEAD_SIZES: Final = (1 << 17, 1 << 24)
_FINAL_SIZE: Final = 1 << 22

_EARLY, _TEXT, _LATE, _LAST = (
    tuple(candidate for candidate in READERS if candidate.priority is priority)
    for priority in SniffPriority
)


def refuse_empty(stream: Stream) -> None:
    """Refuse an empty stream."""
    if stream.under and not stream.head()[0].strip():
        raise NoUsableRecord(f"{stream.name}: it contains no output of the program")
    if stream.peek(1):
        return
    if stream.notes:
        # It is compressed, and damaged at its start.
        why = stream.notes[-1].partition(";")[0]
        raise NoUsableRecord(
            f"{stream.name}: it cannot be unpacked: {why}; is it still being written?"
        )
    raise NoUsableRecord(f"{stream.name}: empty; has the run logged anything yet?")


def sniff(stream: Stream) -> Reader:
    """Return the reader of a stream, or raise an error that describes the stream."""
    return detect(stream) or reader_of_unknown(stream)


def detect(stream: Stream) -> Reader | None:
    """Return the reader of a stream, or None if it is a text whose values have unknown names."""
    head, is_complete = stream.head()
    if _is_source_code(stream, head):
        return None
    detected = _first(_EARLY, head, is_complete=is_complete)
    if detected is reader(CSV):
        from stabdiag.readers.csv.dialect import lists_scores

        is_other = b"oss" in head and is_table_in_text(head, is_complete=is_complete)
        if is_other or lists_scores(head, is_complete=is_complete):
            detected = None
    if detected is reader(JSON_LINES) and are_objects_in_text(head):
        other = _text(stream) or _first(_LAST, head, is_complete=is_complete)
        detected = other or detected
    if detected is None and not_text(head) is None:
        detected = _text(stream) or _fallback(stream, head, is_complete=is_complete)
    return detected


def reader_of_unknown(stream: Stream) -> Reader:
    """Return the reader of a text whose values have unknown names, or raise an error.

    The error describes the stream, which ``detect`` did not recognize.
    """
    head, is_complete = stream.head()
    is_source_code = _is_source_code(stream, head)
    detected = None
    if not is_source_code and not_text(head) is None:
        detected = _table_of_scores(stream, head) or _unknown(stream)
        if detected is None and not _runs_across(head):
            detected = _by_suffix(stream, head, is_complete=is_complete)
    if detected is None:
        why = _SOURCE_CODE_REFUSAL if is_source_code else _describe(stream, head)
        raise NoUsableRecord(f"{stream.name}: {why}")
    return detected


def has_known_names(detected: Reader, stream: Stream) -> bool:
    """Return True if a table has a column with a known name, or a stream has another format."""
    if detected is not reader(CSV):
        return True
    from stabdiag.readers.csv.headerless import has_only_unknown_columns

    head, is_complete = stream.head()
    return not has_only_unknown_columns(head, stream.name, is_complete=is_complete)


def _is_source_code(stream: Stream, head: bytes) -> bool:
    """Return True if a stream is a whole file of source code."""
    if head.startswith(b"{"):  # JSON lines do not need the import
        return False
    from stabdiag.readers.source_code import MAX_SOURCE, begins_as_source, is_source_code

    if not begins_as_source(head):
        return False
    text = stream.peek(MAX_SOURCE)
    return len(text) < MAX_SOURCE and is_source_code(text)


def detect_format(head: bytes, *, is_complete: bool) -> str | None:
    """Return the name of the format of a file from its head, or None."""
    detected = _first(READERS, head, is_complete=is_complete)
    return None if detected is None else detected.name


def is_final(detected: Reader, stream: Stream) -> bool:
    """Return True if the detected format cannot change as the stream grows."""
    head = stream.peek(_FINAL_SIZE)
    early = detected.priority in (SniffPriority.EARLY, SniffPriority.TEXT)
    return (early and detected.sniff(head, is_complete=False)) or len(
        stream.peek(_HEAD_SIZES[-1])
    ) == _HEAD_SIZES[-1]


def _first(readers: tuple[Reader, ...], head: bytes, *, is_complete: bool) -> Reader | None:
    candidates = [candidate for candidate in readers if candidate.binary]
    if not_text(head) is None:
        # Binary formats have slow imports: a small text log does not wait for them.
        candidates = [candidate for candidate in readers if not candidate.binary] + candidates
    detected = (item for item in candidates if item.sniff(head, is_complete=is_complete))
    return next(detected, None)


def _text(stream: Stream) -> Reader | None:
    """Detect a text log, which may begin with other lines, by a longer head; see ``Reader``."""
    for size in _HEAD_SIZES:
        head = stream.peek(size)
        detected = _first(_TEXT, head, is_complete=len(head) < size)
        if detected is not None or len(head) < size:
            break
    return detected or _first(_LATE, head, is_complete=len(head) < size)


def _fallback(stream: Stream, head: bytes, *, is_complete: bool) -> Reader | None:
    """Return a format by the suffix of the name, or one of last resort."""
    by_suffix = _by_suffix(stream, head, is_complete=is_complete)
    longer = stream.peek(_HEAD_SIZES[-1])
    is_whole = len(longer) < _HEAD_SIZES[-1]
    if by_suffix is not None and is_whole and not _has_record(by_suffix, stream, longer):
        by_suffix = None
    # JSON lines may be damaged from the first line on. A file named CSV may be another table.
    if by_suffix is reader(JSON_LINES):
        return by_suffix
    return _first(_LAST, longer, is_complete=is_whole) or by_suffix


def _table_of_scores(stream: Stream, head: bytes) -> Reader | None:
    """Return the reader of a table without names in a file that is named after a score."""
    from stabdiag.readers.csv.headerless import assumed, find_table
    from stabdiag.readers.unnamed import is_named_score

    table = find_table(head, stream.name) if is_named_score(stream.name) else None
    dialect = None if table is None else assumed(table, head, stream.name)
    return None if dialect is None or dialect.is_unknown else reader(CSV)


def _unknown(stream: Stream) -> Reader | None:
    from stabdiag.readers.text.grammars.general import sniff_unknown

    head = stream.peek(_HEAD_SIZES[-1])
    return reader("text") if sniff_unknown(head, stream.name) else None


def _has_record(candidate: Reader, stream: Stream, head: bytes) -> bool:
    """Return True if a reader finds a record in a whole log: its name does not make it a format.

    A document is not a record, also with other lines around it. Damaged JSON remains JSON: some of
    its numbers are not values.
    """
    from stabdiag.readers.json.lines import is_quoted

    if is_quoted(head.splitlines()):
        return False
    if head.lstrip().startswith(b'{"'):
        return True
    try:
        candidate.read(Stream(stream.name, BytesIO(head)))
    except LogError:
        return False
    return True


def _by_suffix(stream: Stream, head: bytes, *, is_complete: bool) -> Reader | None:
    if stream.under or (is_complete and not head.strip()):
        return None
    stem = stream.name.lower()
    for packed in COMPRESSED_SUFFIXES:
        stem = stem.removesuffix(packed)
    for candidate in _BY_SUFFIX:
        if stem.endswith(candidate.suffixes):
            return candidate
    return reader(JSON_LINES) if head.lstrip().startswith(b'{"') else None
