"""The report: everything that was found out about one run, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.findings import Severity, open_questions

if TYPE_CHECKING:
    from stabdiag.model.findings import Answer, Baseline, Finding
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class NotLogged:
    """A role that the log lacks, and what its absence costs the diagnosis."""

    role: str
    cost: str


@dataclass(frozen=True, kw_only=True)
class NotChecked:
    """A symptom that was not checked: which roles or manifest fields it lacked, or why else."""

    symptom: str
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def because(self) -> str:
        """Why, in words."""
        return self.reason or f"needs {', '.join(self.missing)}"


@dataclass(frozen=True, kw_only=True)
class Detected:
    """The first step up to which a log was enough to be diagnosed, and what was found of it."""

    step: int
    slug: str


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What the decision tree says: its own outcome, and the answers in the order of the walk.

    The outcome is ``healthy`` or ``insufficient-data`` where the tree found nothing, whatever was
    found beside it. Those answers that are about the lead-up to a NaN come last.
    """

    outcome: Finding
    answers: tuple[Answer, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report:
    """One diagnosis with all that led to it.

    ``findings`` are those of the tree and the symptoms, worst first; of equally bad ones the tree's
    go first, those of an earlier section before those of a later one. That the tree found nothing
    is a finding only where nothing else was found. ``not_checked`` names the symptoms that could
    not be checked, ``clear`` those that were and do not hold. ``baseline`` is what the losses were
    held against.
    """

    findings: tuple[Finding, ...]
    tree: Tree
    not_logged: tuple[NotLogged, ...]
    history: History
    manifest: Manifest
    limits: Limits
    literal: bool = False
    not_checked: tuple[NotChecked, ...] = ()
    clear: tuple[str, ...] = ()
    baseline: Baseline | None = None

    @property
    def diagnosis(self) -> Finding:
        """The worst finding."""
        return self.findings[0]

    @property
    def also_found(self) -> tuple[Finding, ...]:
        """All findings but the diagnosis."""
        return self.findings[1:]

    @property
    def ok(self) -> bool:
        """Whether there is neither an error nor a warning, and NaN, spikes and climbs were tested.

        What is noted may be worth a look all the same.
        """
        quiet = self.diagnosis.severity.rank >= Severity.NOTE.rank
        return quiet and not open_questions(self.tree.answers)

    @property
    def otherwise(self) -> str:
        """What the tree says of a run in which it found nothing, and a symptom did; else empty."""
        outcome = self.tree.outcome
        well = outcome.severity is Severity.OK and outcome.slug != self.diagnosis.slug
        return f"Otherwise: {outcome.summary}" if well else ""

    @property
    def lacking(self) -> list[str]:
        """What symptoms could not be checked for lack of, the most wanted first."""
        return lacking(self.not_checked)

    def __repr__(self) -> str:
        """Tell in one line which report this is; all of its data would fill a screen."""
        found, source = self.diagnosis, self.history.source
        step = "" if found.step is None else f", step {found.step}"
        return f"<Report on {source.name}: {found.severity.value}, {found.slug}{step}>"


def lacking(not_checked: tuple[NotChecked, ...]) -> list[str]:
    """Return what symptoms could not be checked for lack of, the most wanted first."""
    wanted = Counter(role for symptom in not_checked for role in symptom.missing)
    return [role for role, _ in wanted.most_common()]
