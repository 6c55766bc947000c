"""Describe a framework's log: the lines that carry numbers, and the names of these."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from stabdiag.model.frozen import frozen
from stabdiag.readers.text.shapes import Cells, Look, by_names, found_by, whole

# A number as programs print it, including NaN and infinity. A pattern has to say what may follow
# it: another rank's line may cut a number short.
NUMBER: Final = (
    rb"[-+]?(?:\d[\d.]{0,40}(?:[eE][-+]?\d{1,4})?|\.\d{1,40}|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
)

# A number before a blank or the end of the line, which is found in half the time.
VALUE: Final = rb"[-+.\w]{1,40}(?!\S)"

# How frameworks part names from values: | lm loss: 7.07E-01 |, and "lr": "1e-4". A field between
# bars needs the one behind it: another rank may have cut it short.
BARS: Final = rb"(?<![^|])([^:|\n]{1,80})(?:: {0,20}| )(%b) {0,4}[|\n]" % NUMBER
QUOTED: Final = rb"[\"']([^\"'\n]{1,80})[\"']: [\"']?(%b)(?:/\d{1,12})?[\"']?[,}]" % NUMBER

# What is nothing but a name and its value.
PAIR: Final = rb"([^:=]{1,300}?)(?:: | = )(%b)" % NUMBER


def is_a_loss(name: str) -> bool:
    """Tell whether a name is that of a loss, of whatever part or data; a loss scale is none."""
    return "loss" in name.lower() and "scale" not in name.lower()


@lru_cache(maxsize=1 << 10)
def trains(name: str) -> bool:
    """Tell whether a name has a word for training, whatever the line is about otherwise."""
    return re.search(r"(?<![a-z])train(?:ing)?(?![a-z])", name, re.IGNORECASE) is not None


class Step(Enum):
    """The step of a line that names none.

    SAME is the step of the line before it. NEXT is the step after that, and each further such line
    adds one, up to the next step that is named. LAST is the step that NEXT has come to. COMING is
    the next step that is named.
    """

    SAME = 0
    NEXT = 1
    LAST = 2
    COMING = 3


@frozen
class Part:
    """Lines that carry the same columns: where they start in the text, and their cells.

    Those ``beside`` others count where a record of these has the same step.
    """

    names: tuple[str, ...]
    starts: Sequence[int]
    cells: Sequence[Cells]
    beside: bool = False


def parts_of(lines: Iterable[tuple[int, Mapping[str, bytes]]]) -> list[Part]:
    """Return the parts that lines make, each given by where it starts and its cells by name."""
    by_names: dict[tuple[str, ...], tuple[list[int], list[Cells]]] = defaultdict(lambda: ([], []))
    for start, line in lines:
        starts, rows = by_names[tuple(line)]
        starts.append(start)
        rows.append(list(line.values()))
    return [
        Part(names=names, starts=starts, cells=list(zip(*rows, strict=True)))
        for names, (starts, rows) in by_names.items()
    ]


@frozen
class Kind(ABC):
    """One kind of line.

    ``tells``: a log with such a line is of this framework. ``begins``: the line begins a record.
    ``step`` is the step of a line that names none. ``is_record``: the line makes a record. Other
    lines only give the step at which the log is or, if ``holds_below``, values for all records
    below them.
    """

    tells: bool = True
    begins: bool = False
    step: Step = Step.SAME
    is_record: bool = True
    holds_below: bool = False

    @abstractmethod
    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""

    def search(self, data: bytes) -> bool:
        """Return whether there is such a line."""
        return bool(self.find(data))


@frozen
class Line(Kind):
    """A line that a regular expression finds.

    The patterns are compiled when they are first used, as a log is of one framework. The
    ``pattern`` begins with a fixed text, which ``re`` finds fast, and each repetition in it has an
    upper bound, so that the time for a line is bounded. Its groups are the cells of the columns
    ``names``. With ``pairs``, one more group holds names and values, which the two groups of
    ``pairs`` take apart; ``named`` turns such a name into that of a column. ``fixed`` are cells
    that the line implies. ``told_by`` recognises the framework, where the pattern itself would also
    match lines of others.
    """

    pattern: bytes
    names: tuple[str, ...] = ()
    pairs: bytes | None = None
    named: Callable[[str], str] = str
    fixed: Mapping[str, bytes] = field(default_factory=dict)
    told_by: bytes | None = None

    @cached_property
    def _whole(self) -> re.Pattern[bytes]:
        return whole(self.pattern)

    def search(self, data: bytes) -> bool:
        """Return whether there is such a line."""
        return re.search(self.told_by or self.pattern, data) is not None

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        starts, columns = found_by(self._whole, data)
        if not starts:
            return []
        if self.pairs is not None:
            return self._apart(re.compile(self.pairs), starts, columns)
        return [self._part(self.names, starts, columns)]

    def _apart(
        self, pairs: re.Pattern[bytes], starts: list[int], columns: list[Cells]
    ) -> list[Part]:
        """Take names and values apart; lines with the same names make one part."""
        own, tails = columns[:-1], [tail or b"" for tail in columns[-1]]

        def look(tail: bytes) -> Look:
            found = [*pairs.finditer(tail)]
            names = (one[1].decode("utf-8", "replace").strip() for one in found)
            return Look((*names,), [one.span(2) for one in found], [one.span(1) for one in found])

        parts = []
        for written, rows, cells in by_names(tails, look):
            taken = [[column[row] for row in rows] for column in own]
            at = [starts[row] for row in rows]
            parts.append(self._part([*self.names, *map(self.named, written)], at, [*taken, *cells]))
        return parts

    def _part(self, names: Sequence[str], starts: list[int], columns: Sequence[Cells]) -> Part:
        cells: dict[str, Cells] = {}
        for name, column in zip(names, columns, strict=True):
            cells.setdefault(name, column)
        cells |= {name: [cell] * len(starts) for name, cell in self.fixed.items()}
        return Part(names=tuple(cells), starts=starts, cells=list(cells.values()))


@frozen
class Aside(Line):
    """A line that names neither a step nor a framework: it belongs to the step after the last."""

    tells: bool = False
    step: Step = Step.NEXT


class Spelling(NamedTuple):
    """What logs that hold all ``signs`` spell so, and the plain words for it, as of ``re.sub``."""

    signs: tuple[bytes, ...]
    spelt: bytes
    plain: bytes


@frozen
class Grammar:
    """The lines of a framework's log, and the name of the column of steps.

    With ``joined``, consecutive lines of one step make one record. ``ended`` finds the line that is
    printed when a training has ended: another may follow it. ``config`` finds the names and
    values of arguments that are printed before the first record; the one called ``total`` is how
    many steps the run has. ``left_out`` is the column of which the framework prints no NaN: a kind
    of line has put those back. The log is put in plain words by the rows of ``spelt``, and read in
    blocks of about ``block`` bytes.
    """

    step: str
    kinds: tuple[Kind, ...]
    joined: bool = False
    config: bytes | None = None
    total: str = ""
    left_out: str = ""
    ended: bytes | None = None
    spelt: tuple[Spelling, ...] = ()
    # The best of 32 kB to 4 MB: the matches of a larger block do not fit into a processor's caches.
    block: int = 1 << 16

    def recognises(self, data: bytes) -> bool:
        """Return whether cleaned lines hold one that only this framework writes."""
        return any(kind.tells and kind.search(data) for kind in self.kinds)
