"""Causes that the tree asked about: some the log points at, some it rules out, some stay open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final

import numpy as np

from stabdiag.formats.postmortem import Incident, asked
from stabdiag.model.findings import Answer, AskedOf, Panel, Verdict


class Sureness(StrEnum):
    """How far a log can show a cause, as a sentence."""

    SHOWN = "The log shows the cause."
    POINTS = "The log points at a cause but does not prove it."
    HIDDEN = "The log does not show the cause."


# The log shows the cause of the first, does not of the second, and points at that of the others.
_SHOWN: Final = ("spike-lr-jump", "spike-duplicate-batch", "loss-scale-static")
_HIDDEN: Final = ("spike-recovered", "divergence-unexplained", "plateau")

# A "no" to these rules something out; "no" to the others (has the loss recovered?) does not.
_ASKED: Final = {
    "Q1.1": "A NaN or infinite loss",
    "Q2.1": "A loss spike",
    "Q2.3": "",  # its three panels stand here
    "Q3.1": "Gradient overflow in fp16 or bf16",
    "Q3.2": "A loss scaler that does not cope",
    "Q3.3": "An fp16 overflow behind the NaN",
    "Q4.1": "A rising loss",
    "Q4.2": "A rising learning rate behind the climb",
    "Q4.3": "Growing or shrinking weights behind the climb",
    "Q4.4": "Growing gradients behind the climb",
}

# What a panel of Q2.3 suspects, and the limit that it goes by.
_PANELS: Final = {
    "lr-jump": ("A learning rate jump", "spike.lr_jump"),
    "duplicate-batch": ("A repeated batch", "spike.batch_lookback"),
    "long-tail-batch": ("A long-tail batch", "spike.grad_ratio"),
}

_HOLDS: Final = {True: Verdict.YES, False: Verdict.NO, None: Verdict.UNKNOWN}

# A setting that changed more often than this did not change anywhere in particular.
_FEW_CHANGES: Final = 3


def panels_of(one: Incident) -> tuple[Panel, ...]:
    """Return the panels of Q2.3, of the spike that the diagnosis or a NaN's lead-up is."""
    return (one.lead_up or one.report.diagnosis).panels


def cause_of(one: Incident) -> tuple[Sureness, list[str]]:
    """Return how sure the log is of the cause, and what it says of it.

    A setting that changed where the trouble began is a cause that the log points at.
    """
    sureness, because = _by_the_tree(one)
    if one.changed is not None:
        because = [f"{one.changed[1]}, near where the trouble began", *because]
        sureness = Sureness.POINTS if sureness is Sureness.HIDDEN else sureness
    return sureness, because


def _by_the_tree(one: Incident) -> tuple[Sureness, list[str]]:
    found = one.report.diagnosis
    sureness = Sureness.POINTS
    if found.slug in _SHOWN:
        sureness = Sureness.SHOWN
    elif found.slug in _HIDDEN or found.section == "symptom":
        sureness = Sureness.HIDDEN  # that a symptom holds does not say why
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


def suspects(one: Incident) -> Iterator[Answer]:
    """Yield the answers about causes, in the order of the tree, each asked as a cause.

    Those about a NaN's lead-up count as well. Of a question that was not asked, the answer says why
    it stays open.
    """
    climbs = _answer(one, "Q4.1")
    unasked = {}
    if climbs is not None and climbs.branch == "material":
        why = "not asked: the tree stops at the first cause of a climb"
        unasked = dict.fromkeys(("Q4.2", "Q4.3", "Q4.4"), why)
    if one.report.diagnosis.slug == "nan-dtype-unknown":
        unasked["Q3.3"] = "not asked: the dtype is unknown"
    for question, what in _ASKED.items():
        answer = _answer(one, question)
        if question == "Q2.3":
            yield from (_of_a_panel(one, panel) for panel in panels_of(one))
        elif answer is not None:
            when = "before the NaN: " if answer.asked_of is AskedOf.LEAD_UP else ""
            yield replace(answer, asks=what, because=f"{when}{answer.because}")
        elif question in unasked:
            yield Answer(
                question=question, asks=what, verdict=Verdict.UNKNOWN, because=unasked[question]
            )
    yield from _settings(one)


def _answer(one: Incident, question: str) -> Answer | None:
    return asked(one.report, question) or asked(one.report, question, AskedOf.LEAD_UP)


def _of_a_panel(one: Incident, panel: Panel) -> Answer:
    what, limit = _PANELS[panel.branch]
    return Answer(
        question="Q2.3",
        asks=f"{what} behind the spike",
        verdict=_HOLDS[panel.holds],
        because=panel.because,
        limits=one.report.limits.named((limit,)),
    )


def _settings(one: Incident) -> Iterator[Answer]:
    """Yield that no setting changed where the trouble began, if this log has settings."""
    settings = [
        setting.column
        for setting in one.report.history.group("setting").values()
        if np.count_nonzero(setting.values[1:] != setting.values[:-1]) <= _FEW_CHANGES
    ]
    located = one.report.diagnosis.step is not None
    if settings and located and one.changed is None and not one.report.literal:
        yield Answer(
            question="",
            asks="A setting that changed where it began",
            verdict=Verdict.NO,
            because=f"none of these changed near it: {', '.join(settings)}",
        )
