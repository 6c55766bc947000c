"""The causes that were asked for: which the log points at, which it rules out, which stay open."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.formats.postmortem.incident import asked
from stabdiag.model.findings import Answer, AskedOf, Panel, Scalar, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.formats.postmortem.incident import Incident
    from stabdiag.model.report import Report


class Sureness(StrEnum):
    """How far a log can tell a cause, as a sentence."""

    SHOWN = "The log shows the cause."
    POINTS = "The log points at a cause, and does not prove it."
    HIDDEN = "The log does not show the cause."


# The log shows the cause of the first, does not of the second, and points at that of the others.
_SHOWN: Final = ("spike-lr-jump", "spike-duplicate-batch", "loss-scale-static")
_HIDDEN: Final = ("spike-recovered", "divergence-unexplained", "plateau")

# A "no" to these rules something out; "no" to the others (has the loss recovered?) does not.
_ASKED: Final = {
    "Q1.1": "A NaN or infinite loss",
    "Q2.1": "A spike of the loss",
    "Q2.3": "",  # its three panels stand here
    "Q3.1": "Gradients that overflow in fp16 or bf16",
    "Q3.2": "A loss scaler that does not cope",
    "Q3.3": "An fp16 overflow behind the NaN",
    "Q4.1": "A climbing loss",
    "Q4.2": "A rising learning rate behind the climb",
    "Q4.3": "Growing or shrinking weights behind the climb",
    "Q4.4": "Growing gradients behind the climb",
}

# What a panel of Q2.3 suspects, and the limit that it goes by.
_PANELS: Final = {
    "lr-jump": ("A jump of the learning rate", "spike.lr_jump"),
    "duplicate-batch": ("A batch that came twice", "spike.batch_lookback"),
    "long-tail-batch": ("A long-tail batch", "spike.grad_ratio"),
}

_HOLDS: Final = {True: Verdict.YES, False: Verdict.NO, None: Verdict.UNKNOWN}

# After a climbing loss, each of these is asked until one is the cause.
_OF_A_CLIMB: Final = ("Q4.2", "Q4.3", "Q4.4")

# A setting that changed more often than this did not change anywhere in particular.
_FEW_CHANGES = 3


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """One thing that could have happened: the question that asks for it, the answer and why."""

    what: str
    verdict: Verdict
    because: str
    question: str = ""
    limits: Mapping[str, Scalar] = field(default_factory=dict)


def panels_of(one: Incident) -> tuple[Panel, ...]:
    """Return the panels of Q2.3, of the spike that the diagnosis or a NaN's lead-up is."""
    return (one.lead_up or one.report.diagnosis).panels


def cause_of(one: Incident) -> tuple[Sureness, list[str]]:
    """Return how sure the log is of the cause, and what it says of it.

    Of a symptom a log shows that it holds, and not why. A setting that changed where it began is a
    cause that the log points at.
    """
    sureness, because = _told(one)
    found = (one.report.diagnosis, one.lead_up)
    changed = [f.evidence["changed"] for f in found if f is not None and "changed" in f.evidence]
    if changed:
        because = [f"{changed[0]}, near where the trouble began", *because]
        sureness = Sureness.POINTS if sureness is Sureness.HIDDEN else sureness
    return sureness, because


def _told(one: Incident) -> tuple[Sureness, list[str]]:
    found = one.report.diagnosis
    sureness = Sureness.POINTS
    if found.slug in _SHOWN:
        sureness = Sureness.SHOWN
    elif found.slug in _HIDDEN or not found.section.startswith("§"):
        sureness = Sureness.HIDDEN
    if found.section == "§2":
        guilty = [f"{_PANELS[p.branch][0]}: {p.because}" for p in found.panels if p.holds]
        if guilty:
            return sureness, guilty
        return Sureness.HIDDEN, [panel.because for panel in found.panels]
    questions = ("Q1.3", found.question) if found.section == "§1" else (found.question,)
    answers = [answer for q in questions if (answer := asked(one.report, q)) is not None]
    # Where the question had nothing to go by, nothing points anywhere; and without the fingerprint
    # of an overflow, an fp16 NaN may be of any kind.
    verdict = answers[0].verdict if answers else Verdict.UNKNOWN
    if verdict is Verdict.UNKNOWN or (found.question == "Q3.3" and verdict is Verdict.NO):
        sureness = Sureness.HIDDEN
    return sureness, [answer.because for answer in answers]


def suspects(one: Incident) -> Iterator[Suspect]:
    """Yield all suspects in the order of the tree; those of a NaN's lead-up count as well."""
    report = one.report
    climbs = _answer(report, "Q4.1")
    climbed = climbs is not None and climbs.branch == "material"
    for question, what in _ASKED.items():
        answer = _answer(report, question)
        if question == "Q2.3":
            yield from (_of_a_panel(report, panel) for panel in panels_of(one))
        elif answer is not None:
            yield _suspect(what, answer)
        elif question in _OF_A_CLIMB and climbed:
            yield _not_asked(question, "the tree ends at the first cause of a climb that it finds")
        elif question == "Q3.3" and report.diagnosis.slug == "nan-dtype-unknown":
            yield _not_asked(question, "the dtype is not known")
    yield from _settings(one)


def _answer(report: Report, question: str) -> Answer | None:
    return asked(report, question) or asked(report, question, AskedOf.LEAD_UP)


def _suspect(what: str, answer: Answer) -> Suspect:
    when = "before the NaN: " if answer.asked_of is AskedOf.LEAD_UP else ""
    return Suspect(
        question=answer.question,
        what=what,
        verdict=answer.verdict,
        because=f"{when}{answer.because}",
        limits=answer.limits,
    )


def _not_asked(question: str, why: str) -> Suspect:
    because = f"not asked: {why}"
    return Suspect(
        question=question, what=_ASKED[question], verdict=Verdict.UNKNOWN, because=because
    )


def _of_a_panel(report: Report, panel: Panel) -> Suspect:
    what, limit = _PANELS[panel.branch]
    return Suspect(
        question="Q2.3",
        what=f"{what} behind the spike",
        verdict=_HOLDS[panel.holds],
        because=panel.because,
        limits=report.limits.named((limit,)),
    )


def _settings(one: Incident) -> Iterator[Suspect]:
    """Yield that no setting changed where the trouble began, if this log has settings."""
    found = (one.report.diagnosis, one.lead_up)
    told = any(finding is not None and "changed" in finding.evidence for finding in found)
    settings = [
        setting.column
        for setting in one.report.history.group("setting").values()
        if np.count_nonzero(setting.values[1:] != setting.values[:-1]) <= _FEW_CHANGES
    ]
    if settings and not told and not one.report.literal and one.report.diagnosis.step is not None:
        yield Suspect(
            what="A setting that changed where it began",
            verdict=Verdict.NO,
            because=f"none of these changed near it: {', '.join(settings)}",
        )
