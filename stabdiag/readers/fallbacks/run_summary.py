"""The summary of a run that W&B prints at its end, in a text without another record.

::

    wandb: Run history:
    wandb:         eval/loss █▄▂▁
    wandb:        train/loss █▅▃▂▁▁
    wandb: Run summary:
    wandb:         eval/loss 1.0412
    wandb: train/global_step 1200
    wandb:        train/loss 0.8731

The values are one record. The history is a picture, and its values are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.fallbacks.only_record import MAX_SUMMARY_BYTES, with_only_records
from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.lines.clean import Text

_SUMMARY_TITLE: Final = b"Run summary:"
# Several programs may label a line: (main pid=7) wandb: … In a notebook, no program does.
_BEFORE: Final = rb"(?:[^\n]{0,80}wandb:)?[ \t]{0,200}"
_SUMMARY: Final = lazy_pattern(
    rb"(?m)^%bRun summary:[ \t\r]{0,80}\n(?:%b[ \t\r]{0,80}\n){0,2}((?:%b[^\s\n]{1,200}[ \t]{1,80}"
    rb"[^\n]{1,400}(?:\n|\Z)){1,2000})" % (_BEFORE, _BEFORE, _BEFORE)
)
_LAST_VALUE: Final = lazy_pattern(
    rb"(?m)^%b([^\s\n]{1,200})[ \t]{1,80}([^\s\n]{1,60})[ \t\r]{0,80}$" % _BEFORE
)


def summarized(
    stream: Stream, detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream of the last summary in a text as a JSON record, and its reader.

    Return None if there is none that ``detect`` recognizes.
    """
    data = stream.peek(MAX_SUMMARY_BYTES)
    if len(data) == MAX_SUMMARY_BYTES or _SUMMARY_TITLE not in data or b"\0" in data:
        return None
    summaries = _SUMMARY.findall(Text(data).data)
    if not summaries:
        return None
    values = (
        (name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
        for name, value in _LAST_VALUE.findall(summaries[-1])
    )
    note = "only the summary of the run is read: its history is a picture"
    return with_only_records(stream, [values], detect, note)
