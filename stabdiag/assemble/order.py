"""The order of records: rewinds, counters that start again, runs appended to one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.superseded import about_superseded, kept_of, superseded
from stabdiag.history import Event, EventKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# A log whose steps go back more often than this, in records, is not resumed but interleaved.
_MOST_REWINDS = 0.05

# The first and last losses of a run are compared as medians of so many.
_FEW = 3

# More rewinds than this are reported by their number alone.
_MOST_EVENTS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """Steps as they count, shape (rows,), and the records of each run, in the order of the log.

    Records that a later attempt of the same run went over again belong to no run.
    """

    steps: Ints
    runs: tuple[Mask, ...]
    events: tuple[Event, ...] = ()


def find_order(
    steps: Ints,
    usable: Mask,
    losses: Floats,
    is_loss: Mask,
    epochs: Floats | None,
    *,
    times: Floats | None = None,
    of_epochs: bool = False,
) -> Order:
    """Sort out where a log goes back.

    Args:
        steps: shape (rows,), int64.
        usable: the records that have a step.
        losses: shape (rows,), NaN where not finite or not logged.
        is_loss: the training records, whose steps tell the order.
        epochs: the epoch of each record, if logged.
        times: when each record was written, if logged.
        of_epochs: whether the steps are epochs, which nothing but the run itself counts.

    A step back to the run's beginning with the loss back at its start is a new run; one with the
    loss going on is a counter that started again (every epoch, or at a resume), and the steps are
    counted on; any other step back is a resume from a checkpoint, and the later attempt counts.
    What is logged at another stride from then on has other settings: it is a new run if the loss is
    back at its start or the clock starts again, too. Epochs that start again are a new run if the
    loss is higher than it was, by more than it ever rose.
    """
    training = is_loss & usable
    if training.all() and np.all(steps[1:] > steps[:-1]):
        return Order(steps=steps, runs=(usable,))
    rows = np.flatnonzero(training)
    back = rows[1:][np.diff(steps[rows]) < 0]
    if not len(back):
        kept = kept_of(steps, usable, is_loss)
        return Order(steps=steps, runs=(kept,), events=about_superseded(training, (kept,)))
    by_epoch = _epoch_turns(rows, back, epochs)
    if int((~by_epoch).sum()) > max(_MOST_REWINDS * len(rows), 20):
        message = (
            f"the steps go back {len(back)} times, as if several writers shared the log: "
            "records are put in the order of their steps, the last of each step counts"
        )
        events = (
            _event(EventKind.STEPS, message),
            *superseded(len(rows) - len(np.unique(steps[rows]))),
        )
        return Order(steps=steps, runs=(usable,), events=events)
    anew = np.zeros(len(steps), dtype=bool)
    if times is not None:
        anew[rows[1:]] |= times[rows[1:]] < times[rows[:-1]]
    return _walk(
        steps.copy(),
        usable,
        losses,
        is_loss,
        anew,
        rows,
        back,
        by_epoch,
        of_epochs=of_epochs,
    )


def _walk(
    steps: Ints,
    usable: Mask,
    losses: Floats,
    is_loss: Mask,
    anew: Mask,
    rows: Ints,
    back: Ints,
    by_epoch: Mask,
    *,
    of_epochs: bool,
) -> Order:
    """Go through the steps back one by one; ``steps`` is counted on in place."""
    begins = [0]
    events: list[Event] = []
    turns = counted = 0
    until_the_next = [*back[1:].tolist(), len(steps)]
    for row, until, turned in zip(back.tolist(), until_the_next, by_epoch.tolist(), strict=True):
        run = rows[(rows >= begins[-1]) & (rows < row)]
        rest = rows[rows >= row]
        last, to, first = int(steps[run[-1]]), int(steps[row]), int(steps[run[0]])
        # The counter itself, without what earlier turns of it have added, is back at its start.
        at_start = to - counted <= first + max(1, (last - counted - first) // 100)
        starts_over = _starts_over(losses[run], losses[rest], turns=turns)
        other = None if turned else _other_stride(steps[run], steps[rest[rest < until]])
        if other is not None:
            at_start |= starts_over and to - counted <= other
            starts_over |= bool(anew[row])
        if of_epochs:
            starts_over |= _jumps(losses[run], float(losses[row]))
        if turned or (at_start and not starts_over):
            added = last - to + _next(steps[run])
            steps[row:] += added
            counted += added
            turns += 1
        elif at_start:
            steps[row:] -= counted
            counted = 0
            begins.append(row)
        else:
            events.append(
                _event(
                    EventKind.REWIND,
                    f"the log goes back from step {last} to {to}: the later attempt counts",
                    to,
                )
            )
    if len(events) > _MOST_EVENTS:
        more = f"the log goes back {len(events)} times in all"
        events = [*events[:_MOST_EVENTS], _event(EventKind.REWIND, more)]
    if turns:
        times = f"{turns} times" if turns > 1 else "once"
        message = f"the step counter starts again {times} while the loss goes on: it is counted on"
        events.append(_event(EventKind.STEPS, message))
    number = np.arange(len(steps))
    runs: list[Mask] = []
    for begin, end in zip(begins, [*begins[1:], len(steps)], strict=True):
        mine = usable & (number >= begin) & (number < end)
        if turns:
            _catch_up(steps, mine, is_loss)
        runs.append(kept_of(steps, mine, is_loss))
    events += about_superseded(usable & is_loss, runs)
    return Order(steps=steps, runs=tuple(runs), events=tuple(events))


def _other_stride(old: Ints, new: Ints) -> int | None:
    """Return the stride of the new steps if it is at least twice or half that of the old ones."""
    gaps = [steps[steps > 0] for steps in map(np.diff, (old, new))]
    if not all(map(len, gaps)):
        return None
    before, after = (float(np.median(one)) for one in gaps)
    return int(after) if max(before, after) >= 2 * min(before, after) else None


def _next(steps: Ints) -> int:
    """Return how far the next record of a counter would be, had it not started again.

    An epoch's last step is often logged whatever the stride, and the next epoch follows at once.
    """
    gaps = np.diff(steps)
    if not len(gaps) or gaps[-1] < np.median(gaps):
        return 1
    return max(int(np.median(gaps)), 1)


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


def _jumps(old: Floats, new: float) -> bool:
    """Tell whether a loss lies above the last one by more than those before it ever rose."""
    return bool(new - old[-1] > np.fmax.reduce(np.diff(old), initial=0.0))


def _level(losses: Floats) -> float:
    finite = losses[np.isfinite(losses)]
    return float(np.median(finite)) if len(finite) else float("nan")


def _event(kind: EventKind, message: str, step: int | None = None) -> Event:
    return Event(kind=kind, message=message, step=step)
