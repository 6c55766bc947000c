"""Causes that the tree considers: shown by the log, ruled out, or open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final

import numpy as np

from stabdiag.formats.postmortem import Incident, find_answer
from stabdiag.model.findings import Answer, AnswerScope, Panel, Verdict


class CauseEvidence(StrEnum):
    """How strongly a log supports a cause, as a sentence."""

    SHOWN = "The log shows the cause."
    POINTS = "The log points to a cause but does not prove it."
    HIDDEN = "The log does not show the cause."


# The log shows the cause of the first and not of the second; for others it points to one.
_SHOWN: Final = ("spike-lr-jump", "spike-duplicate-batch", "loss-scale-static")
_HIDDEN: Final = ("spike-recovered", "divergence-unexplained", "plateau")

# A "no" to these questions rules out a cause; a "no" to others (has the loss recovered?) does not.
_ASKED: Final = {
    "Q1.1": "A NaN or infinite loss",
    "Q2.1": "A loss spike",
    "Q2.3": "",  # replaced by its three panels
    "Q3.1": "Gradient overflow in fp16 or bf16",
    "Q3.2": "A loss scaler that cannot keep up",
    "Q3.3": "An fp16 overflow behind the NaN",
    "Q4.1": "A rising loss",
    "Q4.2": "A rising learning rate behind the climb",
    "Q4.3": "Growing or shrinking weights behind the climb",
    "Q4.4": "Growing gradients behind the climb",
}

# The cause that each panel of Q2.3 tests, and its limit.
_PANELS: Final = {
    "lr-jump": ("A learning rate jump", "spike.lr_jump"),
    "duplicate-batch": ("A repeated batch", "spike.batch_lookback"),
    "long-tail-batch": ("A long-tail batch", "spike.grad_ratio"),
}

_VERDICTS: Final = {True: Verdict.YES, False: Verdict.NO, None: Verdict.UNKNOWN}

# A setting that changed more often has no single change to point to.
_FEW_CHANGES: Final = 3


def find_panels(incident: Incident) -> tuple[Panel, ...]:
    """Return the panels of Q2.3 for the spike of the diagnosis or before the NaN."""
    return (incident.lead_up or incident.report.diagnosis).panels


def find_cause(incident: Incident) -> tuple[CauseEvidence, list[str]]:
    """Return the strength of the evidence for a cause, and the reasons.

    If a setting changed where the trouble began, the log points to it.
    """
    evidence, reasons = _tree_causes(incident)
    if incident.changed is not None:
        reasons = [f"{incident.changed[1]}, near where the trouble began", *reasons]
        evidence = CauseEvidence.POINTS if evidence is CauseEvidence.HIDDEN else evidence
    return evidence, reasons


def _tree_causes(incident: Incident) -> tuple[CauseEvidence, list[str]]:
    diagnosis = incident.report.diagnosis
    evidence = CauseEvidence.POINTS
    if diagnosis.slug in _SHOWN:
        evidence = CauseEvidence.SHOWN
    elif diagnosis.slug in _HIDDEN or diagnosis.section == "symptom":
        evidence = CauseEvidence.HIDDEN  # a symptom does not explain itself
    if diagnosis.section == "§2":
        guilty = [f"{_PANELS[p.branch][0]}: {p.because}" for p in diagnosis.panels if p.holds]
        if guilty:
            return evidence, guilty
        return CauseEvidence.HIDDEN, [panel.because for panel in diagnosis.panels]
    questions = ("Q1.3", diagnosis.question) if diagnosis.section == "§1" else (diagnosis.question,)
    answers = [answer for q in questions if (answer := find_answer(incident.report, q)) is not None]
    # An unknown answer points to no cause. Without the signature of an overflow, an fp16 NaN may
    # have any cause.
    verdict = answers[0].verdict if answers else Verdict.UNKNOWN
    if verdict is Verdict.UNKNOWN or (diagnosis.question == "Q3.3" and verdict is Verdict.NO):
        evidence = CauseEvidence.HIDDEN
    return evidence, [answer.because for answer in answers]


def suspects(incident: Incident) -> Iterator[Answer]:
    """Yield the answers about causes in the order of the tree, each phrased as a cause.

    Answers about the lead-up to a NaN count too. The answer of a question that was not asked says
    why it is open.
    """
    rises = _answer(incident, "Q4.1")
    unasked = {}
    if rises is not None and rises.branch == "material":
        reason = "not asked: the tree stops at the first cause of a climb"
        unasked = dict.fromkeys(("Q4.2", "Q4.3", "Q4.4"), reason)
    if incident.report.diagnosis.slug == "nan-dtype-unknown":
        unasked["Q3.3"] = "not asked: the dtype is unknown"
    for question, suspect in _ASKED.items():
        answer = _answer(incident, question)
        if question == "Q2.3":
            yield from (_panel_answer(incident, panel) for panel in find_panels(incident))
        elif answer is not None:
            prefix = "before the NaN: " if answer.scope is AnswerScope.LEAD_UP else ""
            yield replace(answer, asks=suspect, because=f"{prefix}{answer.because}")
        elif question in unasked:
            yield Answer(
                question=question, asks=suspect, verdict=Verdict.UNKNOWN, because=unasked[question]
            )
    yield from _settings(incident)


def _answer(incident: Incident, question: str) -> Answer | None:
    return find_answer(incident.report, question) or find_answer(
        incident.report, question, AnswerScope.LEAD_UP
    )


def _panel_answer(incident: Incident, panel: Panel) -> Answer:
    suspect, limit = _PANELS[panel.branch]
    return Answer(
        question="Q2.3",
        asks=f"{suspect} behind the spike",
        verdict=_VERDICTS[panel.holds],
        because=panel.because,
        limits=incident.report.limits.named((limit,)),
    )


def _settings(incident: Incident) -> Iterator[Answer]:
    """Yield that no setting changed near the onset, if the log has settings."""
    settings = [
        setting.column
        for setting in incident.report.history.group("setting").values()
        if np.count_nonzero(setting.values[1:] != setting.values[:-1]) <= _FEW_CHANGES
    ]
    has_step = incident.report.diagnosis.step is not None
    if settings and has_step and incident.changed is None and not incident.report.literal:
        yield Answer(
            question="",
            asks="A setting that changed where it began",
            verdict=Verdict.NO,
            because=f"none of the following changed near it: {', '.join(settings)}",
        )
