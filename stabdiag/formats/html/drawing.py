"""The decision tree as a drawing: where its questions and leaves stand, and which way was taken.

Each section is a lane; ``nodes`` tells where in it a question stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from stabdiag.formats.html.nodes import ACROSS, BY_ID, HEIGHT, LINE, WIDTH, Node, lane_nodes
from stabdiag.model.edges import EDGES, END, SECTIONS, taken
from stabdiag.model.findings import Verdict, in_a_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.model.report import Report

# Above the questions of a lane is its title, below them a gap.
_TITLE, _LANE = 44, 26

TITLES = {"§1": "NaN", "§2": "Spike", "§3": "Mixed precision", "§4": "Silent divergence"}


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
        lanes.append(Lane(section=section, title=TITLES[section], y=y))
        lane = dict(lane_nodes(first, y + _TITLE, report.limits, answers, found))
        nodes |= lane
        y = max(node.y + node.height for node in lane.values()) + _LANE
    return Drawing(
        width=max(node.x for node in nodes.values()) + WIDTH + 2,
        height=y - _LANE + 4,
        lanes=tuple(lanes),
        nodes=tuple(nodes.values()),
        edges=tuple(_edges(nodes, answers)),
    )


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
    """Yield what stands at an edge: answers, and branches that the leaf itself does not name."""
    replies, asks = EDGES[question], BY_ID[question].asks
    for key in keys:
        verdict, _, branch = key.partition(":")
        if branch and target in BY_ID:
            yield branch
        elif not branch and any(other.startswith(f"{verdict}:") for other in replies):
            yield "other"
        elif not branch:
            yield "?" if verdict == "unknown" else in_a_word(asks, Verdict(verdict))


def _across(node: Node, target: Node, label: str, state: str) -> Edge:
    """Return the way to a node further right; over those between, where there are any."""
    if target.x - node.x > WIDTH + ACROSS:
        x, y, end = node.x + WIDTH - 16, node.y - 12, target.x + 16
        path = f"M{x} {node.y}V{y}H{end}V{target.y}"
        # At its end: above its beginning stands the title of the lane.
        return Edge(path=path, label=label, x=end - 5, y=y - 4, state=state, anchor="end")
    x, y = node.x + WIDTH, node.y + HEIGHT // 2
    end, level = target.x, target.y + target.height // 2
    middle = (x + end) // 2
    path = f"M{x} {y}C{middle} {y} {middle} {level} {end} {level}"
    beside = level + 13 if level > y + LINE else level - 5
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
