"""Gradient norms that are not finite, explode, vanish, or differ by layer."""

from __future__ import annotations

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.text import num, plural
from stabdiag.stats.course import (
    end_level,
    level_error,
    outer_levels,
    position_after,
    present_level,
    usual_change,
)
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import diff_sigma, median, robust_sigma
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    FAR_RATIO,
    LEAST,
    MIN_COMPARED,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_SAMPLE,
    NEGLIGIBLE,
    TENTH,
    TWENTIETHS,
    TWICE,
)
from stabdiag.symptoms.losses import has_fallen
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.weights.magnitude import growth, growth_began
from stabdiag.symptoms.weights.weight_norms import weight_norm_shrinking
from stabdiag.tree.advice.precision import NOTHING_UPDATED, nothing_updated, overflowing_layer
from stabdiag.tree.advice.rates import tenth_lr
from stabdiag.tree.advice.shared import clip_action
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.scaler import skipped_throughout

# If the loss does not change, a norm has to grow by this many times as much.
_FLAT_FACTOR = TWICE

# A norm that grows by this many times as much is a note in any case: it is several hundredfold.
_HUGE_FACTOR = FAR_RATIO

# A run with less than this fraction of its loss left has converged: gradients may grow then.
_LITTLE_LEFT = NEGLIGIBLE


# A loss scaler of fp16 halves its first scale at most this many times before it is below 1.
_MOST_FIRST_HALVINGS = 17

# At least four groups are needed for a comparison.
_GROUPS = MIN_COMPARED

# Quantities inside a network, which show its state if no loss was logged.
_INSIDE = {
    "grad_norm": "gradients",
    "activation_norm": "activations",
    "max_attention_logit": "attention logits",
    "amax": "activations",
}
_ANY_INSIDE = " or ".join(_INSIDE)


def _inside(case: Case, *roles: str) -> list[tuple[str, Series]]:
    """Return the series of these roles, each with what it measures."""
    return [
        (_INSIDE[role], series) for role in roles for series in case.history.group(role).values()
    ]


def _lacks_gradient_norm(case: Case) -> str:
    """Return the reason that a loss was logged without a gradient norm, or ""."""
    is_loss_alone = bool(case.history.get("loss")) and not case.history.has("grad_norm")
    return "needs the gradient norm; logged with the loss: other sizes" if is_loss_alone else ""


@Symptom(
    slug="grad-nonfinite",
    confidence=Confidence.HIGH,
    title="The gradient norm is NaN or infinite while the loss is finite",
    needs=(_ANY_INSIDE,),
    preconditions=(_lacks_gradient_norm,),
    explained_by=("nan", "gradient-overflow", "loss-scale"),
    next_actions=(
        Action(
            Do.SAFE_OPERATIONS, "Look for the root or norm of 0, a division, a log in the loss."
        ),
        Action(Do.SKIP_BATCHES, "Skip updates whose norm is not finite, and save the batch."),
        Action(Do.CLIP_GRADIENTS, "Clip gradients by value before clipping them by norm."),
    ),
)
def grad_nonfinite(case: Case) -> Evidence | None:
    """Is a gradient norm NaN or infinite while the loss is finite, in fp32, or to the end?"""
    norm, loss, dtype = case.overall_grad_norm, case.loss, case.manifest.dtype
    if not case.history.get("loss"):
        broken = filter(
            None, (_stays_nonfinite(case, *quantity) for quantity in _inside(case, *_INSIDE))
        )
        return min(broken, key=lambda evidence: evidence.step or 0, default=None)
    if norm is None:
        return None
    skipped = skipped_throughout(case)
    if skipped is not None and not _may_calibrate(case, norm):
        return _nothing_updated(case, norm, skipped)
    if dtype in ("fp16", "bf16"):
        return None
    bad = ~np.isfinite(norm.values)
    # A few points may be epoch means that include overflows, unless the last ones are bad.
    if dtype is None and len(norm) < MIN_LONG_LOG and not bad[-2:].all():
        return None
    # The gradient cannot be measured before the first update.
    if len(bad) > 1:
        bad[0] &= bad[1]
    if not bad.any():
        return None
    steps = norm.steps[bad]
    steps = steps[np.isin(steps, loss.steps)]
    if not len(steps):
        return None
    first = int(steps[0])
    where = f"the run is in {dtype}, with no loss scaler" if dtype else "the dtype is unknown"
    layer = overflowing_layer(case, first)
    inside = f" in {layer!r}" if layer else ""
    return Evidence(
        because=f"The gradient norm is not finite at {plural(len(steps), case.unit)} of "
        f"{len(norm)} where the loss is finite; {where}.",
        step=first,
        measured={"steps": len(steps), "total": len(norm)},
        first=Action(
            Do.INSPECT_LAYERS,
            f"Run the batch of {case.unit} {first} under torch.autograd.set_detect_anomaly(True) "
            f"to find the operation{inside} whose gradient is not finite.",
            step=first,
        ),
    )


