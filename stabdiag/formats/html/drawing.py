"""The decision tree on a page: each question with its answer, and the drawing of the way taken.

In the drawing each section is a lane. A question stands right of the one that leads to it, and
below those that were reached before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING

from stabdiag.formats.subject import decisive
from stabdiag.model.edges import EDGES, END, QUESTIONS, SECTIONS, taken
from stabdiag.model.findings import AskedOf, Verdict, in_a_word
from stabdiag.model.leaves import BY_SLUG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.model.limits import LimitInfo, Limits
    from stabdiag.model.report import Report

# In units of the drawing, which are pixels where it is drawn at its natural size.
_WIDTH, _HEIGHT, _LINE = 172, 78, 14
_ACROSS, _DOWN = 52, 10
_CHARS = 24
_BY_ID = {question.id: question for question in QUESTIONS}

# Above the questions of a lane is its title, below them a gap.
_TITLE, _LANE = 44, 26

_SECTION_TITLES = {"§1": "NaN", "§2": "Spike", "§3": "Mixed precision", "§4": "Silent divergence"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question of the tree, its answer if the walk reached it, and its limits."""

    question: str
    asks: str
    answer: Answer | None
    limits: tuple[LimitInfo, ...]
    decisive: bool = False

    @property
    def verdict(self) -> str:
        """The answer in one word."""
        return self.answer.word if self.answer else "not asked"

    @property
    def lead_up(self) -> bool:
        """Whether it was asked of the steps before a NaN only."""
        return self.answer is not None and self.answer.asked_of is AskedOf.LEAD_UP


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
    width: int = _WIDTH

    @property
    def leaf(self) -> bool:
        """Whether this is a leaf."""
        return self.name not in _BY_ID

    @property
    def state(self) -> str:
        """How the walk met it: ``reached``, ``lead`` before a NaN only, or ``dim``."""
        if self.answer is not None:
            return "lead" if self.answer.asked_of is AskedOf.LEAD_UP else "reached"
        return "reached" if self.found else "dim"


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A way from one node to another: its path as SVG has it, the replies that take it."""

    path: str
    label: str
    x: int
    y: int
    state: str
    anchor: str = "start"


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One section: its title and where it begins."""

    section: str
    title: str
    y: int


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The whole tree, laid out."""

    width: int
    height: int
    lanes: tuple[Lane, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def answers(report: Report) -> list[Asked]:
    """Return every question of the tree in its order, with what the walk made of it."""
    given = {answer.question: answer for answer in report.tree.answers}
    weighing = {answer.question for answer in decisive(report)}
    limits = {info.name: info for info in report.limits.items()}
    return [
        Asked(
            question=question.id,
            asks=question.asked(report.limits),
            answer=given.get(question.id),
            limits=tuple(limits[name] for name in question.limits),
            decisive=question.id in weighing,
        )
        for question in QUESTIONS
    ]


def draw(report: Report) -> Drawing:
    """Lay the tree out, with the way that this report's walk took."""
    answers = {answer.question: answer for answer in report.tree.answers}
    found = {finding.slug for finding in report.findings}
    if "Q4.1" in answers and _next(answers["Q4.1"]) == END:
        found.add(END)
    lanes: list[Lane] = []
    nodes: dict[str, Node] = {}
    y = 0
    for section, first in SECTIONS.items():
        lanes.append(Lane(section=section, title=_SECTION_TITLES[section], y=y))
        lane = dict(_lane(first, y + _TITLE, report.limits, answers, found))
        nodes |= lane
        y = max(node.y + node.height for node in lane.values()) + _LANE
    return Drawing(
        width=max(node.x for node in nodes.values()) + _WIDTH + 2,
        height=y - _LANE + 4,
        lanes=tuple(lanes),
        nodes=tuple(nodes.values()),
        edges=tuple(_edges(nodes, answers)),
    )


