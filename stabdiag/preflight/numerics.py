"""What a manifest says of precision, clipping and decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.preflight.rates import family
from stabdiag.ticks import crossed, ticked, unknown
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.preflight.settings import Launch
    from stabdiag.ticks import Tick


def clip(at: Launch) -> Tick:
    """Are gradients clipped, at a threshold that means something?"""
    slug, title = "grad-clip", "Gradient clipping"
    threshold, limits = at.manifest.grad_clip, at.limits.preflight
    usual = "Clip the gradient by its global norm at 1.0."
    if threshold is None:
        return unknown(slug, title, "The manifest does not say.", usual)
    if threshold <= 0:
        severity = Severity.NOTE if family(at.manifest.optimizer) == "sgd" else Severity.WARNING
        return crossed(
            slug, title, "It is off: one bad batch can wreck the run.", usual, severity=severity
        )
    told = f"The threshold is {num(threshold)}"
    if threshold < limits.clip_low:
        return crossed(slug, title, f"{told}: it would cut nearly every step.", usual)
    if threshold > limits.clip_high:
        return crossed(slug, title, f"{told}: it would seldom cut anything.", usual)
    return ticked(slug, title, f"{told}.")


def precision(at: Launch) -> Tick:
    """Has the compute type the range that training needs?"""
    slug, title = "dtype", "Precision"
    dtype = at.manifest.dtype
    if dtype is None:
        return unknown(slug, title, "The manifest does not say.", "Write `dtype` into it.")
    if dtype != "fp16":
        wider = "wider than " if dtype == "fp64" else ""
        return ticked(slug, title, f"{dtype}: its range is {wider}that of fp32.")
    return crossed(
        slug,
        title,
        "fp16: activations and gradients beyond 65504 overflow.",
        "Take bf16, where the hardware has it: wider range, and no loss scale.",
    )


def loss_scaling(at: Launch) -> Tick:
    """Is the loss scaled dynamically where fp16 needs it?"""
    slug, title = "loss-scaling", "Loss scaling"
    manifest = at.manifest
    if manifest.dtype is None:
        return unknown(slug, title, "The manifest names no dtype; fp16 needs it.")
    if manifest.dtype != "fp16":
        return ticked(slug, title, f"{manifest.dtype} needs none.")
    if manifest.static_loss_scale:
        return crossed(
            slug,
            title,
            "The loss scale is fixed: an overflow cannot lower it.",
            "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed.",
            severity=Severity.WARNING,
        )
    if manifest.static_loss_scale is None and manifest.loss_scale_window is None:
        return unknown(
            slug,
            title,
            "The run is in fp16, and the manifest does not say how the loss is scaled.",
            "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed.",
        )
    window = manifest.loss_scale_window
    every = f", and grows after {plural(window, 'step')} without an overflow" if window else ""
    return ticked(slug, title, f"The loss scale is dynamic{every}.")


def epsilon(at: Launch) -> Tick:
    """Can the compute type hold Adam's epsilon?"""
    slug, title = "epsilon", "Epsilon of Adam"
    manifest = at.manifest
    if manifest.optimizer is not None and family(manifest.optimizer) != "adam":
        return ticked(slug, title, f"{manifest.optimizer} is no variant of Adam.")
    value = manifest.epsilon
    if value is None:
        return unknown(slug, title, "The manifest does not say; 1e-8 is the usual default.")
    if value <= 0:
        return crossed(
            slug,
            title,
            f"It is {num(value)}: a second moment of 0 would be divided by.",
            "Set it to 1e-8.",
            severity=Severity.ERROR,
        )
    scaled = manifest.loss_scale_window is not None or manifest.static_loss_scale is not None
    if manifest.dtype == "fp16" and not scaled and value < at.limits.overflow.least_epsilon:
        return crossed(
            slug,
            title,
            f"It is {num(value)}, and nothing in fp16 is smaller than 6e-08: where the optimizer's "
            "state is fp16 too, it is zero.",
            "Keep the optimizer's state in fp32, or raise epsilon to 1e-4.",
        )
    return ticked(slug, title, f"It is {num(value)}.")


def weight_decay(at: Launch) -> Tick:
    """Is the weight decay one that weights survive?"""
    slug, title = "weight-decay", "Weight decay"
    decay = at.manifest.weight_decay
    if decay is None:
        return unknown(slug, title, "The manifest does not say.")
    if decay < 0:
        return crossed(
            slug,
            title,
            f"It is {num(decay)}: weights would grow without end.",
            "Check its sign.",
            severity=Severity.ERROR,
        )
    if decay > at.limits.preflight.decay_high:
        return crossed(
            slug,
            title,
            f"It is {num(decay)}: weights would shrink to nothing.",
            "Take 0.1 or less, and leave biases and normalisation layers out.",
            severity=Severity.WARNING,
        )
    return ticked(slug, title, f"It is {num(decay)}.")
