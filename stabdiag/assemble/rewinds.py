"""What each step back is: a resume, a counter that started again, or a new run."""

from __future__ import annotations

from enum import Enum
from math import nan
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.strides import Strides
from stabdiag.model.history import Event, EventKind

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints

# The first and last losses of a run are compared as medians of so many.
_FEW = 3


class _Back(Enum):
    REWIND = "rewind"
    TURN = "turn"
    NEW_RUN = "new run"


class StepsBack:
    """Goes through the steps back one by one; a place is a position in the training records.

    ``begins`` has the places at which runs begin. ``added`` has places, and by how much the steps
    from there on are counted on; ``turns`` is how often a counter started again, ``restarts`` the
    steps, as counted on, at which it did so without a next epoch. Each part of the log is gone
    through once: there may be thousands.
    """

    def __init__(
        self, *, steps: Ints, losses: Floats, of_epochs: bool, length: int | None = None
    ) -> None:
        """Take the steps and losses of the training records.

        ``of_epochs`` says that the steps are epochs, ``length`` what they count up to in one.
        """
        self.begins = [0]
        self.added = [(0, 0)]
        self.turns = 0
        self.restarts: list[int] = []
        self.events: list[Event] = []
        self._steps = steps
        self._losses = losses
        self._of_epochs = of_epochs
        self._length = length
        self._seen = 0
        self._strides = Strides()
        self._highest_rise = 0.0

    def go_back(self, place: int, end: int, *, turned: bool, anew: bool) -> None:
        """Take in the step back at one place; the next step back is at ``end``.

        It is ``turned`` if it comes with the next epoch, ``anew`` if the clock goes back as well.
        """
        begun = self._seen
        self._take(place)
        counted = self.added[-1][1]
        last, to = (int(self._steps[one]) + counted for one in (place - 1, place))
        back = _Back.TURN if turned else self._what(place, end, anew=anew)
        if back is _Back.TURN:
            self.added.append((place, counted + self._turn(last - counted, to - counted)))
            self.turns += 1
            if not turned:
                self.restarts.append(int(self._steps[place]) + self.added[-1][1])
        elif back is _Back.NEW_RUN:
            self.added.append((place, 0))
            self.begins.append(place)
            self._strides = Strides()
            self._highest_rise = 0.0
        else:
            message = f"the log goes back from step {last} to {to}: the later attempt counts"
            left = self._left(begun, place, to)
            event = Event(
                kind=EventKind.REWIND,
                message=message + left,
                step=to,
                sound_to=None if left else last,
            )
            self.events.append(event)

    def _left(self, begun: int, place: int, to: int) -> str:
        """Say which losses were not finite in the part of an attempt that is gone over again."""
        steps = self._steps[begun:place] + self.added[-1][1]
        bad = ~np.isfinite(self._losses[begun:place]) & (steps >= to)
        if not bad.any():
            return ""
        what = "a loss was" if bad.sum() == 1 else f"{bad.sum()} losses were"
        return f"; before, {what} not finite, from step {steps[np.argmax(bad)]} on"

    def _turn(self, last: int, to: int) -> int:
        """Return what is added to a counter that was at ``last`` and starts again at ``to``."""
        after = last + self._strides.next_one()
        # An epoch that was left before its end is not as long as told.
        return self._length if self._length and last <= self._length <= after else after - to

    def _take(self, until: int) -> None:
        """Take in the part of the run up to a place."""
        self._strides.add(self._steps[self._seen : until] + self.added[-1][1])
        if self._of_epochs:
            rises = np.diff(self._losses[max(self._seen - 1, self.begins[-1]) : until])
            self._highest_rise = float(np.fmax.reduce(rises, initial=self._highest_rise))
        self._seen = until

    def _what(self, place: int, end: int, *, anew: bool) -> _Back:
        """Tell what a step back is that does not come with the next epoch."""
        # The counter itself, without what earlier turns of it have added.
        first, last, to = (int(self._steps[one]) for one in (self.begins[-1], place - 1, place))
        at_start = to <= first + max(1, (last - first) // 100)
        old, new = self._losses[self.begins[-1] : place], self._losses[place : place + _FEW]
        starts_over = _starts_over(old, new, turns=self.turns)
        other = self._strides.other_than(self._steps[place:end])
        if other is not None:
            at_start |= starts_over and to <= other
            starts_over |= anew
        if self._of_epochs:
            # A loss lies above the last one by more than those before it ever rose.
            starts_over |= bool(new[0] - old[-1] > self._highest_rise)
        if not at_start:
            return _Back.REWIND
        return _Back.NEW_RUN if starts_over else _Back.TURN


def _starts_over(old: Floats, new: Floats, *, turns: int) -> bool:
    """Tell whether the new losses begin where the old ones began, not where they ended.

    A run begins with a loss: one that is not finite is what became of the run before, if that had
    ended so, or if its counter had started again before (``turns``).
    """
    if not np.isfinite(new[0]) and (turns or not np.isfinite(old[-1])):
        return False
    start, end, again = (_level(part) for part in (old[:_FEW], old[-_FEW:], new[:_FEW]))
    if not np.isfinite([start, end, again]).all():
        return True
    return abs(again - start) <= abs(again - end) or len(old) <= _FEW


def _level(losses: Floats) -> float:
    finite = losses[np.isfinite(losses)].tolist()
    return median(finite) if finite else nan
