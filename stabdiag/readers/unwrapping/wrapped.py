"""Logs that were wrapped: in JSON by Docker, a JSON logger or a notebook, or in tables of HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.blocks import BLOCK, blocks
from stabdiag.readers.json.tolerant import decode_line
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.source import Stream

# The keys of the line, as Docker, loggers, journald, Google, Loki and Kaggle name it.
_LINE_KEYS: Final = (
    "log",
    "message",
    "msg",
    "MESSAGE",
    "text",
    "textPayload",
    "line",
    "event",
    "data",
)

# The bytes to examine, the fewest lines, which all have to differ, and the fraction of records that
# must have the key.
_SAMPLE_SIZES: Final = (1 << 12, 1 << 20)
_FEWEST: Final = 3
_MIN_WRAPPED_FRACTION: Final = 0.9

# Records with these columns need no text: they are the log themselves.
_TRAINING_ROLES: Final = ("loss", "eval_loss", "grad_norm", "loss_scale", "reward")

# A table of HTML. The end of the last one may be missing.
_CELL_TAGS: Final = (b"<td", b"<TD")
_HTML_TABLE: Final = lazy_pattern(r"(?is)<table.*?(?:</table\s*>|$)")
_HTML_TAG: Final = lazy_pattern(r"</?(?:div|p|span|pre|code|details|summary)\b[^<>\n]{0,200}>")

# Keys near the start of every notebook.
_NOTEBOOK: Final = (b'"cells"', b'"cell_type"')


def unwrapped(stream: Stream) -> Stream:
    """Return the stream of the lines that are wrapped in JSON, or the stream itself."""
    # Kaggle writes a list, an object a line.
    if not stream.peek(64).lstrip().startswith((b"{", b'[{"stream_name":')):
        return _without_tags(stream)
    if all(mark in stream.head()[0] for mark in _NOTEBOOK):
        text = _printed(stream)
        if text is None:
            return stream
        return _keyed_stream("outputs", stream, iter(partial(BytesIO(text).read, BLOCK), b""))
    # A look at a few lines is enough to exclude nearly all logs.
    key = ""
    records: list[Record] = []
    for size in _SAMPLE_SIZES:
        head = stream.peek(size)
        if not any(b'"%b"' % key.encode() in head for key in _LINE_KEYS):
            return stream
        lines = head[: head.rfind(b"\n") + 1].splitlines()
        records = [record for line in lines for record in _records(line)]
        key = _log_key(records)
        if not key:
            return stream
    # Docker keeps the end of a line, and cuts a long line into several records.
    ends = any(str(record.get(key)).endswith("\n") for record in records)
    return _keyed_stream(key, stream, _lines(stream, key, end="" if ends else "\n"))


def _without_tags(stream: Stream) -> Stream:
    """Return a stream whose tables are Markdown instead of HTML, as a post may have them."""
    head, is_complete = stream.head()
    if not (is_complete and any(tag in head for tag in _CELL_TAGS)):
        return stream
    text = stream.read_all().decode("utf-8", "replace")
    plain = _HTML_TABLE.sub(lambda table: "\n" + "\n".join(_rows(table[0])) + "\n", text)
    plain = _HTML_TAG.sub("", plain)
    return stream.rewritten(iter([plain.encode("utf-8", "replace")]))


def _keyed_stream(key: str, stream: Stream, pieces: Iterable[bytes]) -> Stream:
    inner = stream.rewritten(pieces)
    inner.under = key
    return inner


def _log_key(records: list[Record]) -> str:
    """Return the key of the lines, if nothing else in the records is about a training."""
    min_count = max(1, _MIN_WRAPPED_FRACTION * len(records))
    keys = (
        key for key in _LINE_KEYS if sum(isinstance(r.get(key), str) for r in records) >= min_count
    )
    min_distinct = min(len(records), _FEWEST) - 1
    key = next((key for key in keys if len({str(r.get(key)) for r in records}) > min_distinct), "")
    flat, _ = flattened(records)
    names = {name for r in flat for name, value in r.items() if isinstance(value, float | list)}
    return "" if assign(sorted(names)).has(*_TRAINING_ROLES) else key


def _records(line: bytes) -> list[Record]:
    line = line.strip().lstrip(b"[,").removesuffix(b"]") if line.startswith((b"[", b",")) else line
    return decode_line(line.decode("utf-8", "replace"))[0] if line.strip() else []


def _lines(stream: Stream, key: str, *, end: str) -> Iterator[bytes]:
    """Yield the lines that are wrapped in JSON; a line that wraps none stays as it is."""
    for block in blocks(stream):
        lines = block.removesuffix(b"\n").split(b"\n")
        yield b"".join(_inner(line, key, end) for line in lines)


def _inner(line: bytes, key: str, end: str) -> bytes:
    texts = [text for record in _records(line) if isinstance(text := record.get(key), str)]
    if not texts:
        return line + b"\n"
    return "".join(f"{text}{end}" for text in texts).encode("utf-8", "replace")


def _printed(stream: Stream) -> bytes | None:
    """Read a whole stream; return the output of the notebook, or None if it is not a notebook."""
    data = stream.read_all()
    try:
        cells = json.loads(data)["cells"]
        text = "\n".join(line for cell in cells for line in _outputs(cell))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        stream.push_back(data)
        return None
    return text.encode("utf-8", "replace")


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs", []):
        shown = output.get("data", {})
        tables = [*_rows(_text(shown.get("text/html", "")))]
        # The plain text of an output that is shown as a table only repeats it.
        yield from tables or [_text(output.get("text", shown.get("text/plain", "")))]
        if "ename" in output:
            yield f"{output['ename']}: {output.get('evalue', '')}"


def _text(lines: object) -> str:
    if isinstance(lines, list):
        return "".join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""


def _rows(html: str) -> Iterator[str]:
    """Yield the rows of the tables in a piece of HTML, as Markdown."""
    from html import unescape

    for table in re.split("(?i)<table", html)[1:]:
        inside = re.split("(?i)</table", table)[0]
        for number, row in enumerate(re.split(r"(?i)<tr\b", inside)[1:]):
            cells = re.split(r"(?i)<t[dh]\b[^<>]*>", row)[1:]
            texts = [unescape(re.sub("<[^<>]*>", " ", cell)) for cell in cells]
            # A bar within a cell would be the end of it.
            plain = [" ".join(text.replace("|", " ").split()) for text in texts]
            yield f"| {' | '.join(plain)} |"
            if number == 0:
                yield f"|{'---|' * len(plain)}"
        yield ""
