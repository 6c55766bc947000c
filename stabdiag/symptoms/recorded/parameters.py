"""Which parameters are trained, and how, from the recorder."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series, recorder_header
from stabdiag.model.text import percent, plural, times
from stabdiag.stats.standards import HALF, MIN_CONSECUTIVE
from stabdiag.symptoms.recorded.facts import PREFIX, fact_layers, first_true_step, quoted
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_MISSING: Final = f"{PREFIX}/not_in_optimizer"
_FROZEN: Final = f"{PREFIX}/frozen_random"
_UNMOVED: Final = f"{PREFIX}/unmoved_random"
_NO_GRADIENT: Final = f"{PREFIX}/no_gradient"
_STEPS: Final = f"{PREFIX}/optimizer_steps"
_UNCHANGED: Final = f"{PREFIX}/unchanged"

# If the optimizer is replaced, its step count drops by at least this much.
_MIN_LOST_STEPS: Final = 10

# Below this fraction of the peak rate, small updates are meant to be small.
_HIGH_RATE: Final = HALF


@Symptom(
    slug="not-in-optimizer",
    severity=Severity.ERROR,
    title="Trainable parameters are in no optimizer",
    needs=(_MISSING,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "Set requires_grad to False for parameters that should not be trained.",
        ),
    ),
)
def not_in_optimizer(case: Case) -> Evidence | None:
    """Do parameters that require a gradient belong to no optimizer?"""
    step = first_true_step(case, _MISSING)
    if step is None:
        return None
    count = int(case.history.finite(_MISSING).values[-1])
    layers = fact_layers(case, _MISSING)
    return Evidence(
        because=f"No optimizer contains {plural(f'{count:,}', 'trainable weight')} of "
        f"{quoted(layers)}: "
        "they keep their initial values.",
        step=step,
        measured={"weights": count, "layers": len(layers)},
        first=Action(
            Do.CHECK_MODEL,
            f"Create the optimizer after the model is complete, so that it contains "
            f"{quoted(layers)}.",
        ),
    )


@Symptom(
    slug="frozen-at-init",
    title="Layers keep their random initial weights",
    needs=(_FROZEN,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "If the layer is random on purpose, put this finding on the ignore list.",
        ),
    ),
)
def frozen_at_init(case: Case) -> Evidence | None:
    """Do weight matrices keep their random values while others are trained?"""
    for fact, reason, fix in (
        (_FROZEN, "requires_grad is False", "Load the pretrained weights of {}, or train them."),
        (_UNMOVED, "no step changes them", "Check the learning rate of {}'s parameter group."),
    ):
        step = first_true_step(case, fact)
        if step is not None:
            count, layers = int(case.history.finite(fact).values[-1]), fact_layers(case, fact)
            return Evidence(
                because=f"{plural(f'{count:,}', 'weight')} of {quoted(layers)} look randomly "
                f"initialized, and are the same to the last bit throughout: {reason}.",
                step=step,
                measured={"weights": count, "layers": len(layers)},
                first=Action(Do.CHECK_MODEL, fix.format(quoted(layers))),
            )
    return None


@Symptom(
    slug="no-gradient",
    title="No gradient reaches some parameters",
    needs=(_NO_GRADIENT,),
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "Freeze parameters that the loss does not need, such as an unused pooler.",
        ),
    ),
)
def no_gradient(case: Case) -> Evidence | None:
    """Do some of the optimizer's parameters never get a gradient?"""
    step = first_true_step(case, _NO_GRADIENT)
    if step is None:
        return None
    count, layers = (
        int(case.history.finite(_NO_GRADIENT).values[-1]),
        fact_layers(case, _NO_GRADIENT),
    )
    fraction = _fraction_of_weights(case, count)
    # Models often have a small part that a task does not use.
    is_small = fraction is not None and fraction < case.limits.recorded.idle_fraction
    part = "" if fraction is None else f" ({percent(fraction, 2)} of all)"
    return Evidence(
        because=f"{plural(f'{count:,}', 'weight')}{part} of {quoted(layers)} received no "
        "gradient in any step.",
        step=step,
        measured={"weights": count, "layers": len(layers)},
        severity=Severity.NOTE if is_small else None,
        first=Action(
            Do.CHECK_MODEL,
            f"Look for a detach(), no_grad() or argmax between {quoted(layers)} and the loss.",
        ),
    )


def _fraction_of_weights(case: Case, count: int) -> float | None:
    """Return a count as a fraction of all trainable weights, None if unknown."""
    total = recorder_header(case.history.config).get("trainable_values")
    return count / total if isinstance(total, int | float) and total else None


