"""Lines below the last record that continue its counter, in words that no record has.

``at 310 it was nan`` and ``320 is the step and 2.1 what it cost`` follow step 300: the log
continues there, and may report a failure. Many lines of one form may count in other units, such as
``Epoch[20] Batch [40] cross-entropy=2.1`` below step 300.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from stabdiag.model.events import LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import count_line_ends
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.later_forms.continuation import COMPARED_LOSSES, VERY_NEAR, is_near
from stabdiag.readers.later_forms.left_out import MIN_ALTERNATING, unreadable
from stabdiag.readers.text.lines.counters import counter_value, line_counters
from stabdiag.readers.text.lines.evaluated import evaluation_prefix
from stabdiag.readers.text.lines.grammar import TextPart, as_float, is_a_loss
from stabdiag.readers.text.lines.measure_words import is_other_loss
from stabdiag.readers.text.lines.tokens import line_fields
from stabdiag.readers.text.messages.failures import classify_failure, states_failure

# At most this many bytes below the last record and above its end are kept, and lines of this
# length examined.
_KEPT_TAIL: Final = 1 << 15
_KEPT_ABOVE: Final = 1 << 15
_MAX_LINE: Final = 1000

# A whole number outside a date, a time, a list or another number, and one with decimals. A number
# of lost values is not a step: 12 NaN values.
_COUNT_IN_LINE: Final = lazy_pattern(
    rb"(?<![\w.:/+-])(?<!\d,)(\d{1,12})"
    rb"(?![\w+-]|[.:]\d|,\)| (?:nan|NaN|inf|NA)(?:s\b| (?!nan|NaN|inf)[A-Za-z]{3}))"
)
# The same behind a short word: it201, s:201, step/201, model_step201
_GLUED_COUNT: Final = lazy_pattern(
    rb"(?<![A-Za-z\d.:/+-])[A-Za-z]{1,12}[_/:]?(\d{1,12})(?![A-Za-z\d+-]|[.]\d)"
)
_NAN_WORD: Final = lazy_pattern(rb"(?i)(?<![a-z])nan(?![a-z])")
# Also behind a short word: L2.3, loss/2.3, Lnan
_COUNTED_VALUE: Final = lazy_pattern(
    rb"(?<![\d.])(?:[-+]?\d{1,9}[.,]\d|(?:(?<![A-Za-z])[A-Za-z]{1,8})?(?:nan|NaN)(?![A-Za-z]))"
)

_NUMBER_OR_NAN: Final = lazy_pattern(rb"\d[\d.,e+-]{0,40}|(?:nan|NaN)(?![A-Za-z])")

# A line of a loss alone, as print(loss.item()) writes it.
_LOSS_ALONE: Final = lazy_pattern(rb"[ \t]{0,8}\d{1,9}\.\d{1,20}[ \t\r]{0,8}")

# A count continues if it is at most this many strides after the last step, or half as far again.
_MAX_STRIDES: Final = 100
_NEXT_PART: Final = 1.5

# The lines of a loop have their own counter, with at least this many different values and nearly
# equal strides. A list of results counts from its start, once.
_MIN_OF_A_LOOP: Final = 12
_MIN_OUTER_COUNTS: Final = 4
_EQUAL_STRIDES: Final = 0.8


class ContinuingLines(Copyable):
    """The lines below the last record of a text log, and its last two steps."""

    def __init__(self, step: str) -> None:
        """Begin with no record; ``step`` is the column of the steps."""
        self._step = step
        self._steps: tuple[float, ...] = ()
        self._losses: tuple[float, ...] = ()
        self._above = b""
        self._below = b""
        self._line = 1

    def look(self, data: bytes, parts: Iterable[TextPart], first_line: int) -> None:
        """Add the next block, the records in it, and the number of its first line."""
        parts = [*parts]
        losses = sorted(
            start for part in parts if any(map(is_a_loss, part.names)) for start in part.starts[-2:]
        )
        values = (
            (part.starts[row], as_float(cells[row] or b""))
            for part in parts
            for name, cells in zip(part.names, part.cells, strict=True)
            if is_a_loss(name)
            for row in range(max(len(cells) - COMPARED_LOSSES, 0), len(cells))
        )
        self._losses = (*self._losses, *(loss for _, loss in sorted(values)))[-COMPARED_LOSSES:]
        # Lines of another form may have steps as well.
        end = losses[-1] if losses else len(data)
        last: list[tuple[int, float]] = []
        for part in parts:
            if self._step in part.names:
                cells = part.cells[part.names.index(self._step)]
                count = bisect(part.starts, end)
                rows = range(max(count - 2, 0), count)
                last += [(part.starts[row], as_float(cells[row] or b"")) for row in rows]
        # Tables name their steps in many ways.
        last = sorted(last) or [(start, math.nan) for start in losses]
        if last:
            self._steps = (*self._steps, *(step for _, step in last))[-2:]
            end = data.find(b"\n", last[-1][0])
            end = len(data) if end < 0 else end
            self._above = data[max(end - _KEPT_ABOVE, 0) : end]
            self._below = data[end : end + _KEPT_TAIL]
            self._line = first_line + count_line_ends(data[:end])
        elif self._steps and len(self._below) < _KEPT_TAIL:
            self._below += data[1 : 1 + _KEPT_TAIL - len(self._below)]

    def left_out(self) -> list[LeftOut]:
        """Return an entry for the lines that count on: one that is not finite, or several."""
        if len(self._steps) < 2 or not self._below.strip():
            return []
        last = self._steps[-1]
        stride = max(last - self._steps[0], 1.0)
        furthest = max(last + _MAX_STRIDES * stride, _NEXT_PART * last)
        by_form: dict[bytes, list[tuple[int, bytes, int]]] = defaultdict(list)
        failed: list[tuple[int, bytes, int]] = []
        for at, line in enumerate(_with_values(self._below.split(b"\n"))):
            counts = [int(digits) for digits in _COUNT_IN_LINE.findall(line[:_MAX_LINE])]
            glued = map(int, _GLUED_COUNT.findall(line[:_MAX_LINE]))
            following = [count for count in (*counts, *glued) if last < count <= furthest]
            if not following:
                continue
            entry = (at, line, following[0])
            # A line that reports the failure of a loss is read.
            is_failure = states_failure(line[:_MAX_LINE]) and classify_failure(line) is None
            if is_failure and following[0] in counts:
                failed.append(entry)
            if _COUNTED_VALUE.search(line) and not evaluation_prefix(line, len(line)):
                by_form[_form(line[:_MAX_LINE])].append(entry)
        continuing = (
            failed
            or next(
                (lines for lines in by_form.values() if _continue_count(lines, last, stride)), []
            )
            or self._of_another_loop()
            or self._values_alone()
        )
        if not continuing:
            return []
        at, line, _ = continuing[0]
        text = line.decode("utf-8", "replace")
        return [unreadable(len(continuing), above=None, line=self._line + at - 1, text=text)]

    def _of_another_loop(self) -> list[tuple[int, bytes, int]]:
        """Return lines of one form that are not above the last record, and go on counting."""
        by_form: dict[bytes, list[tuple[int, bytes, int]]] = defaultdict(list)
        for at, line in enumerate(self._below.split(b"\n")):
            shown = line[:_MAX_LINE]
            value = _COUNTED_VALUE.search(shown) or _NAN_WORD.search(shown)
            if value is not None and not evaluation_prefix(shown, value.start()):
                by_form[_form(shown)].append((at, line, 0))
        repeated = {form: rows for form, rows in by_form.items() if len(rows) >= _MIN_OF_A_LOOP}
        if not repeated:
            return []
        above = {_form(line[:_MAX_LINE]) for line in self._above.split(b"\n")}
        return next(
            (
                lines
                for form, lines in repeated.items()
                if form not in above
                and _continue_counting([line[:_MAX_LINE] for _, line, _ in lines])
            ),
            [],
        )

    def _values_alone(self) -> list[tuple[int, bytes, int]]:
        """Return the lines of a value alone, if they begin at the level of the last losses."""
        lines = [
            (at, line, 0)
            for at, line in enumerate(self._below.split(b"\n"))
            if _LOSS_ALONE.fullmatch(line)
        ]
        if len(lines) < _MIN_OF_A_LOOP:
            return []
        values = np.array([float(line) for _, line, _ in lines[:COMPARED_LOSSES]])
        return lines if is_near(np.array(self._losses), values, factor=VERY_NEAR) else []


def _form(line: bytes) -> bytes:
    """Return a line without its numbers, also those that are glued to words."""
    return _NUMBER_OR_NAN.sub(b"#", line)


def _with_values(lines: Sequence[bytes]) -> list[bytes]:
    """Return lines, where a line of a count without a value is joined with the line below it.

    Epoch 7/90 above 40/40 - 2s - nll: 2.31 is one record.
    """
    return [
        line if _COUNTED_VALUE.search(line) else b"%b %b" % (line, below)
        for line, below in zip(lines, (*lines[1:], b""), strict=True)
    ]


def _continue_count(lines: list[tuple[int, bytes, int]], last: float, stride: float) -> bool:
    """Return True if lines of one form count on from the last step in its strides."""
    counts = [last, *(count for _, _, count in lines)]
    return len(lines) >= MIN_ALTERNATING and all(b - a == stride for a, b in pairwise(counts))


def _continue_counting(lines: Sequence[bytes]) -> bool:
    """Return True if lines of one form go on counting, or count a loss with another name."""
    if _have_continued_count(lines):
        return True
    counts = [next(iter(line_counters(line).values()), None) for line in lines]
    values = [
        counter_value(line[slice(*at)])
        for line, at in zip(lines, counts, strict=True)
        if at is not None
    ]
    return len(values) == len(lines) and _rises(values) and all(map(_names_other_loss, lines))


def _names_other_loss(line: bytes) -> bool:
    return any(is_other_loss(item.name) for item in line_fields(line))


def _have_continued_count(lines: Sequence[bytes]) -> bool:
    """Return True if a counter rises from above its start, or restarts while an outer one rises."""
    counts = [
        [*map(int, (*_COUNT_IN_LINE.findall(line), *_GLUED_COUNT.findall(line)))] for line in lines
    ]
    columns = [[*column] for column in zip(*counts, strict=False)]
    outer = [column for column in columns if column[0] > 0 and _rises(column)]
    if any(len({*column}) >= _MIN_OUTER_COUNTS and column[0] > _stride(column) for column in outer):
        return True
    return any(_is_inner_count(column, other) for column in columns for other in outer)


def _rises(counts: Sequence[int]) -> bool:
    strides = [after - before for before, after in pairwise(counts) if after != before]
    equal = strides.count(_stride(counts))
    return min(strides, default=0) > 0 and equal >= _EQUAL_STRIDES * len(strides)


def _stride(counts: Sequence[int]) -> int:
    """Return the most frequent distance of two different counts."""
    strides = Counter(after - before for before, after in pairwise(counts) if after != before)
    return strides.most_common(1)[0][0] if strides else 0


def _is_inner_count(inner: Sequence[int], outer: Sequence[int]) -> bool:
    """Return True if a count rises evenly, and restarts where another one rises."""
    stride = _stride(inner)
    within = [
        b - a for (a, b), (c, d) in zip(pairwise(inner), pairwise(outer), strict=True) if c == d
    ]
    beyond = [
        b - a for (a, b), (c, d) in zip(pairwise(inner), pairwise(outer), strict=True) if c < d
    ]
    return (
        stride > 0
        and max(beyond, default=0) < 0
        and within.count(stride) >= _EQUAL_STRIDES * len(within)
    )
