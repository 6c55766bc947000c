"""The rows at the head of a table without a header, and names for columns by how they change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.readers.csv.score_columns import find_score, is_running_mean
from stabdiag.readers.unnamed import (
    FEWEST,
    find_loss,
    is_rate,
    may_be_counted,
    may_be_epochs,
    may_be_losses,
    may_be_steps,
    may_overfit,
)
from stabdiag.readers.words import NUMBER, WORD, meaning

# At most this many columns without names are taken as losses.
MAX_UNNAMED: Final = 12

# A table of a course has at least this many rows, with counts at equal intervals.
_MIN_COUNTED_ROWS: Final = 5


@frozen
class TableShape:
    """The rows at the head of a file of numbers, after ``above`` other lines.

    ``ends_open`` is whether each line ends with a delimiter. ``time`` is the name of the times that
    each line begins with, which are left out of the rows, or empty.
    """

    delimiter: str
    commas: bool
    rows: list[list[str]]
    above: int
    ends_open: bool = False
    time: str = ""

    @cached_property
    def columns(self) -> list[list[tuple[int, float]]]:
        """The state and the number of each cell, by column, of the rows as wide as the first."""
        width = len(self.rows[0])
        rows = [row for row in self.rows if len(row) == width]
        return [[meaning(cell)[:2] for cell in column] for column in zip(*rows, strict=True)]

    @cached_property
    def numbers(self) -> list[list[float]]:
        """The numbers of each column if all cells are numbers; otherwise empty."""
        if any(state != NUMBER for column in self.columns for state, _ in column):
            return []
        return [[number for _, number in column] for column in self.columns]

    @property
    def is_series(self) -> bool:
        """Whether it has only losses, or steps and losses."""
        has_steps = len(self.rows[0]) < 2 or "step" in self.counters
        return len(self.rows[0]) <= 2 and has_steps and may_be_losses(self.series)

    @cached_property
    def series(self) -> list[float]:
        """The numbers of the last column if all others count; otherwise empty."""
        if len(self.rows) < FEWEST:
            return []
        columns = self.columns
        if len(columns) == 1 and _alternates([n for _, n in columns[0]]):
            return []
        if not columns or any(state == WORD for column in columns for state, _ in column):
            return []
        *steps, values = [[n for state, n in column if state == NUMBER] for column in columns]
        counted = not steps or bool(self.counters)
        return values if counted and len(values) >= FEWEST else []

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """The names of all columns but the last if these count, else empty.

        Next to a column that rises, or in front of a step that begins again, others may be epochs.
        A single column may be an epoch, too, unless its strides differ, as in the best score so
        far.
        """
        count = len(self.columns[0])
        columns = [[n for state, n in column if state == NUMBER] for column in self.columns[:-1]]
        if not columns or any(len(column) < count for column in columns):
            return ()
        rising = [may_be_steps(column) for column in columns]
        if not any(rising) and may_be_counted(columns):
            return ("epoch", "step")
        others = [column for column, is_step in zip(columns, rising, strict=True) if not is_step]
        if not all(map(may_be_epochs, others)) or (len(columns) > 1 and not any(rising)):
            return ()
        if not any(rising):
            return ("epoch",) if len(_strides(columns[0])) <= 1 else ()
        step = rising.index(True)
        names = (f"column_{n}" if is_step else "epoch" for n, is_step in enumerate(rising, start=1))
        return tuple("step" if n == step else name for n, name in enumerate(names))

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The names of its first columns that count: a step, an epoch and a step, or none.

        One of them counts evenly, or the steps begin again in each epoch.
        """
        # A single line may have a hundred thousand words.
        if len(self.rows) < _MIN_COUNTED_ROWS or len(self.numbers) < 2:
            return ()
        first, second = self.numbers[:2]
        if len(first) < _MIN_COUNTED_ROWS:
            return ()
        if _counts_evenly(first):
            return ("step",)
        is_both = may_be_counted([first, second])
        is_both |= may_be_epochs(first) and first != second and _counts_evenly(second)
        return ("epoch", "step") if is_both and len(self.numbers) > 2 else ()

    @property
    def names_of_losses(self) -> tuple[str, ...]:
        """The names of the columns if all but the steps may be losses; otherwise empty.

        A loss that is always 0 may be one of them, but not the first. Behind a loss that falls,
        whole numbers may be durations or counts.
        """
        if not 2 <= len(self.rows[0]) <= MAX_UNNAMED:
            return ()
        numbers = self.numbers
        if not numbers or len(numbers[0]) < FEWEST or _are_distances(numbers):
            return ()
        counters = ["step"] if may_be_steps(numbers[0]) else self._names_of_counts
        losses = numbers[len(counters) :]
        if not losses or not may_be_losses(losses[0]):
            return ()
        are_losses = [may_be_losses(column) or len({*column}) == 1 for column in losses[1:]]
        if not all(are_losses) and (
            find_loss(losses[:1]) is None or any(map(may_be_steps, losses))
        ):
            return ()
        kinds = ("loss" if is_loss else "column" for is_loss in are_losses)
        others = [f"{kind}_{number}" for number, kind in enumerate(kinds, start=2)]
        return (*counters, "loss", *others)

    @property
    def _names_of_counts(self) -> list[str]:
        """Names for two counts in front of decimal numbers, such as a client and its round.

        One of them never falls; the other one takes the same values again.
        """
        first, second = self.numbers[:2]
        if len(self.numbers) < 3 or may_be_losses(second) or len({*first}) == len(first):
            return []
        is_round = may_be_epochs(second) and not may_be_epochs(first) and len({*second}) > 1
        return ["column_1", "epoch"] if is_round else []

    @property
    def may_overfit(self) -> bool:
        """Whether a column next to the first may be a loss that rises, while that one falls."""
        columns = self.numbers
        losses = columns[1:] if columns and may_be_steps(columns[0]) else columns
        return bool(losses) and may_overfit(losses[0], losses[1:])

    @property
    def names_by_course(self) -> tuple[str, ...]:
        """The names of the columns if one changes as a loss does next to a counter, else empty."""
        count = len(self.counted)
        loss = find_loss(self.numbers[count:] if count else ())
        if loss is None:
            return ()
        names = self.counted_names
        return tuple("loss" if n == loss + count else name for n, name in enumerate(names))

    def names_after_score(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns if one may be a score of this name, else nothing.

        Columns of decimal numbers behind it have more of these scores, such as one for each agent,
        except its running mean.
        """
        if not self.numbers or len(self.numbers[0]) < FEWEST or len(self.numbers) > MAX_UNNAMED:
            return ()
        if _are_distances(self.numbers):
            return ()
        begin = len(self.counted) or int(may_be_steps(self.numbers[0]))
        counters = self.counted or ("step",) * begin
        others = self.numbers[begin:]
        score = find_score(others)
        if score is None:
            return ()
        names = [f"column_{n}" for n in range(begin + 1, len(self.numbers) + 1)]
        names[score] = name
        for at in range(score + 1, len(others)):
            is_mean = is_running_mean(others[at], others[score])
            if may_be_losses(others[at]) and not (is_rate(others[at]) or is_mean):
                names[at] = f"{name}_{at - score + 1}"
        return (*counters, *names)

    @property
    def counted_names(self) -> tuple[str, ...]:
        """Names for the columns if only the first, which count, are known."""
        begin = len(self.counted) + 1
        return (*self.counted, *(f"column_{n}" for n in range(begin, len(self.rows[0]) + 1)))


def _are_distances(columns: Sequence[Sequence[float]]) -> bool:
    """Return True for a square matrix with zeros on its diagonal, such as the costs of routes."""
    is_square = len(columns) == len(columns[0])
    return is_square and not any(column[row] for row, column in enumerate(columns))


def _counts_evenly(numbers: Sequence[float]) -> bool:
    """Return True if numbers may be steps that rise by the same count each."""
    return may_be_steps(numbers) and len(_strides(numbers)) == 1


def _strides(numbers: Sequence[float]) -> set[float]:
    """Return the rises of numbers from one to the next."""
    return {after - before for before, after in pairwise(numbers) if after > before}


def _alternates(numbers: Sequence[float]) -> bool:
    """Return True if a count and a value follow each other in one column, on a line each."""
    counts, values = numbers[::2], numbers[1::2]
    return len(values) >= FEWEST and may_be_steps(counts) and may_be_losses(values)
