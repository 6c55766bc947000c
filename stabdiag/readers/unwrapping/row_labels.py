"""Lines with the same label in front, written by another program."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import blocks
from stabdiag.readers.source import Stream

# The first cell of a table takes up what another program wrote before each line.
LABELED_BYTES: Final = 1 << 12
_ROW_LABEL: Final = (
    rb"(?:\([^()\n]{1,80}\) "
    rb"|[^,;\t\n]{0,100}(?:[|:\])>] {0,4}|(?:DEBUG|INFO|WARNING) |:\d\d(?:[.,]\d{1,9})?Z? ))"
)
_LABELED_CELL: Final = lazy_pattern(rb"(%b)([\w./#-]{1,60})[,;\t]" % _ROW_LABEL)
_LABELED_ROW: Final = lazy_pattern(rb"(?m)^%b(?=[\w./#-]{1,60}[,;\t])" % _ROW_LABEL)
_MIN_LABELED_ROWS: Final = 2

# pm2 writes the number and the name of a process before each line: 0|train    | epoch 3
_PM2_LABEL: Final = lazy_pattern(rb"\d{1,4}\|[A-Za-z][\w.-]{0,60} {0,24}\| ?")
_MIN_LABELED_LINES: Final = 3


def has_labeled_rows(head: bytes) -> bool:
    """Return True if a header and the rows below it begin with the same label.

    ``worker-1  | step,loss`` is above ``worker-1  | 1,2.5``.
    """
    cells = list(map(_LABELED_CELL.match, head.split(b"\n")[: 1 + _MIN_LABELED_ROWS]))
    if len(cells) <= _MIN_LABELED_ROWS:
        return False
    labels = {re.sub(rb"\d+", b"0", cell[1]) for cell in cells if cell is not None}
    numbers = [cell is not None and re.fullmatch(rb"[\d.]+", cell[2]) is not None for cell in cells]
    return (
        len(labels) == 1 and numbers == [False] + [True] * _MIN_LABELED_ROWS and None not in cells
    )


def process_label(head: bytes) -> bytes:
    """Return the label of a process that all lines of the head have in front, or nothing."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()]
    match = _PM2_LABEL.match(lines[0]) if len(lines) >= _MIN_LABELED_LINES else None
    label = b"" if match is None else match[0].rstrip()
    return label if all(line.startswith(label) for line in lines) else b""


def without_process_label(stream: Stream, label: bytes) -> Stream:
    """Return a log without the label of the process that wrote its lines."""
    stream.notes.append("the labels that other programs added to each line are ignored")
    pattern = re.compile(rb"(?m)^%b ?" % re.escape(label))
    return stream.rewritten(pattern.sub(b"", block) for block in blocks(stream))


def without_row_labels(stream: Stream) -> Stream:
    """Return a table without the labels of its rows; see ``has_labeled_rows``."""
    stream.notes.append("the labels that other programs added to each line are ignored")
    return stream.rewritten(_LABELED_ROW.sub(b"", block) for block in blocks(stream))
