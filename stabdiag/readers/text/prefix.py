"""What stands before the values on a line: the rank that wrote it, and when."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.readers.text.clean import line_end

# The rank of a line that names none.
NO_RANK: Final = -1

# torchrun, srun -l, mpirun --tag-output, as SageMaker has it, too, pdsh-like launchers and loggers
# with a rank field; a time may stand before them. Rank 0, [GPU0], cuda:0, as people print it, and
# (RayTrainWorker pid=4811, ip=10.1.2.3).
_TIMED: Final = rb"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}Z? )?"
_LABEL: Final = re.compile(
    rb"\s{0,4}(?:[\w:. +-]{0,33}\[1,(?:mpirank:)?(\d{1,6})(?:,[\w-]{1,20})?\]<std(?:out|err)>:"
    rb"|%b\[(?:default|trainer|worker|rank|Rank|RANK)[ _:]?(\d{1,6})(?:\|\d{1,6})?\]:?"
    rb"|%b[\[(]?(?:[Dd]evice:? )?(?:[Rr]ank|RANK|[Gg]pu|GPU|cuda)(?:[ _#]|[:=] ?)?"
    rb"(\d{1,4})(?![\w.%%]| ?[KMG]i?B)"
    rb"|\(\w{1,40} (?:rank=\d{1,6} )?pid=(\d{1,8})[,)]"
    rb"|(\d{1,6}): )" % (_TIMED, _TIMED)
)

# [100/2000] rank=0 loss …, INFO [Rank 1] step …
_FURTHER_ON: Final = re.compile(
    rb"(?<![\w.-])(?:global_|local_)?(?:[Rr]ank|RANK)(?:[ _#]|[:=] ?)?(\d{1,4})(?![\w.%])"
)

# How far into a line the label that names its rank may go.
LONGEST_LABEL: Final = 80

# How far a value may be from the start of its line: after labels, times and loggers' names.
_LONGEST_PREFIX: Final = 400

# If none of the first lines, up to this many, names its rank, none does.
_SAMPLE: Final = 32


def ranks_of(data: bytes, starts: Sequence[int]) -> Ints | None:
    """Return the rank that each line names before the place given, or None if none does."""
    if not any(_rank(data, start) >= 0 for start in starts[:_SAMPLE]):
        return None
    return np.array([_rank(data, start) for start in starts], dtype=np.int64)


def _rank(data: bytes, start: int) -> int:
    begin = data.rfind(b"\n", max(start - _LONGEST_PREFIX, 0), start + 1) + 1
    if begin == 0 or begin >= start:
        return NO_RANK
    label = _LABEL.match(data, begin, start) or _FURTHER_ON.search(data, begin, start)
    return int(next(filter(None, label.groups()))) if label else NO_RANK


def of_one_rank(kinds: Ints, steps: Floats, ranks: Ints) -> Mask:
    """Return which lines count, all of shape (lines,), in the order of the log.

    Of each kind of line those of one rank count: the rank with the most steps, the first one of
    several. For a step that it lacks, the first line of another rank counts.
    """
    kept = np.ones(len(ranks), dtype=bool)
    if not (ranks != NO_RANK).any():
        return kept
    for kind in np.unique(kinds):
        mine = np.flatnonzero((kinds == kind) & (ranks != NO_RANK))
        found, first = np.unique(ranks[mine], return_index=True)
        if len(found) < 2:
            continue
        known = mine[~np.isnan(steps[mine])]
        # Each rank's number of different steps: all pairs in order, each counted once.
        order = known[np.lexsort((steps[known], ranks[known]))]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (np.diff(ranks[order]) != 0) | (np.diff(steps[order]) != 0)
        at = np.searchsorted(found, ranks[order][is_new])
        told_of = np.bincount(at, minlength=len(found))
        home = found[np.lexsort((first, -told_of))[0]]
        others = mine[ranks[mine] != home]
        kept[others] = False
        told = np.unique(steps[mine[ranks[mine] == home]])
        lost = others[~np.isin(steps[others], told) & ~np.isnan(steps[others])]
        kept[lost[np.unique(steps[lost], return_index=True)[1]]] = True
    return kept


CLOCK: Final = "timestamp"

# 2026-01-02 03:04:05; what stands further inside a line is not its time stamp.
_STAMP: Final = re.compile(rb"\d{4}([-/])\d\d\1\d\d[ T,]\d\d:\d\d:\d\d")
_WIDTH: Final = 19
_STAMP_WITHIN: Final = 100
_STAMPED: Final = 8

_DIGITS: Final = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
_MARKS: Final = np.array([13, 16])


def seconds_at(data: bytes, starts: Sequence[int]) -> Floats | None:
    """Return the seconds since 1970 of lines in which something starts, NaN where none is told.

    None if the first lines have no time stamp. Zones are ignored: only differences matter.
    """
    first = next(
        ((at, start) for start in starts[:_STAMPED] if (at := _stamp(data, start)) >= 0), None
    )
    if first is None:
        return None
    # Most lines have theirs at the same distance; the others are looked at one by one.
    begins = np.array(starts, dtype=np.int64) + (first[0] - first[1])
    seconds = _seconds(data, begins)
    odd = np.flatnonzero(np.isnan(seconds))
    if len(odd):
        seconds[odd] = _seconds(data, np.array([_stamp(data, starts[row]) for row in odd.tolist()]))
    return seconds


def _stamp(data: bytes, start: int) -> int:
    """Return where the stamp of a line begins, -1 if it has none."""
    begin = data.rfind(b"\n", 0, start + 1) + 1
    stamp = _STAMP.search(data, begin, line_end(data, begin, _STAMP_WITHIN))
    return -1 if stamp is None else stamp.start()


def _seconds(data: bytes, begins: Ints) -> Floats:
    """Return the seconds that the stamps at these places spell, NaN where there is none."""
    inside = (begins >= 0) & (begins + _WIDTH <= len(data))
    block = np.frombuffer(data, dtype=np.uint8)
    text = block[np.where(inside, begins, 0)[:, np.newaxis] + np.arange(_WIDTH)]
    digits = text[:, _DIGITS].astype(np.int64) - ord("0")
    told = inside & ((digits >= 0) & (digits <= 9)).all(axis=1)
    told &= (text[:, _MARKS] == ord(":")).all(axis=1)
    tens = np.where(told[:, np.newaxis], digits[:, 0::2] * 10 + digits[:, 1::2], 1)
    century, year, month, day, hour, minute, second = tens.T
    months = (century * 100 + year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    seconds = (((first + day - 1) * 24 + hour) * 60 + minute) * 60.0 + second
    return np.where(told, seconds, np.nan)
