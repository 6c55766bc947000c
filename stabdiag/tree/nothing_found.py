"""The finding for a run without other findings, and the roles that were not logged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.edges import OUTCOME_BY_SLUG
from stabdiag.model.events import EventCode
from stabdiag.model.findings import (
    Action,
    ActionKind,
    Answer,
    Finding,
    Scalar,
    Verdict,
    open_questions,
)
from stabdiag.model.history import Series
from stabdiag.model.report import Missing, NotLogged
from stabdiag.model.roles.loss_kinds import GENERATOR, LossKind
from stabdiag.model.roles.names import is_evaluation, is_perplexity, name_words
from stabdiag.model.text import EXACT_FIGURES, capitalized, listed, num, percent, plural
from stabdiag.stats.course import position_after
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, robust_sigma
from stabdiag.stats.standards import (
    CLEAR,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    RELATIVE_TOLERANCE,
    TENTHS,
)
from stabdiag.tree.case import Case
from stabdiag.tree.changes import describe_changes
from stabdiag.tree.comparable import comparison_advice, describe_ramp
from stabdiag.tree.confidence import confidence_without_finding
from stabdiag.tree.evaluations import describe_evaluations
from stabdiag.tree.precision import shows_overflows
from stabdiag.tree.pretraining import (
    USUAL_CLASSES,
    chance_loss,
    has_chance_level,
    starts_pretrained,
)
from stabdiag.tree.progress import SHOWN_SCORES, find_progress

# The subjects of the questions that may stay open.
_MAIN = {"Q2.1": "spikes", "Q4.1": "climbs"}
_NONE = {"Q2.1": "no spike", "Q4.1": "no climb"}
_ABOUT = {**_MAIN, "Q3.1": "overflows"}

# The title for a long log that is still not testable.
_UNTESTABLE = "The logged series are not conclusive"

# The series reported for a short log.
_COURSES = {
    "reward": "the reward",
    "loss": "the loss",
    "eval_loss": "the evaluation loss",
    "accuracy": "the accuracy",
    "eval_accuracy": "the evaluation accuracy",
    "grad_norm": "the gradient norm",
}

# Scores are reported if none of these were logged.
_MEASURES = ("reward", "accuracy", "eval_accuracy")

# The series reported for a log without a loss.
_SIZES = ("activation_norm", "max_attention_logit", "amax")

# The largest numbers of fp16 (IEEE 754) and of e4m3 (Micikevicius et al. 2022, arXiv:2209.05433).
_FP16, _FP8 = float(np.finfo(np.float16).max), 448.0

# The cost of each missing role, in descending order.
_COSTS: tuple[tuple[str, str], ...] = (
    ("grad_norm", "a spike's cause (Q2.3), overflows (Q3.1) and a climb's cause (Q4.4) stay open"),
    ("lr", "schedule jumps (Q2.3) and endless warm-ups (Q4.2) cannot be seen"),
    ("batch_id", "repeated batches (Q2.3) cannot be seen"),
    ("weight_norm", "weight decay as the cause of a climb (Q4.3) cannot be tested"),
    ("loss_scale", "whether the loss scaler copes (Q3.2) cannot be tested"),
)


_TRAINED = Action(
    ActionKind.CHECK_MODEL,
    "If it should improve, check requires_grad, that the optimizer has the parameters to train "
    "(adapters), and the learning rate.",
)


def nothing_found(case: Case, answers: tuple[Answer, ...]) -> Finding:
    """Return ``healthy``, or ``insufficient-data`` if NaN, spikes or climbs are not testable."""
    open_ = open_questions(answers)
    detail, check = ("", None)
    if len(case.loss) and "Q2.1" not in open_:
        detail, check = _not_comparable(case)
    title = ""
    evidence: dict[str, Scalar] = {}
    if open_:
        leaf, summary = OUTCOME_BY_SLUG["insufficient-data"], _too_little(case, answers, open_)
        count = max(len(case.loss), len(case.history.finite("reward")))
        title = _UNTESTABLE if count >= case.min_losses_for_spikes else ""
        first = check or _log_more(case)
        detail = detail or " ".join(
            filter(
                None,
                (
                    describe_course(case),
                    _lost_rewards(case),
                    _near_chance(case),
                    _activation_near_limit(case),
                ),
            )
        )
    else:
        leaf, summary = OUTCOME_BY_SLUG["healthy"], _healthy(case, answers)
        progress = find_progress(case)
        first = check or _next_run(case)
        parts = (detail, progress.sentence, *describe_evaluations(case), _low_start(case))
        detail = " ".join(filter(None, parts))
        evidence = progress.measured
        if progress.better is False and starts_pretrained(case):
            detail = f"{detail} Nothing improved beyond its noise; the model was trained before."
            first = check or _TRAINED
    return Finding(
        slug=leaf.slug,
        severity=leaf.severity,
        section=leaf.section,
        question=answers[-1].question,
        title=title or leaf.title,
        summary=f"{_logged(case)}{summary}. {detail}".rstrip(),
        actions=(first,),
        evidence=evidence,
        unit=case.unit,
        confidence=confidence_without_finding(
            tuple(answer.verdict for answer in answers), is_tested=not open_
        ),
    )


def _low_start(case: Case) -> str:
    """Describe a first loss far below that of an untrained model whose settings name none."""
    chance = chance_loss(case)
    # A model that the settings name, or a log that begins later, explains it.
    if chance is None or case.names_pretrained_model is not None or not starts_pretrained(case):
        return ""
    if int(case.loss.steps[0]) > max(MIN_TREND_POINTS, 2 * case.stride):
        return ""
    return (
        f"The first loss, {num(float(case.loss.values[0]))}, is far below the {num(chance)} of an "
        f"untrained model with {case.manifest.vocab_size} classes: the run continues a trained "
        "model, or the loss is not a mean in nats."
    )


def not_logged(case: Case) -> tuple[NotLogged, ...]:
    """Return the roles missing in the log, in the order of their cost."""
    fp16 = case.manifest.dtype == "fp16"
    missing = [
        NotLogged(role=role, cost=cost)
        for role, cost in _COSTS
        if not case.history.group(role) and (role != "loss_scale" or fp16)
    ]
    # The advice on a NaN already asks for the dtype.
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
    loss, reward = case.history.get("loss"), case.history.finite("reward")
    if loss is not None:
        return f"{plural(len(loss), 'loss', 'losses')} {_where(case, loss)}"
    if len(reward):
        return f"{plural(len(reward), 'reward')} {_where(case, reward)}. No loss was logged"
    return "No loss was logged"


def _where(case: Case, series: Series) -> str:
    first, last = int(series.steps[0]), int(series.steps[-1])
    return f"at {case.unit} {first}" if first == last else f"from {case.unit} {first} to {last}"


def _lost_rewards(case: Case) -> str:
    """Describe rewards that are not finite at the end: they are means over episodes that ended."""
    reward = case.history.get("reward")
    if reward is None or np.isfinite(reward.values[-2:]).any():
        return ""
    first = position_after(np.isfinite(reward.values))
    since = f" from {case.unit} {reward.steps[first]} on" if len(reward) > 1 else ""
    return (
        f"The reward {reward.column!r} is not finite{since}: no episode ended, the environment "
        "does not record episodes (Monitor), or the policy is NaN."
    )


def _healthy(case: Case, answers: tuple[Answer, ...]) -> str:
    untested = [answer.question for answer in answers if answer.verdict is Verdict.UNKNOWN]
    subjects = ", ".join(_ABOUT.get(question, question) for question in untested)
    unclear = f"; not testable: {subjects}" if untested else ""
    if case.reward is not None:
        return f": no NaN, and {case.reward.column!r} did not fall{unclear}"
    return f": {case.negative_result}{unclear}"


def _too_little(case: Case, answers: tuple[Answer, ...], open_: dict[str, Answer]) -> str:
    if not len(case.loss):
        answered = (answer for answer in answers if answer.verdict is not Verdict.UNKNOWN)
        first = next((f". {capitalized(answer.because)}" for answer in answered), "")
        return f", so NaN, spikes and climbs cannot be tested{first}"
    codes = {event.code for event in case.history.events}
    first = " after the first loss" if EventCode.INITIAL_NAN in codes else ""
    absent = [none for question, none in _NONE.items() if question not in open_]
    untested = [f"{_MAIN[question]} ({answer.because})" for question, answer in open_.items()]
    overflows = "".join(
        f". {capitalized(answer.because)}"
        for answer in answers
        if answer.question == "Q3.1" and answer.measured.get("overflows")
    )
    return (
        f": {listed([f'no NaN{first}', *absent])}, but not tested for {listed(untested)}{overflows}"
    )


def describe_course(case: Case) -> str:
    """Describe the first and last value of each series, and the highest loss if it is unusual.

    If the loss ends above its start, its lowest value is added. A series may have only one value.
    """
    series = ((name, case.history.finite(role)) for role, name in _COURSES.items())
    logged = [(_named(name, values.column), values.values) for name, values in series]
    # Single rewards vary far more than losses.
    if len(logged[0][1]) >= case.min_losses_for_spikes:
        logged[0] = ("the reward (medians of tenths)", levels(logged[0][1], TENTHS))
    logged += () if len(case.loss) else (*_largest_growth(case),)
    logged += (*_rivals(case),)
    if not len(case.loss) or not any(len(case.history.finite(role)) for role in _MEASURES):
        logged += (*_scores(case),)
    else:
        # The model finds nothing, though most of the picture or of the examples is right.
        logged += tuple((name, x) for name, x in _scores(case) if len(x) and x[-1] == 0)
    courses: list[str] = []
    verb = ""
    for name, x in logged:
        if len(x):
            previous, (verb, values) = verb, _first_to_last(x)
            courses.append(f"{name}{'' if verb == previous else verb} {values}")
    evaluations = case.history.finite("eval_loss")
    x = evaluations.values
    if len(x) and x.min() < min(x[0], x[-1]):
        best_step = int(evaluations.steps[x.argmin()])
        courses[-1] += (
            f"; the lowest evaluation loss was {num(x.min())}, at {case.unit} {best_step}"
        )
    x, text = case.loss.values, f"{capitalized(listed(courses))}." if courses else ""
    top = int(x.argmax()) if len(x) else 0
    if 0 < top < len(x) - 1 and x[top] - median(x) > CLEAR * robust_sigma(x):
        text += f" The highest loss was {num(x[top])}, at {case.unit} {int(case.loss.steps[top])}."
    low = int(x.argmin()) if len(x) else 0
    if len(x) and x[low] < x[0] < x[-1]:
        text += f" The lowest loss was {num(x[low])}, at {case.unit} {int(case.loss.steps[low])}."
    return text


def _near_chance(case: Case) -> str:
    """Describe losses that are all near the loss of a guess among a usual number of classes."""
    x = case.loss.values
    if len(x) < MIN_CONSECUTIVE or not has_chance_level(case):
        return ""
    for classes in USUAL_CLASSES:
        cost = math.log(classes)
        if np.abs(x - cost).max() <= RELATIVE_TOLERANCE * cost:
            summary = f"All losses are within {percent(RELATIVE_TOLERANCE)} of {num(cost)}"
            return f"{summary}, the loss of a guess among {classes} classes."
    return ""


def _named(name: str, column: str) -> str:
    """Return the name of a series in a report.

    A perplexity, or the loss of an evaluation, may be logged instead of a training loss.
    """
    name = _COURSES["eval_loss"] if name == _COURSES["loss"] and is_evaluation(column) else name
    return name.replace("loss", "perplexity") if is_perplexity(column) else name


def _first_to_last(x: Floats) -> tuple[str, str]:
    """Return the verb and the values that describe the course of a series."""
    if len(x) == 1:
        return " was", num(x[0])
    if np.ptp(x):
        return " went", f"from {num(x[0])} to {num(x[-1])}"
    return " stayed", f"at {num(x[0])}"


def _rivals(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield the column and values of the loss of a generator next to that of its discriminator."""
    if case.loss_kind is LossKind.ADVERSARIAL:
        others = case.history.group("other_loss").values()
        rivals = (series for series in others if GENERATOR & {*name_words(series.column)})
        yield from ((repr(series.column), series.finite().values) for series in islice(rivals, 1))


