"""What is said of a run in which the tree found nothing, and what was not logged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.edges import BY_SLUG
from stabdiag.model.findings import (
    Action,
    ActionKind,
    Answer,
    Finding,
    Scalar,
    Verdict,
    open_questions,
)
from stabdiag.model.report import Missing, NotLogged
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.text import capitalised, listed, num, plural
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import MIN_TREND_POINTS, median, robust_sigma
from stabdiag.stats.tails import CLEAR
from stabdiag.tree.case import Case
from stabdiag.tree.changes import went
from stabdiag.tree.comparable import rose_with, to_compare
from stabdiag.tree.confidence import confidence_without_finding
from stabdiag.tree.precision import shows_overflows
from stabdiag.tree.progress import find_progress

# What the questions are about that a run in which nothing is found may leave open.
_MAIN = {"Q2.1": "spikes", "Q4.1": "climbs"}
_NONE = {"Q2.1": "no spike", "Q4.1": "no climb"}
_ABOUT = {**_MAIN, "Q3.1": "overflows"}

# Not all that was logged can be tested, however much it is.
_ENOUGH = "What was logged does not tell"

# What is told of a short log.
_COURSES = {
    "reward": "the reward",
    "loss": "the loss",
    "eval_loss": "the evaluation loss",
    "accuracy": "the accuracy",
    "eval_accuracy": "the evaluation accuracy",
    "grad_norm": "the gradient norm",
}

# What is told of a log without a loss.
_SIZES = ("activation_norm", "max_attention_logit", "amax")

# The largest numbers of fp16 (IEEE 754) and of e4m3 (Micikevicius et al. 2022, arXiv:2209.05433).
_FP16, _FP8 = float(np.finfo(np.float16).max), 448.0

# What the absence of each role costs, the most expensive first.
_COSTS: tuple[tuple[str, str], ...] = (
    ("grad_norm", "a spike's cause (Q2.3), overflows (Q3.1) and a climb's cause (Q4.4) stay open"),
    ("lr", "schedule jumps (Q2.3) and endless warm-ups (Q4.2) cannot be seen"),
    ("batch_id", "repeated batches (Q2.3) cannot be seen"),
    ("weight_norm", "weight decay as the cause of a climb (Q4.3) cannot be tested"),
    ("loss_scale", "whether the loss scaler copes (Q3.2) cannot be tested"),
)


def nothing_found(case: Case, answers: tuple[Answer, ...]) -> Finding:
    """Return ``healthy``, or ``insufficient-data`` where NaN, spikes or climbs are not tested."""
    open_ = open_questions(answers)
    told, check = ("", None)
    if len(case.loss) and "Q2.1" not in open_:
        told, check = _not_comparable(case)
    title = ""
    evidence: dict[str, Scalar] = {}
    if open_:
        leaf, summary = BY_SLUG["insufficient-data"], _too_little(case, answers, open_)
        most = max(len(case.loss), len(case.history.finite("reward")))
        title = _ENOUGH if most >= case.fewest_for_spikes else ""
        first = check or _log_more(case)
        told = told or " ".join(filter(None, (_course(case), _near_a_limit(case))))
    else:
        leaf, summary = BY_SLUG["healthy"], _healthy(case, answers)
        first = check or _next_run(case)
        progress = find_progress(case)
        told, evidence = f"{told} {progress.sentence}".strip(), progress.measured
    return Finding(
        slug=leaf.slug,
        severity=leaf.severity,
        section=leaf.section,
        question=answers[-1].question,
        title=title or leaf.title,
        summary=f"{_logged(case)}{summary}. {told}".rstrip(),
        actions=(first,),
        evidence=evidence,
        unit=case.unit,
        confidence=confidence_without_finding(
            tuple(answer.verdict for answer in answers), is_tested=not open_
        ),
    )


def not_logged(case: Case) -> tuple[NotLogged, ...]:
    """Return the roles that the log lacks, in the order of what they cost."""
    fp16 = case.manifest.dtype == "fp16"
    missing = [
        NotLogged(role=role, cost=cost)
        for role, cost in _COSTS
        if not case.history.group(role) and (role != "loss_scale" or fp16)
    ]
    # The advice on a NaN asks for the dtype itself.
    finite = len(case.loss) == len(case.history.get("loss") or ())
    if case.manifest.dtype is None and finite and shows_overflows(case):
        cost = "fp16 and bf16 overflows cannot be tested: set it in the manifest or by --dtype"
        missing.append(NotLogged(role="dtype (manifest)", cost=cost, kind=Missing.SETTING))
    if case.manifest.checkpoint_every is None and not case.manifest.checkpoints:
        cost = "the checkpoint to reload cannot be named: set it by --set checkpoint_every=N"
        missing.append(
            NotLogged(role="checkpoint cadence (manifest)", cost=cost, kind=Missing.SETTING)
        )
    return tuple(missing)


def _logged(case: Case) -> str:
    loss = case.history.get("loss")
    if loss is None:
        return "No loss was logged"
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    where = f"at {case.unit} {first}" if first == last else f"from {case.unit} {first} to {last}"
    return f"{plural(len(loss), 'loss', 'losses')} {where}"


def _healthy(case: Case, answers: tuple[Answer, ...]) -> str:
    left = [answer.question for answer in answers if answer.verdict is Verdict.UNKNOWN]
    told = ", ".join(_ABOUT.get(one, one) for one in left)
    unclear = f"; not testable: {told}" if left else ""
    if case.reward is not None:
        return f": no NaN, and {case.reward.column!r} did not fall{unclear}"
    return f": {case.none_of}{unclear}"


def _too_little(case: Case, answers: tuple[Answer, ...], open_: dict[str, Answer]) -> str:
    if not len(case.loss):
        answered = (one for one in answers if one.verdict is not Verdict.UNKNOWN)
        first = next((f". {capitalised(one.because)}" for one in answered), "")
        return f", so NaN, spikes and climbs cannot be tested{first}"
    known = [none for question, none in _NONE.items() if question not in open_]
    untested = [f"{_MAIN[one]} ({answer.because})" for one, answer in open_.items()]
    found = (one for one in answers if one.question == "Q3.1" and one.measured.get("overflows"))
    told = "".join(f". {capitalised(one.because)}" for one in found)
    return f": {listed(['no NaN', *known])}, but not tested for {listed(untested)}{told}"


def _course(case: Case) -> str:
    """Return where each series began and ended: in a short log, people see that themselves."""
    logged = [(name, case.history.finite(role).values) for role, name in _COURSES.items()]
    # Single rewards go up and down far more than losses.
    if len(logged[0][1]) >= case.fewest_for_spikes:
        logged[0] = ("the reward (medians of tenths)", levels(logged[0][1], 10))
    logged += () if len(case.loss) else _grown_most(case)
    courses: list[str] = []
    verb = ""
    for name, x in logged:
        if len(x) > 1:
            before, verb = verb, " went" if np.ptp(x) else " stayed"
            where = f"from {num(x[0])} to {num(x[-1])}" if np.ptp(x) else f"at {num(x[0])}"
            courses.append(f"{name}{'' if verb == before else verb} {where}")
    held = case.history.finite("eval_loss")
    if len(held) and held.values.min() < min(held.values[0], held.values[-1]):
        at = int(held.steps[held.values.argmin()])
        courses[-1] += (
            f"; the lowest evaluation loss was {num(held.values.min())}, at {case.unit} {at}"
        )
    x, told = case.loss.values, f"{capitalised(listed(courses))}." if courses else ""
    top = int(x.argmax()) if len(x) else 0
    if 0 < top < len(x) - 1 and x[top] - median(x) > CLEAR * robust_sigma(x):
        told += f" The highest loss was {num(x[top])}, at {case.unit} {int(case.loss.steps[top])}."
    return told


def _grown_most(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield what grew most of the sizes inside the network, by its column, and its values."""
    for role in _SIZES:
        groups = [one.finite() for one in case.history.group(role).values()]
        sizes = [one for one in groups if len(one) and one.values[0] > 0]
        if sizes:
            most = max(sizes, key=lambda one: float(one.values[-1] / one.values[0]))
            yield repr(most.column), most.values


