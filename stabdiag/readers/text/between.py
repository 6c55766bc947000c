"""What the lines between the records of a log say: a program prints messages among its rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event
from stabdiag.readers.columns import BadLine
from stabdiag.readers.text.asides import OVERFLOWS, alarms, spoken
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.messages import Messages
from stabdiag.readers.words import number_of

_KINDS: Final = (*alarms("loss", "step"), *spoken("loss"), *OVERFLOWS)


@frozen
class Aside:
    """What a line below so many records says in words that these have cells for.

    ``step`` is a value of ``Step``.
    """

    above: int
    step: int
    cells: dict[str, float]


class Between:
    """Gathers what such lines say, block by block."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.asides: list[Aside] = []
        self._messages = Messages()
        self._places: list[int] = []
        self._above: list[int] = []
        self._offset = 0

    def copy(self) -> Between:
        """Return the same, to which more can be added."""
        other = copy(self)
        other.asides, other._messages = [*self.asides], self._messages.copy()
        other._places, other._above = [*self._places], [*self._above]
        return other

    def look(self, others: Sequence[BadLine]) -> set[int]:
        """Take in the other lines of a block, and return the numbers of those understood."""
        first, offset = others[0].line, self._offset
        numbers = np.array([one.line for one in others])
        gaps = np.diff(numbers, prepend=first).tolist()
        block = "".join("\n" * gap + one.text for gap, one in zip(gaps, others, strict=True))
        text = Text(block.replace("\r", " ").encode("utf-8", "replace"), first_line=first)
        said = [
            (place, kind.step.value, dict(zip(part.names, cells, strict=True)))
            for kind in _KINDS
            for part in (kind.find(text.data) if kind.is_record else ())
            for place, *cells in zip(part.starts, *part.cells, strict=True)
        ]
        said.sort(key=lambda one: one[0])
        spans = sorted(
            [*self._messages.look(text, offset), *((place, place) for place, _, _ in said)]
        )
        self._offset += len(text.data)
        if not spans:
            return set()
        begin, end = (text.lines_at([span[at] for span in spans]) for at in (0, 1))
        above = [others[at].above for at in np.searchsorted(numbers, begin).tolist()]
        self._places += [offset + place for place, _ in spans]
        self._above += above
        rows = dict(zip((place for place, _ in spans), above, strict=True))
        self.asides += [
            Aside(above=rows[place], step=step, cells=_numbers(cells))
            for place, step, cells in said
        ]
        end = np.maximum.accumulate(end)
        inside = np.searchsorted(begin, numbers, side="right") - 1
        return set(numbers[(inside >= 0) & (numbers <= end[inside])].tolist())

    def events(self, steps: Floats) -> tuple[Event, ...]:
        """Return the messages as events, given the step of each record."""

        def step_at(place: int) -> int | None:
            above = steps[: self._above[bisect_right(self._places, place) - 1]]
            known = above[np.isfinite(above)]
            return int(known[-1]) if len(known) else None

        return self._messages.events(step_at)


def _numbers(cells: Mapping[str, bytes | None]) -> dict[str, float]:
    spelt = {name: number_of(cell.decode()) for name, cell in cells.items() if cell is not None}
    return {name: number for name, number in spelt.items() if number is not None}
