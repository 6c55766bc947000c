"""The summaries of the HF Trainer, which are often all that a post has.

***** eval metrics *****
  epoch                   =        3.0
  eval_loss               =     0.4512
  eval_runtime            = 0:00:04.20
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammar import NUMBER_PATTERN
from stabdiag.readers.text.records import Record, Records

_HEADING_END: Final = b" metrics *****"
_SUMMARY_HEADING: Final = lazy_pattern(
    rb"\*{5} (?:train|eval|test|predict) metrics \*{5}[ \t\r]{0,40}\n"
)
_SUMMARY_ROW: Final = lazy_pattern(
    rb"[ \t]{0,20}([A-Za-z][\w/.-]{0,80})[ \t]{1,80}=[ \t]{1,80}(?:(%b)|[^\n]{0,80}?)"
    rb"[ \t\r]{0,40}(?:\n|\Z)" % NUMBER_PATTERN
)
_MAX_SUMMARY_ROWS: Final = 100
_EPOCH_ROW: Final = "epoch"
# Numbers of samples, times and speeds.
_OTHER_ROW: Final = lazy_pattern(r"_(?:runtime|samples?|flos|per_second)$")
# The losses of a training are printed above its summary.
_TRAINING_RECORD: Final = lazy_pattern(rb"\{'[^\n{}]{0,2000}?loss': ")


def _summaries(data: bytes) -> Iterator[Record]:
    """Yield the summaries; a training and its evaluation are one record.

    An evaluation before the training has no epoch. Their order counts then.
    """
    records: list[tuple[int, dict[str, bytes]]] = []
    for heading in _SUMMARY_HEADING.finditer(data) if _has_summaries(data) else ():
        cells = _rows(data, heading.end())
        last = records[-1][1] if records else {}
        is_new = last.get(_EPOCH_ROW) != cells.get(_EPOCH_ROW) or last.keys() & cells.keys() - {
            _EPOCH_ROW
        }
        if is_new or not last:
            records.append((heading.start(), cells))
        else:
            last.update(cells)
    is_counted = all(_EPOCH_ROW in cells for _, cells in records)
    for begin, cells in records:
        yield begin, {name: cells[name] for name in cells if is_counted or name != _EPOCH_ROW}


def _rows(data: bytes, place: int) -> dict[str, bytes]:
    """Return the names and numbers on the consecutive rows from a position on."""
    cells: dict[str, bytes] = {}
    for _ in range(_MAX_SUMMARY_ROWS):
        row = _SUMMARY_ROW.match(data, place)
        if row is None:
            break
        name, place = row[1].decode(), row.end()
        if row[2] is not None and not _OTHER_ROW.search(name):
            cells[name] = row[2]
    return cells


def _has_summaries(data: bytes) -> bool:
    return (
        _HEADING_END in data
        and _SUMMARY_HEADING.search(data) is not None
        and not _TRAINING_RECORD.search(data)
    )


SUMMARIES: Final = Records(find_records=_summaries, signature=_has_summaries)
