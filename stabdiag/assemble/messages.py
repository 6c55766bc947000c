"""The steps of messages: the reader only knows the counter that the log prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.events import EventCode

if TYPE_CHECKING:
    from stabdiag.assemble.order import Order
    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Mask
    from stabdiag.model.events import Event


def place_messages(
    events: Iterable[Event], clock: Steps, order: Order, run: Mask
) -> Iterator[Event]:
    """Yield the events of a log with the steps that they have in one run.

    If the counter of a log restarts, its steps are continued. A message among the records of
    another run has no step in this one. Last words above other records are none.
    """
    counted = np.flatnonzero(clock.usable & (order.number >= 0))
    for event in events:
        if event.above is None:
            yield event
            continue
        if event.code is EventCode.LAST_WORDS and event.above < len(clock.usable):
            continue
        step = event.step
        above = int(np.searchsorted(counted, event.above))
        if above and step is not None:
            row = int(counted[above - 1])
            is_in_run = run[row] or order.number[row] == 0
            step = step + int(order.steps[row] - clock.steps[row]) if is_in_run else None
        yield replace(event, step=step, above=None)
