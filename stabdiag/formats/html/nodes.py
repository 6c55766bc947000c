"""The questions and leaves of the decision tree as boxes, and where they stand.

A question stands right of the one that leads to it, and below those that were reached before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from stabdiag.model.edges import EDGES, END, QUESTIONS, SECTIONS
from stabdiag.model.findings import AskedOf
from stabdiag.model.leaves import BY_SLUG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.model.limits import Limits

# In units of the drawing, which are pixels where it is drawn at its natural size.
WIDTH, HEIGHT, LINE = 172, 78, 14
ACROSS, _DOWN = 52, 10
_CHARS = 24
BY_ID = {question.id: question for question in QUESTIONS}


@dataclass(frozen=True, kw_only=True)
class Node:
    """A question or a leaf: its place, what is written in it, and how the walk met it."""

    name: str
    x: int
    y: int
    height: int
    title: str
    lines: tuple[str, ...]
    answer: Answer | None = None
    found: bool = False
    width: int = WIDTH

    @property
    def leaf(self) -> bool:
        """Whether this is a leaf."""
        return self.name not in BY_ID

    @property
    def state(self) -> str:
        """How the walk met it: ``reached``, ``lead`` before a NaN only, or ``dim``."""
        if self.answer is not None:
            return "lead" if self.answer.asked_of is AskedOf.LEAD_UP else "reached"
        return "reached" if self.found else "dim"


def lane_nodes(
    first: str, top: int, limits: Limits, answers: Mapping[str, Answer], found: set[str]
) -> Iterator[tuple[str, Node]]:
    """Yield the nodes of one section by name, column by column."""
    depths = _depths(first)
    for depth in range(max(depths.values()) + 1):
        y = top
        column = [name for name, at in depths.items() if at == depth]
        # The questions of the section itself go straight on.
        column.sort(key=lambda name: (name[:2] != first[:2], name not in BY_ID))
        for name in column:
            question = BY_ID.get(name)
            title = question.asked(limits) if question else _leaf_title(name)
            lines = wrap(title if question else name, _CHARS)
            node = Node(
                name=name,
                x=2 + depth * (WIDTH + ACROSS),
                y=y,
                height=HEIGHT if question else LINE * (len(lines) + 1),
                title=title,
                lines=tuple(lines),
                answer=answers.get(name),
                found=name in found,
            )
            yield name, node
            y += node.height + _DOWN


def _leaf_title(name: str) -> str:
    return "End of the tree" if name == END else BY_SLUG[name].title


def _depths(first: str) -> dict[str, int]:
    """Return the column of each node that a section leads to: the longest way to it."""
    depths = {first: 0}
    waiting = [first]
    while waiting:
        name = waiting.pop(0)
        for target in EDGES.get(name, {}).values():
            if target not in SECTIONS and depths.get(target, 0) <= depths[name]:
                depths.pop(target, None)
                depths[target] = depths[name] + 1
                waiting.append(target)
    return depths
