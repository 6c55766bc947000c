"""Which answers and numbers a diagnosis rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.findings import Answer, Verdict

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.model.report import Report


def numbers(report: Report, deciding: list[Answer]) -> dict[str, Scalar]:
    """Return the finding's numbers, those of the answer that led to it first."""
    found = report.diagnosis
    last = [a for a in deciding if a.question == found.question]
    told = found.evidence or {n: v for a in deciding for n, v in a.measured.items()}
    first = {n: v for a in last for n, v in a.measured.items() if n in told}
    return {**first, **told}


def decisive(report: Report) -> list[Answer]:
    """Return the answers that the diagnosis rests on: its own section's, but for the unknown.

    None for a diagnosis that belongs to no section: health rests on all of them.
    """
    found = report.diagnosis
    if not found.section:
        return []
    return [
        answer
        for answer in report.tree.answers
        if answer.asked_of is found.asked_of
        and answer.verdict is not Verdict.UNKNOWN
        and (answer.question == found.question or f"§{answer.question[1:2]}" == found.section)
    ]
