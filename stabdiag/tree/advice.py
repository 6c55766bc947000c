"""What to do about each outcome, with the run's own numbers in it.

One function a leaf: what happened (the summary), the first action as one imperative sentence, and
what to try next, fast to invasive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.tree.divergence import climb
from stabdiag.tree.nan import FirstBad, Origin, first_bad, jump_before, origin
from stabdiag.tree.spike import focus
from stabdiag.tree.words import checkpoint_before, num, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

CLIP = 0.5


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A finding's words: what happened, what to do first, what next; ``step`` is the onset."""

    summary: str
    first: str
    then: tuple[str, ...]
    step: int | None = None


def _nan(case: Case, answers: Mapping[str, Answer]) -> tuple[FirstBad, Origin, str]:
    bad = first_bad(case)
    if bad is None:
        raise LookupError("advice on a NaN that is not there")
    start = origin(case, bad)
    reload = checkpoint_before(case.manifest, min(bad.step, start.step)).reload(
        f"the first non-finite value, at step {min(bad.step, start.step)}"
    )
    return bad, start, reload


def _what_went_nan(bad: FirstBad) -> str:
    good = "" if bad.last_good is None else f" (last finite loss: step {bad.last_good})"
    rest = "" if bad.count == 1 else f"; {bad.count} of {bad.total} logged losses are not finite"
    return f"The loss is not finite from step {bad.step} on{good}{rest}."


def _surged(case: Case, start: Origin) -> bool:
    return start.surge is not None and start.surge > case.limits.nan.grad_surge


