"""All causes that the tree asks for, and what the log answered to each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stabdiag.findings import Answer, AskedOf, Scalar, Verdict
from stabdiag.postmortem.incident import asked
from stabdiag.tree.changes import stepped_settings, went

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.postmortem.study import Study
    from stabdiag.report import Report
    from stabdiag.tree.panels import Panel


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """One thing that could have happened: the question that asks for it, the answer and why."""

    question: str
    what: str
    verdict: Verdict
    because: str
    limits: Mapping[str, Scalar] = field(default_factory=dict)


# A "no" to these rules something out; "no" to the others (has the loss recovered?) does not.
_ASKED: Final = {
    "Q1.1": "A NaN or infinite loss",
    "Q2.1": "A spike of the loss",
    "Q3.1": "Gradients that overflow in fp16 or bf16",
    "Q3.2": "A loss scaler that does not cope",
    "Q3.3": "An fp16 overflow behind the NaN",
    "Q4.1": "A loss that climbs",
    "Q4.2": "A learning rate that rises, behind the climb",
    "Q4.3": "Weights that grow or shrink, behind the climb",
    "Q4.4": "Gradients that grow, behind the climb",
}

# What a panel of Q2.3 suspects, and the limits that it goes by.
_PANELS: Final = {
    "lr-jump": ("A jump of the learning rate behind the spike", ("spike.lr_jump",)),
    "duplicate-batch": ("A batch that came twice behind the spike", ("spike.batch_lookback",)),
    "long-tail-batch": ("A long-tail batch behind the spike", ("spike.grad_ratio",)),
}

_HOLDS: Final = {True: Verdict.YES, False: Verdict.NO, None: Verdict.UNKNOWN}

# After a loss that climbs, each of these is asked until one is the cause.
_OF_A_CLIMB: Final = ("Q4.2", "Q4.3", "Q4.4")


def suspects(told: Study) -> Iterator[Suspect]:
    """Yield all suspects in the order of the tree; those of a NaN's lead-up count as well."""
    report, panels = told.report, told.panels
    climbs = _answer(report, "Q4.1")
    for question, what in _ASKED.items():
        answer = _answer(report, question)
        if question == "Q3.1":
            yield from _of_the_spike(report, panels)
        if answer is not None:
            yield _suspect(what, answer)
        elif question in _OF_A_CLIMB and climbs is not None and climbs.branch == "material":
            because = "not asked: the tree ends at the first cause of a climb that it finds"
            yield Suspect(question=question, what=what, verdict=Verdict.UNKNOWN, because=because)
    if report.diagnosis.slug == "nan-dtype-unknown":
        yield Suspect(
            question="Q3.3",
            what=_ASKED["Q3.3"],
            verdict=Verdict.UNKNOWN,
            because="not asked: the dtype is not known",
        )

    yield from _settings(told)


def _settings(told: Study) -> Iterator[Suspect]:
    """Yield whether a setting changed where the trouble began, if any changes in this log."""
    settings = stepped_settings(told.report.history)
    if not settings or told.report.literal or told.report.diagnosis.step is None:
        return
    names = ", ".join(one.column for one in settings)
    none = f"no change lies within a few logged points of where it began (of {names})"
    yield Suspect(
        question="",
        what="A setting that changed where it began",
        verdict=Verdict.YES if told.changes else Verdict.NO,
        because=went(told.changes) or none,
    )


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


def _of_the_spike(report: Report, panels: tuple[Panel, ...]) -> Iterator[Suspect]:
    for panel in panels:
        what, names = _PANELS[panel.branch]
        yield Suspect(
            question="Q2.3",
            what=what,
            verdict=_HOLDS[panel.holds],
            because=panel.because,
            limits=report.limits.named(names),
        )
