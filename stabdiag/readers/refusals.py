"""Sentences about files that are not read: what each looks like, and what to do about it."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Final

from stabdiag.readers.source import STANDARD_INPUT

if TYPE_CHECKING:
    from stabdiag.readers.source import Stream

_EXPORT: Final = (
    "export its scalars as CSV, JSON lines or Parquet with the columns step, loss, grad_norm, lr, …"
)

_MAGIC: Final = (
    (b":W&B", "a W&B run file; write its history as JSON lines: for row in"
     " wandb.Api().run('entity/project/id').scan_history(): print(json.dumps(row))"),
    (b"SQLite format 3\0", "an SQLite database; export the values, for MLflow with: sqlite3 -header"
     " -csv FILE \"select step, value as loss from metrics where key = 'loss'\" > run.csv"),
    (b"PK\x03\x04", "a ZIP archive; unpack it and give the log inside it"),
    (b"\x89HDF", f"an HDF5 file; {_EXPORT}"),
    (b"ARROW1", "an Arrow (Feather) file; save it as Parquet: pyarrow.parquet.write_table("
     "pyarrow.feather.read_table(FILE), 'run.parquet')"),
    (b"PARE", "an encrypted Parquet file; save it without encryption"),
    (b"\x93NUMPY", f"a NumPy array; {_EXPORT}"),
    (b"\x80", f"a Python pickle; {_EXPORT}"),
    (b"\xff\xfe", "text in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "text in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"),
)  # fmt: skip

_EVENTS: Final = (
    "a TensorBoard event file; export its scalars as CSV with the columns step, loss, …"
    " (TensorBoard offers the download of each chart's data, EventAccumulator reads them all)"
)
_BINARY: Final = (
    "a binary file, not a log that can be read; give a file of JSON lines, CSV or Parquet"
)

_TEXT: Final = f"a text log, not JSON lines, CSV or Parquet; {_EXPORT}"

_JSON_IN_TEXT: Final = re.compile(rb'^[^{\n]+\{".*loss".*\}\s*$', re.MULTILINE)
_PYTHON_DICT: Final = re.compile(rb"^\s*\{'[^\n]*\}\s*$", re.MULTILINE)
_MLFLOW: Final = re.compile(rb"\A(?:\d{13} \S+ \d+\r?\n)+")


def sentence(stream: Stream, head: bytes, *, whole: bool) -> str:
    """Return why a file that no reader recognises is not read."""
    return f"{stream.name}: {_about(stream, head, whole=whole)}"


def binary(head: bytes) -> str | None:
    """Return what a file is that is not text, or None for text."""
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    if b"brain.Event:" in head[:64]:
        return _EVENTS
    # A crash may leave NUL bytes in a text; only those in its first line speak of another kind.
    return _BINARY if b"\0" in head.partition(b"\n")[0][:4096] else None


def is_document(head: bytes, *, whole: bool) -> bool:
    """Return whether a text is one JSON document instead of an object a line."""
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    if text.startswith(b"["):
        return text[1:].lstrip()[:1] in {b"{", b"]", b"["}
    if not text.startswith(b"{"):
        return False
    first, _, rest = text.partition(b"\n")
    first = first.strip()
    if rest:
        opened = first.endswith((b"[", b"{"))
        return opened or (first.endswith(b",") and rest.lstrip().startswith(b'"'))
    return whole and _is_table(first)


def _is_table(line: bytes) -> bool:
    """Return whether a lone line holds whole columns or records rather than one record."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    members = list(value.values()) if isinstance(value, dict) else []
    lists = [member for member in members if isinstance(member, list)]
    if any(one and isinstance(one[0], dict) for one in lists):
        return True
    return len(lists) == len(members) and any(len(one) > 1 for one in lists)


def _about(stream: Stream, head: bytes, *, whole: bool) -> str:
    what = binary(head)
    if what is None and "tfevents" in stream.name:
        what = _EVENTS
    if what is not None:
        return what.replace("FILE", shlex.quote(stream.name))
    if not head.strip():
        return "blank; has the run logged anything yet?"
    if is_document(head, whole=whole):
        return f"one JSON document, not JSON lines; {_conversion(stream, head)}"
    given = _given(stream)
    if _PYTHON_DICT.search(head):
        return (
            "a text log with Python dicts; make JSON lines of them with:"
            f""" grep "^ *{{'" {given} | tr "'" '"' > run.jsonl"""
        )
    if _JSON_IN_TEXT.search(head):
        return (
            "a text log with JSON in its lines; extract it with:"
            f" grep -o '{{\".*}}' {given} > run.jsonl"
        )
    if _MLFLOW.match(head):
        return (
            "an MLflow metric file; make it CSV with:"
            f" (echo timestamp,loss,step; tr ' ' ',' {given}) > run.csv"
        )
    return _TEXT


def _conversion(stream: Stream, head: bytes) -> str:
    given = _given(stream)
    if b'"log_history"' in head:
        return _printing("log_history", "json.load(sys.stdin)['log_history']", given)
    start = re.sub(rb"\s+", b"", head[:4096].removeprefix(b"\xef\xbb\xbf"))
    if start.startswith(b"[{"):
        return _printing("records", "json.load(sys.stdin)", given)
    if re.match(rb'\{"[^"]*":\[[^\[{]', start):
        return (
            'convert its columns with: python -c "import json, sys; d = json.load(sys.stdin);'
            f' [print(json.dumps(dict(zip(d, r)))) for r in zip(*d.values())]" {given} > run.jsonl'
        )
    return 'write its records one a line, such as {"step": 1, "loss": 2.5}'


def _printing(what: str, records: str, given: str) -> str:
    return (
        f'convert its {what} with: python -c "import json, sys;'
        f' [print(json.dumps(r)) for r in {records}]" {given} > run.jsonl'
    )


def _given(stream: Stream) -> str:
    """Return how a shell command is given the file."""
    return "< FILE" if stream.name == STANDARD_INPUT else f"< {shlex.quote(stream.name)}"