def _near_a_limit(case: Case) -> str:
    """Say which of the largest activations came near what fp16 or fp8 holds, if no loss does.

    In the last power of two below what fp16 holds, or at just what fp8 is cut to.
    """
    logged = () if len(case.loss) else case.history.group("activation_norm").values()
    for series in (one.finite() for one in logged):
        most = float(np.max(series.values, initial=0))
        last = case.manifest.dtype in (None, "fp16") and _FP16 / 2 < most <= _FP16
        if last or most == _FP8:
            at = int(series.steps[np.argmax(series.values)])
            dtype, held = ("fp16", _FP16) if last else ("fp8 (e4m3)", _FP8)
            told = f"{series.column!r} came to {num(most, 5)} by {case.unit} {at}"
            return f"{told}: {dtype} holds at most {num(held, 5)}."
    return ""


def _next_run(case: Case) -> Action:
    """Return what to do about a run in which nothing was found."""
    missing = [one.role for one in not_logged(case) if one.kind is Missing.ROLE]
    if missing:
        text = f"Log {listed(missing)} in the next run, to have more tested."
        return Action(ActionKind.LOG_MORE, text)
    return Action(ActionKind.KEEP_GOING, "Keep this report to compare the next run with.")


def _log_more(case: Case) -> Action:
    """Return what to log, and how much of it the questions about spikes and climbs need."""
    needed = f"trends need {MIN_TREND_POINTS} losses, spikes {case.fewest_for_spikes}"
    if not len(case.loss) and len(case.history.finite("reward")):
        text = (
            "Log the losses of the policy and of the value function as well: the reward alone shows"
            f" neither NaN nor spikes ({needed})."
        )
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if not len(case.loss):
        text = f"Log the loss of every step, and diagnose again ({needed})."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if case.loss_kind is LossKind.RUNNING_SUM:
        text = "Log each loss, or divide the sum by the number of losses in it, and diagnose again."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if case.loss_kind is not None:
        text = f"Judge the run by another score: {case.loss_kind.about} tells of no progress."
        return Action(ActionKind.CHECK_EVALUATION, text)
    last = case.history.last_step or 0
    if case.manifest.total_steps in (last, last + 1):
        text = f"Log the loss more often in the next run ({needed})."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    logged = plural(len(case.loss), "loss", "losses")
    text = (
        f"Diagnose the whole log if these {logged} are a part of it, or log the loss more often"
        f" ({needed})."
    )
    return Action(ActionKind.LOG_MORE, text, setting="loss")


def _not_comparable(case: Case) -> tuple[str, Action | None]:
    """Return where the loss rose as it is measured on something else since, and what to check."""
    if case.reward is not None or case.loss_kind is not None:
        return "", None
    if case.shifts:
        shift, more = case.shifts[-1], len(case.shifts) - 1
        change, others = shift.changes[0], f" {plural(more, 'earlier rise')}, too." if more else ""
        told = (
            f"From {case.unit} {case.at(shift.spike.onset)} on the loss is higher "
            f"({num(shift.level)}, {num(shift.spike.level)} before), but not comparable: "
            f"{went(shift.changes)}.{others}"
        )
        name, text = (
            change.name,
            f"Check that the change of {change.name} {change.place} was meant.",
        )
        return told, Action(ActionKind.CHECK_SETTINGS, text, setting=name)
    if case.ramp is not None:
        told = f"{capitalised(rose_with(case, case.ramp))}. {capitalised(to_compare(case.ramp))}."
        text = f"Check that {case.ramp.name} was meant to change as it did."
        return told, Action(ActionKind.CHECK_SETTINGS, text, setting=case.ramp.name)
    return "", None
