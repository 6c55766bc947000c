"""Precision outside section 3 of the tree: many skipped steps, a too small epsilon for fp16."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stabdiag.model.findings import Action, Confidence, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.ranges import FP16_EPSILON
from stabdiag.model.text import num, plural
from stabdiag.stats.standards import FEW_EVENTS, HALF, MIN_TREND_POINTS, TENTH
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.shared import TO_BF16
from stabdiag.tree.case import Case
from stabdiag.tree.scaler import PAUSE, find_overflows, is_averaged, skips, stuck_scale


@Symptom(
    slug="overflow-rate-high",
    confidence=Confidence.HIGH,
    title="Too many skipped steps",
    needs=("skipped",),
    explained_by=("nan", "gradient-overflow", "loss-scale"),
    preconditions=(at_least(MIN_TREND_POINTS, "skipped"),),
    next_actions=(
        Action(Do.DYNAMIC_LOSS_SCALE, "Lengthen the scaler's growth interval (loss_scale_window)."),
        Action(Do.LOG_MORE, "Log the largest activations and see whether they grow."),
    ),
)
def overflow_rate_high(case: Case) -> Evidence | None:
    """Are too many steps skipped once the scaler has found its scale?"""
    skipped = case.history.finite("skipped")
    counts, begin, end = skips(skipped), int(skipped.steps[0]), int(skipped.steps[-1])
    after = begin + max(2 * PAUSE, TENTH * (end - begin))
    late, steps = skipped.steps > after, end - after
    count = int(counts[late].sum())
    fraction = count / steps if steps > 0 else 0.0
    # A count of more skips than steps means something else.
    if count <= FEW_EVENTS or not case.limits.overflow.skipped_fraction < fraction <= 1:
        return None
    first = int(skipped.steps[late][np.argmax(counts[late] > 0)])
    measured: dict[str, Scalar] = {"skipped": count, "steps": steps, "fraction": fraction}
    if case.manifest.dtype not in (None, "fp16") and "loss_scale" not in case.history.series:
        return _skipped_by_loop(case, first, measured)
    return Evidence(
        because=f"{plural(count, case.unit)} of {round(steps)} ({fraction:.1%}) were skipped for "
        f"overflows after the scaler's first search, from {case.unit} {first} on.",
        step=first,
        measured=measured,
        first=Action(
            Do.CHANGE_DTYPE,
            "Switch from fp16 to bf16, or halve the learning rate.",
            also=(Do.LOWER_LR,),
            **TO_BF16,
        ),
    )


def _skipped_by_loop(case: Case, first: int, measured: Mapping[str, Scalar]) -> Evidence:
    """Report steps that the training loop itself skips, as a warning if these are most steps."""
    count, steps, fraction = (float(measured[key] or 0) for key in ("skipped", "steps", "fraction"))
    return Evidence(
        because=f"{plural(int(count), case.unit)} of {round(steps)} ({fraction:.1%}) were skipped "
        f"from {case.unit} {first} on. In {case.manifest.dtype}, without a loss scaler, only the "
        "training loop skips steps.",
        title="The training loop skips steps",
        step=first,
        measured=measured,
        severity=Severity.WARNING if fraction > HALF else Severity.NOTE,
        first=Action(
            Do.CHECK_MODEL,
            "Find the condition that makes the training loop skip these steps, and check that all "
            "other steps call optimizer.step().",
            also=(Do.INSPECT_DATA,),
        ),
        next_actions=(Action(Do.LOG_MORE, "Log the value that this condition tests."),),
    )


@Symptom(
    slug="adam-underflow-risk",
    severity=Severity.NOTE,
    title="Adam's epsilon is too small for fp16",
    needs=("manifest.dtype", "manifest.optimizer", "manifest.epsilon"),
    next_actions=(
        Action(
            Do.CHANGE_DTYPE,
            "Switch to bf16: it has the range of fp32.",
            setting="dtype",
            to="bf16",
        ),
    ),
)
def adam_underflow_risk(case: Case) -> Evidence | None:
    """Is Adam's epsilon too small for fp16, without a sign that its state is in fp32?"""
    manifest = case.manifest
    epsilon, name = manifest.epsilon, (manifest.optimizer or "").lower()
    if epsilon is None or manifest.dtype != "fp16" or "adam" not in name:
        return None
    # A loss scale is the sign of mixed precision: weights and moments are then fp32.
    mixed = (
        case.history.get("loss_scale") is not None
        or manifest.loss_scale_window is not None
        or manifest.static_loss_scale is not None
    )
    if mixed or epsilon >= case.limits.overflow.min_epsilon:
        return None
    return Evidence(
        because=f"Adam's epsilon is {num(epsilon)}, but the smallest fp16 number is 6e-08; without "
        "a logged loss scale, the optimizer state may be fp16 as well.",
        measured={"epsilon": epsilon},
        first=Action(
            Do.CHANGE_OPTIMIZER,
            f"Raise epsilon from {num(epsilon)} to 1e-4, or keep the optimizer's state in fp32.",
            also=(Do.CHANGE_DTYPE,),
            setting="epsilon",
            from_=epsilon,
            to=FP16_EPSILON,
        ),
    )


@Symptom(
    slug="loss-scale-stuck",
    severity=Severity.NOTE,
    title="The loss scale never grows again",
    needs=("loss_scale", "manifest.dtype"),
    explained_by=("nan", "gradient-overflow", "loss-scale"),
    preconditions=(at_least(MIN_TREND_POINTS, "loss_scale"),),
    next_actions=(
        Action(Do.LOG_MORE, "Log skipped steps: a scaler that counts them restarts its interval."),
    ),
)
def loss_scale_stuck(case: Case) -> Evidence | None:
    """Does the loss scale of fp16 stay where it fell, for more than two growth intervals?"""
    scale = case.history.finite("loss_scale")
    if case.manifest.dtype != "fp16" or is_averaged(scale):
        return None
    overflows = find_overflows(case)
    stuck = stuck_scale(scale, overflows) if overflows.count else None
    if stuck is None:
        return None
    top, interval = float(scale.values.max()), num(overflows.interval)
    return Evidence(
        because=f"The loss scale fell from {num(top)} to {num(stuck.value)} at {case.unit} "
        f"{stuck.since} and stays there for {plural(stuck.steps, case.unit)} without an overflow; "
        f"a scaler doubles it after {interval} steps ({overflows.interval_from}).",
        step=stuck.since,
        measured={"highest": top, "scale": stuck.value, "waited": stuck.steps},
        first=Action(
            Do.DYNAMIC_LOSS_SCALE,
            "Check that scaler.update() runs once per optimizer step, and lower the growth "
            f"interval (now {interval}): small gradients underflow at a low scale.",
        ),
    )
