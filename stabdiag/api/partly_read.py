"""Report partly read logs: a verdict on a part of a log is not a verdict on the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.edges import OUTCOME_BY_SLUG
from stabdiag.model.events import EventCode
from stabdiag.model.findings import (
    HEALTHY,
    INSUFFICIENT_DATA,
    PARTLY_READ,
    Action,
    ActionKind,
    Finding,
)
from stabdiag.model.text import capitalized, listed, plural
from stabdiag.tree.short_log import describe_course

if TYPE_CHECKING:
    from stabdiag.model.events import Event
    from stabdiag.model.findings import Scalar
    from stabdiag.model.history import History
    from stabdiag.tree.case import Case

# Outcomes without a finding.
INCONCLUSIVE_OUTCOMES = frozenset({HEALTHY, INSUFFICIENT_DATA})

# The action for each kind of content that was not read, the most informative first.
_ACTIONS = {
    EventCode.LOSS_UNKNOWN: (
        ActionKind.INSPECT_LOG,
        "Say which column is the loss, with --column loss=NAME, and diagnose the log again.",
    ),
    EventCode.CELLS_LEFT_OUT: (
        ActionKind.INSPECT_LOG,
        "Look at the values that cannot be read: a loss that is not a number any more has most "
        "likely failed.",
    ),
    EventCode.LINES_LEFT_OUT: (
        ActionKind.INSPECT_LOG,
        "Look at the lines that cannot be read: the run may have failed there.",
    ),
    EventCode.RECORDS_LEFT_OUT: (
        ActionKind.INSPECT_LOG,
        "Name the columns of the rest of the log with --column, and diagnose it again.",
    ),
    EventCode.BYTES_LEFT_OUT: (
        ActionKind.INSPECT_LOG,
        "Get the whole log, and diagnose it again.",
    ),
    EventCode.LOGS_LEFT_OUT: (
        ActionKind.INSPECT_LOG,
        "Diagnose each of the other logs: stabdiag check judges all runs of a folder or archive.",
    ),
}


def partly_read(case: Case) -> Finding | None:
    """Return the finding that only a part of a log was judged, or None."""
    history = case.history
    left_out = history.left_out
    if not left_out:
        return None
    course = describe_course(case)
    course += " " if course else ""
    parts = listed([event.message for event in left_out])
    codes = {event.code for event in left_out}
    kind, action = next(pair for code, pair in _ACTIONS.items() if code in codes)
    leaf = OUTCOME_BY_SLUG[PARTLY_READ]
    title = leaf.title
    summary = (
        f"{_judged(history)}. {course}Not read: {parts}. Whether the run failed there is unknown."
    )
    if codes == {EventCode.LOSS_UNKNOWN}:
        title = "No column is known to be the loss"
        summary = f"The log has {parts}. {course}Whether the run failed is unknown."
    return Finding(
        slug=leaf.slug,
        severity=leaf.severity,
        section=leaf.section,
        question="Q1.1",
        title=title,
        summary=summary,
        actions=(Action(kind, action),),
        unit=history.unit,
        evidence=_evidence(history, left_out),
    )


def _judged(history: History) -> str:
    loss = history.get("loss")
    if loss is None or not len(loss):
        return "No loss was judged"
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    return capitalized(
        f"{plural(len(loss), 'loss was', 'losses were')} judged, up to {history.unit} {last}"
        if first != last
        else f"only the loss of {history.unit} {first} was judged"
    )


def _evidence(history: History, left_out: list[Event]) -> dict[str, Scalar]:
    loss = history.logged("loss")
    evidence: dict[str, Scalar] = {
        "records": history.source.records,
        "losses": len(loss),
        "judged_until": int(loss.steps[-1]) if len(loss) else None,
    }
    for event in left_out:
        if event.code is not None and event.value is not None:
            name = event.code.value.replace("-", "_")
            before = evidence.get(name)
            evidence[name] = int(event.value) + (before if isinstance(before, int) else 0)
    return evidence


def with_incomplete_first(
    incomplete: Finding, findings: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """Return the findings with the partly-read finding as the first warning.

    It replaces the outcomes ``healthy`` and ``insufficient-data``.
    """
    others = (finding for finding in findings if finding.slug not in INCONCLUSIVE_OUTCOMES)
    return tuple(sorted((incomplete, *others), key=lambda finding: finding.severity.rank))
