"""What to try, fast things first, and whether this run has tried it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.checklist import steps
from stabdiag.checklist.facts import Remedy
from stabdiag.findings import ActionKind
from stabdiag.ticks import Line, State
from stabdiag.words import num

if TYPE_CHECKING:
    from stabdiag.checklist.facts import Facts
    from stabdiag.ticks import Tick


def lower_rate(facts: Facts) -> Tick:
    """Is there a warm-up, and a learning rate that no finding blames?"""
    step = steps.learning_rate(facts)
    return replace(step, slug="try-rate", title="Lower the learning rate, or warm up longer")


def loss_scale(facts: Facts) -> Tick:
    """Is mixed precision off, or without overflows?"""
    line = Line(slug="try-precision", title="Switch off mixed precision, or adjust the loss scale")
    dtype, found = facts.manifest.dtype, facts.calls_for(Remedy.PRECISION)
    do = ("Run in fp32 or bf16; where fp16 has to be, scale the loss dynamically.",)
    if dtype is None:
        return line.unknown("The dtype is not known.", *do)
    if dtype in ("fp32", "fp64"):
        return line.ticked(f"The run is in {dtype}.")
    if found is not None:
        return line.crossed(f"The run is in {dtype}: {found.title} ({found.slug}).", *do)
    return line.ticked(f"The run is in {dtype}, and no finding blames it.")


def clip(facts: Facts) -> Tick:
    """Does the manifest tell of a clip threshold that no finding wants changed?"""
    line = Line(slug="try-clip", title="Clip the gradient by its global norm")
    threshold, found = facts.manifest.grad_clip, facts.calls_for(Remedy.CLIP)
    do = "Clip it at 1.0." if found is None else found.first_action
    if threshold is None:
        return line.unknown("The manifest does not say.", do)
    if threshold <= 0:
        return line.crossed("It is off.", do)
    told = f"It is clipped at {num(threshold)}"
    if found is not None:
        return line.crossed(f"{told}. {found.title} ({found.slug}).", do)
    return line.ticked(f"{told}.")


def pipeline(facts: Facts) -> Tick:
    """Does no finding blame the data? Their tests no log shows."""
    step = steps.data(facts)
    seed = facts.manifest.seed
    told = f"{step.because} The seed is {seed}." if seed is not None else step.because
    return replace(
        step, slug="try-data", title="Validate the data pipeline, fix the seeds", because=told
    )


def custom_ops(facts: Facts) -> Tick:
    """Did a finite forward pass, or gradient, turn NaN?"""
    line = Line(slug="try-operations", title="Replace suspicious custom operations")
    do = ("Put the safe ones of the framework in their place: log_softmax, clamp, epsilons.",)
    found = facts.calls_for(Remedy.OPERATIONS)
    if found is None and ActionKind.INSPECT_LAYERS in facts.after_nan:
        found = facts.report.diagnosis
    if found is not None:
        return line.crossed(f"{found.title} ({found.slug}).", found.first_action, *do)
    return line.unknown("No log shows which operations there are.", *do)


def batch_size(facts: Facts) -> Tick:
    """Which batch size does the manifest tell of?"""
    size = facts.manifest.batch_size
    told = "The manifest names no batch size." if size is None else f"The batch is {size}."
    line = Line(
        slug="try-batch", title="Reduce the batch size, or accumulate gradients more carefully"
    )
    return line.unknown(
        told,
        "Halve the batch, and the learning rate with it; check that accumulated losses are "
        "divided by the number of micro-batches.",
    )


def bisect(facts: Facts) -> Tick:
    """The last resort: nothing of it is in a log."""
    return replace(
        steps.minimal(facts),
        slug="try-bisect",
        title="Instrument a minimal example, and bisect code and changes",
    )


INTERVENTIONS = (lower_rate, loss_scale, clip, pipeline, custom_ops, batch_size, bisect)


def first_open(ticks: tuple[Tick, ...]) -> str | None:
    """Return the slug of the first line that is not ticked."""
    return next((tick.slug for tick in ticks if tick.state is not State.TICKED), None)
