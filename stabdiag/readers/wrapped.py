"""Logs whose lines were put into JSON by what collected them: Docker, a JSON logger, a notebook."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from stabdiag.readers.json_rows import decode_line
from stabdiag.readers.nested import flattened
from stabdiag.roles import assign

if TYPE_CHECKING:
    from stabdiag.readers.nested import Record
    from stabdiag.readers.source import Raw, Stream

# Under which key the line stands: Docker's, loggers', journald's, Google's and Loki's.
_KEYS: Final = ("log", "message", "msg", "MESSAGE", "text", "textPayload", "line", "event")

# So much is looked at, and so many lines differ if there are as many.
_LOOKED_AT: Final = (1 << 12, 1 << 20)
_FEWEST: Final = 3
_NEARLY_ALL: Final = 0.9

# Who has these knows what a record means without its text.
_TELLING: Final = ("loss", "eval_loss", "grad_norm", "loss_scale", "reward")


# What stands near the start of every notebook.
_NOTEBOOK: Final = (b'"cells"', b'"cell_type"')


def unwrapped(stream: Stream) -> Stream:
    """Return the stream of the lines that stand in JSON, or the stream itself."""
    if stream.peek(64).lstrip()[:1] != b"{":
        return stream
    if all(mark in stream.head()[0] for mark in _NOTEBOOK):
        from stabdiag.readers.notebook import printed

        text = printed(stream)
        return stream if text is None else _within(stream, io.BytesIO(text), "outputs")
    # A look at a few lines spares nearly all logs the second one.
    key = ""
    records: list[Record] = []
    for size in _LOOKED_AT:
        head = stream.peek(size)
        lines = head[: head.rfind(b"\n") + 1].splitlines()
        records = [record for line in lines for record in _records(line)]
        key = _key_of(records)
        if not key:
            return stream
    # Docker leaves a line its end, and cuts a long one into several records.
    ends = any(str(record.get(key)).endswith("\n") for record in records)
    return _within(stream, _Lines(stream, key, end="" if ends else "\n"), key)


def _within(stream: Stream, raw: Raw, key: str) -> Stream:
    inner = stream.unpacked(raw)
    inner.under = key
    return inner


def _key_of(records: list[Record]) -> str:
    """Return the key of the lines if there is nothing but these to tell of a training."""
    enough = max(1, _NEARLY_ALL * len(records))
    keys = (key for key in _KEYS if sum(isinstance(r.get(key), str) for r in records) >= enough)
    few = min(len(records), _FEWEST) - 1
    key = next((key for key in keys if len({str(r.get(key)) for r in records}) > few), "")
    flat, _ = flattened(records)
    names = {name for r in flat for name, value in r.items() if isinstance(value, float | list)}
    told = assign(sorted(names)).columns
    return key if told.keys().isdisjoint(_TELLING) else ""


def _records(line: bytes) -> list[Record]:
    return decode_line(line.decode("utf-8", "replace"))[0] if line.strip() else []


class _Lines:
    """The lines that stand in JSON; where none does, a line stays as it is."""

    def __init__(self, stream: Stream, key: str, *, end: str) -> None:
        self._stream = stream
        self._key = key
        self._end = end
        self._rest = b""
        self._ready = b""

    def read(self, size: int, /) -> bytes:
        while not self._ready:
            data = self._stream.read(max(size, 1 << 16))
            *lines, self._rest = (self._rest + data).split(b"\n")
            if not data:
                lines, self._rest = [self._rest] if self._rest else [], b""
            self._ready = b"".join(map(self._line, lines))
            if not data:
                break
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def _line(self, line: bytes) -> bytes:
        texts = [record.get(self._key) for record in _records(line)]
        texts = [text for text in texts if isinstance(text, str)]
        if not texts:
            return line + b"\n"
        return "".join(f"{text}{self._end}" for text in texts).encode("utf-8", "replace")
