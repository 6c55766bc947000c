"""What the lines between the records of a log say: a program prints messages among its rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.history import Event
from stabdiag.readers.columns import BadLine, Rows
from stabdiag.readers.text.asides import OVERFLOWS, alarms, spoken
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.grammar import Grammar
from stabdiag.readers.text.messages import Messages
from stabdiag.readers.text.table import Table

_SAID: Final = Grammar(step="step", kinds=(*alarms("loss", "step"), *spoken("loss"), *OVERFLOWS))


class Between:
    """Gathers what such lines say, block by block: each is at its place in the text of them all."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._table, self._messages = Table(_SAID), Messages()
        # Of each line that was understood its place, and how many records stand above it.
        self.heard: list[tuple[int, int]] = []
        self._offset = 0

    def copy(self) -> Between:
        """Return the same, to which more can be added."""
        other = copy(self)
        other._table, other._messages = self._table.copy(), self._messages.copy()
        other.heard = [*self.heard]
        return other

    def look(self, others: Sequence[BadLine]) -> set[int]:
        """Take in the other lines of a block, and return the numbers of those understood."""
        first = others[0].line
        numbers = np.array([one.line for one in others])
        gaps = np.diff(numbers, prepend=first).tolist()
        block = "".join("\n" * gap + one.text for gap, one in zip(gaps, others, strict=True))
        text = Text(block.replace("\r", " ").encode("utf-8", "replace"), first_line=first)
        spans = self._messages.look(text, self._offset)
        for kind in _SAID.kinds:
            for part in kind.find(text.data):
                self._table.add(kind, part, text.data, self._offset)
                spans += zip(part.starts, part.starts, strict=True)
        spans.sort()
        begin, end = (text.lines_at([span[side] for span in spans]) for side in (0, 1))
        rows = np.searchsorted(numbers, begin).tolist()
        for (place, _), row in zip(spans, rows, strict=True):
            self.heard.append((self._offset + place, others[row].above))
        self._offset += len(text.data)
        lines = map(range, begin.tolist(), (end + 1).tolist())
        return {number for one in lines for number in one}

    def among(self, steps: Floats) -> tuple[Rows, tuple[Event, ...]]:
        """Return what is said among records with these steps; see ``Table.among``."""
        places, above = np.array(self.heard, dtype=np.int64).reshape(-1, 2).T
        following = np.searchsorted(above, np.arange(len(steps)), side="right")
        done = self._table.among(np.append(places, self._offset)[following], steps)
        return done.rows, self._messages.events(done.step_at)
