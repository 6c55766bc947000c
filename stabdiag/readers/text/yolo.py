"""YOLOv5, YOLOv7 and Ultralytics: a heading over a bar that is drawn again and again.

::

    Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
    22/55      9.02G     0.1157      5.355      2.998         17        640: 100%|██████████| …

The bar shows the means of the epoch so far: its last state has those of the whole epoch.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.clean import cleaned
from stabdiag.readers.text.grammar import NUMBER, Aside, Grammar, Line
from stabdiag.readers.text.log import read_log

_HEADING: Final = re.compile(
    rb"Epoch {1,20}(?:GPU|gpu)_mem {1,20}([\w ]{1,200}?) {1,20}(?:Instances|[Ll]abels|targets)"
    rb" {1,20}(?:Size|img_size)"
)

# How far into the log a heading is searched for.
_LOOKS: Final = (1 << 20, 1 << 24)


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether there is a heading."""
    return _HEADING.search(cleaned(head)) is not None


def read(stream: Stream) -> Columns:
    """Read the bars below the headings."""
    looks = (_HEADING.findall(cleaned(stream.peek(size))) for size in _LOOKS)
    headings = next((found for found in looks if found), None)
    if headings is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected a heading such as"
            " Epoch GPU_mem box_loss cls_loss dfl_loss Instances Size"
        )
    # Bars of as many losses cannot be told apart: the first heading counts.
    by_length = {len(names): names for names in map(_losses, reversed(headings))}
    kinds = tuple(_bar(names) for names in by_length.values())
    kinds += tuple(_end(names) for names in by_length.values())[:1]
    return read_log(stream, "yolo", Grammar(step="epoch", kinds=kinds, joined=True))


def _losses(heading: bytes) -> tuple[str, ...]:
    """Return the names of the losses: box is box_loss, and total is total_loss."""
    words = heading.decode("ascii", "replace").split()
    return tuple(word if "loss" in word.lower() else f"{word}_loss" for word in words)


def _bar(names: tuple[str, ...]) -> Line:
    value = rb"(%b) {1,20}" % NUMBER
    return Line(
        pattern=rb"(?<![\d/])(\d{1,6})/\d{1,6} {1,20}[\d.]{1,8}[KMG]? {1,20}%b"
        rb"\d{1,9} {1,20}\d{1,6}:" % (value * len(names)),
        names=("epoch", *names),
    )


def _end(names: tuple[str, ...]) -> Line:
    """Return what is said of a loss that is NaN while the bar still shows the means before it."""
    return Aside(
        pattern=rb"WARNING: non-finite loss, ending training", fixed=dict.fromkeys(names, b"nan")
    )
