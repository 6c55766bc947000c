"""The finding for a run without other findings, and the roles that were not logged."""

from __future__ import annotations

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
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.roles.names import is_fitness
from stabdiag.model.text import capitalized, listed, num, plural
from stabdiag.stats.standards import MIN_TREND_POINTS
from stabdiag.tree.case import Case
from stabdiag.tree.changes import describe_changes
from stabdiag.tree.comparable import comparison_advice, describe_ramp
from stabdiag.tree.confidence import confidence_without_finding
from stabdiag.tree.evaluations import describe_evaluations
from stabdiag.tree.flat_end import describe_flat_end
from stabdiag.tree.precision import shows_overflows
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.progress import find_progress, improved_score
from stabdiag.tree.short_log import describe_short_log

# The subjects of the questions that may stay open.
_MAIN = {"Q2.1": "spikes", "Q4.1": "climbs"}
_NONE = {"Q2.1": "no spike", "Q4.1": "no climb"}
_ABOUT = {**_MAIN, "Q3.1": "overflows"}

# The title for a long log that is still not testable.
_UNTESTABLE = "The logged series are not conclusive"

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
        title = _only_scores(case) or title
        first = check or _log_more(case)
        detail = detail or describe_short_log(case)
        if not len(case.loss):
            detail = f"{detail} {describe_flat_end(case)}".rstrip()
    else:
        leaf, summary = OUTCOME_BY_SLUG["healthy"], _healthy(case, answers)
        progress = find_progress(case)
        first = check or _next_run(case)
        parts = (
            detail,
            progress.sentence,
            describe_flat_end(case),
            *describe_evaluations(case),
            _low_start(case),
        )
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


def _only_scores(case: Case) -> str:
    """Return the title for a log of rewards or scores alone that improve, or ""."""
    if len(case.loss):
        return ""
    better = improved_score(case)
    if better is None:
        return ""
    return f"{better.name} improves, but no loss was logged"


def _low_start(case: Case) -> str:
    """Describe a first loss that only a trained model reaches, if the settings name none."""
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


def _healthy(case: Case, answers: tuple[Answer, ...]) -> str:
    untested = [answer.question for answer in answers if answer.verdict is Verdict.UNKNOWN]
    subjects = ", ".join(_ABOUT.get(question, question) for question in untested)
    unclear = f"; {subjects} could not be tested" if untested else ""
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


def _next_run(case: Case) -> Action:
    """Return the action for a run without findings."""
    missing = [entry.role for entry in not_logged(case) if entry.kind is Missing.ROLE]
    if missing:
        text = f"Log {listed(missing)} in the next run, so that more checks can run."
        return Action(ActionKind.LOG_MORE, text)
    return Action(ActionKind.KEEP_GOING, "Keep this report as a reference for the next run.")


def _log_more(case: Case) -> Action:
    """Return the action to log more, with the counts that spikes and climbs require."""
    needed = f"trends need {MIN_TREND_POINTS} losses, spikes {case.min_losses_for_spikes}"
    reward = case.history.get("reward")
    if not len(case.loss) and reward is not None and is_fitness(reward.column):
        text = (
            "Log the mean and the best fitness of each generation: if the mean follows the best, "
            f"the population has converged (trends need {MIN_TREND_POINTS} generations)."
        )
        return Action(ActionKind.LOG_MORE, text)
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
        f"Diagnose the whole log if {logged} only a part of it, or log the loss more often "
        f"({needed})."
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
