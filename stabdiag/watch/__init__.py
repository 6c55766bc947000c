"""Following a run that has not ended: its log is read as it grows, and diagnosed again.

sources   what is watched: a file, a pipe, or a place that is read again as a whole
tail      what is appended to a file, across rotation and truncation
grown     the text so far as columns, what is old read only once
certain   which findings will not be taken back
job       the process that writes: whether it still runs, and how it is ended
loop      look, read, diagnose, and again; at a pace that leaves the processor to the job
"""

from stabdiag.watch.job import Job
from stabdiag.watch.loop import Ask, End, Seen, Until, watch
from stabdiag.watch.sources import Source, open_source

__all__ = ["Ask", "End", "Job", "Seen", "Source", "Until", "open_source", "watch"]
