"""The order of records: resumes, counters that start again, runs appended to one another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate, pairwise
from math import nan
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.records import ENOUGH, MANY, SELDOM, by_writer
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventCode, EventKind
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Floats, Ints, Mask


# More rewinds than this are reported by their number alone.
_MOST_EVENTS = 100


@frozen
class Order:
    """The steps as they count, and for each record the number of its run from 1, shape (rows,).

    There are so many ``runs``, in the order of the log. Records that a later attempt of the same
    run went over again belong to no run: their number is 0. It is -1 for those of ranks that do not
    count. Of a log of one run the numbers are its mask, not copied. ``interleaved`` says that
    several writers shared the log, and that it holds several runs only if each wrote its own.
    """

    steps: Ints
    number: Ints | NDArray[np.int8]
    runs: int = 1
    events: tuple[Event, ...] = ()
    interleaved: bool = False

    def run(self, number: int) -> Mask:
        """Return the records of a run."""
        return np.equal(self.number, number)

    def beside(self, others: Mask) -> Order:
        """Return the same order where other ranks have written records as well, which do not count.

        That a loss of theirs is not finite does, unless resumes wrote each step several times.
        """
        what = "several ranks share the log: of the records of a step that of one rank counts"
        alone = self.runs == 1 and all(event.kind is not EventKind.REWIND for event in self.events)
        events = (_event(EventKind.STEPS, what), *self.events)
        number = np.where(others, -1, self.number)
        return replace(self, number=number, events=events, interleaved=self.interleaved or alone)


def find_order(
    clock: Steps,
    losses: Floats,
    is_loss: Mask,
    epochs: Floats | None,
    *,
    rates: Floats | None = None,
    epoch_length: int | None = None,
    ends: Sequence[int] = (),
) -> Order:
    """Sort out the places where the steps of a log go back.

    Args:
        clock: the steps as they were logged; epochs are counted by nothing but the run itself.
        losses: shape (rows,), NaN where not finite or not logged.
        is_loss: the training records, whose steps tell the order.
        epochs: the epoch of each record, if logged.
        rates: the learning rate of each record, if logged.
        epoch_length: what the steps count up to within each epoch, if the log says so.
        ends: the records before which the log says that a training had ended.

    A step back to the run's beginning with the loss back at its start is a new run; one with the
    loss going on is a counter that started again (every epoch, or at a resume), and the steps are
    counted on; any other step back is a resume from a checkpoint, and the later attempt counts.
    Epochs that start again are a new run if the loss is higher than it was, by more than it ever
    rose. So is what follows the end of a training with the loss back at its start, at any step.
    """
    steps, usable = clock.steps, clock.usable
    training = is_loss & usable
    begins = _after_an_end(steps, losses, np.flatnonzero(training), epochs, ends)
    if begins:
        return _one_after_the_other(
            [
                find_order(
                    replace(clock, steps=steps[part], usable=usable[part]),
                    losses[part],
                    is_loss[part],
                    None if epochs is None else epochs[part],
                    rates=None if rates is None else rates[part],
                    epoch_length=epoch_length,
                )
                for part in map(slice, [0, *begins], [*begins, len(steps)])
            ]
        )
    if training.all() and np.all(steps[1:] > steps[:-1]):
        return Order(steps=steps, number=usable.view(np.int8))
    rows = np.flatnonzero(training)
    if _repeats_the_best(steps[rows], losses[rows]):
        note = _event(EventKind.STEPS, f"the last record repeats that of step {steps[rows[-1]]}")
        before = replace(clock, usable=usable & (np.arange(len(steps)) != rows[-1]))
        order = find_order(before, losses, is_loss, epochs, epoch_length=epoch_length)
        return replace(order, events=(*order.events, note))
    back = rows[1:][np.diff(steps[rows]) < 0]
    told = training & ~_told_again(steps, losses)
    if not len(back):
        kept = _kept(steps, usable, is_loss)
        return Order(
            steps=steps,
            number=kept.view(np.int8),
            events=_superseded(int((told & ~kept).sum())),
        )
    by_epoch = _epoch_turns(rows, back, epochs)
    if int((~by_epoch).sum()) > max(SELDOM * len(rows), MANY):
        number = None if rates is None else by_writer(steps, rates, training)
        if number is not None:
            number[~usable] = 0
            return Order(steps=steps, number=number, runs=int(number.max()), interleaved=True)
        return _interleaved(steps, rows, usable, times=len(back))
    walk = _Walk(
        steps=steps[rows], losses=losses[rows], of_epochs=clock.of_epochs, length=epoch_length
    )
    for place, turned in zip(np.searchsorted(rows, back).tolist(), by_epoch.tolist(), strict=True):
        walk.go_back(place, turned=turned)
    return _in_order(walk, rows, steps, usable, is_loss, told)


def _after_an_end(
    steps: Ints, losses: Floats, rows: Ints, epochs: Floats | None, ends: Sequence[int]
) -> list[int]:
    """Return the training records, of ``rows``, that begin a run after the end of another one.

    Where the steps go back they tell themselves what follows. An epoch that goes on is of a resume.
    """
    begins: list[int] = []
    begun = 0
    for place in sorted({*np.searchsorted(rows, ends).tolist()}):
        if 0 < place < len(rows) and steps[rows[place]] > steps[rows[place - 1]]:
            old, new = losses[rows[begun:place]], losses[rows[place : place + ENOUGH]]
            resumed = _epoch_turns(rows, rows[place : place + 1], epochs).any()
            if not resumed and _starts_over(old, new, turns=0):
                begins.append(int(rows[place]))
                begun = place
    return begins


def _one_after_the_other(parts: Sequence[Order]) -> Order:
    """Return the order of a log whose parts are runs of their own."""
    before = [0, *accumulate(part.runs for part in parts)]
    numbers = [
        np.where(part.number > 0, part.number.astype(np.int64) + count, 0)
        for part, count in zip(parts, before, strict=False)
    ]
    return Order(
        steps=np.concatenate([part.steps for part in parts]),
        number=np.concatenate(numbers),
        runs=before[-1],
        events=tuple(event for part in parts for event in part.events),
        interleaved=any(part.interleaved for part in parts),
    )


def _repeats_the_best(steps: Ints, losses: Floats) -> bool:
    """Tell whether the last record is an earlier one: early stopping ends on the best iteration."""
    if len(steps) < ENOUGH or steps[-1] >= steps[-2] or np.any(steps[1:-1] <= steps[:-2]):
        return False
    return bool(np.any((steps[:-1] == steps[-1]) & (losses[:-1] == losses[-1])))


def _epoch_turns(rows: Ints, back: Ints, epochs: Floats | None) -> Mask:
    """Tell which steps back come with the next epoch, or with the next fraction of one.

    No run that begins anew goes on with the epochs of another, whatever its loss.
    """
    if epochs is None:
        return np.zeros(len(back), dtype=bool)
    further = epochs[back] - epochs[rows[np.searchsorted(rows, back) - 1]]
    usual = float(np.median(np.diff(epochs[rows])))
    turned: Mask = (further > 0) & (further <= (min(2 * usual, 1) if usual > 0 else 1))
    return turned


def _interleaved(steps: Ints, rows: Ints, usable: Mask, *, times: int) -> Order:
    """Return the order of a log whose steps go back so many times that no resume explains it."""
    message = (
        f"the steps go back {times} times, as if several writers shared the log: "
        "records are put in the order of their steps, the last of each step counts"
    )
    lost = _superseded(len(rows) - len(np.unique(steps[rows])))
    several = Event(kind=EventKind.STEPS, code=EventCode.SEVERAL_WRITERS, message=message)
    events = (several, *lost)
    return Order(steps=steps, number=usable.view(np.int8), events=events, interleaved=True)


def _in_order(
    walk: _Walk, rows: Ints, steps: Ints, usable: Mask, is_loss: Mask, told: Mask
) -> Order:
    """Return what a walk through the training records, ``rows``, has found.

    Of the records that do not count, those that are ``told`` are losses superseded by others.
    """
    steps = steps + _spread(walk.added, rows, len(steps))
    number = np.zeros(len(steps), dtype=np.int64)
    begins = [0, *rows[walk.begins[1:]].tolist()]
    for run, (begin, end) in enumerate(pairwise([*begins, len(steps)]), start=1):
        part = slice(begin, end)
        if walk.turns:
            _catch_up(steps[part], usable[part], is_loss[part])
        number[part][_kept(steps[part], usable[part], is_loss[part])] = run
    events = walk.events
    if len(events) > _MOST_EVENTS:
        more = f"the log goes back {len(events)} times in all"
        events = [*events[:_MOST_EVENTS], _event(EventKind.REWIND, more)]
    if walk.turns:
        events += _counted_on(walk)
    events += _superseded(int((told & (number == 0)).sum()))
    return Order(steps=steps, number=number, runs=len(begins), events=tuple(events))


def _counted_on(walk: _Walk) -> list[Event]:
    """Tell that a counter started again; of a few restarts without a next epoch, where each is.

    A counter that starts again more often may count the batches of an epoch, not those of a job.
    """
    on = "while the loss goes on: it is counted on"
    if walk.turns == len(walk.restarts) <= ENOUGH:
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


def _kept(steps: Ints, run: Mask, is_loss: Mask) -> Mask:
    """Return the records of a run that no later record replaced.

    A record is superseded by a later training record at a lower step, a training record also by one
    at the same step.
    """
    huge = np.iinfo(np.int64).max
    ahead = np.where(is_loss & run, steps, huge)
    if np.all(ahead[:-1] < ahead[1:]):
        return run
    lowest = np.minimum.accumulate(ahead[::-1])[::-1]
    later = np.append(lowest[1:], huge)
    return run & ~((later < steps) | (is_loss & (later <= steps)))


def _told_again(steps: Ints, losses: Floats) -> Mask:
    """Tell which records the next one repeats, as a bar does that is drawn twice at its end."""
    same = (steps[1:] == steps[:-1]) & (losses[1:] == losses[:-1])
    return np.append(same, False)


def _superseded(count: int) -> tuple[Event, ...]:
    """Say how many losses later ones of the same steps have replaced."""
    if not count:
        return ()
    losses = plural(count, "loss is", "losses are")
    later = "a later one" if count == 1 else "later ones"
    return (_event(EventKind.STEPS, f"{losses} superseded by {later}"),)


def _event(kind: EventKind, message: str) -> Event:
    return Event(kind=kind, message=message)


class _Back(Enum):
    REWIND = "rewind"
    TURN = "turn"
    NEW_RUN = "new run"


@dataclass(kw_only=True, eq=False)
class _Walk:
    """Goes through the steps back one by one; a place is a position in the training records.

    ``of_epochs`` says that the steps are epochs, ``length`` what they count up to in one.
    ``begins`` has the places at which runs begin. ``added`` has places, and by how much the steps
    from there on are counted on; ``turns`` is how often a counter started again, ``restarts`` the
    steps, as counted on, at which it did so without a next epoch. ``last`` is the place of the last
    step back.
    """

    steps: Ints
    losses: Floats
    of_epochs: bool
    length: int | None
    begins: list[int] = field(default_factory=lambda: [0])
    added: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    turns: int = 0
    restarts: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    last: int = 0

    def go_back(self, place: int, *, turned: bool) -> None:
        """Take in the step back at one place; it is ``turned`` if it comes with the next epoch."""
        part, to = slice(self.last, place), int(self.steps[place])
        counted = self.added[-1][1]
        back = _Back.TURN if turned else self._what(place)
        if back is _Back.TURN:
            by = counted + self._turn(self.steps[part], to)
            self.added.append((place, by))
            self.turns += 1
            self.restarts += [] if turned else [to + by]
        elif back is _Back.NEW_RUN:
            self.added.append((place, 0))
            self.begins.append(place)
        else:
            self.events.append(_rewind(self.steps[part] + counted, self.losses[part], to + counted))
        self.last = place

    def _turn(self, steps: Ints, to: int) -> int:
        """Return what is added to a counter that starts again at ``to`` after these steps.

        An epoch's last step is often logged whatever the stride, and the next epoch follows at
        once.
        """
        last, gaps = int(steps[-1]), np.diff(steps)
        usual = np.median(gaps) if len(gaps) else 0
        after = last + (1 if usual < 1 or gaps[-1] < usual else int(usual))
        # An epoch that was left before its end is shorter than the log says.
        return self.length if self.length and last <= self.length <= after else after - to

    def _what(self, place: int) -> _Back:
        """Tell what a step back is that does not come with the next epoch."""
        begin = self.begins[-1]
        # The counter itself, without what earlier turns of it have added.
        first, last, to = (int(self.steps[one]) for one in (begin, place - 1, place))
        if to > first + max(1, (last - first) // 100):
            return _Back.REWIND
        old, new = self.losses[begin:place], self.losses[place : place + ENOUGH]
        # Where steps are epochs, a loss above the last one by more than it ever rose is another's.
        rises = self.of_epochs and new[0] - old[-1] > np.fmax.reduce(np.diff(old), initial=0.0)
        starts_over = rises or _starts_over(old, new, turns=self.turns)
        return _Back.NEW_RUN if starts_over else _Back.TURN


def _rewind(steps: Ints, losses: Floats, to: int) -> Event:
    """Tell of a resume at a step, and which losses before it, gone over again, were not finite."""
    bad = ~np.isfinite(losses) & (steps >= to)
    message = f"the log goes back from step {steps[-1]} to {to}: the later attempt counts"
    if bad.any():
        what = "a loss was" if bad.sum() == 1 else f"{bad.sum()} losses were"
        message += f"; before, {what} not finite, from step {steps[np.argmax(bad)]} on"
    return Event(kind=EventKind.REWIND, message=message, step=to)


def _starts_over(old: Floats, new: Floats, *, turns: int) -> bool:
    """Tell whether the new losses begin where the old ones began, not where they ended.

    A run begins with a loss: one that is not finite is what became of the run before, if that had
    ended so, or if its counter had started again before (``turns``).
    """
    if not np.isfinite(new[0]) and (turns or not np.isfinite(old[-1])):
        return False
    start, end, again = (_level(part) for part in (old[:ENOUGH], old[-ENOUGH:], new[:ENOUGH]))
    if not np.isfinite([start, end, again]).all():
        return True
    return abs(again - start) <= abs(again - end) or len(old) <= ENOUGH


def _level(losses: Floats) -> float:
    finite = losses[np.isfinite(losses)].tolist()
    return median(finite) if finite else nan
