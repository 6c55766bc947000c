"""Who follows whom: the whole tree on one screen.

A key is a question's verdict, or ``verdict:branch`` where there is more than one way to say it. A
target is a question, a section (its first question), or a slug, which is a leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Verdict
    from stabdiag.tree.question import Reply

SECTIONS: Final = {"§1": "Q1.1", "§2": "Q2.1", "§3": "Q3.1", "§4": "Q4.1"}

END: Final = "end"

EDGES: Final[Mapping[str, Mapping[str, str]]] = {
    "Q1.1": {"yes": "Q1.2", "no": "§2", "unknown": "§2"},
    "Q1.2": {"yes:fp16": "Q3.3", "yes": "Q1.3", "unknown": "Q1.3"},
    "Q1.3": {"yes": "Q1.4", "unknown": "Q1.4"},
    "Q1.4": {
        "yes:fp32": "nan-fp32",
        "yes:fp64": "nan-fp32",
        "yes:bf16": "nan-bf16",
        "yes": "nan-dtype-unknown",
    },
    "Q2.1": {"yes": "Q2.2", "no": "§3", "unknown": "§3"},
    "Q2.2": {"yes": "Q2.3", "no": "Q2.4", "unknown": "spike-unresolved"},
    "Q2.3": {
        "yes:lr-jump": "spike-lr-jump",
        "yes:duplicate-batch": "spike-duplicate-batch",
        "yes:long-tail-batch": "spike-long-tail-batch",
        "no": "spike-recovered",
        "unknown": "spike-recovered",
    },
    "Q2.4": {"yes": "spike-persistent", "no": "spike-persistent", "unknown": "spike-persistent"},
    "Q3.1": {"yes": "Q3.2", "no": "§4", "unknown": "§4"},
    "Q3.2": {
        "yes:static": "loss-scale-static",
        "yes:collapsed": "loss-scale-collapsed",
        "yes:overflow": "gradient-overflow",
        "no": "§4",
        "unknown": "§4",
    },
    "Q3.3": {
        "yes": "nan-fp16-overflow",
        "no": "nan-fp16-overflow",
        "unknown": "nan-fp16-overflow",
    },
    "Q4.1": {"yes:material": "Q4.2", "yes:slight": "Q4.4", "no": END, "unknown": END},
    "Q4.2": {"yes": "divergence-lr-rising", "no": "Q4.3", "unknown": "Q4.3"},
    "Q4.3": {
        "yes:climbing": "divergence-weight-norm-climbing",
        "yes:collapsing": "divergence-weight-norm-collapsing",
        "no": "Q4.4",
        "unknown": "Q4.4",
    },
    "Q4.4": {
        "yes": "divergence-grad-norm-rising",
        "no:plateau": "plateau",
        "no:unexplained": "divergence-unexplained",
        "unknown:plateau": "plateau",
        "unknown:unexplained": "divergence-unexplained",
    },
}


def taken(question: str, verdict: Verdict, branch: str | None) -> str:
    """Return the key of the edge that a reply takes: by its branch if that has one, or verdict."""
    key = f"{verdict}:{branch}"
    return key if key in EDGES[question] else str(verdict)


def follow(question: str, reply: Reply) -> str:
    """Return where a reply leads."""
    return EDGES[question][taken(question, reply.verdict, reply.branch)]
