"""The report on one run, as data."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from stabdiag.model.findings import Diagnosed, Severity, open_questions
from stabdiag.model.frozen import frozen
from stabdiag.model.text import and_more, plural

if TYPE_CHECKING:
    from stabdiag.model.baseline import BaselineComparison
    from stabdiag.model.findings import Answer, Finding, RollingBaseline
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


# What the skipped checks lacked: so much of it is named.
_NAMED = 2

# Roles that only the recorder writes.
_RECORDED = "recorder/"


class Missing(StrEnum):
    """Where something is missing: among the series of the log, or among the settings."""

    ROLE = "role"
    SETTING = "setting"


@frozen(eq=True)
class NotLogged:
    """A role or setting that is missing, and what that costs the diagnosis."""

    role: str
    cost: str
    kind: Missing = Missing.ROLE


@frozen(eq=True)
class NotChecked:
    """A symptom that was not checked: which roles or manifest fields it lacked, or why else."""

    symptom: str
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def because(self) -> str:
        """Why, in words."""
        if self.needs_recorder:
            return "needs a run that stabdiag.torch recorded"
        return self.reason or f"needs {', '.join(self.missing)}"

    @property
    def needs_recorder(self) -> bool:
        """Whether it needs what only the recorder writes."""
        return any(need.startswith(_RECORDED) for need in self.missing)


@frozen(eq=True)
class Detected:
    """The first step at which the trouble was detectable, and what was found there."""

    step: int
    slug: str


@frozen(eq=True)
class Tree:
    """What the decision tree says: its own outcome, and the answers in the order of the walk.

    The outcome is ``healthy`` or ``insufficient-data`` if the tree found nothing, even if a symptom
    was found. Answers about the lead-up to a NaN come last.
    """

    outcome: Finding
    answers: tuple[Answer, ...]


@frozen
class Report(Diagnosed):
    """One diagnosis with all that led to it.

    ``findings`` are those of the tree and the symptoms, worst first. Equally bad ones are in the
    order of the tree, symptoms last. ``healthy`` is a finding only if nothing else was found.
    ``not_checked`` names the symptoms that could not be checked, ``clear`` those that do not hold.
    ``rolling_baseline`` is what Q2.1 compared each loss with. ``baseline`` is how the run compares
    with earlier good runs, if any were given.
    """

    tree: Tree
    not_logged: tuple[NotLogged, ...]
    history: History
    manifest: Manifest
    limits: Limits
    literal: bool = False
    not_checked: tuple[NotChecked, ...] = ()
    clear: tuple[str, ...] = ()
    rolling_baseline: RollingBaseline | None = None
    baseline: BaselineComparison | None = None

    @property
    def ok(self) -> bool:
        """Whether there is neither an error nor a warning, and NaN, spikes and climbs were tested.

        Notes may still be worth a look.
        """
        quiet = self.diagnosis.severity.rank >= Severity.NOTE.rank
        return quiet and not open_questions(self.tree.answers)

    @property
    def otherwise(self) -> str:
        """The tree's summary of a run in which only a symptom was found; else empty."""
        outcome = self.tree.outcome
        well = outcome.severity is Severity.OK and outcome.slug != self.diagnosis.slug
        return f"Otherwise: {outcome.summary}" if well else ""

    def __repr__(self) -> str:
        """Name the report in one line; all of its data would fill a screen."""
        found, source = self.diagnosis, self.history.source
        step = "" if found.step is None else f", step {found.step}"
        return f"<Report on {source.name}: {found.severity.value}, {found.slug}{step}>"


def skipped(not_checked: tuple[NotChecked, ...]) -> str:
    """Return how many checks were skipped, and what most of them lacked; logged roles first."""
    recorded = sum(check.needs_recorder for check in not_checked)
    others = [check for check in not_checked if not check.needs_recorder]
    wanted = Counter(need for check in others for need in check.missing)
    needs = sorted(wanted, key=lambda need: (need.startswith("manifest."), -wanted[need]))
    names = [need.removeprefix("manifest.").partition(" or ")[0] for need in needs]
    why = f"{and_more(names, _NAMED)} not logged" if names else "too little to go by"
    if recorded:
        need = f"{recorded} need stabdiag.torch"
        why = f"{why}; {need}" if others else need
    return f"{plural(len(not_checked), 'check')} skipped: {why}"
