"""What the tables and lists of a page hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.formats.deciding import decisive
from stabdiag.formats.json import MANIFEST_FIELDS
from stabdiag.formats.measured import changed_limits
from stabdiag.model.edges import QUESTIONS
from stabdiag.model.findings import AskedOf

if TYPE_CHECKING:
    from stabdiag.model.findings import Answer, Scalar
    from stabdiag.model.limits import LimitInfo
    from stabdiag.model.report import Report


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question of the tree, its answer if the walk came there, and its limits."""

    question: str
    asks: str
    answer: Answer | None
    limits: tuple[LimitInfo, ...]
    decisive: bool = False

    @property
    def verdict(self) -> str:
        """The answer in one word."""
        return self.answer.word if self.answer else "not asked"

    @property
    def lead_up(self) -> bool:
        """Whether it was asked of the steps before a NaN only."""
        return self.answer is not None and self.answer.asked_of is AskedOf.LEAD_UP


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A field of the manifest, and where its value is from."""

    name: str
    value: Scalar
    origin: str


def answers(report: Report) -> list[Asked]:
    """Return every question of the tree in its order, with what the walk made of it."""
    given = {answer.question: answer for answer in report.tree.answers}
    weighing = {answer.question for answer in decisive(report)}
    limits = {info.name: info for info in report.limits.items()}
    return [
        Asked(
            question=question.id,
            asks=question.asked(report.limits),
            answer=given.get(question.id),
            limits=tuple(limits[name] for name in question.limits),
            decisive=question.id in weighing,
        )
        for question in QUESTIONS
    ]


def reading(report: Report) -> list[tuple[str, str]]:
    """Return what was assumed, left out or changed while the log was read."""
    events = [(event.kind.value, event.message) for event in report.history.notes]
    return [*(("limit", told) for told in changed_limits(report.limits)), *events]


def manifest(report: Report) -> list[Setting]:
    """Return the fields of the manifest that are known."""
    known = report.manifest
    settings = []
    for name in MANIFEST_FIELDS:
        value = getattr(known, name)
        if value is not None:
            settings.append(Setting(name=name, value=value, origin=_origin(report, name)))
    return settings


def _origin(report: Report, name: str) -> str:
    known = report.manifest
    if name in known.overridden:
        return "set by a flag"
    if name in known.inferred:
        return f"inferred: {known.inferred[name]}"
    return "the log tells it" if name in known.logged else "manifest"