def _may_calibrate(case: Case, norm: Series) -> bool:
    """Return True if a loss scaler may still be halving its first scale.

    A scale of 2 ** 16, the default of PyTorch, is below 1 after that.
    """
    steps = int(norm.steps[-1]) - int(norm.steps[0]) + 1
    return case.manifest.dtype == "fp16" and steps <= _MOST_FIRST_HALVINGS


def _nothing_updated(case: Case, norm: Series, records: int) -> Evidence:
    first, losses = int(norm.steps[0]), case.loss.values
    change = ""
    if len(losses) > 1:
        change = f" The loss went from {num(float(losses[0]))} to {num(float(losses[-1]))}."
    return Evidence(
        because=f"{nothing_updated(records)}{change}",
        step=first,
        measured={"steps": records, "total": records},
        title=NOTHING_UPDATED,
        severity=Severity.ERROR,
        first=Action(
            Do.INSPECT_LAYERS,
            f"Stop the run, and run the batch of {case.unit} {first} under "
            "torch.autograd.set_detect_anomaly(True) to find the operation whose gradient is not "
            "finite.",
            also=(Do.STOP_EARLY,),
            step=first,
        ),
    )


def _stays_nonfinite(case: Case, noun: str, norm: Series) -> Evidence | None:
    """Report a quantity that stays non-finite in a log without a loss."""
    good = np.flatnonzero(np.isfinite(norm.values))
    begin = int(good[-1]) + 1 if len(good) else 0
    if len(norm) - begin < MIN_CONSECUTIVE:
        return None
    first = int(norm.steps[begin])
    return Evidence(
        because=f"{norm.column!r} is not finite from {case.unit} {first} to the end, at "
        f"{len(norm) - begin} of {len(norm)} records. No loss was logged.",
        step=first,
        measured={"steps": len(norm) - begin, "total": len(norm)},
        first=earlier_checkpoint(case, first, case.stride)
        .reload(f"{case.unit} {first}")
        .and_then(
            Do.INSPECT_LAYERS,
            "run one step under torch.autograd.set_detect_anomaly(True), with isfinite checks "
            "after every layer, to find the first operation that is not finite",
            step=first,
        ),
        title=f"The {noun} are not finite to the end",
        severity=Severity.ERROR,
    )


def _few_losses(case: Case) -> str:
    """Return the reason that there are too few losses, if any were logged, or ""."""
    return at_least(MIN_SAMPLE, "loss")(case) if case.history.get("loss") else ""


