"""The report on one run, as data."""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from stabdiag.model.findings import RankedFindings, Severity, open_questions
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.names import RECORDED
from stabdiag.model.text import and_more, plural

if TYPE_CHECKING:
    from stabdiag.model.baseline import BaselineComparison
    from stabdiag.model.findings import Answer, Finding, RollingBaseline
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


# The number of missing series named for skipped checks.
_MAX_NAMED_SERIES = 2


class Missing(StrEnum):
    """The place of a missing input: among the series of the log, or among the settings."""

    ROLE = "role"
    SETTING = "setting"


@frozen(eq=True)
class NotLogged:
    """A missing role or setting, and its consequence for the diagnosis."""

    role: str
    cost: str
    kind: Missing = Missing.ROLE


@frozen(eq=True)
class NotChecked:
    """A symptom that was not checked: the missing roles or manifest fields, or another reason."""

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
        """Whether the check needs series that only the recorder writes."""
        return any(need.startswith(RECORDED) for need in self.missing)


@frozen(eq=True)
class Detection:
    """The first step where the problem was detectable, and the finding there."""

    step: int
    slug: str


@frozen(eq=True)
class Tree:
    """The result of the decision tree: its outcome, and the answers in order.

    The outcome is ``healthy`` or ``insufficient-data`` if the tree found nothing, even if a symptom
    was found. Answers about the lead-up to a NaN come last.
    """

    outcome: Finding
    answers: tuple[Answer, ...]


@frozen
class Report(RankedFindings):
    """A diagnosis with its evidence.

    ``findings`` come from the tree and the symptoms, worst first. Findings of equal severity are in
    the order of the tree, symptoms last. ``healthy`` is a finding only if it is alone.
    ``not_checked`` names the symptoms that could not be checked, ``clear`` the absent ones.
    ``rolling_baseline`` is the baseline of Q2.1 for each loss. ``baseline`` is the comparison with
    earlier good runs, if any were given.
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
        """Whether NaN, spikes and climbs were tested, without an error or a warning.

        Notes may still be worth a look.
        """
        quiet = self.diagnosis.severity.rank >= Severity.NOTE.rank
        return quiet and not open_questions(self.tree.answers)

    @property
    def otherwise(self) -> str:
        """The tree's summary if only symptoms were found, else empty."""
        outcome = self.tree.outcome
        well = outcome.severity is Severity.OK and outcome.slug != self.diagnosis.slug
        if not well:
            return ""
        # Figures that the diagnosis has are not repeated.
        sentences = re.split(r"(?<=\.) (?=[A-Z0-9])", outcome.summary)
        summary = self.diagnosis.summary
        new = [text for text in sentences if text.removesuffix(".") not in summary]
        return f"Otherwise: {' '.join(new)}"

    def __repr__(self) -> str:
        """Name the report in one line; all of its data would fill a screen."""
        finding, source = self.diagnosis, self.history.source
        step = "" if finding.step is None else f", step {finding.step}"
        return f"<Report on {source.name}: {finding.severity.value}, {finding.slug}{step}>"


# Needs that few runs can meet: settings, and series of reinforcement learning.
_NAMED_LAST: Final = ("manifest.", "reward", "policy_")


def skipped(not_checked: tuple[NotChecked, ...]) -> str:
    """Describe the number of skipped checks and the series most of them need.

    Checks that need a recorded run count only if nothing else is missing.
    """
    others = [check for check in not_checked if not check.needs_recorder]
    if not others:
        return f"{plural(len(not_checked), 'check')} skipped: stabdiag.torch not used"
    counts = Counter(need for check in others for need in check.missing)
    needs = sorted(counts, key=lambda need: (need.startswith(_NAMED_LAST), -counts[need]))
    names = [need.removeprefix("manifest.").partition(" or ")[0] for need in needs]
    number = plural(len(others), "check")
    if not names:
        return f"{number} skipped: too little was logged"
    were = "was" if len(names) == 1 else "were"
    return f"{number} skipped because {and_more(names, _MAX_NAMED_SERIES)} {were} not logged"
