"""Advice on §1, NaN: the common part, and all leaves except fp16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stabdiag.model.findings import RATE, Action, ActionKind, Answer, Change, Finding, Panel
from stabdiag.model.text import capitalized, listed, num, sentence
from stabdiag.stats.quantiles import median
from stabdiag.tree.advice.nan_lead_up import (
    describe_nan,
    describe_start,
    exploded_before_nan,
    is_early,
    suspect_batches,
)
from stabdiag.tree.advice.probed import probed, repeat_clause
from stabdiag.tree.advice.rates import half_lr, is_high, peak_rate, tenth_lr, usual
from stabdiag.tree.advice.shared import (
    LEVEL,
    RESTORE_SCHEDULE,
    Advice,
    batch_id_suffix,
    clip,
    covered_steps,
)
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import Reload, earlier_checkpoint
from stabdiag.tree.nan import (
    FORWARD,
    Origin,
    activation_near_fp16_max,
    describe_near_fp16_max,
    infinite_embedding_gradient,
    origin,
)
from stabdiag.tree.saved_failure import SavedFailure, saved_failure

_NAME_DTYPE = Action(
    ActionKind.CHECK_SETTINGS,
    "Name the dtype (--dtype fp16|bf16|fp32, or in a manifest): in fp16 a value above 65504 is the "
    "first suspect, and bf16 or a dynamic loss scale is the fix.",
    also=(ActionKind.CHANGE_DTYPE, ActionKind.DYNAMIC_LOSS_SCALE),
    setting="dtype",
)
_STRUCTURAL = Action(
    ActionKind.CHECK_MODEL,
    "If it happens again, the fault is structural: check the model's architecture.",
)
_TRY_FP32 = Action(
    ActionKind.CHECK_PRECISION,
    "Run the step once in fp32 to compare: bf16 rounds at 1% and overflows near 1e38.",
)
_TRY_BF16 = Action(
    ActionKind.CHECK_PRECISION,
    "Run the step once in bf16 on the same batch: if it stays finite, check the scaling factors "
    "(amax history, margin) and keep the first and last layers in bf16.",
    also=(ActionKind.CHANGE_DTYPE,),
    setting="dtype",
    from_="fp8",
    to="bf16",
)


def full_precision(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """NaN in fp32, fp64, bf16, fp8 or an unknown dtype."""
    start = origin(case)
    advice = _by_evidence(case, start)
    next_actions = (
        *keep_recovered_run(case),
        *smaller_steps(case, start, advice.first),
        *advice.next_actions,
    )
    dtype = case.manifest.dtype
    if dtype == "bf16":
        next_actions = (*next_actions, _TRY_FP32)
    if dtype == "fp8":
        next_actions = (*next_actions[:2], _TRY_BF16, *next_actions[2:])
        advice = replace(advice, title="The loss went NaN in fp8")
    peak = activation_near_fp16_max(case.history, start.bad.step) if dtype is None else None
    if peak is not None:
        near_fp16_max = sentence(describe_near_fp16_max(peak, case.unit))
        advice = replace(advice, summary=f"{advice.summary} {near_fp16_max}")
    if dtype is None:
        next_actions = (*next_actions[:1], _NAME_DTYPE, *next_actions[1:])
    return complete(case, start, replace(advice, next_actions=next_actions))


def smaller_steps(case: Case, start: Origin, first: Action) -> tuple[Action, ...]:
    """Return the action to take smaller steps, unless there is evidence against it.

    A lower rate, a longer warm-up or clipping fixes most runs that end in NaN. The evidence against
    it: calm gradients, a NaN before any update, a rate of 0, or a jump of the rate, which is to be
    fixed instead. Long after the warm-up, only a blow-up needs another one.
    """
    rates = case.history.finite("lr").until(start.bad.step).values
    is_calm = start.surge is not None and not start.blew_up and not case.error_steps
    is_first = start.bad.last_good is None and start.bad.step <= 1
    is_first = is_first and not case.history.counts_records
    saved = saved_failure(case.history)
    is_probed = saved is not None and saved.phase is not None and start.surge_start is None
    if is_calm or is_first or is_probed or start.jump or (len(rates) and not rates.any()):
        return ()
    clauses, kinds = [], []
    rate = half_lr(case, start.bad.step)
    if not RATE.intersection(first.kinds):
        clauses.append(str(rate))
        kinds.append(ActionKind.LOWER_LR)
    needs_warmup = ActionKind.ADD_WARMUP not in first.kinds
    early = is_early(case, start.bad.step)
    if needs_warmup and early:
        clauses.append("lengthen the warm-up")
        kinds.append(ActionKind.ADD_WARMUP)
    threshold = clip(case)
    if ActionKind.CLIP_GRADIENTS not in first.kinds:
        clauses.append(f"clip the gradient norm at {threshold}")
        kinds.append(ActionKind.CLIP_GRADIENTS)
    if needs_warmup and start.blew_up and not early:
        clauses.append("warm the learning rate up again after the restart")
        kinds.append(ActionKind.ADD_WARMUP)
    if not clauses:
        return ()
    kind, *other_kinds = kinds
    by_kind = {ActionKind.LOWER_LR: rate.change, ActionKind.CLIP_GRADIENTS: threshold.change}
    change = by_kind.get(kind, Change(setting="warmup_steps", from_=None, to=None))
    text = f"{capitalized(listed(clauses))}: most runs that go NaN are cured by smaller steps."
    return (Action(kind, text, also=tuple(other_kinds), **change),)


def after_earlier(finding: Finding, earlier: Finding, *, by_schedule: bool) -> Finding:
    """Return the finding of a NaN that follows an earlier error.

    The earlier error comes before a search for faulty operations. A schedule that raised the rate
    until the loss climbed comes before all of its consequences.
    """
    first, *next_actions = finding.actions
    if earlier.slug == "spike-unresolved":  # the beginning of the NaN itself
        return finding
    if by_schedule or first.kind is ActionKind.INSPECT_LAYERS:
        own_first = () if RATE.intersection(first.kinds) else (first,)
        actions = (*earlier.actions[:1], *own_first, *next_actions)
        return replace(finding, actions=actions, reload=earlier.reload, began=earlier.began)
    see = Action(
        ActionKind.SEE_FINDING,
        f"Fix the error from {earlier.unit} {earlier.step} on: see {earlier.slug} below.",
        step=earlier.step,
    )
    return replace(finding, actions=(first, see, *next_actions))


def complete(case: Case, start: Origin, advice: Advice) -> Advice:
    """Return the advice with the position of the NaN and the checkpoint to reload."""
    return replace(
        advice,
        summary=f"{describe_nan(case, start.bad)} {advice.summary}",
        step=start.bad.step,
        reload=reload_before(case, start).clause,
        began=start.began,
    )


def reload_before(case: Case, start: Origin) -> Reload:
    """Return the instruction to reload the last checkpoint before the trouble."""
    last = earlier_checkpoint(case, start.began, case.stride)
    if start.bad.count == start.bad.total and not last.step:
        if last.step is None:
            return Reload(clause="Reload a checkpoint from before this log, if there is one")
        return Reload(clause="Restart from the beginning, or from before this log", checkpoint=0)
    began = case.describe(start.began)
    return last.reload(began if start.began == start.step else f"the trouble that began at {began}")


def _by_evidence(case: Case, start: Origin) -> Advice:
    """Return the advice according to the evidence in the log."""
    if start.jump:
        warm_up = Action(
            ActionKind.ADD_WARMUP,
            "If the jump is intended, warm up to it, and clip the gradient norm.",
            also=(ActionKind.CLIP_GRADIENTS,),
        )
        first = fix_schedule(case, start, start.jump)
        summary = sentence(start.jump.because)
        return Advice(summary=summary, first=first, next_actions=(RESTORE_SCHEDULE, warm_up))
    saved = saved_failure(case.history)
    if saved is not None and saved.phase is not None and start.surge_start is None:
        return probed(saved, reload_before(case, start), case.unit, _check_data(case, start))
    if start.blew_up or (start.surge is None and is_high(case)):
        return _blown_up(case, start)
    embedding = infinite_embedding_gradient(case)
    if embedding is not None:
        by_value = "clip gradients by value at ±100 before clipping them by norm"
        return Advice(
            summary=f"{describe_start(case, start)} {embedding!r} is infinite.",
            first=reload_before(case, start).and_then(ActionKind.CLIP_GRADIENTS, by_value),
            next_actions=(_check_data(case, start),),
        )
    return Advice(
        summary=describe_start(case, start),
        first=_inspect_layers(case, start, saved),
        next_actions=(
            Action(
                ActionKind.SAFE_OPERATIONS,
                "Look for log(0), 0/0 and the square root of a negative number: replace "
                "log(softmax(x)) by log_softmax, add epsilons, and check reductions, such as the "
                "mean over a batch whose mask is all zero.",
            ),
            _check_data(case, start),
            _STRUCTURAL,
        ),
    )


def _inspect_layers(case: Case, start: Origin, saved: SavedFailure | None) -> Action:
    """Return the action to reload and find the operation that went NaN first."""
    search = "run one forward pass with isnan checks after every layer"
    other_kinds: tuple[ActionKind, ...] = ()
    kind, _, layer = start.role.partition("/")
    if kind in FORWARD and layer:
        search = (
            f"run one forward pass with isnan checks inside {layer!r} and on its input: it is the "
            "earliest layer with a non-finite value"
        )
    if kind == "grad_norm":
        of = f" of {layer!r}" if layer else ""
        search = (
            f"run one step under torch.autograd.set_detect_anomaly(True): the gradient{of} went "
            "first, and this names the operation"
        )
    if saved is not None:
        search = repeat_clause(saved, case.unit)
    if case.manifest.dtype is None:
        search = f"{search} (in fp16, switch to bf16 or to dynamic loss scaling instead)"
        other_kinds = (ActionKind.CHANGE_DTYPE, ActionKind.DYNAMIC_LOSS_SCALE)
    reload = reload_before(case, start)
    return reload.and_then(ActionKind.INSPECT_LAYERS, search, also=other_kinds)


def _check_data(case: Case, start: Origin) -> Action:
    where = f"{covered_steps(case, start.step)}{batch_id_suffix(case, start.step)}"
    saved = saved_failure(case.history)
    file = "" if saved is None else f", saved in {saved.file},"
    bad = "empty sequences, token ids or labels out of range, and NaN inputs"
    text = f"Check the data of {where}{file} for {bad}."
    return Action(ActionKind.INSPECT_DATA, text, step=start.step)


def _blown_up(case: Case, start: Origin) -> Advice:
    """Return the advice on an optimization blow-up, observed or inferred from an extreme rate."""
    lead_up = ""
    if case.error_steps:
        lead_up = f"The run was in trouble from {case.unit} {case.error_steps[-1]} on. "
    if start.exploded_to is not None:
        lead_up += f"Just before, the loss was {num(start.exploded_to)}. "
    if start.surge is not None and start.surge.since is not None:
        norm, ratio = capitalized(start.surge.name), num(start.surge.ratio)
        lead_up = f"{norm} surged to {ratio} x its mean at {case.unit} {start.surge.step}. "
    summary = f"{lead_up}This is an optimization blow-up."
    if not start.blew_up:
        family, _, high = usual(case)
        summary = (
            f"The peak learning rate is {num(peak_rate(case) or 0.0)}, above the {num(high)} that "
            f"is usual for {family}: suspect an optimization blow-up."
        )
    is_explosion = start.exploded_to is not None or exploded_before_nan(case, start)
    reduced = tenth_lr if is_explosion else half_lr
    rate = reduced(case, start.bad.step, as_noun=True)
    suspects = Action(
        ActionKind.INSPECT_DATA, f"Inspect {suspect_batches(case, start)}.", step=start.bad.step
    )
    by_value = "If it happens again, clip gradients by value at ±100 as well."
    return Advice(
        summary=summary,
        first=reload_before(case, start).restart(
            ActionKind.LOWER_LR,
            f"with {rate} and the gradient norm clipped at {clip(case)}",
            also=(ActionKind.CLIP_GRADIENTS,),
            **rate.change,
        ),
        next_actions=(
            suspects,
            Action(ActionKind.CLIP_GRADIENTS, by_value),
        ),
    )


def fix_schedule(case: Case, start: Origin, jump: Panel) -> Action:
    """Return the action for a jump of the learning rate that led to a NaN."""
    at = jump.steps[0]
    return reload_before(case, start).and_then(
        ActionKind.FIX_SCHEDULE, f"fix the schedule, which jumps at {case.unit} {at}", step=at
    )


def keep_recovered_run(case: Case) -> tuple[Action, ...]:
    """Return the action to keep a run whose loss is finite again and as low as before."""
    loss = case.history.series["loss"]
    bad = np.flatnonzero(~np.isfinite(loss.values))
    before, after = loss.values[: bad[0]][-LEVEL:], loss.values[bad[-1] + 1 :][-LEVEL:]
    if min(len(before), len(after)) < LEVEL or median(after) > median(before):
        return ()
    text = (
        "Look for the cause in a copy and keep this run going: its loss recovered, from "
        f"{num(median(before))} before the NaN to {num(median(after))} now."
    )
    return (Action(ActionKind.KEEP_GOING, text),)