@Symptom(
    slug="grad-exploding",
    title="Exploding gradients",
    needs=("grad_norm",),
    explained_by=("nan", "divergence-grad-norm-rising", "gradient-overflow", "loss-scale"),
    preconditions=(at_least(LEAST, "grad_norm", groups=True), _few_losses),
    next_actions=(
        Action(Do.ADD_WARMUP, "Lengthen the warm-up."),
        Action(Do.CHANGE_OPTIMIZER, "Try another epsilon or β2 for Adam."),
        Action(Do.LOG_MORE, "Log the gradient norm of each layer to see where it begins."),
    ),
)
def grad_exploding(case: Case) -> Evidence | None:
    """Does the gradient norm end orders of magnitude above its level, and the loss worse?

    In a log without a loss, its growth alone counts. If the loss does not change, twice that growth
    is a note. Five times that growth is a note even if the loss falls.
    """
    loss, worse = case.history.get("loss"), _got_worse(case)
    norms = [case.history.logged("grad_norm")] if loss else case.history.group("grad_norm").values()
    candidates = [finite for series in norms if len(finite := series.finite()) >= LEAST]
    if not candidates:
        return None
    grown = [growth(series, from_lowest=True) for series in candidates]
    at = max(range(len(grown)), key=lambda at: grown[at][0])
    norm, (ratio, lowest, last) = candidates[at], grown[at]
    began = growth_began(norm, lowest)
    explodes = case.limits.gradients.explode_ratio
    is_flat = loss is not None and not worse
    if ratio <= (_FLAT_FACTOR * explodes if is_flat else explodes):
        return None
    is_huge = ratio >= _HUGE_FACTOR * explodes and _has_loss_left(case)
    is_still = is_flat and _stays_up(case, began)
    if is_flat and not (is_still or is_huge):
        return None
    checkpoint = earlier_checkpoint(case, began, case.stride)
    rate = tenth_lr(case, began)
    effect = ", and the loss got worse" if worse else ", while the loss stayed" if is_still else ""
    return Evidence(
        because=f"{norm.column!r} rose from {num(lowest)} to {num(last)}, {num(ratio)} x, from "
        f"{case.unit} {began} on{effect}.",
        step=began,
        measured={"lowest": lowest, "last": last, "ratio": ratio},
        severity=Severity.NOTE if is_flat else None,
        first=checkpoint.reload("the explosion").and_then(Do.LOWER_LR, str(rate), **rate.change),
        next_actions=(clip_action(case), *grad_exploding.next_actions),
    )


def _stays_up(case: Case, since: int) -> bool:
    """Return True if the loss is still high and has not fallen since a step."""
    late = case.loss.between(since, int(case.loss.steps[-1])).values
    if not _has_loss_left(case) or len(late) < 2 * MIN_SAMPLE:
        return False
    change = present_level(late) - median(late[:MIN_SAMPLE])
    return change > -BEYOND_CHANCE * level_error(diff_sigma(late), MIN_SAMPLE, MIN_SAMPLE)


def _has_loss_left(case: Case) -> bool:
    """Return True if a positive loss has not fallen to a small fraction of its start."""
    if not len(case.loss) or case.loss.lowest <= 0:
        return False
    first, last = outer_levels(case.loss.values)
    return last >= _LITTLE_LEFT * first


def _got_worse(case: Case) -> bool:
    """Return True if the loss ends above its best level by more than its levels vary."""
    if not len(case.loss):
        return False
    loss = levels(case.loss.values, TWENTIETHS)
    worse = present_level(case.loss.values) - float(loss.min())
    return len(loss) > 1 and worse > CLEAR * usual_change(loss)


