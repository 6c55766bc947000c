"""Lines of several ranks in one log: which rank wrote a line, and whose lines count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Floats, Ints, Mask

# The rank of a line that names none.
NO_RANK: Final = -1

# torchrun, srun -l, mpirun --tag-output, pdsh-like launchers and loggers with a rank field.
_LABEL: Final = re.compile(
    rb"\s{0,4}(?:\[(?:default|trainer|worker|rank|Rank|RANK)[ _:]?(\d{1,6})(?:\|\d{1,6})?\]:?"
    rb"|(\d{1,6}): |\[1,(\d{1,6})\]<std(?:out|err)>:)"
)

# How far into a line the label that names its rank may go.
LONGEST_LABEL: Final = 40

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
    label = _LABEL.match(data, begin, start)
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
        told_of = [len(np.unique(steps[known[ranks[known] == rank]])) for rank in found]
        home = found[np.lexsort((first, -np.array(told_of)))[0]]
        others = mine[ranks[mine] != home]
        kept[others] = False
        told = np.unique(steps[mine[ranks[mine] == home]])
        lost = others[~np.isin(steps[others], told) & ~np.isnan(steps[others])]
        kept[lost[np.unique(steps[lost], return_index=True)[1]]] = True
    return kept
