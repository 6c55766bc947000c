"""Everything that a comparison with a baseline can find: one row per finding."""

from __future__ import annotations

from typing import Final

from stabdiag.model.baseline import BaselineStatus
from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.frozen import frozen


@frozen
class BaselineOutcome:
    """One possible finding; ``next_actions`` follow the actions that name the cause in this run."""

    slug: str
    severity: Severity
    title: str
    next_actions: tuple[Action, ...] = ()


WORSE: Final = BaselineOutcome(
    slug="worse-than-baseline",
    severity=Severity.WARNING,
    title="Worse than the baseline",
    next_actions=(
        Action(
            ActionKind.INSPECT_DATA,
            "Compare code, data and package versions between this run and a reference.",
        ),
        Action(
            ActionKind.RERUN,
            "Repeat a reference with today's code: if it ends worse too, the code or the data "
            "changed, and not the settings.",
        ),
    ),
)

UNLIKE: Final = BaselineOutcome(
    slug="unlike-baseline",
    severity=Severity.WARNING,
    title="Unlike the baseline",
    next_actions=(
        Action(
            ActionKind.CHECK_LOSS_FUNCTION,
            "Check the first steps: the reduction of the loss, the initial weights, the order and "
            "the preprocessing of the data.",
            also=(ActionKind.CHECK_MODEL, ActionKind.INSPECT_DATA),
        ),
    ),
)

BETTER: Final = BaselineOutcome(
    slug="better-than-baseline", severity=Severity.NOTE, title="Better than the baseline"
)

LEFT: Final = BaselineOutcome(
    slug="left-baseline", severity=Severity.NOTE, title="Left the baseline and came back"
)

UNUSABLE: Final = BaselineOutcome(
    slug="baseline-unusable", severity=Severity.NOTE, title="No baseline to compare with"
)

BASELINE_OUTCOMES: Final = (WORSE, UNLIKE, BETTER, LEFT, UNUSABLE)

BASELINE_OUTCOME_BY_SLUG: Final = {outcome.slug: outcome for outcome in BASELINE_OUTCOMES}

BY_STATUS: Final = {
    BaselineStatus.WORSE: WORSE,
    BaselineStatus.UNLIKE: UNLIKE,
    BaselineStatus.BETTER: BETTER,
    BaselineStatus.LEFT: LEFT,
    BaselineStatus.UNUSABLE: UNUSABLE,
}
