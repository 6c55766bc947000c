"""Stable-Baselines, OpenAI's baselines and similar: tables of two columns between dashes.

::

    ---------------------------------
    | rollout/           |          |
    |    ep_rew_mean     | 21.3     |
    | train/             |          |
    |    loss            | 0.0123   |
    ---------------------------------

Each table is a record; names below a section are joined with it: ``rollout/ep_rew_mean``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from stabdiag.readers.blocks import Block, blocks
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammar import Grammar, Kind, Part, parts_of
from stabdiag.readers.text.log import TextLog

_DASHES: Final = b"-" * 8
_RULE: Final = re.compile(rb"\n(?:[^\n|]{0,60}[ :])?-{8,200}[ \t]{0,8}(?=\n|$)")
_ROW: Final = re.compile(rb"\n[^\n|]{0,60}\|([^\n|]{1,100})\|([^\n|]{0,100})\|(?=\s|$)")

# Names in a table of a training, as opposed to one of settings.
_TRAINING: Final = re.compile(r"loss|rew|epret|timesteps|n_?updates", re.IGNORECASE)

# How many bytes are held until the table in them ends: no table is longer.
_LONGEST: Final = 1 << 18
_SIZE: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tables(Kind):
    """The tables of a log, each as if it were one line."""

    begins: bool = True

    def search(self, data: bytes) -> bool:
        """Return whether there is a table of a training."""
        tables = (table for _, table in _tables(data))
        return any(len(table) > 1 and any(map(_TRAINING.search, table)) for table in tables)

    def find(self, data: bytes) -> list[Part]:
        """Return all tables; those with the same names make one part."""
        return parts_of(_tables(data))


def _tables(data: bytes) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield place and cells of each table that has a rule above or below it."""
    # Most logs have no such line, and a fixed text is searched for much faster.
    rules = [match.span() for match in _RULE.finditer(data)] if _DASHES in data else []
    if not rules:
        return
    begins = [0, *(end for _, end in rules)]
    ends = [*(begin for begin, _ in rules), len(data)]
    for begin, end in zip(begins, ends, strict=True):
        table: dict[str, bytes] = {}
        section, place = "", begin
        rows = [*_ROW.finditer(data, begin, end)]
        names = [row[1].decode("utf-8", "replace") for row in rows]
        # Spinning Up has its names at the right: these are not indented.
        at_right = len({*map(len, names)}) == 1 and not any(name.endswith("  ") for name in names)
        for row, name in zip(rows, names, strict=True):
            value = row[2].strip()
            if name.strip().endswith("/") and not value:
                section = name.strip()
            # An indented row without a section above it belongs to a table that was cut off.
            elif section or at_right or not name.startswith("  "):
                place = place if table else row.start(1)
                table.setdefault(f"{section}{name.strip()}", value)
        if table:
            yield place, table


GRAMMAR: Final = Grammar(step="step", kinds=(_Tables(),), joined=True)


def read(stream: Stream) -> Columns:
    """Read the tables, each as one record; blocks have to be cut between them."""
    log = TextLog("baselines", GRAMMAR)
    for block in _whole(blocks(stream, size=_SIZE)):
        log.add(block)
    return log.columns(stream)


def _whole(cut: Iterable[Block]) -> Iterator[Block]:
    """Cut blocks so that none ends within a table."""
    held = b""
    for block in cut:
        if block.too_long:
            yield Block(data=held)
            yield block
            held = b""
            continue
        data = held + block.data
        rule = data.rfind(_DASHES)
        end = data.find(b"\n", rule) + 1 if rule >= 0 else 0
        if not end and len(data) < _LONGEST:
            held = data
            continue
        end = end or len(data)
        yield replace(block, data=data[:end])
        held = data[end:]
    if held:
        yield Block(data=held)
