"""The debugging checklists, filled in from a log and its manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stabdiag.checks import judged
from stabdiag.checks.facts import Facts, FixKind, fix_kinds
from stabdiag.model.checks import (
    Check,
    CheckReport,
    State,
    failed,
    manual,
    passed,
    titled,
    unknown,
)
from stabdiag.model.findings import ActionKind, Finding
from stabdiag.model.report import Report
from stabdiag.model.text import capitalized, kept_table, num, plural

# The headings of the lists.
_TEN_STEPS: Final = "Ten steps, in order"
_TRY: Final = "What to try, fast to invasive"
_HEALTH: Final = "Health signals"
_LAST_HEADING: Final = "Before you move on"

# Outcomes that advise a look at the data only because nothing else points to a cause.
_HIDDEN: Final = ("spike-recovered", "divergence-unexplained")


# The part of the training that a kind of fix concerns.
_AXES: Final = {
    FixKind.DATA: "the data",
    FixKind.RATE: "the optimizer: its learning rate",
    FixKind.DECAY: "the optimizer: its weight decay",
    FixKind.PRECISION: "the numerics",
    FixKind.MODEL: "the model",
}

# Series to log for each layer.
_PER_LAYER: Final = {
    "grad_norm": "gradient norms by layer",
    "weight_norm": "weight norms by layer",
    "activation_norm": "activation norms by layer",
}

_SAFE_OPERATIONS: Final = "Use the framework's safe versions: log_softmax, clamp, epsilons."


def checklist(report: Report) -> CheckReport:
    """Fill in the checklists from the report of one run."""
    facts, diagnosis = Facts(report=report), report.diagnosis
    steps = judged("steps", _TEN_STEPS, _CHECK_FUNCTIONS, facts, _ACTION_KINDS)
    interventions = judged("interventions", _TRY, _INTERVENTIONS, facts, _ACTION_KINDS)
    done = sum(check.state is State.PASSED for check in steps)
    return CheckReport(
        name="checklist",
        subject=report.history.source.name,
        summary=f"{diagnosis.title} ({diagnosis.slug}). The log shows {done} of "
        f"{plural(len(steps), 'step')} done.",
        checks=(*steps, *interventions, *_signals(facts), *_closing(steps)),
        begin=_first_intervention(facts, interventions),
    )


def _first_intervention(facts: Facts, interventions: tuple[Check, ...]) -> str | None:
    """Return the intervention to start with: the one of the diagnosis, else the first to try.

    A run without a failure needs none.
    """
    if not facts.has_failure:
        return None
    first = facts.report.diagnosis.actions[:1]
    for checks in (
        [check for check in interventions if check.actions[:1] == first],
        [check for check in interventions if check.state is State.FAILED],
        [check for check in interventions if check.state is not State.PASSED],
    ):
        if checks:
            return checks[0].slug
    return None


def _signals(facts: Facts) -> tuple[Check, ...]:
    """Check that each signal is logged; the loss scale only in fp16 runs, which have one."""
    checks = []
    for slug, title, why, role_names in kept_table("signals"):
        if slug == "loss-scale" and facts.manifest.dtype != "fp16":
            continue
        roles = role_names.split()
        count = sum(map(facts.logged, roles))
        check = failed(f"Not logged; {why}.", f"Log it as `{roles[0]}`.")
        if count:
            check = passed(f"{plural(count, 'point')}.")
        checks.append(titled(check, _HEALTH, slug, title, ActionKind.LOG_MORE))
    return tuple(checks)


def _closing(steps: tuple[Check, ...]) -> tuple[Check, ...]:
    """Answer the closing questions from the steps that they repeat."""
    by_slug = {check.slug: check for check in steps}
    order = (State.FAILED, State.UNKNOWN, State.MANUAL, State.PASSED)
    checks = []
    for slug, title, step_slugs in kept_table("closing"):
        answers = [by_slug[step] for step in step_slugs.split()]
        worst = min(answers, key=lambda check: order.index(check.state))
        checks.append(titled(replace(worst, actions=()), _LAST_HEADING, slug, title, None))
    return tuple(checks)


def _named(finding: Finding) -> str:
    return f"{finding.title} ({finding.slug})."


def _reproduce(facts: Facts) -> Check:
    seed = facts.manifest.seed
    recorded = f"The seed is {seed}, but one log does not show whether a second run fails alike."
    return manual(
        "Seed not recorded." if seed is None else recorded,
        f"{facts.reload}, fix all seeds, and run twice with one process and one loader worker. "
        "`stabdiag compare FIRST SECOND` shows where the runs diverge.",
        "If it does not fail at a smaller scale, look at distribution and at data races.",
    )


def _data(facts: Facts) -> Check:
    finding = facts.finding_with_fix(FixKind.DATA)
    do = (
        "Unit-test a batch: index range, labels that match inputs, lengths, masks.",
        "Feed a tiny synthetic batch through to check shapes and types.",
    )
    if finding is not None:
        return failed(_named(finding), finding.actions[0], *do)
    ids = "; no batch repeats" if facts.logged("batch_id") else ""
    return manual(
        f"Nothing in the log points to the data{ids}; it does not contain the batches.", *do
    )


def _pipeline(facts: Facts) -> Check:
    check, seed = _data(facts), facts.manifest.seed
    return check if seed is None else replace(check, summary=f"{check.summary} The seed is {seed}.")


def _instrument(facts: Facts) -> Check:
    groups = {role: facts.groups(role) for role in _PER_LAYER}
    missing = [role for role, count in groups.items() if not count]
    if not missing:
        counts = ", ".join(f"{role} ({count})" for role, count in groups.items())
        return passed(f"Logged by group: {counts}.")
    words = [_PER_LAYER[role] for role in missing]
    columns = ", ".join(f"{role}/<layer>" for role in missing)
    return failed(
        f"Not in the log: {', '.join(words)}.",
        f"Log {' and '.join(words)} about every ten steps: {columns}.",
    )


def _narrow(facts: Facts) -> Check:
    for finding in facts.report.findings if facts.has_failure else ():
        axes = [_AXES[fix] for fix in fix_kinds(finding) if fix in _AXES]
        if axes and finding.slug not in _HIDDEN:
            return passed(f"The log points to {axes[0]} ({finding.slug}).")
    return unknown(
        "The log does not distinguish them.",
        "Train a small model on the same data.",
        "Train the same model on a tiny synthetic set.",
        "Change one optimizer setting at a time.",
    )


def _precision(facts: Facts) -> Check:
    in_fp32 = (
        f"{facts.reload}, and run the same batches in fp32: if that works, precision is the cause."
    )
    # bf16 has the range of fp32 and needs no loss scale.
    if facts.manifest.dtype == "bf16":
        do = (in_fp32, "Keep softmax, layer norm and the loss in fp32.")
    else:
        do = (in_fp32, "Scale the loss dynamically, or switch to bf16.")
    diagnosis = facts.report.diagnosis
    if diagnosis.section != "§1":
        return _by_dtype(facts, facts.finding_with_fix(FixKind.PRECISION), do)
    return _by_dtype(facts, diagnosis, do)


def _loss_scale(facts: Facts) -> Check:
    do = "Run in fp32 or bf16. If it must be fp16, scale the loss dynamically."
    finding = facts.finding_with_fix(FixKind.PRECISION) if facts.manifest.dtype else None
    return _by_dtype(facts, finding, (do,))


def _by_dtype(facts: Facts, finding: Finding | None, do: tuple[str, ...]) -> Check:
    """Pass full precision, and mixed precision that no finding points to."""
    dtype = facts.manifest.dtype
    if dtype in ("fp32", "fp64"):
        return passed(f"The run is in {dtype}, so mixed precision is not the cause.")
    if finding is not None:
        advice = (finding.actions[0],) if FixKind.PRECISION in fix_kinds(finding) else do
        return failed(_named(finding), *advice)
    if dtype is None:
        return unknown("The dtype is unknown.", *do)
    return passed(f"The run is in {dtype}, and no finding points to it.")


def _learning_rate(facts: Facts) -> Check:
    finding, peak, warmup = facts.finding_with_fix(FixKind.RATE), facts.peak_rate, facts.warmup
    now = f" (now {num(peak)})" if peak else ""
    do = (
        f"Lower the peak learning rate{now} 3 to 10 times.",
        "Add or lengthen the warm-up, or use a gentler schedule.",
    )
    if finding is not None:
        # The finding has the number: other numbers would contradict it.
        return failed(_named(finding), finding.actions[0])
    diagnosis = facts.report.diagnosis
    lower = next((act for act in diagnosis.actions if ActionKind.LOWER_LR in act.kinds), None)
    if facts.has_failure and lower is not None:
        return failed(f"{_named(diagnosis)} The learning rate may be the cause.", lower)
    if warmup is not None:
        return passed(f"{capitalized(warmup)}, and no finding points to it.")
    if peak is None:
        return unknown("The log and the manifest lack the learning rate.", *do)
    if not facts.from_the_start:
        return unknown("The log begins after any warm-up.", *do)
    if not facts.has_failure:
        return passed("No sign of a warm-up, and no finding points to one.")
    return failed("No sign of a warm-up.", *do)


def _safety_nets(facts: Facts) -> Check:
    threshold = facts.manifest.grad_clip
    finding = facts.finding_with_fix(FixKind.DECAY) or facts.finding_with_fix(FixKind.CLIP)
    if finding is not None:
        return failed(_named(finding), finding.actions[0])
    do = (
        "Clip the global gradient norm at 1.0.",
        "Check weight decay and Adam's epsilon; try smaller batches for steadier updates.",
    )
    if threshold is None:
        return unknown("The manifest does not say whether gradients are clipped.", *do)
    if threshold <= 0:
        return failed("Gradient clipping is off.", *do)
    return passed(f"Gradients are clipped at {num(threshold)}.")


def _clip(facts: Facts) -> Check:
    threshold, finding = facts.manifest.grad_clip, facts.finding_with_fix(FixKind.CLIP)
    do = "Clip it at 1.0." if finding is None else finding.actions[0]
    if threshold is None:
        return unknown("The manifest does not say.", do)
    if threshold <= 0:
        return failed("It is off.", do)
    now = f"It is clipped at {num(threshold)}."
    return passed(now) if finding is None else failed(f"{now} {_named(finding)}", do)


def _architecture(facts: Facts) -> Check:
    finding, layers = facts.finding_with_fix(FixKind.MODEL), facts.groups("grad_norm")
    do = "Check normalization, attention masks and position encodings; replace suspects in turn."
    if finding is not None:
        return failed(_named(finding), finding.actions[0], do)
    norms = plural(layers, "gradient norm")
    searched = f"No unusual layer among {norms}; no log shows masks and encodings."
    return unknown(searched if layers else "Nothing is logged by layer.", do)


def _operations(facts: Facts) -> Check:
    finding, diagnosis = facts.finding_with_fix(FixKind.OPERATIONS), facts.report.diagnosis
    kinds = {kind for action in diagnosis.actions for kind in action.kinds}
    if finding is None and diagnosis.section == "§1" and ActionKind.INSPECT_LAYERS in kinds:
        finding = diagnosis
    if finding is not None:
        return failed(_named(finding), finding.actions[0], _SAFE_OPERATIONS)
    return manual("No log shows which operations the model uses.", _SAFE_OPERATIONS)


def _batch_size(facts: Facts) -> Check:
    size = facts.manifest.batch_size
    return manual(
        "Batch size not recorded." if size is None else f"The batch size is {size}.",
        "Halve the batch and the learning rate. Check that accumulated losses are divided by the "
        "number of micro-batches.",
    )


def _distributed(facts: Facts) -> Check:
    return manual(
        "The log of one process does not show what the others do.",
        "Check that gradients are averaged, and that loss scale and overflow settings agree on "
        "all ranks.",
        "Put a log of each rank in a folder: `stabdiag compare FOLDER` shows where ranks diverge, "
        "and which stopped first.",
        "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL, and find the first error in "
        "any rank's log.",
        "Print the sample indices on each rank (sampler.set_epoch).",
    )


def _minimal(facts: Facts) -> Check:
    return manual(
        "No log shows it.",
        "Reduce the run to the smallest script that fails, and report it with the log: "
        "`stabdiag diagnose LOG --format json`.",
    )


# The kind of the actions of each check, unless a finding provides them.
_ACTION_KINDS: Final = {
    "reproduce": ActionKind.RERUN,
    "data": ActionKind.INSPECT_DATA,
    "instrument": ActionKind.LOG_MORE,
    "narrow": ActionKind.TRY_SMALL,
    "precision": ActionKind.CHECK_PRECISION,
    "learning-rate": ActionKind.LOWER_LR,
    "safety-nets": ActionKind.CLIP_GRADIENTS,
    "architecture": ActionKind.CHECK_MODEL,
    "distributed": ActionKind.CHECK_RANKS,
    "minimal": ActionKind.TRY_SMALL,
    "try-rate": ActionKind.LOWER_LR,
    "try-precision": ActionKind.CHANGE_DTYPE,
    "try-clip": ActionKind.CLIP_GRADIENTS,
    "try-data": ActionKind.INSPECT_DATA,
    "try-operations": ActionKind.SAFE_OPERATIONS,
    "try-batch": ActionKind.CHANGE_BATCH,
    "try-bisect": ActionKind.TRY_SMALL,
}
_CHECK_FUNCTIONS: Final = {
    "reproduce": _reproduce,
    "data": _data,
    "instrument": _instrument,
    "narrow": _narrow,
    "precision": _precision,
    "learning-rate": _learning_rate,
    "safety-nets": _safety_nets,
    "architecture": _architecture,
    "distributed": _distributed,
    "minimal": _minimal,
}
_INTERVENTIONS: Final = {
    "try-rate": _learning_rate,
    "try-precision": _loss_scale,
    "try-clip": _clip,
    "try-data": _pipeline,
    "try-operations": _operations,
    "try-batch": _batch_size,
    "try-bisect": _minimal,
}
