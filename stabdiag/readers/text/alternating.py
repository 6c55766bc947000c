"""Lines of a second form between the records of a text log, with the steps that these lack.

Two loops print in turn, or a progress bar and prints share a log. A line counts as a record of
another form if its counter is between the steps of the records around it.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.events import LeftOut
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.later_forms.left_out import MIN_ALTERNATING, alternating
from stabdiag.readers.text.lines.counters import EPOCH, counter_value, line_counters
from stabdiag.readers.text.lines.evaluated import evaluation_prefix
from stabdiag.readers.text.lines.fixed_texts import positions_of_any
from stabdiag.readers.text.lines.grammar import TextPart, as_float, is_a_loss
from stabdiag.readers.text.lines.line_forms import words_in
from stabdiag.readers.text.lines.tokens import SAVES, has_number
from stabdiag.readers.text.unread_forms import record_form

# Parts of names of losses and of errors.
_LOSS_PARTS: Final = (
    *(b"oss", b"OSS", b"Cost", b"cost", b"ntropy", b"nll", b"NLL", b"bjective"),
    *(b"Error", b"error", b"mse", b"MSE"),
)

_MAX_LINE: Final = 1000
_MAX_EXAMINED: Final = 64
_MAX_ALTERNATING_FORMS: Final = 20


# Two records leave a step out if their distance is this many times the smallest one.
_GAP: Final = 1.5


class _Form(Copyable):
    """The lines of one form: how many are between two steps, the others, and the first one.

    ``in_gaps`` are those between steps that are farther apart than others.
    """

    def __init__(self, number: int, text: bytes) -> None:
        self.between = self.in_gaps = self.others = 0
        self.number, self.text = number, text

    @property
    def are_records(self) -> bool:
        """Whether nearly all lines are between two steps."""
        is_usual = self.between >= MIN_ALTERNATING
        return is_usual and self.others <= self.between // MIN_ALTERNATING


class AlternatingLines(Copyable):
    """Counts the lines between records that have other steps and another form."""

    def __init__(self, step: str) -> None:
        """Begin with no lines; ``step`` is the column of the steps."""
        self._step = step
        self._last = math.nan
        self._stride = math.inf
        self._forms: dict[bytes, _Form] = {}

    def look(
        self, data: bytes, unmatched: bytes | None, parts: Iterable[TextPart], line: int
    ) -> None:
        """Add the next block, its lines outside of all parts, and the number of its first line."""
        may_alternate = unmatched is None or bool(words_in(unmatched, _LOSS_PARTS))
        if not may_alternate and not self._forms:
            return
        starts, steps = self._records(parts)
        moves = (after - before for before, after in pairwise(steps) if after > before)
        self._stride = min(self._stride, min(moves, default=math.inf))
        if may_alternate and starts:
            self._examine(data, starts, steps, line)
        self._last = steps[-1] if steps else self._last

    def _records(self, parts: Iterable[TextPart]) -> tuple[list[int], list[float]]:
        """Return the positions and the steps of the records with a loss, in order."""
        records: list[tuple[int, float]] = []
        for part in parts:
            losses = [name for name in part.names if is_a_loss(name) and not is_evaluation(name)]
            if losses and self._step in part.names:
                cells = part.cells[part.names.index(self._step)]
                records += zip(part.starts, (as_float(cell or b"") for cell in cells), strict=True)
        records.sort()
        return [start for start, _ in records], [step for _, step in records]

    def _examine(
        self, data: bytes, starts: Sequence[int], steps: Sequence[float], first_line: int
    ) -> None:
        """Count the lines of a block between its first and its last record."""
        end = examined = counted = 0
        number = first_line - 1
        for place in positions_of_any(data, words_in(data, _LOSS_PARTS)):
            if place >= starts[-1]:
                return
            if place < end:
                continue
            begin = data.rfind(b"\n", 0, place) + 1
            end = data.find(b"\n", place)
            end = len(data) if end < 0 else end
            # A match is above the last record.
            row = bisect(starts, begin)
            if starts[row] < end:
                continue
            before = steps[row - 1] if row else self._last
            examined += 1
            if examined > _MAX_EXAMINED:
                return
            if end - begin <= _MAX_LINE:
                number += data.count(b"\n", counted, begin)
                counted = begin
                self._take(data[begin:end], before, steps[row], number)

    def _take(self, line: bytes, before: float, after: float, number: int) -> None:
        """Count a line between two steps."""
        if math.isnan(before) or not has_number(line):
            return
        if evaluation_prefix(line, len(line)) or SAVES.search(line) is not None:
            return
        counters = line_counters(line).items()
        counts = [counter_value(line[slice(*at)]) for name, at in counters if name != EPOCH]
        if not counts:
            return
        name = record_form(line)
        if name not in self._forms and len(self._forms) >= _MAX_ALTERNATING_FORMS:
            return
        form = self._forms.setdefault(name, _Form(number, line))
        if any(before < count < after for count in counts):
            form.between += 1
            form.in_gaps += after - before > _GAP * self._stride
        else:
            form.others += 1

    def left_out(self) -> list[LeftOut]:
        """Return an entry for each form of lines that are records.

        Without gaps between the records, they may be other values, at steps of their own.
        """
        return [
            alternating(
                form.between,
                above=None if form.in_gaps >= MIN_ALTERNATING else 0,
                line=form.number,
                text=form.text.decode("utf-8", "replace"),
            )
            for form in self._forms.values()
            if form.are_records
        ]
