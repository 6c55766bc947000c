"""Causes that the tree considers: shown by the log, ruled out, or open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.formats.postmortem import Incident, find_answer
from stabdiag.model.findings import Answer, AnswerScope, Panel, Verdict

# The questions that name a cause, by the section of the diagnosis; Q2.3 has its panels.
_CAUSE_QUESTIONS: Final = {
    "§1": ("Q1.3", "Q2.3", "Q3.3"),
    "§2": ("Q2.3",),
    "§3": ("Q3.2",),
    "§4": ("Q4.2", "Q4.3", "Q4.4"),
}

# A "no" to these questions rules out a cause; a "no" to others (has the loss recovered?) does not.
_SUSPECTS: Final = {
    "Q1.1": "A NaN or infinite loss",
    "Q1.3": "Where the NaN began",
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


def find_causes(incident: Incident) -> list[Answer]:
    """Return the causes that the tree names, and the setting that changed where it began."""
    questions = _CAUSE_QUESTIONS.get(incident.report.diagnosis.section, ())
    causes = [
        answer
        for answer in suspects(incident)
        if answer.verdict is Verdict.YES and answer.question in questions
    ]
    if incident.changed is None:
        return causes
    changed = Answer(
        question="",
        asks="A changed setting",
        verdict=Verdict.YES,
        because=f"{incident.changed[1]}, near where the trouble began",
    )
    return [changed, *causes]


def suspects(incident: Incident) -> Iterator[Answer]:
    """Yield the answers about causes in the order of the tree, each phrased as a cause.

    Answers about the lead-up to a NaN count too. The answer of a question that was not asked says
    why it is open.
    """
    rises = _answer(incident, "Q4.1")
    skipped = {}
    if rises is not None and rises.branch == "material":
        reason = "not asked: the tree stops at the first cause of a climb"
        skipped = dict.fromkeys(("Q4.2", "Q4.3", "Q4.4"), reason)
    if incident.report.diagnosis.slug == "nan-dtype-unknown":
        skipped["Q3.3"] = "not asked: the dtype is unknown"
    for question, suspect in _SUSPECTS.items():
        answer = _answer(incident, question)
        if question == "Q2.3":
            yield from (_panel_answer(incident, panel) for panel in find_panels(incident))
        elif answer is not None:
            prefix = "before the NaN: " if answer.scope is AnswerScope.LEAD_UP else ""
            yield replace(answer, asks=suspect, because=f"{prefix}{answer.because}")
        elif question in skipped:
            yield Answer(
                question=question, asks=suspect, verdict=Verdict.UNKNOWN, because=skipped[question]
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
