"""Steps that go back: a resume, a counter that restarts, or a new run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.records import MIN_RECORDS, USUAL_FRACTION
from stabdiag.model.events import Event, EventKind

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints


class _StepDrop(Enum):
    REWIND = "rewind"
    RESTART = "turn"
    NEW_RUN = "new run"


@dataclass(kw_only=True, eq=False)
class StepWalk:
    """A pass over the steps back; positions refer to the training records.

    Attributes:
        steps: the steps of the training records.
        losses: their losses.
        of_epochs: whether the steps are epochs.
        length: the number of steps in an epoch, if known.
        begins: the positions where runs begin.
        offsets: positions, and the offset added to the steps from there on.
        turns: the number of restarts of the counter.
        restarts: the continued steps of restarts without a new epoch.
        rewinds: the positions of resumes from a checkpoint.
        events: the events to report.
        last: the position of the last step back.
    """

    steps: Ints
    losses: Floats
    of_epochs: bool
    length: int | None
    begins: list[int] = field(default_factory=lambda: [0])
    offsets: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    turns: int = 0
    restarts: list[int] = field(default_factory=list)
    rewinds: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    last: int = 0

    def go_back(self, position: int, *, is_epoch: bool, is_restart: bool = False) -> None:
        """Process the step back at a position.

        ``is_epoch`` if it comes with the next epoch, and ``is_restart`` if another run begins.
        """
        part, to = slice(self.last, position), int(self.steps[position])
        offset = self.offsets[-1][1]
        back = _StepDrop.RESTART if is_epoch else self._classify(position)
        if is_restart and not is_epoch:
            back = _StepDrop.NEW_RUN
        if back is _StepDrop.RESTART:
            new_offset = offset + self._turn(self.steps[part], self.steps[position:])
            self.offsets.append((position, new_offset))
            self.turns += 1
            self.restarts += [] if is_epoch else [to + new_offset]
        elif back is _StepDrop.NEW_RUN:
            self.offsets.append((position, 0))
            self.begins.append(position)
        else:
            self.rewinds.append(position)
            self.events.append(_rewind(self.steps[part] + offset, self.losses[part], to + offset))
        self.last = position

    def _turn(self, steps: Ints, later: Ints) -> int:
        """Return the offset for a counter that restarts after these steps with the later ones.

        The last step of an epoch is often logged regardless of the interval, and the next epoch
        follows immediately.
        """
        last, to, gaps = int(steps[-1]), int(later[0]), np.diff(steps)
        if not len(gaps):  # the log begins just before the restart
            gaps = np.diff(later[:2])
            gaps = gaps[gaps > 0] if len(gaps) else np.array([self.length or 0])
        usual = np.median(gaps) if len(gaps) else 0
        after = last + (1 if usual < 1 or gaps[-1] < usual else int(usual))
        # An epoch that was interrupted is shorter than the logged length.
        return self.length if self.length and last <= self.length <= after else after - to

    def _classify(self, position: int) -> _StepDrop:
        """Classify a step back that does not come with the next epoch."""
        begin = self.begins[-1]
        # The counter itself, without the offsets of earlier restarts.
        first, last, to = (int(self.steps[i]) for i in (begin, position - 1, position))
        if to > first + max(1, (last - first) // 100):
            return _StepDrop.REWIND
        old, new = self.losses[begin:position], self.losses[position : position + MIN_RECORDS]
        # If steps are epochs, a loss that rises by more than it ever did belongs to another run.
        rises = self.of_epochs and new[0] - old[-1] > np.fmax.reduce(np.diff(old), initial=0.0)
        falls = self.of_epochs and _drops_far(old, float(new[0]))
        # An excerpt of later epochs is followed by the first epoch of another run, and so are
        # epochs without a loss.
        begins = self.of_epochs and to <= 1 and (first > 1 or not np.isfinite(old).any())
        is_new_run = rises or falls or begins or starts_over(old, new, turns=self.turns)
        return _StepDrop.NEW_RUN if is_new_run else _StepDrop.RESTART


def _rewind(steps: Ints, losses: Floats, to: int) -> Event:
    """Report a resume at a step, and any non-finite losses that it repeated."""
    bad = ~np.isfinite(losses) & (steps >= to)
    message = f"the log goes back from step {steps[-1]} to {to}: the later attempt is used"
    if bad.any():
        subject = "a loss was" if bad.sum() == 1 else f"{bad.sum()} losses were"
        message += f"; before, {subject} not finite, from step {steps[np.argmax(bad)]} on"
    return Event(kind=EventKind.REWIND, message=message, step=to)


def starts_over(old: Floats, new: Floats, *, turns: int) -> bool:
    """Return True if the new losses begin where the old ones began, not where they ended.

    A new run begins with a finite loss. A non-finite loss belongs to the previous run if that ended
    non-finite, or if its counter restarted before (``turns``).
    """
    lost = ~np.isfinite(old[-2:])
    if not np.isfinite(new[0]) and (turns or lost[-1]):
        return False
    # Weights that are lost do not come back.
    if not turns and len(lost) > 1 and lost.all() and np.isfinite(new).all():
        return True
    start, end, restart = (
        _level(part) for part in (old[:MIN_RECORDS], old[-MIN_RECORDS:], new[:MIN_RECORDS])
    )
    if not np.isfinite([start, end, restart]).all():
        return True
    if abs(restart - start) <= abs(restart - end) or len(old) <= MIN_RECORDS:
        return True
    # A loss that falls fast is soon nearer to the end, but not by its ratio.
    begins_high = abs(new[0] - old[0]) <= abs(new[0] - old[-1])
    return bool(begins_high and 0 < start * end <= restart**2 and min(start, restart) > 0)


def _drops_far(old: Floats, new: float) -> bool:
    """Return True if most of a loss is suddenly gone, and it never fell as far before."""
    x = np.append(old, new)
    if not np.isfinite(x).all() or x.min() <= 0:
        return False
    falls = 1 - x[1:] / x[:-1]
    return bool(falls[-1] >= max(USUAL_FRACTION, falls.max()))


def _level(losses: Floats) -> float:
    finite = losses[np.isfinite(losses)]
    return float(np.median(finite)) if len(finite) else nan
