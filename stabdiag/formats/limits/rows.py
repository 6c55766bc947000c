"""The quick reference: which symptom, from which threshold on, calls for what first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.limits import LimitInfo, Limits


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the quick reference; ``$spike_sigma`` in a threshold is that limit's value."""

    symptom: str
    threshold: str
    first_action: str
    node: str
    limits: tuple[str, ...] = ()


# The tree's own six rows, and below them what else the walk can find.
ROWS: tuple[Row, ...] = (
    Row(
        symptom="loss NaN or infinite",
        threshold="any",
        first_action="§1: find the layer that it came from",
        node="Q1.1",
    ),
    Row(
        symptom="single-step spike",
        threshold="loss > μ + $spike_sigma σ, beyond chance",
        first_action="Q2.3: check the gradient-norm panel",
        node="Q2.1",
        limits=("spike.sigma", "spike.window", "spike.false_alarm"),
    ),
    Row(
        symptom="persistent elevation",
        threshold="not back within μ + $spike_recovery_sigma σ in $spike_recovery_steps steps",
        first_action="Q2.4: reload the checkpoint before it",
        node="Q2.2",
        limits=("spike.recovery_sigma", "spike.recovery_steps"),
    ),
    Row(
        symptom="gradient norm infinite or NaN in fp16, bf16",
        threshold="any",
        first_action="§3: check the loss scaling",
        node="Q3.1",
    ),
    Row(
        symptom="loss rising",
        threshold="over $divergence_window steps, p < $divergence_significance",
        first_action="§4: check LR, decay, gradient",
        node="Q4.1",
        limits=("divergence.window", "divergence.significance", "divergence.material"),
    ),
    Row(
        symptom="weight norm changing",
        threshold="> $divergence_weight_norm_ratio × in $divergence_window steps",
        first_action="adjust the weight decay by 2 ×",
        node="Q4.3",
        limits=("divergence.weight_norm_ratio", "divergence.window"),
    ),
    Row(
        symptom="loss missing while the rest is logged",
        threshold="$nan_absent_records records in a row",
        first_action="take it for NaN: §1",
        node="Q1.1",
        limits=("nan.absent_records",),
    ),
    Row(
        symptom="gradient norm before a NaN",
        threshold="> $nan_grad_surge × its rolling mean",
        first_action="lengthen warm-up, lower the LR, clip",
        node="Q1.3",
        limits=("nan.grad_surge",),
    ),
    Row(
        symptom="gradient norm at a spike",
        threshold="> $spike_grad_ratio × its rolling mean",
        first_action="look into that step's batch",
        node="Q2.3",
        limits=("spike.grad_ratio",),
    ),
    Row(
        symptom="learning rate jumping",
        threshold="× $spike_lr_jump from one point to the next",
        first_action="correct the schedule",
        node="Q2.3",
        limits=("spike.lr_jump", "spike.lookback"),
    ),
    Row(
        symptom="batch seen again",
        threshold="within $spike_batch_lookback steps",
        first_action="correct the data loader",
        node="Q2.3",
        limits=("spike.batch_lookback",),
    ),
    Row(
        symptom="loss scale collapsed",
        threshold="< $precision_scale_floor, or pinned at its floor",
        first_action="check init and activations",
        node="Q3.2",
        limits=("precision.scale_floor",),
    ),
    Row(
        symptom="overflows too frequent",
        threshold="> $precision_overflow_factor × the scaler's probe rate",
        first_action="lower the LR by 2 ×, or use bf16",
        node="Q3.2",
        limits=("precision.overflow_factor", "precision.growth_interval"),
    ),
    Row(
        symptom="learning rate rising with the loss",
        threshold="> $divergence_lr_rise × over the window",
        first_action="correct the schedule",
        node="Q4.2",
        limits=("divergence.lr_rise",),
    ),
    Row(
        symptom="gradient norm rising with the loss",
        threshold="> $divergence_grad_norm_rise × over the window",
        first_action="lower the LR by 2 ×",
        node="Q4.4",
        limits=("divergence.grad_norm_rise",),
    ),
)


def filled(row: Row, limits: Limits) -> str:
    """Return a row's threshold with the values in force."""
    return Template(row.threshold).substitute(
        {info.name.replace(".", "_"): f"{info.value:g}" for info in limits.items()}
    )


def source(row: Row, limits: Limits) -> str:
    """Return where a row's threshold comes from."""
    about = [info.about.source for info in limits.items() if info.name in row.limits]
    return "; ".join(dict.fromkeys(about)) or f"decision tree {row.node}"


def bounds(info: LimitInfo) -> str:
    """Return a limit's range in words."""
    if math.isinf(info.about.at_most):
        return f"at least {info.about.at_least:g}"
    return f"{info.about.at_least:g} to {info.about.at_most:g}"
