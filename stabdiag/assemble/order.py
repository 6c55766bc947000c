"""The order of records: rewinds, counters that start again, runs appended to one another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.rewinds import StepsBack
from stabdiag.assemble.superseded import about_superseded, kept_of, superseded
from stabdiag.model.history import Event, EventCode, EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Floats, Ints, Mask

# A log whose steps go back more often than this, in records, is not resumed but interleaved.
_MOST_REWINDS = 0.05

# More rewinds than this are reported by their number alone.
_MOST_EVENTS = 10

# A counter that starts again more often than this may count batches of an epoch, not those of jobs.
_FEW_RESTARTS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """The steps as they count, and for each record the number of its run from 1, shape (rows,).

    There are so many ``runs``, in the order of the log. Records that a later attempt of the same
    run went over again belong to no run: their number is 0. ``interleaved`` says that several
    writers shared the log.
    """

    steps: Ints
    number: Ints | NDArray[np.int8]
    runs: int = 1
    events: tuple[Event, ...] = ()
    interleaved: bool = False

    def run(self, number: int) -> Mask:
        """Return the records of a run."""
        records: Mask = self.number == number
        return records


def _one_run(records: Mask) -> NDArray[np.int8]:
    """Return the number of its run for each record, where there is but one; nothing is copied."""
    return records.view(np.int8)


def find_order(
    clock: Steps,
    losses: Floats,
    is_loss: Mask,
    epochs: Floats | None,
    *,
    times: Floats | None = None,
    epoch_length: int | None = None,
) -> Order:
    """Sort out the places where the steps of a log go back.

    Args:
        clock: the steps as they were logged; epochs are counted by nothing but the run itself.
        losses: shape (rows,), NaN where not finite or not logged.
        is_loss: the training records, whose steps tell the order.
        epochs: the epoch of each record, if logged.
        times: when each record was written, if logged.
        epoch_length: what the steps count up to within each epoch, if that is told.

    A step back to the run's beginning with the loss back at its start is a new run; one with the
    loss going on is a counter that started again (every epoch, or at a resume), and the steps are
    counted on; any other step back is a resume from a checkpoint, and the later attempt counts.
    What is logged at another stride from then on has other settings: it is a new run if the loss is
    back at its start or the clock starts again, too. Epochs that start again are a new run if the
    loss is higher than it was, by more than it ever rose.
    """
    steps, usable = clock.steps, clock.usable
    training = is_loss & usable
    if training.all() and np.all(steps[1:] > steps[:-1]):
        return Order(steps=steps, number=_one_run(usable))
    rows = np.flatnonzero(training)
    if _is_told_again(steps[rows], losses[rows]):
        told = _event(EventKind.STEPS, f"the last record is that of step {steps[rows[-1]]} again")
        before = replace(clock, usable=usable & (np.arange(len(steps)) != rows[-1]))
        order = find_order(before, losses, is_loss, epochs, times=times, epoch_length=epoch_length)
        return replace(order, events=(*order.events, told))
    back = rows[1:][np.diff(steps[rows]) < 0]
    if not len(back):
        kept = kept_of(steps, usable, is_loss)
        return Order(steps=steps, number=_one_run(kept), events=about_superseded(training, kept))
    by_epoch = _epoch_turns(rows, back, epochs)
    if int((~by_epoch).sum()) > max(_MOST_REWINDS * len(rows), 20):
        return _interleaved(steps, rows, usable, times=len(back))
    anew = np.zeros(len(rows), dtype=bool)
    if times is not None:
        anew[1:] = times[rows[1:]] < times[rows[:-1]]
    walk = StepsBack(
        steps=steps[rows], losses=losses[rows], of_epochs=clock.of_epochs, length=epoch_length
    )
    places = np.searchsorted(rows, back)
    ends = [*places[1:].tolist(), len(rows)]
    for place, end, turned in zip(places.tolist(), ends, by_epoch.tolist(), strict=True):
        walk.go_back(place, end, turned=turned, anew=bool(anew[place]))
    return _in_order(walk, rows, steps, usable, is_loss)


def _is_told_again(steps: Ints, losses: Floats) -> bool:
    """Tell whether the last record is an earlier one: early stopping ends on the best iteration."""
    if len(steps) < 3 or steps[-1] >= steps[-2] or np.any(steps[1:-1] <= steps[:-2]):
        return False
    return bool(np.any((steps[:-1] == steps[-1]) & (losses[:-1] == losses[-1])))


def _interleaved(steps: Ints, rows: Ints, usable: Mask, *, times: int) -> Order:
    """Return the order of a log whose steps go back so many times that they tell of no resume."""
    message = (
        f"the steps go back {times} times, as if several writers shared the log: "
        "records are put in the order of their steps, the last of each step counts"
    )
    lost = superseded(len(rows) - len(np.unique(steps[rows])))
    events = (_event(EventKind.STEPS, message), *lost)
    return Order(steps=steps, number=_one_run(usable), events=events, interleaved=True)


def _in_order(walk: StepsBack, rows: Ints, steps: Ints, usable: Mask, is_loss: Mask) -> Order:
    """Return what a walk through the training records, ``rows``, has found."""
    steps = steps + _spread(walk.added, rows, len(steps))
    number = np.zeros(len(steps), dtype=np.int64)
    begins = [0, *rows[walk.begins[1:]].tolist()]
    for run, (begin, end) in enumerate(pairwise([*begins, len(steps)]), start=1):
        part = slice(begin, end)
        if walk.turns:
            _catch_up(steps[part], usable[part], is_loss[part])
        number[part][kept_of(steps[part], usable[part], is_loss[part])] = run
    events = walk.events
    if len(events) > _MOST_EVENTS:
        more = f"the log goes back {len(events)} times in all"
        events = [*events[:_MOST_EVENTS], _event(EventKind.REWIND, more)]
    if walk.turns:
        events += _counted_on(walk)
    events += about_superseded(usable & is_loss, number > 0)
    return Order(steps=steps, number=number, runs=len(begins), events=tuple(events))


def _counted_on(walk: StepsBack) -> list[Event]:
    """Tell that a counter started again; of a few restarts without a next epoch, where each is."""
    on = "while the loss goes on: it is counted on"
    if walk.turns == len(walk.restarts) <= _FEW_RESTARTS:
        return [
            Event(
                kind=EventKind.STEPS,
                code=EventCode.COUNTER_RESTARTS,
                message=f"the step counter starts again {on}, and goes on with {step}",
                step=step,
            )
            for step in walk.restarts
        ]
    times = f"{walk.turns} times" if walk.turns > 1 else "once"
    return [_event(EventKind.STEPS, f"the step counter starts again {times} {on}")]


def _spread(added: Sequence[tuple[int, int]], rows: Ints, count: int) -> Ints:
    """Return what is added to each step, given the places among ``rows`` from which on it holds."""
    changes = [0, *(int(rows[place]) for place, _ in added[1:]), count]
    return np.repeat([by for _, by in added], np.diff(changes))


def _catch_up(steps: Ints, run: Mask, is_loss: Mask) -> None:
    """Put evaluation records behind the training that they follow; ``steps`` is changed in place.

    Where the counter starts again with each epoch, evaluation has a counter of its own.
    """
    last = np.maximum.accumulate(np.where(run & is_loss, np.arange(len(steps)), -1))
    behind = run & ~is_loss & (last >= 0) & (steps < steps[last])
    steps[behind] = steps[last[behind]]


def _epoch_turns(rows: Ints, back: Ints, epochs: Floats | None) -> Mask:
    """Tell which steps back come with the next epoch."""
    if epochs is None:
        return np.zeros(len(back), dtype=bool)
    before = rows[np.searchsorted(rows, back) - 1]
    turns: Mask = epochs[back] == epochs[before] + 1
    return turns


def _event(kind: EventKind, message: str) -> Event:
    return Event(kind=kind, message=message)
