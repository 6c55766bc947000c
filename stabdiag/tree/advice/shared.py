"""Shared parts of the advice: settings to change, and settings that changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.findings import (
    RATE,
    Action,
    ActionKind,
    Change,
    Finding,
    Scalar,
    Severity,
)
from stabdiag.model.frozen import frozen
from stabdiag.model.ranges import ADAMW_DECAY, CLIP, FIRST_CLIP, L2_DECAY
from stabdiag.model.text import listed, num, plural, whole
from stabdiag.tree.case import Case
from stabdiag.tree.causes import usual_stride
from stabdiag.tree.changes import (
    MAX_NAMED,
    NearbyChange,
    describe_changes,
    find_setting_outlier,
    near_spike,
    nearby_changes,
)

_SERIES = {
    "grad_norm": "gradient norm",
    "lr": "learning rate",
    "batch_id": "batch id",
    "loss_scale": "loss scale",
    "weight_norm": "weight norm of each group",
}

# The log shows the cause of these leaves.
_EXPLAINED: Final = ("spike-lr-jump", "spike-duplicate-batch", "divergence-lr-rising", "plateau")

CHECK_INITIALISATION = Action(
    ActionKind.CHECK_MODEL, "Check the initialization and the scale of the residual stream."
)
KEEP_IN_FP32 = Action(ActionKind.SAFE_OPERATIONS, "Keep softmax, layer norm and the loss in fp32.")
RESTORE_SCHEDULE = Action(
    ActionKind.FIX_SCHEDULE,
    "Check that a resume restores the scheduler, and that its phases connect without a jump.",
)
TO_BF16 = Change(setting="dtype", from_="fp16", to="bf16")

# The state that a resume has to restore.
STATE = "the optimizer's moments, the schedule, the scaler and the position in the data"

# Adds the weight decay to the gradient, where smaller values are usual.
_SGD_FAMILY = frozenset({"sgd", "nesterov", "momentum", "rmsprop"})

# In these frameworks Adam decouples the weight decay by default, like AdamW.
_DECOUPLED = ("megatron", "deepspeed", "fairseq")

# A level of the loss is the median of this many losses.
LEVEL = 21


@frozen
class Advice:
    """The advice of a leaf on a run: the summary, the first action and further actions.

    ``step`` is the onset. ``reload`` is the clause on the checkpoint to reload, and ``began`` the
    step that this checkpoint precedes, if it is not the onset. ``back`` is as in ``Finding``.
    ``title`` and ``severity`` override the leaf.
    """

    summary: str
    first: Action
    next_actions: tuple[Action, ...]
    step: int | None = None
    reload: str = ""
    began: int | None = None
    back: int | None = None
    title: str = ""
    severity: Severity | None = None


def shown(value: Scalar) -> str:
    """Format a measured value."""
    return num(value) if isinstance(value, int | float) else str(value)


@frozen
class Setting:
    """A setting to change: an imperative clause or a value in words, its name and its values."""

    words: str
    name: str
    now: float | None = None
    new: float | None = None

    def __str__(self) -> str:
        """Return the words."""
        return self.words

    @property
    def change(self) -> Change:
        """The fields of an action that changes the setting."""
        return Change(setting=self.name, from_=self.now, to=self.new)


@frozen
class Decay(Setting):
    """A change of the weight decay: an imperative clause, and its kind."""

    kind: ActionKind
    name: str = "weight_decay"


def clip(case: Case) -> Setting:
    """Return the clip threshold for a restart, and the current one if known."""
    now = case.manifest.grad_clip
    if now is None:
        return Setting(words=num(CLIP), name="grad_clip", new=CLIP)
    # A threshold of 0 or less turns clipping off.
    if now <= 0:
        return Setting(words=f"{num(FIRST_CLIP)} (now off)", name="grad_clip", new=FIRST_CLIP)
    lower = now / 2 if now <= CLIP else CLIP
    words = f"{num(lower)} (now {num(now)})"
    return Setting(words=words, name="grad_clip", now=now, new=lower)


def clip_action(case: Case) -> Action:
    """Return the action to clip."""
    threshold = clip(case)
    return Action(
        ActionKind.CLIP_GRADIENTS, f"Clip the gradient norm at {threshold}.", **threshold.change
    )


def clip_next_time(case: Case) -> Action:
    """Return the action to clip if it happens again."""
    threshold = clip(case)
    text = f"If it happens again, clip the gradient norm at {threshold}."
    return Action(ActionKind.CLIP_GRADIENTS, text, **threshold.change)


def more_decay(case: Case, group: str = "") -> Decay:
    """Return the decay for growing weights; it may not apply to a ``group``."""
    decay = case.manifest.weight_decay
    if decay is not None and decay < 0:
        words = f"fix the sign of the weight decay ({num(decay)}), which grows the weights"
        return Decay(kind=ActionKind.FIX_WEIGHT_DECAY, words=words, now=decay)
    verb = "turn on weight decay" if decay == 0 else "double the weight decay"
    now = "" if decay is None else f" (now {num(decay)})"
    if decay:
        now = f" to {num(2 * decay)}{now}"
    reaches = f", or check that it applies to {group!r}" if group else ""
    new = None if not decay else 2 * decay
    kind = ActionKind.RAISE_WEIGHT_DECAY
    return Decay(kind=kind, words=f"{verb}{now}{reaches}", now=decay, new=new)


def usual_decay(case: Case) -> tuple[float, str]:
    """Return the highest usual weight decay for the optimizer, as a number and in words."""
    limits = case.limits.preflight
    highest = limits.usual_decay(case.manifest.optimizer)
    if highest == limits.decay_high or case.history.source.format in _DECOUPLED:
        return limits.decay_high, f"recipes use up to {num(limits.decay_high)}"
    return highest, f"recipes use up to {num(highest)} where it is added to the gradient"


def less_decay(case: Case) -> Decay:
    """Return the decay for shrinking weights."""
    decay = case.manifest.weight_decay
    if decay is not None and decay <= 0:
        sign = ", and fix the sign of the decay" if decay else ""
        words = f"find what shrinks the weights (the weight decay is {num(decay)}){sign}"
        kind = ActionKind.FIX_WEIGHT_DECAY if decay else ActionKind.CHECK_MODEL
        return Decay(kind=kind, words=words, now=decay)
    kind, (usual, _) = ActionKind.LOWER_WEIGHT_DECAY, usual_decay(case)
    if decay is not None and decay > usual and usual < case.limits.preflight.decay_high:
        words = f"if {case.manifest.optimizer} adds the weight decay to the gradient, as PyTorch's "
        words += f"does, lower it from {num(decay)} to {num(L2_DECAY)} or switch to AdamW"
        return Decay(kind=kind, words=words, now=decay, new=L2_DECAY)
    if decay is not None and decay > usual:
        words = f"lower the weight decay from {num(decay)}, far above the usual {num(usual)}, to "
        is_sgd = (case.manifest.optimizer or "").lower() in _SGD_FAMILY
        fitting, name = (L2_DECAY, "") if is_sgd else (ADAMW_DECAY, "AdamW's default, ")
        return Decay(kind=kind, words=f"{words}{name}{num(fitting)}", now=decay, new=fitting)
    now = "" if decay is None else f" to {num(decay / 2)} (now {num(decay)})"
    new = None if decay is None else decay / 2
    return Decay(kind=kind, words=f"halve the weight decay{now}", now=decay, new=new)


def decay_unknown(case: Case) -> tuple[Action, ...]:
    """Return the action to check an unknown weight decay, unless weight norms are logged."""
    if case.manifest.weight_decay is not None or case.history.group("weight_norm"):
        return ()
    highest = case.limits.preflight.decay_high
    text = (
        f"Check weight_decay, which was not logged: above {num(highest)} the weights shrink to "
        f"nothing. Use {num(ADAMW_DECAY)} (AdamW's default)."
    )
    kind = ActionKind.LOWER_WEIGHT_DECAY
    return (Action(kind, text, setting="weight_decay", to=ADAMW_DECAY),)


def logging_advice(
    case: Case, roles: Sequence[str], densely: Sequence[str] = ()
) -> tuple[Action, ...]:
    """Return the action to log the missing roles, if any.

    A role in ``densely`` counts as missing if only some steps have it.
    """
    missing = [
        _SERIES[role]
        for role in roles
        if not (logged := case.history.group(role))
        or (
            role in densely
            and any(usual_stride(case.history, series) > 1 for series in logged.values())
        )
    ]
    if not missing:
        return ()
    return (Action(ActionKind.LOG_MORE, f"Log the {listed(missing)} at every step."),)


def first_covered_step(case: Case, step: int) -> int:
    """Return the first step that a record covers: the one after the previous record."""
    steps = case.history.series["loss"].steps
    position = int(np.searchsorted(steps, step))
    return int(steps[position - 1]) + 1 if position else step


def covered_steps(case: Case, step: int) -> str:
    """Describe the steps that a record covers."""
    if case.history.counts_epochs:
        return f"epoch {step}"
    since = first_covered_step(case, step)
    return f"{case.unit} {step}" if since >= step else f"{case.unit}s {since} to {step}"


def describe_batches(case: Case, step: int, *, and_before: bool = False) -> str:
    """Describe the batches that a record covers, optionally with the two before."""
    where = covered_steps(case, step)
    if case.history.counts_epochs:
        return f"what changed at {where}: data, learning rate, settings"
    if first_covered_step(case, step) < step:
        return f"the batches of {where}"
    return f"the batch of {where}" + (" and the two before it" if and_before else "")


def batch_id_suffix(case: Case, step: int) -> str:
    """Return the batch id of a step, " (batch id 12)", or "" if it was not logged."""
    batches = case.history.finite("batch_id").between(step, step)
    return f" (batch id {whole(float(batches.values[0]))})" if len(batches) else ""


def with_fallback_checkpoint(case: Case, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings, with an action if the checkpoint to reload may be deleted."""
    every, kept = case.manifest.checkpoint_every, case.manifest.checkpoints_kept
    if every is None or kept is None or case.manifest.checkpoints:
        return findings
    oldest = ((case.history.last_step or 0) // every - kept + 1) * every
    text = (
        f"If that checkpoint was deleted (the last {kept} are kept, from {case.unit} {oldest} "
        "on), find a copy or restart from the beginning: the kept ones contain the damage."
    )
    fallback = Action(ActionKind.RELOAD_CHECKPOINT, text, checkpoint=0)
    return tuple(
        replace(finding, actions=(*finding.actions[:1], fallback, *finding.actions[1:]))
        if finding.actions and 0 < (finding.actions[0].checkpoint or 0) < oldest
        else finding
        for finding in findings
    )


def with_changes(case: Case, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings, each with the settings that changed at its start."""
    return tuple(_with_changes(case, finding) for finding in findings)


def _with_changes(case: Case, finding: Finding) -> Finding:
    changes, step = _find_changes(case, finding)
    if not changes:
        return _with_outlier(case, finding)
    check, first, *others = (_check_change(case, changes), *finding.actions)
    actions = (check, first, *others)
    if first.kind is ActionKind.KEEP_GOING and finding.severity is Severity.WARNING:
        actions = (first, check, *others)
    # The log shows the cause, and its fix comes first.
    is_explained = RATE.intersection(first.kinds) and finding.section == "§2"
    return replace(
        finding,
        summary=f"{finding.summary} {_describe(case, changes, step)}",
        actions=finding.actions if is_explained or finding.slug in _EXPLAINED else actions,
        evidence={**finding.evidence, **_evidence(changes)},
    )


def _with_outlier(case: Case, finding: Finding) -> Finding:
    """Return the finding on a spike with a setting outlier, such as a sequence length."""
    if finding.section != "§2":
        return finding
    spikes = [spike for spike in case.spikes if case.at(spike.onset) == finding.step]
    outlier = find_setting_outlier(case, spikes[0]) if spikes else None
    if outlier is None:
        return finding
    value, usual = num(outlier.value), num(outlier.usual)
    check = Action(
        ActionKind.INSPECT_DATA,
        f"Check the batch of {case.unit} {outlier.step}, where {outlier.name} is {value} (usually "
        f"{usual}): cap it, or group batches of similar values.",
        step=outlier.step,
    )
    first, *others = finding.actions
    is_explained = RATE.intersection(first.kinds) or finding.slug in _EXPLAINED
    return replace(
        finding,
        summary=f"{finding.summary} {outlier.name} was {value} at {case.unit} "
        f"{outlier.step}; it was usually {usual} and at most {num(outlier.highest_before)} "
        "before.",
        actions=(first, check, *others) if is_explained else (check, first, *others),
        evidence={
            **finding.evidence,
            "outlier": outlier.name,
            "outlier_value": outlier.value,
            "outlier_usual": outlier.usual,
        },
    )


def with_nearby_changes(
    case: Case, step: int | None, because: str, actions: tuple[Action, ...]
) -> tuple[str, tuple[Action, ...], dict[str, Scalar]]:
    """Return the reason, actions and evidence of a finding, with the changes near its step."""
    changes = () if step is None else nearby_changes(case, step, step)
    if step is None or not changes:
        return because, actions, {}
    reason = f"{because} {_describe(case, changes, step)}"
    return reason, (_check_change(case, changes), *actions), _evidence(changes)


def near_climb(case: Case, began: int, first: int) -> tuple[NearbyChange, ...]:
    """Return the settings that changed where a climb began.

    The climb began between ``began``, where the loss left its best level or its cause began, and
    ``first``, where it exceeds the noise.
    """
    slack = round(LEVEL // 2 * case.stride)
    return nearby_changes(case, min(began, first) - slack, max(began, first) + slack)


def _find_changes(case: Case, finding: Finding) -> tuple[tuple[NearbyChange, ...], int]:
    """Return the settings that changed where a finding began, and that step.

    A NaN began at the first non-finite loss, or with its lead-up.
    """
    if finding.step is None or finding.severity is Severity.OK:
        return (), 0
    began = finding.step if finding.began is None else finding.began
    if finding.section == "§4":
        return near_climb(case, began, finding.step), finding.step
    if finding.section == "§2":
        spikes = [spike for spike in case.spikes if case.at(spike.onset) == finding.step]
        if spikes:
            return near_spike(case, spikes[0]), finding.step
    changes = nearby_changes(case, finding.step, finding.step)
    return (changes, finding.step) if changes else (nearby_changes(case, began, began), began)


def _describe(case: Case, changes: Sequence[NearbyChange], step: int) -> str:
    """Describe changes, and their distance to the start of the event."""
    change = changes[0]
    where = "right at the onset"
    if change.step < step:
        where = f"{plural(step - change.step, case.unit)} before the onset"
    elif change.since > step:
        where = f"{plural(change.since - step, case.unit)} after the onset"
    return f"{describe_changes(changes)}, {where}."


def _evidence(changes: Sequence[NearbyChange]) -> dict[str, Scalar]:
    return {"changed": describe_changes(changes), "changed_step": changes[0].step}


def _check_change(case: Case, changes: Sequence[NearbyChange]) -> Action:
    names, step = listed([change.name for change in changes[:MAX_NAMED]]), changes[0].step
    text = f"Check first whether the change of {names} at {case.unit} {step} is to blame."
    return Action(ActionKind.CHECK_SETTINGS, text, step=step)
