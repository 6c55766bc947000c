"""The advice on each leaf, with the numbers of the run.

Each leaf has a function that returns a summary, the first action as one imperative sentence, and
further actions, from quick to invasive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stabdiag.model.findings import Answer
from stabdiag.tree.advice import divergence, nan, nan_fp16, plateau, precision, spike
from stabdiag.tree.advice.shared import Advice
from stabdiag.tree.case import Case

ADVICE: Final[Mapping[str, Callable[[Case, Mapping[str, Answer]], Advice]]] = {
    "nan-fp32": nan.full_precision,
    "nan-bf16": nan.full_precision,
    "nan-dtype-unknown": nan.full_precision,
    "nan-fp16-overflow": nan_fp16.fp16,
    "spike-long-tail-batch": spike.long_tail,
    "spike-lr-jump": spike.lr_jump,
    "spike-duplicate-batch": spike.duplicate,
    "spike-recovered": spike.recovered,
    "spike-persistent": spike.persistent,
    "spike-unresolved": spike.unresolved,
    "gradient-overflow": precision.overflow,
    "loss-scale-static": precision.static,
    "loss-scale-collapsed": precision.collapsed,
    "divergence-lr-rising": divergence.lr_rising,
    "divergence-weight-norm-climbing": divergence.weights,
    "divergence-weight-norm-collapsing": divergence.weights,
    "divergence-grad-norm-rising": divergence.grad_norm_rising,
    "divergence-unexplained": divergence.unexplained,
    "plateau": plateau.plateau,
}
