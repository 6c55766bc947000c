"""Coqui's Trainer: ``--> STEP: 25/377 -- GLOBAL_STEP: 25`` over lines ``| > loss: 2.5 (2.6)``.

Of two numbers, the first is that of the step; the second is the mean of the epoch so far. The steps
of an evaluation have the same lines, but no global step: only their means are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stabdiag.readers.text.grammar import NUMBER, Grammar, Kind, Part, parts_of

_STEP: Final = "global_step"

# A record has many lines: one that lies on two blocks would lose some.
_BLOCK: Final = 1 << 24

# How much of a line is looked at, and how many lines a record may have.
_LONGEST: Final = 400
_LINES: Final = 400

# grad_norm: tensor(10.7261, device='cuda:0'); what collected the log may have set a time before it.
_PAIR: Final = re.compile(
    rb"[^\n|]{0,80}\| > ([\w./ -]{1,80}): {0,4}(?:tensor\()?(%b)(?=[\s,()]|$)" % NUMBER
)
_ANY: Final = re.compile(rb"[^\n|]{0,80}\| > ")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Values(Kind):
    """A heading, which may name the step, and the values below it, each on a line."""

    heading: re.Pattern[bytes]
    evaluation: bool = False

    def search(self, data: bytes) -> bool:
        """Return whether there is such a heading."""
        return self.heading.search(data) is not None

    def find(self, data: bytes) -> list[Part]:
        """Return all such records."""
        return parts_of(self._records(data))

    def _records(self, data: bytes) -> Iterator[tuple[int, dict[str, bytes]]]:
        for match in self.heading.finditer(data):
            values = dict(_below(data, match.end()))
            if values and self.evaluation:
                means = ((name.removeprefix("avg_"), value) for name, value in values.items())
                yield match.start(), {f"eval_{name}": value for name, value in means}
            elif values:
                yield match.start(), {_STEP: match[1], **values}


def _below(data: bytes, place: int) -> Iterator[tuple[str, bytes]]:
    """Yield the names and values on the lines below a place, as long as there are some."""
    for _ in range(_LINES):
        place = data.find(b"\n", place) + 1
        if place == 0 or not _ANY.match(data, place, place + _LONGEST):
            return
        pair = _PAIR.match(data, place, place + _LONGEST)
        if pair is not None:
            yield pair[1].decode("utf-8", "replace").strip(), pair[2]


GRAMMAR = Grammar(
    step=_STEP,
    block=_BLOCK,
    kinds=(
        #    --> TIME: 2024-01-05 10:00:00 -- STEP: 25/377 -- GLOBAL_STEP: 25
        _Values(heading=re.compile(rb"-- GLOBAL_STEP: (\d{1,12})(?=\s)")),
        _Values(heading=re.compile(rb"--> EVAL PERFORMANCE"), evaluation=True, tells=False),
    ),
)
