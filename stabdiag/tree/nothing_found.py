"""What is said of a run in which the tree found nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Answer, Finding, Verdict
from stabdiag.stats.rise import FEWEST
from stabdiag.tree.changes import went
from stabdiag.tree.made_good import made_good
from stabdiag.tree.outcomes import BY_SLUG
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# What the questions are about that a healthy run may leave open.
_ABOUT = {"Q2.1": "spikes", "Q3.1": "overflows", "Q4.1": "climbs"}


def nothing_found(case: Case, trail: tuple[Answer, ...]) -> Finding:
    """Return ``healthy``, or ``insufficient-data`` where the main questions could not be asked.

    A climb shows in fewer losses than it takes to be sure that there is none.
    """
    open_ = {answer.question for answer in trail if answer.verdict is Verdict.UNKNOWN}
    few = len(case.loss) < case.limits.divergence.min_points
    slug = "insufficient-data" if "Q2.1" in open_ and (few or "Q4.1" in open_) else "healthy"
    outcome = BY_SLUG[slug]
    if slug == "healthy":
        summary, first = _healthy(case, open_), f"Nothing needs to be done{_if_meant(case)}."
    else:
        summary, first = _too_little(case, open_), _log_more(case)
    return Finding(
        slug=slug,
        severity=outcome.severity,
        section=outcome.section,
        question=trail[-1].question,
        title=outcome.title,
        summary=f"{_logged(case)}: {summary}.{_shifted(case)}",
        first_action=first,
    )


def _logged(case: Case) -> str:
    loss = case.history.get("loss")
    if loss is None:
        return "No loss was logged"
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    where = f"at step {first}" if first == last else f"from step {first} to {last}"
    return f"{plural(len(loss), 'loss', 'losses')} {where}"


def _healthy(case: Case, open_: set[str]) -> str:
    told = ", ".join(f"{_ABOUT[one]} ({one})" if one in _ABOUT else one for one in sorted(open_))
    unclear = f"; not testable: {told}" if open_ else ""
    if case.reward is not None:
        return f"no NaN, and {case.reward.column!r} has not fallen{unclear}"
    if open_.intersection(("Q2.1", "Q4.1")):
        return f"nothing wrong in what could be tested{unclear}"
    if case.literal:
        limits = case.limits
        return (
            f"no NaN, no loss above μ+{num(limits.spike.sigma)}σ, no rise at every step of the "
            f"last {limits.divergence.window}{unclear}"
        )
    lasted, climbed = "", made_good(case)
    if climbed is not None:
        lasted = (
            f" that lasted (it rose from {num(climbed.low)} near step {climbed.low_step} to "
            f"{num(climbed.high)} near step {climbed.high_step}, and came back)"
        )
    return f"no NaN, no spike beyond this run's own noise, no climb{lasted}{unclear}"


def _shifted(case: Case) -> str:
    """Return where the loss rose for good as it is measured on something else since."""
    if not case.shifts:
        return ""
    shift, more = case.shifts[-1], len(case.shifts) - 1
    others = f" The same holds of {plural(more, 'earlier rise')}." if more else ""
    return (
        f" From step {case.at(shift.spike.onset)} on the loss is higher, {num(shift.spike.level)} "
        f"before and {num(shift.level)} after, as {went(shift.changes)}: the two are not "
        f"comparable.{others}"
    )


def _if_meant(case: Case) -> str:
    """Return on what condition a loss that rose for good is well: the log cannot tell it."""
    if not case.shifts:
        return ""
    change = case.shifts[-1].changes[0]
    return f", if the change of {change.name} {change.place} was meant"


def _too_little(case: Case, open_: set[str]) -> str:
    if not len(case.loss):
        return "nothing to judge by"
    if "Q4.1" in open_:
        return "too few to judge spikes or trends by"
    return "no NaN and no climb, but too few to judge spikes by"


def _log_more(case: Case) -> str:
    """Return what to log, and how much of it the two main questions need."""
    needed = f"a trend takes {FEWEST} losses, a spike {case.fewest_for_spikes}"
    if not len(case.loss):
        return f"Log the loss of every step, and diagnose again ({needed})."
    return f"Let the run go on or log the loss more often, and diagnose again ({needed})."
