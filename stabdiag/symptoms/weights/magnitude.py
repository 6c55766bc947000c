"""Values that no healthy run has: activations, attention logits, and norms that jump."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.text import num, sentence, times
from stabdiag.stats.course import (
    keeps_growing,
    level_before,
    lowest_level,
    position_after,
    present_level,
    start_level,
)
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, robust_sigma
from stabdiag.stats.standards import (
    CLEAR,
    CONTEXT_POINTS,
    FEW_EVENTS,
    LEAST,
    QUARTERS,
    TENFOLD,
    TENTHS,
    TWENTIETHS,
    TWICE,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.rates import tenth_lr
from stabdiag.tree.advice.shared import LEVEL, TO_BF16, clip_action
from stabdiag.tree.case import Case
from stabdiag.tree.changes import nearby_changes
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.nan import Peak, activation_near_fp16_max, describe_near_fp16_max

# Large attention logits that grew by this factor are reported.
_LOGIT_GROWTH: Final = TENFOLD

# An activation that multiplies by this over the last quarter of a run is still exploding.
_QUARTER_GROWTH: Final = TWICE

# If something broke, the level of a gradient norm changes by this factor in one step. In healthy
# runs it changes by less from one record to the next.
_GRADIENT_JUMP: Final = TENFOLD

# The number of largest record-to-record changes of a norm that are examined.
_CANDIDATES: Final = FEW_EVENTS


def growth(size: Series, least: float = 0.0, *, from_lowest: bool) -> tuple[float, float, float]:
    """Return the ratio of the last value to the level, the level, and the last value.

    The level is the lowest level of the series, or its median level; at least ``least``.
    """
    last = present_level(size.values)
    if from_lowest:
        # A steady rise is far above its start by the middle of the first part.
        level = min(lowest_level(size.values), start_level(size.values))
    else:
        level = median(levels(size.values, TWENTIETHS))
    level = max(level, least)
    return last / level if level > 0 else 0.0, level, last


def growth_began(size: Series, level: float) -> int:
    """Return the step after which a series stayed above ten times its level."""
    return int(size.steps[min(position_after(size.values <= TENFOLD * level), len(size) - 1)])


def _longest(case: Case, *roles: str) -> list[Series]:
    """Return the finite series of roles that are long enough to show growth."""
    finite = [series.finite() for role in roles for series in case.history.group(role).values()]
    return [series for series in finite if len(series) >= LEAST]


def _restart(case: Case, began: int) -> Action:
    rate = tenth_lr(case, began)
    checkpoint = earlier_checkpoint(case, began, case.stride)
    return checkpoint.reload("the explosion").and_then(Do.LOWER_LR, str(rate), **rate.change)


@Symptom(
    slug="activation-exploding",
    title="Exploding activations",
    needs=("activation_norm or amax",),
    explained_by=("nan",),
    preconditions=(at_least(LEAST, "activation_norm", "amax", groups=True),),
    next_actions=(
        Action(Do.CHECK_MODEL, "Check the scale of the residual stream and the normalization."),
        Action(Do.LOG_MORE, "Log the largest activation of each layer to see where it begins."),
    ),
)
def activation_exploding(case: Case) -> Evidence | None:
    """Do activations end far above their usual level, or near the largest number of fp16?"""
    sizes = _longest(case, "activation_norm", "amax")
    size = max(sizes, key=lambda series: growth(series, from_lowest=False)[0])
    ratio, level, last = growth(size, from_lowest=False)
    multiplying = [series for series in sizes if _keeps_multiplying(series)]
    if ratio <= case.limits.gradients.explode_ratio and multiplying:
        size = max(multiplying, key=lambda series: growth(series, from_lowest=True)[0])
        ratio, level, last = growth(size, from_lowest=True)
    peak = _near_fp16_max(case)
    if ratio <= case.limits.gradients.explode_ratio:
        return None if peak is None else _approach_of_fp16_max(case, peak)
    began = growth_began(size, level)
    because = f"{size.column!r} rose from {num(level)} to {num(last)}, {num(ratio)} x, from "
    because = f"{because}{case.unit} {began} on."
    if peak is not None:
        because = f"{because} {sentence(describe_near_fp16_max(peak, case.unit))}"
    return Evidence(
        because=because,
        step=began,
        measured={"level": level, "last": last, "ratio": ratio},
        first=_restart(case, began),
        next_actions=(clip_action(case), *activation_exploding.next_actions),
    )


def _keeps_multiplying(size: Series) -> bool:
    """Return True if a series rises steadily, and twofold, over the last quarter.

    Healthy activations grow at the beginning of a run and then settle.
    """
    reached = levels(size.values, TWENTIETHS)
    quarter = reached[-TWENTIETHS // QUARTERS - 1 :]
    is_rising = bool((np.diff(quarter) > 0).all())
    return is_rising and float(quarter[0]) > 0 and float(quarter[-1] / quarter[0]) > _QUARTER_GROWTH


def _near_fp16_max(case: Case) -> Peak | None:
    """Return the largest activation of a run in fp16 if it is near 65504."""
    if case.manifest.dtype != "fp16":
        return None
    return activation_near_fp16_max(case.history, case.history.last_step or 0)


def _approach_of_fp16_max(case: Case, peak: Peak) -> Evidence:
    return Evidence(
        because=sentence(describe_near_fp16_max(peak, case.unit)),
        title="Activations near the largest number of fp16",
        step=peak.step,
        measured={"largest": peak.value},
        first=Action(
            Do.CHANGE_DTYPE,
            "Switch from fp16 to bf16 before they overflow, or scale the layer down.",
            also=(Do.CHANGE_MODEL,),
            **TO_BF16,
        ),
    )


@Symptom(
    slug="attention-logits-growing",
    title="Attention logits keep growing",
    needs=("max_attention_logit",),
    explained_by=("nan",),
    preconditions=(at_least(LEAST, "max_attention_logit", groups=True),),
    next_actions=(
        Action(Do.RAISE_WEIGHT_DECAY, "Decay the query and key weights."),
        Action(Do.LOG_MORE, "Log the attention entropy: it falls to 0 as the logits grow."),
    ),
)
def attention_logits_growing(case: Case) -> Evidence | None:
    """Do attention logits grow by orders of magnitude, or until the softmax is one-hot?"""
    # A softmax of logits below 1 is nearly flat.
    sizes = _longest(case, "max_attention_logit")
    size = max(sizes, key=lambda series: growth(series, 1.0, from_lowest=True)[0])
    ratio, level, last = growth(size, 1.0, from_lowest=True)
    is_explosion = ratio > case.limits.gradients.explode_ratio
    is_large = ratio > _LOGIT_GROWTH and last > case.limits.weights.large_logit
    is_large = is_large and keeps_growing(levels(size.values, TENTHS))
    if not (is_explosion or is_large):
        return None
    began = growth_began(size, level)
    return Evidence(
        because=f"{size.column!r} rose from {num(level)} to {num(last)}, {num(ratio)} x, from "
        f"{case.unit} {began} on; a softmax over logits this large attends to one token.",
        step=began,
        measured={"level": level, "last": last, "ratio": ratio},
        severity=None if is_explosion else Severity.NOTE,
        first=Action(
            Do.CHANGE_MODEL,
            "Normalize queries and keys (QK-norm) or cap the logits, and lower the learning rate.",
            also=(Do.LOWER_LR,),
        ),
    )


@frozen
class _Jump:
    """A sudden, lasting change of a norm: the step, and the levels before and after."""

    column: str
    step: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before

    @property
    def size(self) -> float:
        """The size of the jump in either direction, on a log scale."""
        return abs(float(np.log(self.ratio)))


@Symptom(
    slug="norm-jump",
    severity=Severity.NOTE,
    title="A norm jumped",
    needs=("weight_norm or grad_norm",),
    explained_by=("nan", "divergence", "spike", "loss-scale", "grad-exploding"),
    preconditions=(at_least(LEAST, "weight_norm", "grad_norm", groups=True),),
    next_actions=(
        Action(Do.RESTORE_STATE, "Check that no resume reinitialized or replaced weights there."),
    ),
)
def norm_jump(case: Case) -> Evidence | None:
    """Did the norm of weights or gradients change suddenly by a factor, and stay there?"""
    weights = case.history.group("weight_norm").values()
    factor = case.limits.divergence.weight_norm_ratio
    jumps = [_find_jump(series, factor, CONTEXT_POINTS) for series in weights]
    # Gradient norms are heavy-tailed, so more of them are needed for a level.
    jumps.append(_find_jump(case.history.logged("grad_norm"), _GRADIENT_JUMP, LEVEL))
    candidates = [jump for jump in jumps if jump is not None and not _changes_objective(case, jump)]
    if not candidates:
        return None
    jump = max(candidates, key=lambda jump: (jump.size, jump.column))
    return Evidence(
        because=f"{jump.column!r} jumped from {num(jump.before)} to {num(jump.after)} "
        f"({times(jump.ratio)}) at {case.unit} {jump.step} and stayed there.",
        step=jump.step,
        measured={"before": jump.before, "after": jump.after, "ratio": jump.ratio},
        first=Action(
            Do.CHECK_SETTINGS,
            f"Find out what changed at {case.unit} {jump.step}: a resume, a loaded checkpoint, "
            "frozen or added weights, the data.",
            step=jump.step,
        ),
    )


def _changes_objective(case: Case, jump: _Jump) -> bool:
    """Return True if the loss came to be measured on something else where a norm jumped."""
    return any(change.changes_objective for change in nearby_changes(case, jump.step, jump.step))


def _find_jump(series: Series, factor: float, width: int) -> _Jump | None:
    """Return the largest sudden change of a positive series that lasts, after its first tenth.

    Args:
        series: a norm.
        factor: the minimum change of its level.
        width: the number of points for the levels before and after the change.
    """
    finite = series.finite()
    if len(finite) < max(LEAST, QUARTERS * width) or finite.lowest <= 0:
        return None
    # Most of the change happens in one step, so that step changes by more than half of the minimum.
    bar, x = np.sqrt(factor), finite.values
    if finite.highest <= bar * finite.lowest:
        return None
    is_candidate = (x[1:] > bar * x[:-1]) | (bar * x[1:] < x[:-1])
    at = 1 + np.flatnonzero(is_candidate)
    at = at[(at >= max(len(x) // TENTHS, width)) & (at < len(x) - width)]
    if not len(at):
        return None
    changes = np.log(x[at]) - np.log(x[at - 1])
    by_size = np.argsort(-np.abs(changes))[:_CANDIDATES]
    noise: float | None = None
    best: _Jump | None = None
    for place, step_change in zip(at[by_size].tolist(), changes[by_size].tolist(), strict=True):
        before = float(np.log(level_before(x, place, width)))
        after = float(np.log(level_before(x, place + width, width)))
        change = after - before
        # Most of the change happened in this step.
        is_sudden = step_change / change > 0.5 if change else False
        if not is_sudden or abs(change) <= np.log(factor):
            continue
        # The rest needs the whole series, so it is computed for few of the candidates.
        noise = robust_sigma(np.diff(np.log(x))) if noise is None else noise
        remaining = float(np.log(median(x[place:])))
        lasts = (remaining - before) / change > 0.5
        if lasts and abs(change) > CLEAR * noise:
            jump = _Jump(
                column=finite.column,
                step=int(finite.steps[place]),
                before=float(np.exp(before)),
                after=float(np.exp(after)),
            )
            best = jump if best is None or jump.size > best.size else best
    return best
