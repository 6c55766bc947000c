"""The debugging checklists, filled in from a log and its manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stabdiag.checks import judged
from stabdiag.checks.facts import Facts, FixKind, fix_kinds
from stabdiag.model.checks import (
    Checklist,
    ChecklistItem,
    ChecklistReport,
    State,
    failed,
    passed,
    unknown,
)
from stabdiag.model.findings import ActionKind, Finding
from stabdiag.model.report import Report
from stabdiag.model.text import capitalized, kept_table, num, plural

_DONE: Final = {State.PASSED: "done", State.FAILED: "not done", State.UNKNOWN: "cannot tell"}
_TRIED: Final = {State.PASSED: "tried", State.FAILED: "not tried", State.UNKNOWN: "cannot tell"}
_LOGGED: Final = {State.PASSED: "logged", State.FAILED: "not logged", State.UNKNOWN: "cannot tell"}

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

# What to log for each layer.
_PER_LAYER: Final = {
    "grad_norm": "gradient norms by layer",
    "weight_norm": "weight norms by layer",
    "activation_norm": "activation norms by layer",
}

_SAFE_OPERATIONS: Final = "Use the framework's safe versions: log_softmax, clamp, epsilons."


def checklist(report: Report) -> ChecklistReport:
    """Fill in the checklists from the report of one run."""
    facts, diagnosis = Facts(report=report), report.diagnosis
    steps = judged("steps", _STEPS, facts)
    interventions = judged("interventions", _INTERVENTIONS, facts)
    begin = next((item.slug for item in interventions if item.state is not State.PASSED), None)
    done = sum(item.state is State.PASSED for item in steps)
    return ChecklistReport(
        name="checklist",
        subject=report.history.source.name,
        summary=f"{diagnosis.title} ({diagnosis.slug}). The log shows {done} of "
        f"{plural(len(steps), 'step')} done.",
        lists=(
            Checklist(title="Ten steps, in order", words=_DONE, items=steps),
            Checklist(
                title="What to try, fast to invasive",
                words=_TRIED,
                items=interventions,
                begin=begin,
            ),
            Checklist(title="Health signals", words=_LOGGED, items=_signals(facts)),
            Checklist(title="Before you move on", words=_DONE, items=_closing(steps)),
        ),
    )


def _signals(facts: Facts) -> tuple[ChecklistItem, ...]:
    """Check that each signal is logged; the loss scale only in fp16 runs, which have one."""
    items = []
    for slug, title, why, role_names in kept_table("signals"):
        if slug == "loss-scale" and facts.manifest.dtype != "fp16":
            continue
        roles = role_names.split()
        count = sum(map(facts.logged, roles))
        item = failed(f"Not logged; {why}.", f"Log it as `{roles[0]}`.")
        if count:
            item = passed(f"{plural(count, 'point')}.")
        items.append(replace(item, slug=slug, title=title))
    return tuple(items)


def _closing(steps: tuple[ChecklistItem, ...]) -> tuple[ChecklistItem, ...]:
    """Answer the closing questions from the steps that they repeat."""
    by_slug = {item.slug: item for item in steps}
    order = (State.FAILED, State.UNKNOWN, State.PASSED)
    items = []
    for slug, title, step_slugs in kept_table("closing"):
        answers = [by_slug[step] for step in step_slugs.split()]
        worst = min(answers, key=lambda item: order.index(item.state))
        items.append(replace(worst, slug=slug, title=title, do=()))
    return tuple(items)


def _named(finding: Finding) -> str:
    return f"{finding.title} ({finding.slug})."


def _reproduce(facts: Facts) -> ChecklistItem:
    seed = facts.manifest.seed
    recorded = f"The seed is {seed}, but one log does not show whether a second run fails alike."
    return unknown(
        "Seed not recorded." if seed is None else recorded,
        f"{facts.reload}, fix all seeds, and run twice with one process and one loader worker. "
        "`stabdiag compare FIRST SECOND` shows where the runs diverge.",
        "If it does not fail at a smaller scale, look at distribution and at data races.",
    )


def _data(facts: Facts) -> ChecklistItem:
    finding = facts.finding_with_fix(FixKind.DATA)
    do = (
        "Unit-test a batch: index range, labels that match inputs, lengths, masks.",
        "Feed a tiny synthetic batch through to check shapes and types.",
    )
    if finding is not None:
        return failed(_named(finding), finding.first_action, *do)
    ids = "; no batch repeats" if facts.logged("batch_id") else ""
    return unknown(f"Nothing in the log points to the data{ids}; no log shows a batch.", *do)


def _pipeline(facts: Facts) -> ChecklistItem:
    item, seed = _data(facts), facts.manifest.seed
    return item if seed is None else replace(item, because=f"{item.because} The seed is {seed}.")


def _instrument(facts: Facts) -> ChecklistItem:
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


def _narrow(facts: Facts) -> ChecklistItem:
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


def _precision(facts: Facts) -> ChecklistItem:
    do = (
        f"{facts.reload}, and run the same batches in fp32: if that works, precision is the cause.",
        "Scale the loss dynamically, or switch to bf16.",
    )
    diagnosis = facts.report.diagnosis
    if diagnosis.section != "§1":
        return _by_dtype(facts, facts.finding_with_fix(FixKind.PRECISION), do)
    return _by_dtype(facts, diagnosis, do)


def _loss_scale(facts: Facts) -> ChecklistItem:
    do = "Run in fp32 or bf16. If it must be fp16, scale the loss dynamically."
    finding = facts.finding_with_fix(FixKind.PRECISION) if facts.manifest.dtype else None
    return _by_dtype(facts, finding, (do,))


def _by_dtype(facts: Facts, finding: Finding | None, do: tuple[str, ...]) -> ChecklistItem:
    """Pass full precision, and mixed precision that no finding points to."""
    dtype = facts.manifest.dtype
    if dtype in ("fp32", "fp64"):
        return passed(f"The run is in {dtype}, so mixed precision is not the cause.")
    if finding is not None:
        return failed(_named(finding), *do)
    if dtype is None:
        return unknown("The dtype is unknown.", *do)
    return passed(f"The run is in {dtype}, and no finding points to it.")


def _learning_rate(facts: Facts) -> ChecklistItem:
    finding, peak, warmup = facts.finding_with_fix(FixKind.RATE), facts.peak_rate, facts.warmup
    now = f" (now {num(peak)})" if peak else ""
    do = (
        f"Lower the peak learning rate{now} 3 to 10 times.",
        "Add or lengthen the warm-up, or use a gentler schedule.",
    )
    if finding is not None:
        # A rate of 0 cannot be lowered.
        return failed(_named(finding), finding.first_action, *(() if peak == 0 else do))
    if warmup is not None:
        return passed(f"{capitalized(warmup)}, and no finding points to it.")
    if peak is None:
        return unknown("The log and the manifest lack the learning rate.", *do)
    if not facts.from_the_start:
        return unknown("The log begins after any warm-up.", *do)
    return failed("No sign of a warm-up.", *do)


def _safety_nets(facts: Facts) -> ChecklistItem:
    threshold = facts.manifest.grad_clip
    finding = facts.finding_with_fix(FixKind.DECAY) or facts.finding_with_fix(FixKind.CLIP)
    if finding is not None:
        return failed(_named(finding), finding.first_action)
    do = (
        "Clip the global gradient norm at 1.0.",
        "Check weight decay and Adam's epsilon; try smaller batches for steadier updates.",
    )
    if threshold is None:
        return unknown("The manifest does not say whether gradients are clipped.", *do)
    if threshold <= 0:
        return failed("Gradient clipping is off.", *do)
    return passed(f"Gradients are clipped at {num(threshold)}.")


def _clip(facts: Facts) -> ChecklistItem:
    threshold, finding = facts.manifest.grad_clip, facts.finding_with_fix(FixKind.CLIP)
    do = "Clip it at 1.0." if finding is None else finding.first_action
    if threshold is None:
        return unknown("The manifest does not say.", do)
    if threshold <= 0:
        return failed("It is off.", do)
    now = f"It is clipped at {num(threshold)}."
    return passed(now) if finding is None else failed(f"{now} {_named(finding)}", do)


def _architecture(facts: Facts) -> ChecklistItem:
    finding, layers = facts.finding_with_fix(FixKind.MODEL), facts.groups("grad_norm")
    do = "Check normalization, attention masks and position encodings; replace suspects in turn."
    if finding is not None:
        return failed(_named(finding), finding.first_action, do)
    norms = plural(layers, "gradient norm")
    searched = f"No unusual layer among {norms}; no log shows masks and encodings."
    return unknown(searched if layers else "Nothing is logged by layer.", do)


def _operations(facts: Facts) -> ChecklistItem:
    finding, diagnosis = facts.finding_with_fix(FixKind.OPERATIONS), facts.report.diagnosis
    kinds = {kind for action in diagnosis.actions for kind in action.kinds}
    if finding is None and diagnosis.section == "§1" and ActionKind.INSPECT_LAYERS in kinds:
        finding = diagnosis
    if finding is not None:
        return failed(_named(finding), finding.first_action, _SAFE_OPERATIONS)
    return unknown("No log shows which operations the model uses.", _SAFE_OPERATIONS)


def _batch_size(facts: Facts) -> ChecklistItem:
    size = facts.manifest.batch_size
    return unknown(
        "Batch size not recorded." if size is None else f"The batch size is {size}.",
        "Halve the batch and the learning rate. Check that accumulated losses are divided by the "
        "number of micro-batches.",
    )


def _distributed(facts: Facts) -> ChecklistItem:
    return unknown(
        "The log of one process does not show what the others do.",
        "Check that gradients are averaged, and that loss scale and overflow settings agree on "
        "all ranks.",
        "Put a log of each rank in a folder: `stabdiag compare FOLDER` shows where ranks diverge, "
        "and which stopped first.",
        "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL, and find the first error in "
        "any rank's log.",
        "Print the sample indices on each rank (sampler.set_epoch).",
    )


def _minimal(facts: Facts) -> ChecklistItem:
    return unknown(
        "No log shows it.",
        "Reduce the run to the smallest script that fails, and report it with the log: "
        "`stabdiag diagnose LOG --format json`.",
    )


_STEPS: Final = {
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
