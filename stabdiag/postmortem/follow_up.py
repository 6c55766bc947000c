"""What to do: the actions in order, what to log next time, what only a person can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.formats.markdown_text import escape, table
from stabdiag.postmortem.blanks import MARK
from stabdiag.postmortem.causes import convicted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.postmortem.study import Study


def first_action(told: Study) -> str:
    """Return what to do first, with what the first action alone would miss."""
    return " ".join((told.report.diagnosis.first_action, *_cause_first(told)))


def _cause_first(told: Study) -> Iterator[str]:
    """Yield the cause of a spike that did damage: the tree asks for it of those that recovered."""
    found = told.report.diagnosis
    if found.section == "§2" and found.severity is Severity.ERROR:
        for panel in told.panels:
            if panel.holds and panel.branch != "lr-jump":  # that one the first action mends
                yield f"See to the cause before the restart: {convicted(panel)}."


def actions(told: Study) -> Iterator[str]:
    """Yield what to do, the first action first; what else was found comes after it."""
    found = told.report.diagnosis
    yield "## Actions, in order"
    steps = [f"**{escape(first_action(told))}**"] if found.first_action else []
    steps += [escape(action) for action in found.next_actions]
    steps += [
        f"Also found, {escape(other.title)} (`{other.slug}`): {escape(other.first_action)}"
        for other in told.report.also_found
        if other.first_action and other.severity is not Severity.OK
    ]
    yield "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def logging(told: Study) -> Iterator[str]:
    """Yield what to log next time, and what it would have told."""
    yield "## What to log next time"
    rows = list(_missing(told))
    if rows:
        yield table(["Log", "For want of it"], [[escape(a), escape(b)] for a, b in rows])
    else:
        yield "Nothing that this document needs was missing."


def _missing(told: Study) -> Iterator[tuple[str, str]]:
    for missing in told.report.not_logged:
        yield missing.role, missing.cost
    cost = told.lost.cost
    if told.clock is None:
        yield "time stamps", "it is not known when it happened, by the clock"
    if cost is not None and cost.hours.value is None:
        yield "time stamps, or the time of a step", "it is not known how many hours it cost"
    if cost is not None and cost.work.value is None:
        yield "throughput (tokens per second)", "it is not known how many tokens it cost"


def questions(told: Study) -> Iterator[str]:
    """Yield the blanks."""
    yield "## What only a person can answer"
    yield "\n".join(f"- [ ] **{MARK}:** {question}" for question in told.blanks)
