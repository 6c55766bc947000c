"""Following a run that has not ended: its log is read as it grows, and diagnosed again.

sources   what is watched: a file, a pipe, or a place that is read again as a whole
tail      what is appended to a file, across rotation and truncation
grown     the text so far as columns; old text is read only once
certain   which findings will stand
loop      look, read, diagnose, and again; and the process that writes
"""

from stabdiag.watch.loop import End, Job, Seen, Until, watch
from stabdiag.watch.sources import Source, open_source

__all__ = ["End", "Job", "Seen", "Source", "Until", "open_source", "watch"]