def _largest_growth(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield the column and values that grew most, for each kind of size inside the network."""
    for role in _SIZES:
        groups = [series.finite() for series in case.history.group(role).values()]
        sizes = [series for series in groups if len(series) and series.values[0] > 0]
        if sizes:
            largest = max(sizes, key=lambda series: float(series.values[-1] / series.values[0]))
            yield repr(largest.column), largest.values


def _scores(case: Case) -> Iterator[tuple[str, Floats]]:
    """Yield the column and values of the first scores."""
    for series in islice(case.history.group("score").values(), SHOWN_SCORES):
        yield repr(series.column), series.finite().values


def _activation_near_limit(case: Case) -> str:
    """Describe an activation near the fp16 or fp8 limit in a log without a loss.

    Near means within a factor of 2 of the fp16 maximum, or exactly at the fp8 clipping value.
    """
    logged = () if len(case.loss) else case.history.group("activation_norm").values()
    for series in (activation.finite() for activation in logged):
        peak = float(np.max(series.values, initial=0))
        is_near_fp16 = case.manifest.dtype in (None, "fp16") and _FP16 / 2 < peak <= _FP16
        if is_near_fp16 or peak == _FP8:
            step = int(series.steps[np.argmax(series.values)])
            dtype, limit = ("fp16", _FP16) if is_near_fp16 else ("fp8 (e4m3)", _FP8)
            text = f"{series.column!r} reached {num(peak, EXACT_FIGURES)} by {case.unit} {step}"
            return f"{text}: the maximum of {dtype} is {num(limit, EXACT_FIGURES)}."
    return ""


def _next_run(case: Case) -> Action:
    """Return the action for a run without findings."""
    missing = [entry.role for entry in not_logged(case) if entry.kind is Missing.ROLE]
    if missing:
        text = f"Log {listed(missing)} in the next run, so that more can be tested."
        return Action(ActionKind.LOG_MORE, text)
    return Action(ActionKind.KEEP_GOING, "Keep this report to compare the next run with.")


def _log_more(case: Case) -> Action:
    """Return the action to log more, with the counts that spikes and climbs require."""
    needed = f"trends need {MIN_TREND_POINTS} losses, spikes {case.min_losses_for_spikes}"
    if not len(case.loss) and len(case.history.finite("reward")):
        text = (
            "Log the training loss as well, for a policy also the loss of the value function: NaN "
            f"and spikes do not show in the reward ({needed})."
        )
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if not len(case.loss):
        text = f"Log the loss of every step, and diagnose again ({needed})."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if case.loss_kind is LossKind.RUNNING_SUM:
        text = "Log each loss, or divide the sum by the number of losses in it, and diagnose again."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    if case.loss_kind is not None:
        text = f"Judge the run by another score: {case.loss_kind.about} does not show progress."
        return Action(ActionKind.CHECK_EVALUATION, text)
    last = case.history.last_step or 0
    if case.manifest.total_steps in (last, last + 1):
        text = f"Log the loss more often in the next run ({needed})."
        return Action(ActionKind.LOG_MORE, text, setting="loss")
    count = len(case.loss)
    logged = "this loss is" if count == 1 else f"these {count} losses are"
    text = (
        f"Diagnose the whole log if {logged} a part of it, or log the loss more often ({needed})."
    )
    return Action(ActionKind.LOG_MORE, text, setting="loss")


def _not_comparable(case: Case) -> tuple[str, Action | None]:
    """Describe a rise of the loss at a change of the objective, and what to check."""
    if case.reward is not None or case.loss_kind is not None:
        return "", None
    if case.objective_changes:
        latest, earlier = case.objective_changes[-1], len(case.objective_changes) - 1
        others = f" {plural(earlier, 'earlier rise')}, too." if earlier else ""
        detail = (
            f"From {case.unit} {case.at(latest.spike.onset)} on the loss is higher "
            f"({num(latest.level)}, {num(latest.spike.level)} before), but not comparable: "
            f"{describe_changes(latest.changes)}.{others}"
        )
        change = latest.changes[0]
        text = f"Check that the change of {change.name} {change.place} was intended."
        return detail, Action(ActionKind.CHECK_SETTINGS, text, setting=change.name)
    if case.ramp is not None:
        clauses = (describe_ramp(case, case.ramp), comparison_advice(case.ramp))
        detail = " ".join(f"{capitalized(clause)}." for clause in clauses)
        text = f"Check that {case.ramp.name} was intended to change like this."
        return detail, Action(ActionKind.CHECK_SETTINGS, text, setting=case.ramp.name)
    return "", None
