"""The tree as it is drawn."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from stabdiag.formats import render
from stabdiag.formats.html.drawing import Drawing, Node, draw
from stabdiag.model.edges import EDGES, END, QUESTIONS, SECTIONS
from stabdiag.model.leaves import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.report import Report


def drawn(report: Report) -> tuple[Drawing, dict[str, Node]]:
    drawing = draw(report)
    return drawing, {node.name: node for node in drawing.nodes}


def test_the_whole_tree_is_drawn_once(report_of: Callable[..., Report]):
    drawing, nodes = drawn(report_of("healthy-fp32"))
    leaves = {outcome.slug for outcome in OUTCOMES if outcome.section} | {END}
    assert sorted(nodes) == sorted({question.id for question in QUESTIONS} | leaves)
    assert len(drawing.nodes) == len(nodes)
    ways = sum(len(set(targets.values())) for targets in EDGES.values())
    assert len([edge for edge in drawing.edges if edge.state != "onward"]) == ways
    assert len(drawing.lanes) == len(SECTIONS)


def test_nothing_lies_on_something_else(report_of: Callable[..., Report]):
    drawing, _ = drawn(report_of("healthy-fp32"))
    for one, other in combinations(drawing.nodes, 2):
        apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y, (one.name, other.name)
    for node in drawing.nodes:
        assert 0 <= node.x <= node.x + node.width <= drawing.width
        assert 0 <= node.y <= node.y + node.height <= drawing.height
        assert 0 < len(node.lines) <= 3


@pytest.mark.parametrize(
    ("run", "reached", "lead", "lit"),
    [
        ("healthy-fp32", {"Q1.1", "Q2.1", "Q3.1", "Q4.1", END}, set(), 4),
        (
            "spike-persistent-fp16",
            {"Q1.1", "Q2.1", "Q2.2", "Q2.4", "spike-persistent", "Q3.1", "Q3.2", "Q4.1", END},
            set(),
            7,
        ),
        (
            "nan-activations-fp16",
            {
                "Q1.1",
                "Q1.2",
                "Q3.3",
                "nan-fp16-overflow",
                "spike-unresolved",
                "gradient-overflow",
                END,
            },
            {"Q2.1", "Q2.2", "Q3.1", "Q3.2", "Q4.1"},
            3,
        ),
    ],
)
def test_the_way_that_was_taken_is_lit(
    report_of: Callable[..., Report], run: str, reached: set[str], lead: set[str], lit: int
):
    drawing, nodes = drawn(report_of(run))
    assert {node.name for node in nodes.values() if node.state == "lead"} == lead
    found = {node.name for node in nodes.values() if node.state == "reached"}
    assert found - {END} == reached - {END}
    assert len([edge for edge in drawing.edges if edge.state == "reached"]) == lit
    assert len([edge for edge in drawing.edges if edge.state == "lead"]) == len(lead)


def test_where_a_section_ended_at_a_leaf_the_walk_goes_on(report_of: Callable[..., Report]):
    drawing, _ = drawn(report_of("spike-persistent-fp16"))
    assert len([edge for edge in drawing.edges if edge.state == "onward"]) == 1
    literal, _ = drawn(report_of("spike-persistent-fp16", literal=True))
    assert [edge for edge in literal.edges if edge.state == "onward"] == []


def test_no_label_stands_where_the_title_of_a_lane_does(report_of: Callable[..., Report]):
    drawing, _ = drawn(report_of("healthy-fp32"))
    for lane in drawing.lanes:
        end = 40 + 8 * len(f"{lane.section} {lane.title}")
        for edge in drawing.edges:
            beside = edge.y - 10 > lane.y + 22 or edge.y < lane.y + 6
            begin = edge.x - 6 * len(edge.label) if edge.anchor == "end" else edge.x
            assert not edge.label or beside or begin > end


def test_an_answer_to_a_which_is_not_called_yes_or_no(report_of: Callable[..., Report]):
    page = render(report_of("spike-lr-jump"), "html")
    assert 'aria-label="Q2.3, found: ' in page
    assert 'aria-label="Q2.2, yes: ' in page
    labels = {edge.label for edge in draw(report_of("healthy-fp32")).edges}
    assert "none, ?" in labels  # Q2.3 to a spike without a cause
