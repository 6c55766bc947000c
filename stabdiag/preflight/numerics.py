"""What a manifest says of precision, clipping and decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.ticks import Line
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.preflight.settings import Launch
    from stabdiag.ticks import Tick


def clip(at: Launch) -> Tick:
    """Are gradients clipped, at a threshold that means something?"""
    line = Line(slug="grad-clip", title="Gradient clipping")
    threshold, limits = at.manifest.grad_clip, at.limits.preflight
    usual = "Clip the gradient by its global norm at 1.0."
    if threshold is None:
        return line.unknown("The manifest does not say.", usual)
    if threshold <= 0:
        severity = Severity.NOTE if at.family == "sgd" else Severity.WARNING
        return line.crossed("It is off: one bad batch can wreck the run.", usual, severity=severity)
    told = f"The threshold is {num(threshold)}"
    if threshold < limits.clip_low:
        return line.crossed(f"{told}: it would cut nearly every step.", usual)
    if threshold > limits.clip_high:
        return line.crossed(f"{told}: it would seldom cut anything.", usual)
    return line.ticked(f"{told}.")


def precision(at: Launch) -> Tick:
    """Has the compute type the range that training needs?"""
    line = Line(slug="dtype", title="Precision")
    dtype = at.manifest.dtype
    if dtype is None:
        return line.unknown("The manifest does not say.", "Write `dtype` into it.")
    if dtype != "fp16":
        wider = "wider than " if dtype == "fp64" else ""
        return line.ticked(f"{dtype}: its range is {wider}that of fp32.")
    return line.crossed(
        "fp16: activations and gradients beyond 65504 overflow.",
        "Take bf16, where the hardware has it: wider range, and no loss scale.",
    )


def loss_scaling(at: Launch) -> Tick:
    """Is the loss scaled dynamically where fp16 needs it?"""
    line = Line(slug="loss-scaling", title="Loss scaling")
    manifest = at.manifest
    if manifest.dtype is None:
        return line.unknown("The manifest names no dtype; fp16 needs it.")
    if manifest.dtype != "fp16":
        return line.ticked(f"{manifest.dtype} needs none.")
    if manifest.static_loss_scale:
        return line.crossed(
            "The loss scale is fixed: an overflow cannot lower it.",
            "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed.",
            severity=Severity.WARNING,
        )
    if manifest.static_loss_scale is None and manifest.loss_scale_window is None:
        return line.unknown(
            "The run is in fp16, and the manifest does not say how the loss is scaled.",
            "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed.",
        )
    window = manifest.loss_scale_window
    every = f", and grows after {plural(window, 'step')} without an overflow" if window else ""
    return line.ticked(f"The loss scale is dynamic{every}.")


def epsilon(at: Launch) -> Tick:
    """Can the compute type hold Adam's epsilon?"""
    line = Line(slug="epsilon", title="Epsilon of Adam")
    manifest = at.manifest
    if manifest.optimizer is not None and at.family != "adam":
        return line.ticked(f"{manifest.optimizer} is no variant of Adam.")
    value = manifest.epsilon
    if value is None:
        return line.unknown("The manifest does not say; 1e-8 is the usual default.")
    if value <= 0:
        return line.crossed(
            f"It is {num(value)}: a second moment of 0 would be divided by.",
            "Set it to 1e-8.",
            severity=Severity.ERROR,
        )
    scaled = manifest.loss_scale_window is not None or manifest.static_loss_scale is not None
    if manifest.dtype == "fp16" and not scaled and value < at.limits.overflow.least_epsilon:
        return line.crossed(
            f"It is {num(value)}, and nothing in fp16 is smaller than 6e-08: where the optimizer's "
            "state is fp16 too, it is zero.",
            "Keep the optimizer's state in fp32, or raise epsilon to 1e-4.",
        )
    return line.ticked(f"It is {num(value)}.")


def weight_decay(at: Launch) -> Tick:
    """Is the weight decay one that weights survive?"""
    line = Line(slug="weight-decay", title="Weight decay")
    decay = at.manifest.weight_decay
    if decay is None:
        return line.unknown("The manifest does not say.")
    if decay < 0:
        return line.crossed(
            f"It is {num(decay)}: weights would grow without end.",
            "Check its sign.",
            severity=Severity.ERROR,
        )
    if decay > at.limits.preflight.decay_high:
        return line.crossed(
            f"It is {num(decay)}: weights would shrink to nothing.",
            "Take 0.1 or less, and leave biases and normalisation layers out.",
            severity=Severity.WARNING,
        )
    return line.ticked(f"It is {num(decay)}.")
