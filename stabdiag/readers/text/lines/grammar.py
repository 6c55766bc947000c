"""Describe a framework's log: the lines that carry numbers, and the names of the numbers."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import fixed_starts, lazy_pattern
from stabdiag.readers.text.lines.line_forms import words_in
from stabdiag.readers.text.lines.shapes import (
    Cells,
    KnownShapes,
    LineValues,
    by_names,
    find_matches,
    whole,
)

# A number as programs print it, including NaN and infinity. A pattern has to say what may follow
# it: another rank's line may cut a number short.
NUMBER_PATTERN: Final = (
    rb"[-+]?(?:\d[\d.]{0,60}(?:[eE][-+]?\d{1,4})?|\.\d{1,40}|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
)
NUMBER_TOKEN: Final = lazy_pattern(NUMBER_PATTERN)

# A number before a blank or the end of the line, which is found in half the time.
VALUE: Final = rb"[-+.\w]{1,40}(?!\S)"

# The separators between names and values in frameworks: | lm loss: 7.07E-01 |, and "lr": "1e-4".
# A field between bars needs the bar after it: another rank may have cut it short.
BARS: Final = rb"(?<![^|])([^:|\n]{1,80})(?:: {0,20}| )(%b) {0,4}[|\n]" % NUMBER_PATTERN
QUOTED: Final = (
    rb"[\"']([^\"'\n]{1,80})[\"']: [\"']?(%b)(?:/\d{1,12})?[\"']?[,}](?!\d)" % NUMBER_PATTERN
)

# A text that is only a name and its value.
PAIR: Final = rb"([^:=]{1,300}?)(?:: | = )(%b)" % NUMBER_PATTERN

# A log is read in blocks of about this many bytes, the fastest of 32 kB to 4 MB: smaller ones
# repeat the searches for messages and notations, and the matches of larger ones do not fit into the
# CPU caches.
TEXT_BLOCK: Final = 1 << 18

# The last words of settings of a loss, and of the time that it takes.
_NO_LOSS_ENDS: Final = (
    "time",
    *("weight", "weights", "coef", "coefs", "coeff", "coeffs", "lambda", "lambdas"),
)

# tensorflow.python.training.basic_session_run_hooks.NanLossDuringTrainingError, LossIsNaNException
_EXCEPTION_ENDS: Final = ("Error", "Exception")
_NAMED_EXCEPTION: Final = lazy_pattern(
    r"(?:\w\.\w{1,60}\.[A-Z]\w{0,60}|(?:N[aA]N|Inf(?:inite)?|Invalid|During|Diverg)\w{0,60})"
    r"(?:Error|Exception)$"
)


_TRAIN_WORD: Final = lazy_pattern(r"(?<![a-z])train(?:ing)?(?![a-z])", re.IGNORECASE)


def as_float(number: bytes) -> float:
    """Return the value of a number, or NaN if it is cut into another one, as in 0.50.25."""
    try:
        return float(number)
    except ValueError:
        return math.nan


def is_a_loss(name: str) -> bool:
    """Return True if a name is the name of any loss. Its scale, weight or time is not.

    The name of an exception is not either: NanLossDuringTrainingError.
    """
    lowered = name.lower()
    return (
        "loss" in lowered
        and "scale" not in lowered
        and not lowered.endswith(_NO_LOSS_ENDS)
        and not (name.endswith(_EXCEPTION_ENDS) and _NAMED_EXCEPTION.search(name))
    )


def may_match(pattern: bytes, data: bytes) -> bool:
    """Return True if a text may have a match of a pattern; fast if a match has a fixed start."""
    texts = fixed_starts(pattern)
    return not texts or bool(words_in(data, texts))


@lru_cache(maxsize=1 << 10)
def trains(name: str) -> bool:
    """Return True if a name contains a word for training."""
    return "train" in name.lower() and _TRAIN_WORD.search(name) is not None


class Step(Enum):
    """How a line without a step gets one.

    SAME is the step of the line before. NEXT is the step after that, and each further line of this
    kind adds one, up to the next named step. LAST is the last step that NEXT gave. COMING is the
    next named step.
    """

    SAME = 0
    NEXT = 1
    LAST = 2
    COMING = 3


@frozen
class TextPart:
    """Lines that carry the same columns: where they start in the text, and their cells.

    Lines that are ``supplementary`` only add to a record of other lines with the same step. If
    records have several lines, ``below`` are the starts of all lines below their first ones.
    """

    names: tuple[str, ...]
    starts: Sequence[int]
    cells: Sequence[Cells]
    supplementary: bool = False
    below: Sequence[int] = ()


def make_parts(lines: Iterable[tuple[int, Mapping[str, bytes]]]) -> list[TextPart]:
    """Return the parts that lines make. A line is its start and its cells by name."""
    by_names: dict[tuple[str, ...], tuple[list[int], list[Cells]]] = defaultdict(lambda: ([], []))
    for start, line in lines:
        starts, rows = by_names[tuple(line)]
        starts.append(start)
        rows.append(list(line.values()))
    return [
        TextPart(names=names, starts=starts, cells=list(zip(*rows, strict=True)))
        for names, (starts, rows) in by_names.items()
    ]


@frozen
class Kind(ABC):
    """One kind of line.

    Attributes:
        identifies_format: only this framework writes the line.
        begins: the line begins a record.
        step: the step of a line that names none.
        is_record: the line makes a record. Other lines give the current step or, with
            ``holds_below``, values for all records below them.
    """

    identifies_format: bool = True
    begins: bool = False
    step: Step = Step.SAME
    is_record: bool = True
    holds_below: bool = False

    @abstractmethod
    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""

    @property
    def texts(self) -> tuple[bytes, ...]:
        """Each line of this kind contains one of these texts; empty if they are unknown."""
        return ()

    def search(self, data: bytes) -> bool:
        """Return True if the data has a line of this kind."""
        return bool(self.find(data))


@frozen
class Line(Kind):
    """A line that a regular expression finds.

    Patterns are compiled on first use. They begin with a fixed text, which ``re`` finds fast, and
    each repetition has an upper bound, so that the time for a line is bounded.

    Attributes:
        pattern: finds the line. Its groups are the cells of the columns ``names``.
        pairs: splits one more group of ``pattern`` into names and values.
        named: turns a name of ``pairs`` into the name of a column.
        fixed: cells that the line implies.
        signature: identifies the framework if ``pattern`` also matches lines of others.
    """

    pattern: bytes
    names: tuple[str, ...] = ()
    pairs: bytes | None = None
    named: Callable[[str], str] = str
    fixed: Mapping[str, bytes] = field(default_factory=dict)
    signature: bytes | None = None

    @cached_property
    def _known(self) -> KnownShapes:
        return KnownShapes()

    @cached_property
    def _whole(self) -> re.Pattern[bytes]:
        return whole(self.pattern)

    @property
    def texts(self) -> tuple[bytes, ...]:
        """Each line of this kind contains one of these texts; empty if they are unknown."""
        return fixed_starts(self.pattern)

    def search(self, data: bytes) -> bool:
        """Return True if the data has a line of this kind."""
        pattern = self.signature or self.pattern
        return may_match(pattern, data) and re.search(pattern, data) is not None

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        starts, columns = find_matches(self._whole, data)
        if not starts:
            return []
        if self.pairs is not None:
            return self._split_pairs(re.compile(self.pairs), starts, columns)
        return [self._part(self.names, starts, columns)]

    def _split_pairs(
        self, pairs: re.Pattern[bytes], starts: list[int], columns: list[Cells]
    ) -> list[TextPart]:
        """Split names and values. Lines with the same names make one part."""
        own, tails = columns[:-1], [tail or b"" for tail in columns[-1]]

        def look(tail: bytes) -> LineValues:
            matches = [*pairs.finditer(tail)]
            names = (match[1].decode("utf-8", "replace").strip() for match in matches)
            return LineValues((*names,), [match.span(2) for match in matches])

        def fixed(tail: bytes) -> list[tuple[int, int]]:
            return [match.span(1) for match in pairs.finditer(tail)]

        parts = []
        for written, rows, cells in by_names(tails, look, fixed, self._known):
            taken = [[column[row] for row in rows] for column in own]
            at = [starts[row] for row in rows]
            parts.append(self._part([*self.names, *map(self.named, written)], at, [*taken, *cells]))
        return parts

    def _part(self, names: Sequence[str], starts: list[int], columns: Sequence[Cells]) -> TextPart:
        cells: dict[str, Cells] = {}
        for name, column in zip(names, columns, strict=True):
            cells.setdefault(name, column)
        cells |= {name: [cell] * len(starts) for name, cell in self.fixed.items()}
        return TextPart(names=tuple(cells), starts=starts, cells=list(cells.values()))


@frozen
class StatusLine(Line):
    """A line without a step that any framework may write. It belongs to the next step."""

    identifies_format: bool = False
    step: Step = Step.NEXT


class Normalization(NamedTuple):
    """A replacement, as for ``re.sub``, that gives standard names to logs with all ``markers``."""

    markers: tuple[bytes, ...]
    pattern: bytes
    replacement: bytes | Callable[[re.Match[bytes]], bytes]


# A line of any program with a loss: loss: 2.31, train_loss = 2.31
_ANY_LOSS: Final = lazy_pattern(rb"(?i)loss[\"']? {0,3}[:=] {0,3}%b" % NUMBER_PATTERN)


@frozen
class Grammar:
    """The lines of a framework's log.

    Attributes:
        step: the name of the column of steps.
        kinds: the kinds of lines.
        joined: consecutive lines of one step make one record.
        config: finds the names and values of arguments that are printed before the first record.
        config_texts: each match of ``config`` has one of these; none if that is not known.
        total: the name of the argument with the number of steps.
        left_out: the column whose NaN the framework does not print. A kind of line restores them.
        ended: finds the line at the end of a training. Another training may follow.
        normalizations: replacements that give the log standard names.
        has_evaluation_blocks: headings announce lines of evaluations that look like training lines.
        may_lack_losses: the framework leaves printing the loss to the program. If no line of it has
            one, a text with another line of a loss is read as one of any program.
        block: the log is read in blocks of about this many bytes.
    """

    step: str
    kinds: tuple[Kind, ...]
    joined: bool = False
    config: bytes | None = None
    config_texts: tuple[bytes, ...] = ()
    total: str = ""
    left_out: str = ""
    ended: bytes | None = None
    normalizations: tuple[Normalization, ...] = ()
    has_evaluation_blocks: bool = False
    may_lack_losses: bool = False
    block: int = TEXT_BLOCK

    def sniff(self, data: bytes) -> bool:
        """Return True if cleaned lines include one that only this framework writes."""
        if not any(kind.identifies_format and kind.search(data) for kind in self.kinds):
            return False
        return not self.may_lack_losses or self._has_loss(data) or not _ANY_LOSS.search(data)

    def _has_loss(self, data: bytes) -> bool:
        kinds = (kind for kind in self.kinds if isinstance(kind, Line) and "loss" in kind.names)
        return any(kind.search(data) for kind in kinds)

    def find(self, data: bytes) -> list[tuple[Kind, TextPart]]:
        """Return the lines of all kinds."""
        # A text has lines of few kinds: the texts of all kinds are searched for together.
        present = {*words_in(data, self._texts)}
        kinds = (
            kind for kind in self.kinds if not present.isdisjoint(kind.texts) or not kind.texts
        )
        return [(kind, part) for kind in kinds for part in kind.find(data)]

    @cached_property
    def _texts(self) -> tuple[bytes, ...]:
        return tuple(text for kind in self.kinds for text in kind.texts)