def nan_in_full_precision(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """NaN in fp32, bf16 or an unknown dtype."""
    bad, start, reload = _nan(case, answers)
    dtype = case.manifest.dtype
    jump = jump_before(case, start)
    if jump:
        what = f"{_sentence(jump.because)}."
        first = f"Fix the schedule at step {jump.steps[0]}: {_inner(reload)}."
        then = (
            "Check that a resume restores the scheduler's state, and that phases join without a step.",
            "If the jump is meant, warm up to it, and clip the gradient norm.",
        )
    elif _surged(case, start):
        what = (
            f"The gradient norm surged to {num(start.surge or 0)} x its mean at step "
            f"{start.surge_step}: an optimization blow-up."
        )
        first = f"{reload}, and restart with half the learning rate{_now_lr(case, bad.step)} and the gradient norm clipped at {num(_lower_clip(case))}{_now_clip(case)}."
        then = (
            "Lengthen the warm-up: it is the cheapest cure for an early blow-up.",
            f"Inspect the batches of steps {max(bad.step - 2, 0)} to {bad.step}.",
            "If it happens again, clip gradients by value at ±100 as well.",
        )
    else:
        what = (
            "The gradient norm was calm before it, which points at a bad sample or at a layer's numerics."
            if start.surge is not None
            else "No gradient norm was logged, so the log does not show what led up to it."
        )
        first = f"{reload}, and step one batch forward with isnan checks after every layer, from the embedding to the loss reduction."
        then = (
            "Use log_softmax instead of log(softmax(x)), or add an epsilon: log(0) is the usual cause.",
            "Check reductions for 0/0: a batch whose mask is all zero divides by nothing.",
            f"Look at the batch of step {bad.step}: empty sequences, labels out of range, NaN inputs.",
            "If it happens again, the bug is structural: go back to the architecture.",
        )
    if dtype == "bf16":
        then = (*then, "bf16 overflows near 1e38 and rounds at 1%: run the step once in fp32 to compare.")
    if dtype is None:
        then = ("Name the dtype (--dtype fp16|bf16|fp32 or a manifest): in fp16 the first suspect is an overflow.", *then)
    return Advice(summary=f"{_what_went_nan(bad)} {what}", first=first, then=then, step=bad.step)


def nan_fp16(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """NaN in fp16."""
    bad, _, reload = _nan(case, answers)
    fingerprint = answers["Q3.3"].verdict
    told = {
        "yes": "The log carries the fingerprint of an fp16 overflow: a value beyond 65504.",
        "no": "The log does not carry the fingerprint of an overflow, so a structural NaN is possible.",
        "unknown": "The first suspect in fp16 is an activation or gradient beyond 65504.",
    }[fingerprint]
    static = answers["Q3.3"].measured.get("dynamic loss scaling was not engaged") == "yes"
    halving = answers["Q3.3"].measured.get("the loss scale was halving before it") == "yes"
    if static:
        fix = "engage dynamic loss scaling (torch.amp.GradScaler)"
    elif halving:
        fix = f"halve the learning rate{_now_lr(case, bad.step)} or switch from fp16 to bf16: a smaller loss scale did not help"
    else:
        fix = "switch from fp16 to bf16, or see to it that the loss scaler is engaged"
    first = (
        f"{reload}, and {fix}."
        if fingerprint != "no"
        else f"Re-run step {bad.step} once in fp32 on the same batch: if it is finite there, it was an fp16 overflow."
    )
    return Advice(
        summary=f"{_what_went_nan(bad)} {told}",
        first=first,
        then=(
            f"Re-run step {bad.step} in fp32 on the same data: finite there means an fp16 overflow, not a structural bug.",
            f"If the loss scale keeps collapsing, halve the learning rate{_now_lr(case, bad.step)}.",
            "Keep softmax, layer norm and the loss in fp32.",
            "Check the initialization and the size of the residual stream.",
        ),
        step=bad.step,
    )


def _spike(case: Case) -> tuple[int, str, str]:
    spike = focus(case)
    onset = case.at(spike.onset)
    others = len(case.spikes) - 1
    also = f" {plural(others, 'more spike')} in this log." if others else ""
    what = (
        f"The loss rose from {num(spike.base)} to {num(spike.base + spike.height)} at step "
        f"{case.at(spike.peak)} ({num(spike.score)}σ)"
    )
    back = f" and was back after {plural(case.at(spike.end) - onset, 'step')}" if spike.recovered else ""
    reload = checkpoint_before(case.manifest, onset).reload(f"the spike at {onset}")
    return onset, f"{what}{back}.{also}", reload


def spike_long_tail(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike with a gradient norm far above its mean."""
    onset, what, _ = _spike(case)
    ratio = answers["Q2.3"].measured.get("grad_ratio")
    return Advice(
        summary=f"{what} The gradient norm was {num(float(ratio or 0))} x its rolling mean there.",
        first=f"Look at the batch of step {onset} for a long-tail sample, and clip the gradient norm at {num(_lower_clip(case))}{_now_clip(case)}.",
        then=(
            "Stratify or filter the batches so that no step is made of outliers alone.",
            "Write a post-mortem: the same data may not spike from another checkpoint.",
            "If spikes grow frequent, skip steps whose gradient norm is far above its mean.",
        ),
        step=onset,
    )


def spike_lr_jump(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike after a jump of the learning rate."""
    onset, what, _ = _spike(case)
    measured = answers["Q2.3"].measured
    before, after = (num(float(measured[key] or 0)) for key in ("lr_before", "lr_after"))
    at = answers["Q2.3"].steps[0]
    return Advice(
        summary=f"{what} The learning rate had jumped from {before} to {after} at step {at}.",
        first=f"Fix the schedule at step {at}, where the learning rate jumps from {before} to {after}.",
        then=(
            "Plot the learning rate of every step against the schedule that was meant.",
            "Check that a resume restores the scheduler's state, and that phases join without a step.",
            "If the jump is meant (a warm restart), restart lower or warm up again.",
        ),
        step=onset,
    )


def spike_duplicate(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike at or after a repeated batch."""
    onset, what, _ = _spike(case)
    at = answers["Q2.3"].steps[0]
    return Advice(
        summary=f"{what} The batch of step {at} had been seen shortly before.",
        first=f"Fix the data loader: log its order around step {at}, where a batch comes again.",
        then=(
            "Check the sampler's seed per epoch and per worker (set_epoch in distributed runs).",
            "On a resume, restore the loader's position, or the same data is seen again.",
        ),
        step=onset,
    )


def spike_recovered(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike without a logged cause."""
    onset, what, _ = _spike(case)
    clip = _lower_clip(case)
    return Advice(
        summary=f"{what} None of the logged series shows why.",
        first=f"Keep the run going, and look at the batch of step {onset} and the two before it.",
        then=(
            f"If it happens again, clip the gradient norm at {num(clip)}{_now_clip(case)}.",
            "Log the gradient norm, learning rate and batch id of every step.",
        ),
        step=onset,
    )


def spike_persistent(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that jumped and stayed up."""
    onset, what, reload = _spike(case)
    steps = case.limits.spike.recovery_steps
    return Advice(
        summary=f"{what} It had not come back within {steps} steps: the weights or the optimizer's moments are damaged, or the data changed.",
        first=f"{reload}, and restart with the clip threshold at {num(_lower_clip(case))}{_now_clip(case)}.",
        then=(
            f"Skip the batches from step {max(onset - 5, 0)} to {onset + steps} on the way, as a bad stretch of data may be to blame.",
            "Stratify the batches before the restart.",
            "Compare the learning rate at the onset with the schedule that was meant.",
            "If no checkpoint is older than the onset, the cost is the full re-train.",
        ),
        step=onset,
    )


def spike_unresolved(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A spike too close to the end of the log."""
    onset, what, reload = _spike(case)
    steps = case.limits.spike.recovery_steps
    last = int(case.loss.steps[-1])
    restart = f"{reload}, and restart with the clip threshold at {num(_lower_clip(case))}{_now_clip(case)}."
    if case.before_nan:
        end, first = f"It had not recovered when the loss went NaN after step {last}.", restart
    else:
        end = f"The log ends at step {last}, too early to tell whether it recovers."
        first = f"Run on to step {onset + steps} if the run still can, and diagnose again; else: {_inner(restart)}"
    return Advice(
        summary=f"{what} {end}",
        first=first,
        then=(f"Look at the batch of step {onset} and the two before it.",),
        step=onset,
    )


def gradient_overflow(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows beyond the scaler's normal life."""
    answer = answers["Q3.2"]
    step = answer.steps[0] if answer.steps else None
    bf16 = case.manifest.dtype == "bf16"
    first = (
        f"Find the operation that overflows at step {step}: re-run the step in fp32 on the same batch."
        if bf16
        else "Switch from fp16 to bf16, or halve the learning rate and keep the loss scaler's growth interval long."
    )
    return Advice(
        summary=f"{_sentence(answer.because)}.",
        first=first,
        then=(
            "Log the loss scale and the gradient norm of every step, to tell probes from overflows.",
            "Keep softmax, layer norm and the loss in fp32.",
            "Check the initialization and the size of the residual stream.",
        ),
        step=step,
    )


def loss_scale_static(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows under a constant loss scale."""
    answer = answers["Q3.2"]
    return Advice(
        summary=f"{_sentence(answer.because)}.",
        first=f"Engage dynamic loss scaling (torch.amp.GradScaler) instead of the constant {num(float(answer.measured.get('scale') or 0))}.",
        then=(
            "Check that the optimizer steps go through the scaler: scaler.step, then scaler.update.",
            "Switch from fp16 to bf16, which needs no loss scale.",
        ),
        step=answer.steps[0],
    )


def loss_scale_collapsed(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss scale below its floor."""
    answer = answers["Q3.2"]
    step = answer.steps[0]
    reload = checkpoint_before(case.manifest, step).reload(f"the collapse at {step}")
    return Advice(
        summary=f"{_sentence(answer.because)}: gradients or activations are too large all the time, not in passing.",
        first=f"{reload}, and halve the learning rate{_now_lr(case, step)} or switch from fp16 to bf16.",
        then=(
            "Check the initialization and the size of the residual stream.",
            "Find the layer whose activations come near 65504: log their maxima.",
            "Keep softmax, layer norm and the loss in fp32.",
        ),
        step=step,
    )


def _climb(case: Case) -> tuple[int, str, str]:
    if case.literal:
        last = int(case.loss.steps[-1])
        first = last - case.limits.divergence.window
        what = f"The loss rose at every step from {first} to {last}."
    else:
        first, last = climb(case)
        rise = case.rise
        if rise is None:
            raise LookupError("advice on a climb that is not there")
        what = (
            f"The loss climbed from {num(rise.best_level)} at step {first} and ends at "
            f"{num(rise.last_level)}."
        )
    return first, what, checkpoint_before(case.manifest, first).reload(f"the climb from {first} on")


def divergence_lr(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb under a rising learning rate."""
    first, what, reload = _climb(case)
    measured = answers["Q4.2"].measured
    begin, end = (num(float(measured[key] or 0)) for key in ("lr_first", "lr_last"))
    return Advice(
        summary=f"{what} The learning rate rose from {begin} to {end} meanwhile.",
        first=f"Fix the schedule, which still raises the learning rate at step {answers['Q4.2'].steps[-1]} (a warm-up that never ends, or an inverted decay): {_inner(reload)}.",
        then=(
            f"Check warm-up and total steps against the manifest ({_schedule(case)}).",
            "Plot the learning rate of every step before the restart.",
            f"If the schedule is meant, lower its peak: the loss stopped falling near {begin}.",
        ),
        step=first,
    )


def divergence_weights(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a weight norm that grows or shrinks."""
    first, what, reload = _climb(case)
    answer = answers["Q4.3"]
    climbing = answer.branch == "climbing"
    decay = case.manifest.weight_decay
    now = f" (now {num(decay)})" if decay is not None else ""
    action = f"{'double' if climbing else 'halve'} the weight decay{now}"
    if decay is not None and decay < 0:
        action = f"mend the sign of the weight decay, {num(decay)}, which makes weights grow"
    return Advice(
        summary=f"{what} {_sentence(answer.because)}.",
        first=f"{reload}, and {action}.",
        then=(
            f"Check the sign of the weight decay and which groups it reaches, {answer.measured['group']!r} first.",
            "Check that no decay is applied twice, in the loss and in the optimizer.",
            "Log the weight norm of every group at every step.",
        ),
        step=first,
    )


def divergence_grad(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a rising gradient norm."""
    first, what, reload = _climb(case)
    answer = answers["Q4.4"]
    return Advice(
        summary=f"{what} {_sentence(answer.because)}.",
        first=f"{reload}, and halve the learning rate{_now_lr(case, first)}.",
        then=(
            f"Check the data from step {first} on: order, labels, sources.",
            f"Clip the gradient norm at {num(_lower_clip(case))}{_now_clip(case)}.",
            "Check for drift from the initialization: log weight norms per group.",
        ),
        step=first,
    )


def divergence_unexplained(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb without a logged cause."""
    first, what, reload = _climb(case)
    return Advice(
        summary=f"{what} No logged series explains it.",
        first=f"{reload}, and check the data from step {first} on: order, labels, sources.",
        then=(
            f"Halve the learning rate{_now_lr(case, first)}.",
            "Compare with the evaluation loss: if that still falls, the training data got harder.",
            "Log gradient norm, learning rate and weight norms per group.",
        ),
        step=first,
    )


def plateau(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that has stopped falling."""
    first, _, _ = _climb(case)
    return Advice(
        summary=f"{_sentence(answers['Q4.1'].because)}.",
        first="Look at the evaluation loss: if it is flat as well, stop the run here.",
        then=("If it still falls, let the run go on; the learning rate may be due for a decay.",),
        step=None,
    )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _inner(words: str) -> str:
    return words[0].lower() + words[1:]


def _now_lr(case: Case, step: int) -> str:
    lr = case.history.get("lr")
    near = lr.finite().between(step - 10**9, step) if lr is not None else None
    return f" (now {num(float(near.values[-1]))})" if near is not None and len(near) else ""


def _lower_clip(case: Case) -> float:
    clip = case.manifest.grad_clip
    # A threshold of 0 is how clipping is turned off.
    return CLIP if not clip or clip > CLIP else clip / 2


def _now_clip(case: Case) -> str:
    clip = case.manifest.grad_clip
    if clip is None:
        return ""
    return f" (now {num(clip)})" if clip else " (now off)"


def _schedule(case: Case) -> str:
    manifest = case.manifest
    known = {"schedule": manifest.schedule, "warm-up": manifest.warmup_steps, "total": manifest.total_steps}
    return ", ".join(f"{k} {v}" for k, v in known.items() if v is not None) or "it names neither"


ADVICE: Mapping[str, Callable[[Case, Mapping[str, Answer]], Advice]] = {
    "nan-fp32": nan_in_full_precision,
    "nan-bf16": nan_in_full_precision,
    "nan-dtype-unknown": nan_in_full_precision,
    "nan-fp16-overflow": nan_fp16,
    "spike-long-tail-batch": spike_long_tail,
    "spike-lr-jump": spike_lr_jump,
    "spike-duplicate-batch": spike_duplicate,
    "spike-recovered": spike_recovered,
    "spike-persistent": spike_persistent,
    "spike-unresolved": spike_unresolved,
    "gradient-overflow": gradient_overflow,
    "loss-scale-static": loss_scale_static,
    "loss-scale-collapsed": loss_scale_collapsed,
    "divergence-lr-rising": divergence_lr,
    "divergence-weight-norm-climbing": divergence_weights,
    "divergence-weight-norm-collapsing": divergence_weights,
    "divergence-grad-norm-rising": divergence_grad,
    "divergence-unexplained": divergence_unexplained,
    "plateau": plateau,
}