@Symptom(
    slug="initial-weights-off",
    title="Initial weights are far from the usual size",
    needs=(f"{PREFIX}/initial_std",),
    is_fact=True,
    next_actions=(
        Action(Do.CHECK_MODEL, "Compare with a fresh layer: layer.reset_parameters()."),
        Action(
            Do.LOWER_LR, "If the size is intended, lower the learning rate or lengthen the warm-up."
        ),
    ),
)
def initial_weights_off(case: Case) -> Evidence | None:
    """Is the standard deviation of a matrix far from 1/√fan-in at the start of the run?"""
    limits = case.limits.recorded
    prefix = f"{PREFIX}/initial_std/"
    ratios = {
        role.removeprefix(prefix): float(series.values[0])
        for role, series in case.history.series.items()
        if role.startswith(prefix) and len(series) and series.values[0] > 0
    }
    large = {layer: ratio for layer, ratio in ratios.items() if ratio > limits.initial_high}
    small = {layer: ratio for layer, ratio in ratios.items() if ratio < limits.initial_low}
    # Last layers and the ends of residual branches often start small on purpose.
    off = large or (small if len(small) > len(ratios) / 2 else {})
    if not off:
        return None
    layer = max(off, key=lambda name: abs(math.log(off[name])))
    ratio = off[layer]
    verb = "Scale down" if ratio > 1 else "Scale up"
    return Evidence(
        because=f"The weights of {layer!r} begin at {times(ratio)} the usual size, 1/√fan-in "
        f"({plural(len(off), 'layer')} of {len(ratios)} off).",
        step=case.history.first_step,
        measured={
            "layer": layer,
            "ratio": ratio,
            "layers_affected": len(off),
            "layers": len(ratios),
        },
        first=Action(Do.CHECK_MODEL, f"{verb} the initialization of {layer!r}."),
    )


@Symptom(
    slug="optimizer-replaced",
    severity=Severity.ERROR,
    title="The optimizer lost its state",
    needs=(_STEPS,),
    is_fact=True,
    next_actions=(
        Action(
            Do.RESTORE_STATE,
            "If a new optimizer is intended, as in a new phase, warm up the learning rate again.",
        ),
    ),
)
def optimizer_replaced(case: Case) -> Evidence | None:
    """Does the optimizer's own step count restart while the run continues?"""
    series = case.history.finite(_STEPS)
    steps, counts = series.steps, series.values
    lost = (counts[1:] <= 1) & (counts[:-1] >= _MIN_LOST_STEPS) & (np.diff(steps) > 0)
    if not lost.any():
        return None
    at = int(np.flatnonzero(lost)[0]) + 1
    step, before = int(steps[at]), int(counts[at - 1])
    return Evidence(
        because=f"At step {step} the optimizer had counted {int(counts[at])} steps, and "
        f"{before} just before: its moments are lost.",
        step=step,
        measured={"steps_before": before, "steps_after": int(counts[at])},
        first=Action(
            Do.RESTORE_STATE,
            f"At step {step}, load the optimizer's state with the weights: load_state_dict().",
            step=step,
        ),
    )


@Symptom(
    slug="updates-lost",
    title="16-bit weights lose most updates to rounding",
    needs=(_UNCHANGED, "lr"),
    preconditions=(at_least(MIN_CONSECUTIVE, _UNCHANGED),),
    explained_by=("nan",),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_PRECISION,
            "Or use stochastic rounding, or raise the learning rate so that updates exceed 1/512 "
            "of the weights.",
        ),
    ),
)
def updates_lost(case: Case) -> Evidence | None:
    """Do most weights with a gradient stay unchanged while the rate is high?"""
    unchanged = case.history.finite(_UNCHANGED)
    values = unchanged.values[_high_rate_mask(case, unchanged)]
    if len(values) < MIN_CONSECUTIVE or _stored_as(case) not in ("bfloat16", "float16"):
        return None
    fraction = float(np.median(values))
    if fraction <= case.limits.recorded.lost_updates:
        return None
    stored = _stored_as(case)
    return Evidence(
        because=f"{fraction:.0%} of the weights with a gradient are unchanged after a step "
        f"(median of "
        f"{len(values)} at half the peak rate or more): {stored} rounds their updates away.",
        step=int(unchanged.steps[0]),
        measured={"unchanged": fraction, "stored_as": stored},
        first=Action(
            Do.CHANGE_DTYPE,
            f"Keep the weights in fp32 and compute in {stored} with autocast.",
            also=(Do.CHECK_PRECISION,),
        ),
    )


def _stored_as(case: Case) -> str | None:
    """Return the storage dtype of the weights, from the recorder's header."""
    stored = recorder_header(case.history.config).get("stored_as")
    return stored if isinstance(stored, str) else None


def _high_rate_mask(case: Case, series: Series) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return a mask of the points where the learning rate was at least half its peak."""
    lr = case.history.finite("lr")
    if not len(lr) or not len(series):
        return np.zeros(len(series), dtype=bool)
    at = np.clip(np.searchsorted(lr.steps, series.steps), 0, len(lr) - 1)
    return np.asarray(lr.values[at] >= _HIGH_RATE * lr.values.max())
