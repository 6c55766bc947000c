"""The root cause as far as the log shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from stabdiag.findings import Verdict
from stabdiag.postmortem.incident import Incident, asked
from stabdiag.tree.advice.changed import changes_at
from stabdiag.tree.case import Case
from stabdiag.tree.changes import Change, went
from stabdiag.tree.panels import Panel, panels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.report import Report


class Sureness(StrEnum):
    """How far a log can tell a cause, as a sentence."""

    SHOWN = "The log shows the cause."
    POINTS = "The log points at a cause, and does not prove it."
    HIDDEN = "The log does not show the cause."


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What the log says of the cause: how sure it is, and the words that say so."""

    sureness: Sureness
    because: tuple[str, ...]


_OF_A_NAN = ("Q1.3", "Q1.4")

# Of each leaf: how sure a log can be of its cause, and the questions whose answers tell it.
_LEAVES: Final[Mapping[str, tuple[Sureness, tuple[str, ...]]]] = {
    "nan-fp32": (Sureness.POINTS, _OF_A_NAN),
    "nan-bf16": (Sureness.POINTS, _OF_A_NAN),
    "nan-dtype-unknown": (Sureness.POINTS, _OF_A_NAN),
    "nan-fp16-overflow": (Sureness.POINTS, ("Q3.3",)),
    "spike-lr-jump": (Sureness.SHOWN, ("Q2.3",)),
    "spike-duplicate-batch": (Sureness.SHOWN, ("Q2.3",)),
    "spike-long-tail-batch": (Sureness.POINTS, ("Q2.3",)),
    "spike-recovered": (Sureness.HIDDEN, ("Q2.3",)),
    "spike-persistent": (Sureness.POINTS, ()),
    "spike-unresolved": (Sureness.POINTS, ()),
    "gradient-overflow": (Sureness.POINTS, ("Q3.2",)),
    "loss-scale-static": (Sureness.SHOWN, ("Q3.2",)),
    "loss-scale-collapsed": (Sureness.POINTS, ("Q3.2",)),
    "divergence-lr-rising": (Sureness.POINTS, ("Q4.2",)),
    "divergence-weight-norm-climbing": (Sureness.POINTS, ("Q4.3",)),
    "divergence-weight-norm-collapsing": (Sureness.POINTS, ("Q4.3",)),
    "divergence-grad-norm-rising": (Sureness.POINTS, ("Q4.4",)),
    "divergence-unexplained": (Sureness.HIDDEN, ("Q4.4",)),
    "plateau": (Sureness.HIDDEN, ("Q4.4",)),
}


def cause_of(report: Report, panels: tuple[Panel, ...], changes: tuple[Change, ...]) -> Cause:
    """Return what the log says of the cause of a diagnosis, given the panels of its spike.

    Of a symptom a log shows that it holds, and not why. A setting that changed where it began is a
    cause that the log points at.
    """
    cause = _as_told(report, panels)
    if not changes:
        return cause
    hidden = cause.sureness is Sureness.HIDDEN
    return Cause(
        sureness=Sureness.POINTS if hidden else cause.sureness,
        because=(f"{went(changes)}, near where the trouble began", *cause.because),
    )


def _as_told(report: Report, panels: tuple[Panel, ...]) -> Cause:
    sureness, questions = _LEAVES.get(report.diagnosis.slug, (Sureness.HIDDEN, ()))
    if report.diagnosis.section == "§2" and panels:
        # The tree asks for the cause of a spike only where it recovered; the panels always tell.
        guilty = tuple(convicted(panel) for panel in panels if panel.holds)
        because = guilty or tuple(panel.because for panel in panels)
        return Cause(sureness=sureness if guilty else Sureness.HIDDEN, because=because)
    answers = [answer for q in questions if (answer := asked(report, q)) is not None]
    # Where the first question had nothing to go by, nothing points anywhere; and without the
    # fingerprint of an overflow, an fp16 NaN may be of any kind.
    verdict = answers[0].verdict if answers else Verdict.UNKNOWN
    if verdict is Verdict.UNKNOWN or (questions == ("Q3.3",) and verdict is Verdict.NO):
        sureness = Sureness.HIDDEN
    return Cause(sureness=sureness, because=tuple(answer.because for answer in answers))


def convicted(panel: Panel) -> str:
    """Return the words of a panel that holds; for a gradient norm, what it points at as well."""
    long_tail = panel.branch == "long-tail-batch"
    return f"a long-tail batch, as {panel.because}" if long_tail else panel.because


def panels_of(report: Report, incident: Incident) -> tuple[Panel, ...]:
    """Return the three panels of Q2.3, of the spike that the diagnosis or a NaN's lead-up is.

    None of another kind of finding.
    """
    spike = incident.lead_up or report.diagnosis
    if spike.section != "§2":
        return ()
    history = report.history
    if incident.lead_up is not None and report.diagnosis.step is not None:
        history = history.before(report.diagnosis.step)
    case = Case(
        history=history,
        manifest=report.manifest,
        limits=report.limits,
        literal=report.literal,
        before_nan=incident.lead_up is not None,
    )
    for one in case.spikes:
        if case.at(one.onset) == spike.step:
            return panels(case.about(one), one)
    return ()


def changes_of(report: Report, incident: Incident) -> tuple[Change, ...]:
    """Return the settings that changed where the diagnosis began, or what led up to a NaN."""
    case = Case(
        history=report.history,
        manifest=report.manifest,
        limits=report.limits,
        literal=report.literal,
    )
    begun = (report.diagnosis, incident.lead_up)
    found = (changes_at(case, one)[0] for one in begun if one is not None)
    return next((changes for changes in found if changes), ())
