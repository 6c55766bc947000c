"""Name the numbers of lines that do not name them, by their positions and by how they change.

``[3] 2.31 0.45``, ``epoch 3 (36.8 s) 2.31``, ``2.31 (train), 2.40 (valid)``, or several lines for
each record: a count, and its value below. The lines recur with other numbers. A whole number that
rises counts the records; other numbers are named by the words next to them. The search looks at
short texts only: it is the last resort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.text.lines.counters import (
    COARSE,
    counter_matches,
    counter_word,
    find_headings,
)
from stabdiag.readers.text.lines.grammar import Normalization, as_float, is_a_loss
from stabdiag.readers.text.lines.measure_words import SPLIT
from stabdiag.readers.text.names.recurring_lines import (
    Group,
    find_groups,
    mask_lines,
    of_last_run,
    record_pattern,
)
from stabdiag.readers.text.names.words_of_numbers import find_name_above, find_vectors, find_words
from stabdiag.readers.unnamed import (
    find_loss,
    is_named_score,
    may_be_scores,
    may_have_losses,
    may_overfit,
    name_of_values,
)

# The most lines of a record, and its most numbers.
_MOST_LINES: Final = 8
_MOST_NUMBERS: Final = 16

# Rows of several numbers without a word are a log only if there are at least this many, counted
# evenly. One in this many lines belongs to a record.
_MIN_EVEN_ROWS: Final = 5
_LINES_PER_RECORD: Final = 3

_OPENING_WORD: Final = lazy_pattern(rb"\W{0,8}([A-Za-z]{1,12})(?!\w)")

# These number the parts of a model or of an experiment, or tell a time or a size.
_NO_COUNTERS: Final = frozenset(
    b"fold seed split rank gpu worker node layer class head block trial time elapsed sec seconds ms"
    b" eta mem memory timestamp pid patience bucket image sample sentence example".split()
)

# Counters of a training.
_TRAINING_COUNTER: Final = lazy_pattern(rb"(?i)\b(?:epochs?|iter(?:ation)?s?|steps?|batch)\Z")

_HAS_WORD: Final = lazy_pattern(rb"(?i)(?<![\d.])[a-z]{2}")

# Source code compares and assigns; a bar is longer.
_OPERATOR: Final = lazy_pattern(rb"[\w)\]] [-+*/=!]= [\w(-]")

_BYTES_ABOVE: Final = 400

# A number that ends at this many times its highest value of the first third may be a failed loss.
_FAILED_MULTIPLE: Final = 10

# The name of a value that may be a score, a time or a rate.
MEASURE: Final = b"measure"
_TAKEN_NAME: Final = b"loss"
_EVALUATED_NAME: Final = b"val_loss"


@frozen
class Positions:
    """Records whose numbers are named by their positions.

    Attributes:
        row: the replacement that names the numbers.
        is_named: words next to a number say that it is a loss.
        is_a_loss: a number without a name is taken as the loss.
    """

    row: Normalization
    is_named: bool
    is_a_loss: bool


def find_positions(head: bytes, source: str) -> Positions | None:
    """Return the records at the head of a text whose lines recur, or None.

    A value that falls as a loss does is one if the name of the file does not contradict, if its
    records count epochs or steps, or if a loss is named above it.
    """
    is_scored = is_named_score(source)
    records = _find_records(head, with_loss=not is_scored)
    if records is None:
        return None
    above = head[: head.find(records.first)][-_BYTES_ABOVE:].lower()
    if is_scored:
        scored = records.named_after(name_of_values(source).encode())
        if scored is not None or not records.may_have_loss:
            return scored
    if name := find_name_above(head, records.first, is_training=records.counts_training):
        scored = records.named_after(name)
        if scored is not None:
            return scored
    is_evaluation = assign([name_of_values(source)]).has("eval_loss")
    return records.named(
        may_be_loss=may_have_losses(source) or b"loss" in above,
        name=_EVALUATED_NAME if is_evaluation else _TAKEN_NAME,
    )


def find_counter(head: bytes) -> Normalization | None:
    """Return the replacement that names the counter of recurring lines as their step, or None.

    Its name may be unknown, as in t=300, #3 or n: 3, or behind it: after 3 epochs.
    """
    records = _find_records(head, max_lines=1)
    return None if records is None else records.counted()


def _find_records(
    head: bytes, max_lines: int = _MOST_LINES, *, with_loss: bool = False
) -> _RecurringRecords | None:
    """Return the records with the most lines, of at most this many lines each."""
    lines = mask_lines(head)
    epochs = _count_epochs(head)
    candidates = (
        records
        for groups in find_groups(lines, max_lines)
        if (records := _RecurringRecords(groups, epochs, of_last_run(groups))).is_counted
        and (records.may_have_loss or not with_loss)
        and not any(_OPERATOR.search(line.text) for line in groups[0])
        and not (epochs > 1 and _has_rows(groups[0]))
        and _LINES_PER_RECORD * records.lines >= len(lines)
    )
    # Of two with as many lines, the one that has the last line of the log.
    return max(
        candidates, key=lambda records: (records.lines, head.rfind(records.last)), default=None
    )


def _has_rows(group: Group) -> bool:
    """Return True if lines of several numbers recur in a record: each of them is one."""
    rows = [line.mask for line in group if len(line.numbers) > 1]
    return len({*rows}) < len(rows)


def _count_epochs(head: bytes) -> int:
    """Return the number of epochs that a text names, in lines above their records."""
    counts = [count for _, word, count in find_headings(head) if word in COARSE]
    return len({*counts}) if counts == sorted(counts) else 0


class _RecurringRecords:
    """Records that recur with other numbers, of one or several lines each.

    Their counter may begin again in each of some ``epochs``.
    """

    def __init__(self, groups: Sequence[Group], epochs: int, last_run: Sequence[Group]) -> None:
        """Describe groups of lines; their numbers are taken from the ``last_run``."""
        self.lines, first = len(groups) * len(groups[0]), groups[0][0].text
        groups = groups if epochs else last_run
        self._groups = groups
        self._epochs = epochs
        self.first, self.last = first, groups[-1][-1].text
        # [[45311 9] above [13 63]], and the vectors of several measures
        lists = [find_vectors(line.text) for line in groups[0]]
        self._in_vector = [
            line.text[:2] == b"[["
            or line.text[-2:] == b"]]"
            or (sum(map(len, lists)) > 1 and any(a < begin < b for a, b in spans))
            for line, spans in zip(groups[0], lists, strict=True)
            for begin, _ in line.numbers
        ]
        rows = [
            [line.text[begin:end] for line in group for begin, end in line.numbers]
            for group in groups
        ]
        self._columns = [[*column] for column in zip(*rows, strict=True)]
        self._values = [[*map(as_float, column)] for column in self._columns]

    @property
    def is_counted(self) -> bool:
        """Whether the records have a counter, and other numbers."""
        return 1 < len(self._columns) <= _MOST_NUMBERS and bool(self._counters)

    @property
    def may_have_loss(self) -> bool:
        """Whether one of the numbers may be a loss."""
        return any(map(self._may_be_loss, range(len(self._columns))))

    @cached_property
    def _counters(self) -> dict[int, bytes]:
        """The columns that count: a step, or an epoch where the step may begin again."""
        counts = {
            at: [*map(int, column)]
            for at, column in enumerate(self._columns)
            if all(map(bytes.isdigit, column))
            and len({*column}) > 1
            and not self._in_vector[at]
            and not self._words[at][1]
            and _NO_COUNTERS.isdisjoint(self._words[at][0].lower().split()[-1:])
        }
        rising = [at for at, column in counts.items() if all(a < b for a, b in pairwise(column))]
        if rising:
            # A count on the line of a value belongs to it.
            return {next((at for at in rising if self._has_value(at)), rising[0]): b"step"}
        for (epoch, epochs), (batch, batches) in pairwise(counts.items()):
            pairs = [*zip(epochs, batches, strict=True)]
            if epochs == sorted(epochs) and all(a < b for a, b in pairwise(pairs)):
                return {epoch: b"epoch", batch: b"step"}
        restarting = (at for at, column in counts.items() if self._begins_again(column))
        return dict.fromkeys(islice(restarting, 1), b"step")

    def _begins_again(self, counts: Sequence[int]) -> bool:
        """Return True if a counter begins again in each epoch, and rises otherwise."""
        falls = [after for before, after in pairwise(counts) if before >= after]
        is_first = all(count == counts[0] for count in falls)
        return is_first and 0 < len(falls) < self._epochs and 2 * len(falls) < len(counts)

    @cached_property
    def _words(self) -> list[tuple[bytes, bool]]:
        """The name of each number, and whether it cannot be a loss; see ``find_words``."""
        return find_words(self._groups[0])

    def _may_be_loss(self, at: int) -> bool:
        """Return True if a column has decimal numbers without a unit, and of no vector."""
        if self._words[at][1] or self._in_vector[at]:
            return False
        return not all(map(float.is_integer, self._values[at]))

    def _has_value(self, at: int) -> bool:
        """Return True if the line of a column has a number that may be a loss."""
        ends = [*accumulate(len(line.numbers) for line in self._groups[0])]
        line = next(line for line, end in enumerate(ends) if at < end)
        return any(map(self._may_be_loss, range(ends[line - 1] if line else 0, ends[line])))

    @cached_property
    def _splits(self) -> list[bytes]:
        """For each number, the word for a split that its line begins with, or nothing."""
        return [
            word[1] if (word := _OPENING_WORD.match(line.text)) and _is_split(word[1]) else b""
            for line in self._groups[0]
            for _ in line.numbers
        ]

    def named(self, *, may_be_loss: bool, name: bytes) -> Positions | None:
        """Return the replacement that names the numbers; the loss gets a ``name``."""
        names = [self._name(at) for at in range(len(self._columns))]
        names = [
            own if self._may_be_loss(at) or not is_a_loss(own.decode()) else b""
            for at, own in enumerate(names)
        ]
        is_named = any(is_a_loss(own.decode()) for own in names)
        is_a_loss_by_course = False
        if not is_named:
            unnamed = [at for at, own in enumerate(names) if not own and self._may_be_loss(at)]
            if not unnamed or not self._is_even:
                return None
            loss = self._find_loss(unnamed) if may_be_loss or self._is_lost(unnamed) else None
            if loss is None and self.counts_training:
                loss = self._find_course(unnamed)
            if loss is not None and not self._fails(loss) and any(map(self._fails, unnamed)):
                # The position of the loss among them is unknown.
                loss = None
            if loss is None and self._has_cells:
                return None
            is_a_loss_by_course = loss is not None
            names[unnamed[0] if loss is None else loss] = MEASURE if loss is None else name
        return Positions(row=self._row(names), is_named=is_named, is_a_loss=is_a_loss_by_course)

    def named_after(self, name: bytes) -> Positions | None:
        """Return the replacement that gives this name to the only number next to the counters.

        The score of a game is a whole number.
        """
        decimals = [at for at in range(len(self._columns)) if self._may_be_loss(at)]
        values = decimals or [at for at in range(len(self._columns)) if at not in self._counters]
        if len(values) != 1 or self._words[values[0]] != (b"", False):
            return None
        names = [name if at in values else self._name(at) for at in range(len(self._columns))]
        return Positions(row=self._row(names), is_named=True, is_a_loss=False)

    def counted(self) -> Normalization | None:
        """Return the replacement that writes the counter in front of each line, if it is even."""
        at = next(reversed(self._counters))
        counts = self._values[at]
        if len({after - before for before, after in pairwise(counts)}) != 1:
            return None
        pattern, groups = record_pattern(self._groups[0])
        return Normalization((), pattern, rb"step: \g<%d>, \g<0>" % groups[at])

    def _name(self, at: int) -> bytes:
        """Return the name that a number gets, or nothing."""
        name, has_unit = self._words[at]
        if at in self._counters:
            counted = next((counter_word(m) for m in counter_matches(name + b" 1")), b"")
            return counted or self._counters[at]
        if has_unit or not name:
            split = self._splits[at] if not has_unit and self._may_be_loss(at) else b""
            return split and self._of_split(at, split)
        return self._of_split(at, name) if _is_split(name) else name

    def _of_split(self, at: int, split: bytes) -> bytes:
        """Return the name of the loss of a split, or of its score."""
        return split if may_be_scores(self._values[at]) else b"%b loss" % split

    @property
    def _is_even(self) -> bool:
        """Return True if rows of several numbers without a word are counted evenly."""
        values = [
            at
            for at, column in enumerate(self._columns)
            if self._words[at] == (b"", False) and not all(map(bytes.isdigit, column))
        ]
        if len(values) < 2 or any(_HAS_WORD.search(line.text) for line in self._groups[0]):
            return True
        counts = self._values[max(self._counters)]
        strides = {after - before for before, after in pairwise(counts) if after > before}
        # Some rows may have further numbers, at twice the stride or at a multiple.
        is_even = len(strides) <= 2 and all(stride % min(strides) == 0 for stride in strides)
        return len(counts) >= _MIN_EVEN_ROWS and is_even

    @property
    def _has_cells(self) -> bool:
        """Whether the records are rows of a table without a header that begin with a word."""
        is_row = 2 < len(self._columns) <= self.first.count(b",")
        return is_row and _HAS_WORD.search(self.first.split(b",", 1)[1]) is None

    def _is_lost(self, unnamed: Sequence[int]) -> bool:
        """Return True if a number is not finite at the end."""
        return any(not math.isfinite(self._values[at][-1]) for at in unnamed)

    def _fails(self, at: int) -> bool:
        """Return True if a number is lost in some record, or multiplies as no score does."""
        values = self._values[at]
        if not all(map(math.isfinite, values)):
            return True
        highest = max(map(abs, values[: max(len(values) // 3, 1)]))
        return values[-1] > _FAILED_MULTIPLE * highest and not may_be_scores(values)

    @property
    def counts_training(self) -> bool:
        """Whether the word in front of a counter is one of the training."""
        return any(_TRAINING_COUNTER.search(self._words[at][0]) for at in self._counters)

    def _find_course(self, unnamed: Sequence[int]) -> int | None:
        """Return the number that changes like a loss, or None."""
        position = find_loss([self._values[at] for at in unnamed])
        if position is None:
            return None
        loss = self._values[unnamed[position]]
        others = [self._values[at] for at in unnamed[position + 1 :]]
        return None if may_overfit(loss, others) else unnamed[position]

    def _find_loss(self, unnamed: Sequence[int]) -> int | None:
        """Return the number that changes as a loss does, or the only one unless it is a score.

        It may be the first of several that are never finite.
        """
        position = self._find_course(unnamed)
        if position is not None:
            return position
        if not any(math.isfinite(value) for at in unnamed for value in self._values[at]):
            return unnamed[0]
        values = self._values[unnamed[0]]
        # Numbers below zero may be log-likelihoods or rewards.
        is_only = len(unnamed) == 1 and not may_be_scores(values) and not any(v < 0 for v in values)
        return unnamed[0] if is_only else None

    def _row(self, names: Sequence[bytes]) -> Normalization:
        """Return the replacement that writes each name in front of its number."""
        pattern, groups = record_pattern(self._groups[0])
        fields = (
            rb"%b: \g<%d>," % (name, group)
            for name, group in zip(names, groups, strict=True)
            if name
        )
        breaks = sorted({*range(1, max(groups))}.difference(groups))
        ends = (rb"\g<%d>" % group for group in breaks)
        return Normalization((), pattern, b" ".join(fields) + b"".join(ends))


def _is_split(name: bytes) -> bool:
    return SPLIT.fullmatch(name.decode("ascii", "replace")) is not None
