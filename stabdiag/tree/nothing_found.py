"""What is said of a run in which the tree found nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Action, ActionKind, Answer, Finding, Verdict
from stabdiag.stats.rise import FEWEST
from stabdiag.tree.outcomes import BY_SLUG
from stabdiag.tree.remarks import climb_made_good, remark_on
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
        remark = remark_on(case)
        summary = f"{_logged(case)}: {_healthy(case, open_)}. {remark.told}".rstrip()
        first = Action(ActionKind.DO_NOTHING, f"Nothing needs to be done{remark.provided}.")
    else:
        summary, first = f"{_logged(case)}: {_too_little(case, open_)}.", _log_more(case)
    return Finding(
        slug=slug,
        severity=outcome.severity,
        section=outcome.section,
        question=trail[-1].question,
        title=outcome.title,
        summary=summary,
        actions=(first,),
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
    climbed = climb_made_good(case)
    lasted = f" that lasted ({climbed})" if climbed else ""
    return f"no NaN, no spike beyond this run's own noise, no climb{lasted}{unclear}"


def _too_little(case: Case, open_: set[str]) -> str:
    if not len(case.loss):
        return "nothing to judge by"
    if "Q4.1" in open_:
        return "too few to judge spikes or trends by"
    return "no NaN and no climb, but too few to judge spikes by"


def _log_more(case: Case) -> Action:
    """Return what to log, and how much of it the two main questions need."""
    needed = f"a trend takes {FEWEST} losses, a spike {case.fewest_for_spikes}"
    if not len(case.loss):
        return Action(
            ActionKind.LOG_MORE, f"Log the loss of every step, and diagnose again ({needed})."
        )
    return Action(
        ActionKind.KEEP_GOING,
        f"Let the run go on or log the loss more often, and diagnose again ({needed}).",
        also=(ActionKind.LOG_MORE,),
    )