@Symptom(
    slug="grad-vanishing",
    severity=Severity.ERROR,
    title="Vanishing gradients",
    needs=("grad_norm", "loss"),
    explained_by=("nan", "loss-scale", "divergence-weight-norm-collapsing"),
    preconditions=(at_least(LEAST, "grad_norm"), at_least(LEAST, "loss")),
    next_actions=(
        Action(Do.CHECK_MODEL, "Check the residual connections and normalization layers."),
        Action(Do.CHANGE_MODEL, "Replace ReLU with GELU or leaky ReLU: dead units pass nothing."),
        Action(Do.CHECK_MODEL, "Check the initialization, and that activations do not saturate."),
    ),
)
def grad_vanishing(case: Case) -> Evidence | None:
    """Has the gradient vanished while the loss is still high?"""
    norm, loss = case.history.finite("grad_norm"), case.loss.values
    # The remaining fraction of a loss is unknown if it may be negative.
    if loss.min() <= 0:
        return None
    zero = _zero_to_the_end(case, norm)
    if zero is not None:
        return zero
    (early, last), (loss_first, loss_last) = outer_levels(norm.values), outer_levels(loss)
    fraction = last / early if early > 0 else 1.0
    if fraction >= case.limits.gradients.vanish_ratio or has_fallen(loss):
        return None
    # If the weights vanish, the gradient does too: that is another symptom.
    if weight_norm_shrinking.evidence(case):
        return None
    began = int(norm.steps[min(position_after(norm.values > TENTH * early), len(norm) - 1)])
    return Evidence(
        because=f"The gradient norm fell from {num(early)} to {num(last)}, but the loss only from "
        f"{num(loss_first)} to {num(loss_last)}.",
        step=began,
        measured={"early": early, "last": last, "fraction": fraction},
        first=Action(
            Do.INSPECT_LAYERS,
            f"Log each layer's gradient norm from {case.unit} {began} on and find the first "
            "layer, from the output down, where it vanishes.",
            step=began,
        ),
    )


def _zero_to_the_end(case: Case, norm: Series) -> Evidence | None:
    """Report a gradient norm that becomes exactly 0 while the loss is high and does not fall."""
    began = position_after(norm.values != 0)
    if not began or len(norm) - began < LEAST:
        return None
    step, last = int(norm.steps[began]), int(norm.steps[-1])
    if not _stays_up(case, step):
        return None
    level = present_level(case.loss.values)
    return Evidence(
        title="The gradient became 0",
        because=f"The gradient norm is exactly 0 at all {len(norm) - began} records from "
        f"{case.unit} {step} to {last}, and the loss stays at {num(level)}: no weight gets a "
        "gradient.",
        step=step,
        measured={"records": len(norm) - began, "loss": level},
        first=Action(
            Do.CHECK_MODEL,
            f"Find out what changed at {case.unit} {step}: parameters that were frozen, a detached "
            "loss, units that died, or gradients that are zeroed before the step.",
            step=step,
        ),
    )


def _few_groups(case: Case) -> str:
    groups = (series for name, series in case.history.group("grad_norm").items() if name != "all")
    count = sum(len(series.finite()) >= LEAST for series in groups)
    if count >= _GROUPS:
        return ""
    return f"needs {LEAST} points for each of {_GROUPS} groups; logged for {count}"


@Symptom(
    slug="grad-layer-outlier",
    title="One layer's gradient is far from the rest",
    needs=("grad_norm",),
    preconditions=(_few_groups,),
    next_actions=(
        Action(Do.CHANGE_OPTIMIZER, "Give it its own learning rate or clip threshold."),
        Action(Do.CHECK_MODEL, "Check normalization and residual connections around it."),
    ),
)
def grad_layer_outlier(case: Case) -> Evidence | None:
    """Is the gradient of one group far from the gradients of all others?"""
    usual = {
        name: end_level(x)
        for name, series in case.history.group("grad_norm").items()
        if name != "all" and len(x := series.finite().values) >= LEAST
    }
    norms = {name: value for name, value in usual.items() if value > 0}
    logs = np.log(np.array(list(norms.values())))
    middle = median(logs)
    distances = np.abs(logs - middle)
    at = int(np.argmax(distances))
    least = np.log(case.limits.gradients.layer_ratio)
    if distances[at] <= max(least, CLEAR * robust_sigma(logs)):
        return None
    name, ratio = list(norms)[at], float(np.exp(logs[at] - middle))
    direction, factor = ("above", ratio) if ratio > 1 else ("below", 1 / ratio)
    return Evidence(
        because=f"The gradient norm of {name!r} is {num(norms[name])}, {num(factor)} x {direction} "
        f"the median of all {len(norms)} groups, {num(float(np.exp(middle)))}.",
        measured={"group": name, "norm": norms[name], "ratio": ratio, "groups": len(norms)},
        first=Action(
            Do.CHECK_MODEL,
            f"Check the initialization of {name!r}, its scale, and its path to the loss.",
        ),
    )
