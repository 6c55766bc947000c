"""Read the rank and the time before the values on a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.unique import unique_values
from stabdiag.readers.text.lines.fixed_texts import line_end
from stabdiag.readers.text.lines.line_forms import ALL_DIGITS

# The rank of a line that names none.
NO_RANK: Final = -1

# torchrun, srun -l, mpirun --tag-output, SageMaker, pdsh-like launchers and loggers
# with a rank field, optionally after a time. Rank 0, [GPU0], cuda:0, as people print it, and
# (RayTrainWorker pid=4811, ip=10.1.2.3).
_TIME_PREFIX: Final = rb"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}Z? )?"
_RANK_LABEL: Final = lazy_pattern(
    rb"\s{0,4}(?:[\w:. +-]{0,33}\[1,(?:mpirank:)?(\d{1,6})(?:,[\w-]{1,20})?\]<std(?:out|err)>:"
    rb"|%b\[(?:default|trainer|worker|rank|Rank|RANK)[ _:]?(\d{1,6})(?:\|\d{1,6})?\]:?"
    rb"|%b[\[(]?(?:[Dd]evice:? )?(?:[Rr]ank|RANK|[Gg]pu|GPU|cuda)(?:[ _#]|[:=] ?)?"
    rb"(\d{1,4})(?![\w.%%]| ?[KMG]i?B)"
    rb"|\(\w{1,40} (?:rank=\d{1,6} )?pid=(\d{1,8})[,)]"
    rb"|(\d{1,6}): )" % (_TIME_PREFIX, _TIME_PREFIX)
)

# [100/2000] rank=0 loss …, INFO [Rank 1] step …, [train.py:908] (1/4) Epoch 1, batch 50, …
_INSIDE_LINE: Final = lazy_pattern(
    rb"(?<![\w.-])(?:global_|local_)?(?:[Rr]ank|RANK)(?:[ _#]|[:=] ?)?(\d{1,4})(?![\w.%])"
    rb"|(?<=[\] ]\()(\d{1,3})/\d{1,3}(?=\) Epoch \d)"
)

# The rank label is in this many characters at the start of a line.
LONGEST_LABEL: Final = 80

# The most characters before a value: labels, times and names of loggers.
_LONGEST_PREFIX: Final = 400

# The fewest lines with numbers of an editor or a search.
_MIN_NUMBERED: Final = 4

# The label of a process, and the fewest records of one that runs after another one.
_PROCESS_LABEL: Final = b" pid="
_MIN_OF_PROCESS: Final = 3

# If none of this many first lines names a rank, none does.
_RANK_SAMPLE_LINES: Final = 32


def line_ranks(data: bytes, starts: Sequence[int]) -> Ints | None:
    """Return the rank that each line names before its position, or None if none does."""
    # Most labels of a log differ only in their digits.
    sample = {_label(data, at).translate(ALL_DIGITS) for at in starts[:_RANK_SAMPLE_LINES]}
    if all(_rank(label) == NO_RANK for label in sample):
        return None
    ranks = np.array([_rank(_label(data, start)) for start in starts], dtype=np.int64)
    is_process = any(_PROCESS_LABEL in label for label in sample)
    if _are_line_numbers(ranks) or (is_process and _are_one_after_another(ranks)):
        return None
    return ranks


def _are_line_numbers(labels: Ints) -> bool:
    """Return True if the number before each line is higher than the one above, as in an editor.

    The first rank is 0.
    """
    is_counted = len(labels) >= _MIN_NUMBERED and labels[0] > 0
    return is_counted and bool((np.diff(labels) > 0).all())


def _are_one_after_another(processes: Ints) -> bool:
    """Return True if the records of each process form one block, so that it is another run."""
    begins = np.flatnonzero(np.diff(processes, prepend=NO_RANK))
    lengths = np.diff(begins, append=len(processes))
    return len(begins) == len(unique_values(processes)) and int(lengths.min()) >= _MIN_OF_PROCESS


def _label(data: bytes, start: int) -> bytes:
    """Return the text before a position on its line; empty if it is very long."""
    begin = data.rfind(b"\n", max(start - _LONGEST_PREFIX, 0), start + 1) + 1
    return data[begin:start] if begin else b""


def _rank(label: bytes) -> int:
    match = _RANK_LABEL.match(label) or _INSIDE_LINE.search(label)
    return int(next(filter(None, match.groups()))) if match else NO_RANK


def select_lines(kinds: Ints, steps: Floats, ranks: Ints, failed: Mask) -> Mask:
    """Return a mask of the lines that count. All arrays are of shape (lines,), in log order.

    For each kind of line, one rank counts: the first with the most steps. If it lacks a step, the
    first line of another rank with that step counts. A line that ``failed`` has a loss that is not
    finite: it replaces the line of the counted rank with the same step.
    """
    kept = np.ones(len(ranks), dtype=bool)
    if not (ranks != NO_RANK).any():
        return kept
    for kind in unique_values(kinds):
        labeled = np.flatnonzero((kinds == kind) & (ranks != NO_RANK))
        candidates, first = np.unique(ranks[labeled], return_index=True)
        if len(candidates) < 2:
            continue
        stepped = labeled[~np.isnan(steps[labeled])]
        # Each rank's number of different steps: all pairs in order, each counted once.
        order = stepped[np.lexsort((steps[stepped], ranks[stepped]))]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (np.diff(ranks[order]) != 0) | (np.diff(steps[order]) != 0)
        at = np.searchsorted(candidates, ranks[order][is_new])
        step_counts = np.bincount(at, minlength=len(candidates))
        chosen = candidates[np.lexsort((first, -step_counts))[0]]
        others = labeled[ranks[labeled] != chosen]
        kept[others] = False
        chosen_steps = unique_values(steps[labeled[ranks[labeled] == chosen]])
        missing = others[~np.isin(steps[others], chosen_steps) & ~np.isnan(steps[others])]
        kept[missing[np.unique(steps[missing], return_index=True)[1]]] = True
        alone = others[failed[others] & np.isin(steps[others], chosen_steps)]
        alone = alone[~np.isin(steps[alone], steps[labeled[kept[labeled] & failed[labeled]]])]
        alone = alone[np.unique(steps[alone], return_index=True)[1]]
        kept[labeled[np.isin(steps[labeled], steps[alone])]] = False
        kept[alone] = True
    return kept


CLOCK: Final = "timestamp"

# 2026-01-02 03:04:05. A time further inside a line is not its time stamp.
_STAMP: Final = lazy_pattern(rb"\d{4}([-/])\d\d\1\d\d[ T,]\d\d:\d\d:\d\d")
_STAMP_WIDTH: Final = 19
_STAMP_WITHIN: Final = 100
_STAMPED: Final = 8

_STAMP_DIGITS: Final = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
_STAMP_COLONS: Final = np.array([13, 16])


def line_seconds(data: bytes, starts: Sequence[int]) -> Floats | None:
    """Return the seconds since 1970 of the lines at these positions, NaN without a time stamp.

    None if the first lines have no time stamp. Zones are ignored: only differences matter.
    """
    first = next(
        ((at, start) for start in starts[:_STAMPED] if (at := _stamp(data, start)) >= 0), None
    )
    if first is None:
        return None
    # Most lines have it at the same distance. The others are searched one by one.
    begins = np.array(starts, dtype=np.int64) + (first[0] - first[1])
    seconds = _seconds(data, begins)
    odd = np.flatnonzero(np.isnan(seconds))
    if len(odd):
        seconds[odd] = _seconds(data, np.array([_stamp(data, starts[row]) for row in odd.tolist()]))
    return seconds


def _stamp(data: bytes, start: int) -> int:
    """Return the position of the time stamp of a line, -1 without one."""
    begin = data.rfind(b"\n", 0, start + 1) + 1
    stamp = _STAMP.search(data, begin, line_end(data, begin, _STAMP_WITHIN))
    return -1 if stamp is None else stamp.start()


def _seconds(data: bytes, begins: Ints) -> Floats:
    """Return the seconds of the stamps at these positions, NaN without one."""
    inside = (begins >= 0) & (begins + _STAMP_WIDTH <= len(data))
    block = np.frombuffer(data, dtype=np.uint8)
    text = block[np.where(inside, begins, 0)[:, np.newaxis] + np.arange(_STAMP_WIDTH)]
    digits = text[:, _STAMP_DIGITS].astype(np.int64) - ord("0")
    is_stamp = inside & ((digits >= 0) & (digits <= 9)).all(axis=1)
    is_stamp &= (text[:, _STAMP_COLONS] == ord(":")).all(axis=1)
    tens = np.where(is_stamp[:, np.newaxis], digits[:, 0::2] * 10 + digits[:, 1::2], 1)
    century, year, month, day, hour, minute, second = tens.T
    months = (century * 100 + year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    seconds = (((first + day - 1) * 24 + hour) * 60 + minute) * 60.0 + second
    return np.where(is_stamp, seconds, np.nan)
