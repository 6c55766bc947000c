"""The order of records: resumes, counters that restart, appended runs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.records import MIN_RECORDS, MIN_SERIES_LENGTH, RARE_FRACTION, by_writer
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.text import plural
from stabdiag.model.unique import unique_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stabdiag.assemble.step_drops import StepWalk
    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Floats, Ints, Mask


# Rewinds beyond this number are only counted.
_MOST_EVENTS = 100


@frozen
class Order:
    """The steps and the run number of each record, shape (rows,).

    Attributes:
        steps: the steps, continued across restarts of the counter.
        number: the run of each record, from 1. It is 0 for records that a later attempt of the run
            repeated, and -1 for records of unused ranks. For a single run it is a view of its mask.
        runs: the number of runs, in the order of the log.
        rewinds: the training records with which a run resumes from a checkpoint.
        events: the events to report.
        interleaved: whether several writers share the log. It then has several runs only if each
            writer wrote its own.
    """

    steps: Ints
    number: Ints | NDArray[np.int8]
    runs: int = 1
    rewinds: tuple[int, ...] = ()
    events: tuple[Event, ...] = ()
    interleaved: bool = False

    def run(self, number: int) -> Mask:
        """Return the records of a run."""
        return np.equal(self.number, number)

    def abandoned(self, row: int, usable: Mask, is_loss: Mask) -> Mask:
        """Return the records of the attempt that the resume at a record gave up."""
        run = int(self.number[row])
        first = int(np.argmax(self.number == run))
        before = np.zeros(len(self.steps), dtype=bool)
        before[first:row] = usable[first:row] & np.isin(self.number[first:row], (0, run))
        return _kept(self.steps, before, is_loss)

    def with_other_ranks(self, others: Mask) -> Order:
        """Return a copy that excludes the records of other ranks.

        Their non-finite losses still count, unless resumes wrote each step several times.
        """
        message = "several ranks share the log: only one rank is used for each step"
        is_simple = self.runs == 1 and all(
            event.kind is not EventKind.REWIND for event in self.events
        )
        events = (_event(EventKind.STEPS, message), *self.events)
        number = np.where(others, -1, self.number)
        return replace(
            self, number=number, events=events, interleaved=self.interleaved or is_simple
        )


def find_order(
    clock: Steps,
    losses: Floats,
    is_loss: Mask,
    epochs: Floats | None,
    *,
    rates: Floats | None = None,
    epoch_length: int | None = None,
    ends: Sequence[int] = (),
    restarts: Sequence[int] = (),
) -> Order:
    """Find out what it means when the steps of a log go back.

    Args:
        clock: the steps as logged; if they count epochs, the counter never restarts within a run.
        losses: shape (rows,), NaN where not finite or not logged.
        is_loss: the training records, whose steps determine the order.
        epochs: the epoch of each record, if logged.
        rates: the learning rate of each record, if logged.
        epoch_length: the number of steps within each epoch, if logged.
        ends: the records before which the log reports the end of a training run.
        restarts: the records with which another run begins in any case, if their steps go back.

    If the step and the loss both return to their start, it is a new run. If only the step does, the
    counter restarted (every epoch, or at a resume), and the steps are continued. Any other step
    back is a resume from a checkpoint, and the later attempt is used. If epochs restart, it is a
    new run if the loss rises by more than it ever did. After a reported end of training, a loss
    back at its start is a new run at any step.
    """
    steps, usable = clock.steps, clock.usable
    training = is_loss & usable
    begins = _later_run_starts(steps, losses, np.flatnonzero(training), epochs, ends)
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
        note = _event(
            EventKind.STEPS, f"the last record repeats the record of step {steps[rows[-1]]}"
        )
        before = replace(clock, usable=usable & (np.arange(len(steps)) != rows[-1]))
        order = find_order(before, losses, is_loss, epochs, epoch_length=epoch_length)
        return replace(order, events=(*order.events, note))
    back = rows[1:][np.diff(steps[rows]) < 0]
    counted = training & ~_is_repeated_by_next(steps, losses)
    if not len(back):
        kept = _kept(steps, usable, is_loss)
        superseded = _superseded(int((counted & ~kept).sum()))
        return Order(steps=steps, number=kept.view(np.int8), events=superseded)
    by_epoch = _epoch_turns(rows, back, epochs)
    if int((~by_epoch).sum()) > max(RARE_FRACTION * len(rows), MIN_SERIES_LENGTH):
        # A resume is rare: these are cycles of a counter, or the steps of several writers.
        if not _is_cyclic(steps[rows]):
            return _by_writer(steps, rates, usable, training) or _interleaved(steps, rows, usable)
        by_epoch |= not _falls_in_each_cycle(steps[rows], losses[rows])
    # Imported here, because the steps of most logs only rise.
    from stabdiag.assemble.step_drops import StepWalk

    walk = StepWalk(
        steps=steps[rows], losses=losses[rows], of_epochs=clock.of_epochs, length=epoch_length
    )
    for position, is_epoch in zip(
        np.searchsorted(rows, back).tolist(), by_epoch.tolist(), strict=True
    ):
        walk.go_back(position, is_epoch=is_epoch, is_restart=int(rows[position]) in restarts)
    return _ordered(walk, rows, steps, usable, is_loss, counted)


def _later_run_starts(
    steps: Ints, losses: Floats, rows: Ints, epochs: Floats | None, ends: Sequence[int]
) -> list[int]:
    """Return the training records (among ``rows``) that begin a run after the end of another one.

    Steps that go back are handled elsewhere. If the epoch continues, it is a resume.
    """
    if not ends:
        return []
    from stabdiag.assemble.step_drops import starts_over

    begins: list[int] = []
    begun = 0
    for position in sorted({*np.searchsorted(rows, ends).tolist()}):
        if 0 < position < len(rows) and steps[rows[position]] > steps[rows[position - 1]]:
            old = losses[rows[begun:position]]
            new = losses[rows[position : position + MIN_RECORDS]]
            resumed = _epoch_turns(rows, rows[position : position + 1], epochs).any()
            if not resumed and starts_over(old, new, turns=0):
                begins.append(int(rows[position]))
                begun = position
    return begins


def _one_after_the_other(parts: Sequence[Order]) -> Order:
    """Return the order of a log whose parts are separate runs."""
    before = [0, *accumulate(part.runs for part in parts)]
    begins = [0, *accumulate(len(part.steps) for part in parts)][:-1]
    numbers = [
        np.where(part.number > 0, part.number.astype(np.int64) + count, 0)
        for part, count in zip(parts, before, strict=False)
    ]
    return Order(
        steps=np.concatenate([part.steps for part in parts]),
        number=np.concatenate(numbers),
        runs=before[-1],
        rewinds=tuple(
            begin + row for begin, part in zip(begins, parts, strict=True) for row in part.rewinds
        ),
        events=tuple(event for part in parts for event in part.events),
        interleaved=any(part.interleaved for part in parts),
    )


def _repeats_the_best(steps: Ints, losses: Floats) -> bool:
    """Return True if the last record repeats an earlier one, as after early stopping."""
    if len(steps) < MIN_RECORDS or steps[-1] >= steps[-2] or np.any(steps[1:-1] <= steps[:-2]):
        return False
    return bool(np.any((steps[:-1] == steps[-1]) & (losses[:-1] == losses[-1])))


def _epoch_turns(rows: Ints, back: Ints, epochs: Floats | None) -> Mask:
    """Return a mask of the steps back that come with the next epoch, or the next fraction of one.

    A new run never continues the epochs of another, regardless of its loss. Records above the
    first line that names an epoch belong to the one before. A paste may leave out whole epochs.
    """
    if epochs is None:
        return np.zeros(len(back), dtype=bool)
    named = np.flatnonzero(~np.isnan(epochs[rows]))
    if len(named) and named[0] > 0:
        epochs = epochs.copy()
        epochs[: rows[named[0]]] = epochs[rows[named[0]]] - 1
    advance = epochs[back] - epochs[rows[np.searchsorted(rows, back) - 1]]
    usual = float(np.median(np.diff(epochs[rows])))
    finite = epochs[rows[np.isfinite(epochs[rows])]]
    are_whole = len(rows) < MIN_SERIES_LENGTH and bool(np.all(finite % 1 == 0))
    largest = math.inf if are_whole else min(2 * usual, 1) if usual > 0 else 1
    turned: Mask = (advance > 0) & (advance <= largest)
    return turned


def _is_cyclic(steps: Ints) -> bool:
    """Return True if the steps always fall from one last step to one first: 0 … 7, 0 … 7.

    Writers that share a log fall to the steps of each other.
    """
    falls = np.flatnonzero(np.diff(steps) < 0)
    return len(unique_values(steps[falls])) == len(unique_values(steps[falls + 1])) == 1


def _falls_in_each_cycle(steps: Ints, losses: Floats) -> bool:
    """Return True if each cycle begins near the first loss of the previous one, not near its last.

    Each cycle is then a run. A cycle of one run begins near the last loss of the previous one.
    """
    ends = np.flatnonzero(np.diff(steps) < 0)
    starts = np.append(0, ends[:-1] + 1)
    to_end = np.abs(losses[ends + 1] - losses[ends])
    to_start = np.abs(losses[ends + 1] - losses[starts])
    is_known = np.isfinite(to_end) & np.isfinite(to_start)
    if not is_known.any():
        return True
    return bool(np.median(to_end[is_known]) > 2 * np.median(to_start[is_known]))


def _by_writer(steps: Ints, rates: Floats | None, usable: Mask, training: Mask) -> Order | None:
    """Return the order of a log in which each writer wrote its own run, or None."""
    number = None if rates is None else by_writer(steps, rates, training)
    if number is None:
        return None
    number[~usable] = 0
    return Order(steps=steps, number=number, runs=int(number.max()), interleaved=True)


def _interleaved(steps: Ints, rows: Ints, usable: Mask) -> Order:
    """Return the order of a log whose steps go back too often for resumes."""
    times = int((np.diff(steps[rows]) < 0).sum())
    message = (
        f"the steps go back {times} times, as if several writers shared the log: "
        "records are sorted by step, and the last record of each step is used"
    )
    superseded = _superseded(len(rows) - len(unique_values(steps[rows])))
    several = Event(kind=EventKind.STEPS, code=EventCode.SEVERAL_WRITERS, message=message)
    events = (several, *superseded)
    return Order(steps=steps, number=usable.view(np.int8), events=events, interleaved=True)


def _ordered(
    walk: StepWalk, rows: Ints, steps: Ints, usable: Mask, is_loss: Mask, counted: Mask
) -> Order:
    """Return the order that a walk through the training records, ``rows``, has found.

    Unused records that are ``counted`` are reported as superseded losses.
    """
    steps = steps + _spread(walk.offsets, rows, len(steps))
    number = np.zeros(len(steps), dtype=np.int64)
    begins = [0, *rows[walk.begins[1:]].tolist()]
    for run, (begin, end) in enumerate(pairwise([*begins, len(steps)]), start=1):
        part = slice(begin, end)
        if walk.turns:
            _catch_up(steps[part], usable[part], is_loss[part])
        number[part][_kept(steps[part], usable[part], is_loss[part])] = run
    events = walk.events
    if len(events) > _MOST_EVENTS:
        total = f"the log goes back {len(events)} times in total"
        events = [*events[:_MOST_EVENTS], _event(EventKind.REWIND, total)]
    if walk.turns:
        events += _restart_events(walk)
    events += _superseded(int((counted & (number == 0)).sum()))
    rewinds = tuple(rows[walk.rewinds].tolist())
    return Order(
        steps=steps, number=number, runs=len(begins), rewinds=rewinds, events=tuple(events)
    )


def _restart_events(walk: StepWalk) -> list[Event]:
    """Report that a counter restarted; a few restarts within an epoch are listed separately.

    A counter that restarts more often may count the batches of an epoch.
    """
    effect = "while the values continue: its count is continued"
    if walk.turns == len(walk.restarts) <= MIN_RECORDS:
        return [
            Event(
                kind=EventKind.STEPS,
                code=EventCode.COUNTER_RESTARTS,
                message=f"the step counter restarts {effect}, from {step}",
                step=step,
            )
            for step in walk.restarts
        ]
    times = f"{walk.turns} times" if walk.turns > 1 else "once"
    message = f"the step counter restarts {times} {effect}"
    return [Event(kind=EventKind.STEPS, code=EventCode.COUNTER_RESTARTS, message=message)]


def _spread(offsets: Sequence[tuple[int, int]], rows: Ints, count: int) -> Ints:
    """Return the offset of each step, given the positions in ``rows`` where offsets begin."""
    changes = [0, *(int(rows[position]) for position, _ in offsets[1:]), count]
    return np.repeat([offset for _, offset in offsets], np.diff(changes))


def _catch_up(steps: Ints, run: Mask, is_loss: Mask) -> None:
    """Move evaluation records to the training step that they follow, in place.

    If the step counter restarts with each epoch, evaluations have a separate counter, such as the
    number of their batches: it is behind the training step, or ahead of the next one.
    """
    number, training = np.arange(len(steps)), run & is_loss
    last = np.maximum.accumulate(np.where(training, number, -1))
    coming = np.minimum.accumulate(np.where(training, number, len(steps))[::-1])[::-1]
    follows = run & ~is_loss & (last >= 0)
    after = np.append(steps, np.iinfo(np.int64).max)[coming]
    if (follows & (steps > after)).any():
        follows &= steps != steps[last]
    else:
        follows &= steps < steps[last]
    steps[follows] = steps[last[follows]]


def _kept(steps: Ints, run: Mask, is_loss: Mask) -> Mask:
    """Return the records of a run that no later record superseded.

    A record is superseded by a later training record at a lower step. A training record is also
    superseded by one at the same step.
    """
    huge = np.iinfo(np.int64).max
    ahead = np.where(is_loss & run, steps, huge)
    if np.all(ahead[:-1] < ahead[1:]):
        return run
    lowest = np.minimum.accumulate(ahead[::-1])[::-1]
    later = np.append(lowest[1:], huge)
    return run & ~((later < steps) | (is_loss & (later <= steps)))


def _is_repeated_by_next(steps: Ints, losses: Floats) -> Mask:
    """Return a mask of the records that the next one repeats, as progress bars do at their end."""
    same = (steps[1:] == steps[:-1]) & (losses[1:] == losses[:-1])
    return np.append(same, False)


def _superseded(count: int) -> tuple[Event, ...]:
    """Report the number of losses superseded by later ones at the same steps."""
    if not count:
        return ()
    losses = plural(count, "loss is", "losses are")
    later = "a later one" if count == 1 else "later ones"
    return (_event(EventKind.STEPS, f"{losses} superseded by {later}"),)


def _event(kind: EventKind, message: str) -> Event:
    return Event(kind=kind, message=message)
