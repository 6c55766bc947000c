"""What is said of a run in which the tree found nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind, Answer, Finding, Verdict, open_questions
from stabdiag.model.leaves import BY_SLUG
from stabdiag.model.text import listed, num, plural
from stabdiag.stats.rise import FEWEST
from stabdiag.tree.remarks import Remark, climb_made_good, remark_on
from stabdiag.tree.unlogged import not_logged

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# What the questions are about that a run in which nothing is found may leave open.
_MAIN = {"Q2.1": "spikes", "Q4.1": "climbs"}
_ABOUT = {**_MAIN, "Q3.1": "overflows"}


def nothing_found(case: Case, answers: tuple[Answer, ...]) -> Finding:
    """Return ``healthy``, or ``insufficient-data`` where NaN, spikes or climbs are not tested."""
    open_ = open_questions(answers)
    remark = remark_on(case) if len(case.loss) and "Q2.1" not in open_ else Remark()
    if open_:
        outcome = BY_SLUG["insufficient-data"]
        summary, first = _too_little(case, open_), remark.first or _too_few(case)
    else:
        outcome = BY_SLUG["healthy"]
        summary, first = _healthy(case, answers), remark.first or _next_run(case)
    return Finding(
        slug=outcome.slug,
        severity=outcome.severity,
        section=outcome.section,
        question=answers[-1].question,
        title=outcome.title,
        summary=f"{_logged(case)}{summary}. {remark.told}".rstrip(),
        actions=(first,),
    )


def _logged(case: Case) -> str:
    loss = case.history.get("loss")
    if loss is None:
        return "No loss was logged"
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    where = f"at step {first}" if first == last else f"from step {first} to {last}"
    return f"{plural(len(loss), 'loss', 'losses')} {where}"


def _healthy(case: Case, answers: tuple[Answer, ...]) -> str:
    left = [answer.question for answer in answers if answer.verdict is Verdict.UNKNOWN]
    told = ", ".join(f"{_ABOUT[one]} ({one})" if one in _ABOUT else one for one in left)
    unclear = f"; not testable: {told}" if left else ""
    if case.reward is not None:
        return f": no NaN, and {case.reward.column!r} has not fallen{unclear}"
    if case.literal:
        limits = case.limits
        return (
            f": no NaN, no loss above μ+{num(limits.spike.sigma)}σ, no rise at every step of the "
            f"last {limits.divergence.window}{unclear}; nothing was looked for beside the tree"
        )
    climbed = climb_made_good(case)
    lasted = f" that lasted ({climbed})" if climbed else ""
    return f": no NaN, no spike beyond this run's own noise, no climb{lasted}{unclear}"


def _too_little(case: Case, open_: dict[str, Answer]) -> str:
    if not len(case.loss):
        return ": nothing to judge by"
    known = [f"no {what[:-1]}" for one, what in _MAIN.items() if one not in open_]
    untested = [f"{_MAIN[one]} ({one}: {answer.because})" for one, answer in open_.items()]
    return f": {listed(['no NaN', *known])}, but not tested for {listed(untested)}"


def _next_run(case: Case) -> Action:
    """Return what to do about a run in which nothing was found."""
    missing = [one.role for one in not_logged(case) if "manifest" not in one.role]
    if missing:
        text = f"Log {listed(missing)} in the next run as well, so that more can be tested."
        return Action(ActionKind.LOG_MORE, text)
    text = "Keep this report, to compare the next run with it."
    return Action(ActionKind.KEEP_GOING, text)


def _too_few(case: Case) -> Action:
    """Return what to log, and how much of it the questions about spikes and climbs need."""
    needed = f"a trend takes {FEWEST} losses, a spike {case.fewest_for_spikes}"
    if not len(case.loss):
        text = f"Log the loss of every step, and diagnose again ({needed})."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if case.history.contested is not None:
        text = f"Judge the run by another score: its loss, {case.history.contested}, is none."
        return Action(ActionKind.CHECK_EVALUATION, text)
    text = f"Let the run go on or log the loss more often, and diagnose again ({needed})."
    return Action(ActionKind.KEEP_GOING, text, also=(ActionKind.LOG_MORE,))
