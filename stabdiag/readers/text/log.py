"""The engine: a text log read by one grammar."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.blocks import LONGEST_LINE, blocks
from stabdiag.readers.columns import BadLine, Columns
from stabdiag.readers.pieces import join
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.messages import Messages
from stabdiag.readers.text.ranks import ranks_of
from stabdiag.readers.text.table import Table

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

    from stabdiag.readers.source import Stream
    from stabdiag.readers.text.grammar import Grammar

# Measured from 32 kB to 4 MB: the matches of a larger block do not fit the processor's caches.
_BLOCK: Final = 1 << 16

_SHOWN: Final = 20

# Arguments are looked for up to so far into a log that has no record yet.
_CONFIG_WITHIN: Final = 1 << 24


class Recognises(Protocol):
    """Tells whether the head of a file is of a format."""

    def __call__(self, head: bytes, *, whole: bool) -> bool:
        """Return whether it is; ``whole`` says that the head is all there is."""


def functions_of(grammar: Grammar) -> tuple[Recognises, Callable[[Stream], Columns]]:
    """Return the two functions that the module of a format has: ``recognises`` and ``read``."""

    def recognises(head: bytes, *, whole: bool) -> bool:
        return grammar.recognises(Text(head, first_line=1).data)

    def read(stream: Stream) -> Columns:
        return read_log(stream, grammar)

    return recognises, read


def read_log(stream: Stream, grammar: Grammar, *, size: int = _BLOCK) -> Columns:
    """Read a stream by a grammar."""
    table, messages = Table(grammar), Messages()
    config: dict[str, object] = {}
    bad: list[BadLine] = []
    offset, line = 0, 1
    for block in blocks(stream, size=size):
        if block.too_long:
            bad.append(BadLine(line=line, reason=f"longer than {LONGEST_LINE >> 20} MB"))
        text = Text(b"\n" if block.too_long else block.data, first_line=line)
        found = [(kind, part) for kind in grammar.kinds for part in kind.find(text.data)]
        if grammar.config is not None and not table and offset < _CONFIG_WITHIN:
            until = min((min(part.starts) for _, part in found), default=len(text.data))
            config = {**_arguments(grammar.config, text.data[:until]), **config}
        for kind, part in found:
            table.add(kind, part, ranks_of(text.data, part.starts), offset)
        messages.look(text, offset)
        offset += len(text.data)
        line += block.data.count(b"\n")
    if not table:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; no line looks as {grammar.name} writes it"
        )
    done = table.finished()
    if done.ranks > 1:
        stream.notes.append(
            f"the log holds the lines of {done.ranks} ranks: of each record that of one rank counts"
        )
    return Columns(
        source=stream.name,
        format=grammar.name,
        names=tuple(done.rows.names),
        rows=done.rows.rows,
        load=lambda name: join([done.rows], name),
        bad_lines=tuple(bad[:_SHOWN]),
        bad_count=len(bad),
        notes=tuple(stream.notes),
        events=messages.events(done.step_at),
        config=config,
    )


def _arguments(pattern: re.Pattern[bytes], data: bytes) -> Mapping[str, object]:
    """Return the arguments that the log prints, each as the value that it spells."""
    found: dict[str, object] = {}
    for name, value in pattern.findall(data):
        spelt = _value(value.decode("utf-8", "replace"))
        found.setdefault(name.decode("utf-8", "replace").strip(), spelt)
    return found


def _value(text: str) -> object:
    text = text.strip().rstrip(",").strip("'\"")
    if text in ("True", "False", "None"):
        return {"True": True, "False": False}.get(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float | bool) else text
