"""The graph of the tree."""

from graphlib import TopologicalSorter

import pytest

from stabdiag.model.edges import EDGES, END, OUTCOME_BY_SLUG, QUESTIONS, SECTIONS
from stabdiag.model.findings import Verdict
from stabdiag.tree.advice.leaves import ADVICE
from stabdiag.tree.case import Reply
from stabdiag.tree.walk import follow

IDS = [question.id for question in QUESTIONS]
EVERY_EDGE = [
    (question, texts, target)
    for question, edges in EDGES.items()
    for texts, target in edges.items()
]

# What is reported where no leaf of the graph is reached.
NO_LEAVES = {"healthy", "insufficient-data", "earlier-run-failed", "partly-read"}


def resolved(target):
    return SECTIONS.get(target, target)


def test_every_question_has_edges_and_no_edge_is_of_something_else():
    assert list(EDGES) == [*sorted(IDS)]
    assert len(set(IDS)) == len(IDS)


def test_the_graph_has_no_circle():
    follows = {q: {resolved(t) for t in edges.values()} for q, edges in EDGES.items()}
    assert list(TopologicalSorter(follows).static_order())


def test_every_question_is_reached_from_the_first():
    reached, waiting = set(), ["Q1.1"]
    while waiting:
        place = waiting.pop()
        if place in EDGES and place not in reached:
            reached.add(place)
            waiting += [resolved(target) for target in EDGES[place].values()]
    assert reached == set(IDS)


def test_every_leaf_is_reached_and_has_advice():
    leaves = {target for _, _, target in EVERY_EDGE if target in OUTCOME_BY_SLUG}
    assert leaves == set(OUTCOME_BY_SLUG) - NO_LEAVES
    assert set(ADVICE) == leaves


@pytest.mark.parametrize(("question", "texts", "target"), EVERY_EDGE)
def test_every_edge_is_taken_and_leads_somewhere(question, texts, target):
    verdict, _, branch = texts.partition(":")
    reply = Reply(verdict=Verdict(verdict), because="", branch=branch or None)
    assert follow(question, reply) == target
    assert resolved(target) in {*IDS, *OUTCOME_BY_SLUG, END}
    if target in OUTCOME_BY_SLUG and question != "Q3.3":  # §1 uses the fp16 fingerprint
        assert OUTCOME_BY_SLUG[target].section == f"§{question[1]}"


@pytest.mark.parametrize(
    ("question", "branch", "target"),
    [
        ("Q1.2", "fp16", "Q3.3"),
        ("Q1.2", "bf16", "Q1.3"),
        ("Q1.4", "int8", "nan-dtype-unknown"),
    ],
)
def test_a_branch_without_an_edge_of_its_own_takes_that_of_the_verdict(question, branch, target):
    assert follow(question, Reply(verdict=Verdict.YES, because="", branch=branch)) == target


def test_questions_say_what_they_ask_and_name_limits_that_exist():
    from stabdiag.model.limits import Limits

    names = {info.name for info in Limits().items()}
    for question in QUESTIONS:
        assert question.asks.endswith("?")
        assert set(question.limits) <= names