def _lane(
    first: str, top: int, limits: Limits, answers: Mapping[str, Answer], found: set[str]
) -> Iterator[tuple[str, Node]]:
    """Yield the nodes of one section by name, column by column."""
    depths = _depths(first)
    for depth in range(max(depths.values()) + 1):
        y = top
        column = [name for name, at in depths.items() if at == depth]
        # The questions of the section itself go straight on.
        column.sort(key=lambda name: (name[:2] != first[:2], name not in _BY_ID))
        for name in column:
            question = _BY_ID.get(name)
            title = question.asked(limits) if question else _leaf_title(name)
            lines = wrap(title if question else name, _CHARS)
            node = Node(
                name=name,
                x=2 + depth * (_WIDTH + _ACROSS),
                y=y,
                height=_HEIGHT if question else _LINE * (len(lines) + 1),
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


def _edges(nodes: Mapping[str, Node], answers: Mapping[str, Answer]) -> Iterator[Edge]:
    for name, replies in EDGES.items():
        answer = answers.get(name)
        reply = None if answer is None else taken(name, answer.verdict, answer.branch)
        targets: dict[str, list[str]] = {}
        for key, target in replies.items():
            targets.setdefault(target, []).append(key)
        for target, keys in targets.items():
            lit = nodes[name].state if reply in keys else "dim"
            label = "" if len(targets) == 1 else ", ".join(_labels(name, target, keys))
            if target in SECTIONS:
                yield _down(nodes[name], nodes[SECTIONS[target]], label, lit)
            else:
                yield _across(nodes[name], nodes[target], label, lit)
    yield from _onward(nodes, answers)


def _labels(question: str, target: str, keys: list[str]) -> Iterator[str]:
    """Yield the labels of an edge: answers, and branches that the leaf itself does not name."""
    replies, asks = EDGES[question], _BY_ID[question].asks
    for key in keys:
        verdict, _, branch = key.partition(":")
        if branch and target in _BY_ID:
            yield branch
        elif not branch and any(other.startswith(f"{verdict}:") for other in replies):
            yield "other"
        elif not branch:
            yield "?" if verdict == "unknown" else in_a_word(asks, Verdict(verdict))


def _across(node: Node, target: Node, label: str, state: str) -> Edge:
    """Return the way to a node further right; over those between, where there are any."""
    if target.x - node.x > _WIDTH + _ACROSS:
        x, y, end = node.x + _WIDTH - 16, node.y - 12, target.x + 16
        path = f"M{x} {node.y}V{y}H{end}V{target.y}"
        # At its end: the title of the lane is above its beginning.
        return Edge(path=path, label=label, x=end - 5, y=y - 4, state=state, anchor="end")
    x, y = node.x + _WIDTH, node.y + _HEIGHT // 2
    end, level = target.x, target.y + target.height // 2
    middle = (x + end) // 2
    path = f"M{x} {y}C{middle} {y} {middle} {level} {end} {level}"
    beside = level + 13 if level > y + _LINE else level - 5
    return Edge(path=path, label=label, x=end - 5, y=beside, state=state, anchor="end")


def _down(node: Node, target: Node, label: str, state: str) -> Edge:
    """Return the way to the next section."""
    x, y, end = node.x + 20, node.y + node.height, target.x + 20
    turn = target.y - _TITLE - 4
    path = f"M{x} {y}V{turn}H{end}V{target.y}"
    return Edge(path=path, label=label, x=x + 6, y=y + 14, state=state)


def _onward(nodes: Mapping[str, Node], answers: Mapping[str, Answer]) -> Iterator[Edge]:
    """Yield the way from a section that ended at a leaf to the next one: the walk goes on."""
    for before, after in pairwise(SECTIONS.values()):
        reached = {SECTIONS.get(_next(answer)) for answer in answers.values()}
        if after in answers and before in answers and after not in reached:
            node, target = nodes[before], nodes[after]
            path = f"M{node.x + 8} {node.y + node.height}V{target.y}"
            yield Edge(path=path, label="", x=node.x, y=node.y, state="onward")


def _next(answer: Answer) -> str:
    """Return where an answer leads, or nothing where the tree has no such edge."""
    key = taken(answer.question, answer.verdict, answer.branch)
    return EDGES[answer.question].get(key, "")
