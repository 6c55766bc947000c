"""Follow a run: read its log as it grows and diagnose it again.

sources   the inputs: a file, a pipe, or a container that is read again in full
tail      the bytes appended to a file, across rotation and truncation
grown     the current text as columns; old text is read only once
certain   the findings that later records will not change
loop      poll, read and diagnose; and the process that writes the log
"""

from stabdiag.watch.loop import EndReason, StopConditions, WatchedJob, WatchState, watch
from stabdiag.watch.sources import Source, open_source

__all__ = [
    "EndReason",
    "Source",
    "StopConditions",
    "WatchState",
    "WatchedJob",
    "open_source",
    "watch",
]
