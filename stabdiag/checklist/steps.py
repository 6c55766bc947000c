"""The ten steps of debugging, each as far as a log and a manifest show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.checklist.facts import Remedy, remedies
from stabdiag.ticks import Line
from stabdiag.words import capitalised, num, plural, sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.checklist.facts import Facts
    from stabdiag.ticks import Tick

# What a finding says that the fault lies in, by what its advice sets about.
_AXES: Final[Mapping[Remedy, str]] = {
    Remedy.DATA: "the data",
    Remedy.RATE: "the optimizer: its learning rate",
    Remedy.DECAY: "the optimizer: its weight decay",
    Remedy.PRECISION: "the numerics",
    Remedy.MODEL: "the model",
}

# Their advice is to look at the data because nothing points anywhere.
_HIDDEN = ("spike-recovered", "divergence-unexplained")

_PER_LAYER = ("grad_norm", "weight_norm", "activation_norm")
_PER_LAYER_WORDS = {
    "grad_norm": "gradient norms by layer",
    "weight_norm": "weight norms by layer",
    "activation_norm": "sizes of activations",
}


def reproduce(facts: Facts) -> Tick:
    """Does the failure come again?"""
    line = Line(slug="reproduce", title="Reproduce the failure deterministically")
    seed = facts.manifest.seed
    told = (
        "no seed is told of"
        if seed is None
        else f"the seed is {seed}, but whether a second run fails alike, one log does not show"
    )
    return line.unknown(
        sentence(told),
        f"{facts.reload}, fix all seeds, and run it twice: one process, one worker of the loader. "
        "`stabdiag compare FIRST SECOND` tells where they part.",
        "If it does not fail at a smaller scale, look at distribution and at races in the data.",
    )


def data(facts: Facts) -> Tick:
    """Do the batches hold what they should?"""
    line = Line(slug="data", title="Check data and tokenizer")
    found = facts.calls_for(Remedy.DATA)
    do = (
        "Unit-test a batch: indices in range, labels that belong to their inputs, lengths, masks.",
        "Feed a tiny synthetic batch through, to see shapes and types.",
    )
    if found is not None:
        return line.crossed(f"{found.title} ({found.slug}).", found.first_action, *do)
    ids = "; no batches were found to repeat" if facts.logged("batch_id") else ""
    return line.unknown(f"Nothing in the log points at the data{ids}; no log shows a batch.", *do)


def instrument(facts: Facts) -> Tick:
    """Is enough logged to see where a fault begins?"""
    line = Line(slug="instrument", title="Instrument gradients and parameter statistics")
    there = [role for role in _PER_LAYER if facts.groups(role)]
    lacking = [_PER_LAYER_WORDS[role] for role in _PER_LAYER if role not in there]
    if not lacking:
        counts = ", ".join(f"{role} of {facts.groups(role)}" for role in there)
        return line.ticked(f"Logged by group: {counts}.")
    return line.crossed(
        f"Not in the log: {', '.join(lacking)}.",
        f"Log {' and '.join(lacking)}, every ten steps or so: {_columns(facts)}.",
    )


def _columns(facts: Facts) -> str:
    """Return how the columns are to be called that are lacking."""
    return ", ".join(f"{role}/<layer>" for role in _PER_LAYER if not facts.groups(role))


def narrow(facts: Facts) -> Tick:
    """Is it the model, the data or the optimizer?"""
    line = Line(slug="narrow", title="Narrow it to model, data or optimizer")
    for found in facts.report.findings if facts.broke else ():
        axes = [_AXES[remedy] for remedy in remedies(found) if remedy in _AXES]
        if axes and found.slug not in _HIDDEN:
            return line.ticked(f"The log points at {axes[0]} ({found.slug}).")
    return line.unknown(
        "The log does not tell them apart.",
        "Train a small model on the same data.",
        "Train the same model on a tiny synthetic set.",
        "Change one setting of the optimizer at a time.",
    )


def precision(facts: Facts) -> Tick:
    """Is it the precision?"""
    line = Line(slug="precision", title="Check numerics and precision")
    dtype, found = facts.manifest.dtype, facts.calls_for(Remedy.PRECISION)
    if facts.report.diagnosis.section == "§1":
        found = facts.report.diagnosis
    do = (
        f"{facts.reload}, and run the same batches in fp32: if it goes well, it is the precision.",
        "Scale the loss dynamically, or take bf16.",
    )
    if dtype in ("fp32", "fp64"):
        return line.ticked(f"The run is in {dtype}: mixed precision is not its fault.")
    if found is not None:
        return line.crossed(f"{found.title} ({found.slug}).", *do)
    if dtype is None:
        return line.unknown("The dtype is not known.", *do)
    return line.ticked(f"The run is in {dtype}, and no finding blames it.")


def learning_rate(facts: Facts) -> Tick:
    """Were learning rate and warm-up seen to?"""
    line = Line(slug="learning-rate", title="Tune learning rate and warm-up")
    found, peak = facts.calls_for(Remedy.RATE), facts.peak_rate
    now = f" (now {num(peak)})" if peak else ""
    do = (
        f"Lower the peak learning rate{now} by 3 to 10 times.",
        "Add a warm-up, or lengthen it; take a gentler schedule.",
    )
    if found is not None:
        # A rate that is 0 is not lowered.
        lower = () if peak == 0 else do
        return line.crossed(f"{found.title} ({found.slug}).", found.first_action, *lower)
    warmup = facts.warmup
    if warmup is not None:
        return line.ticked(f"{capitalised(warmup)}, and no finding blames it.")
    if peak is None:
        return line.unknown("The learning rate is neither logged nor told.", *do)
    if not facts.from_the_start:
        return line.unknown("The log begins after a warm-up would have been over.", *do)
    return line.crossed("There is no sign of a warm-up.", *do)


def safety_nets(facts: Facts) -> Tick:
    """Are gradients clipped, and weights decayed within reason?"""
    line = Line(slug="safety-nets", title="Apply safety nets")
    threshold = facts.manifest.grad_clip
    found = facts.calls_for(Remedy.DECAY) or facts.calls_for(Remedy.CLIP)
    if found is not None:
        return line.crossed(f"{found.title} ({found.slug}).", found.first_action)
    do = (
        "Clip the gradient by its global norm at 1.0.",
        "Check weight decay and the epsilon of Adam; take smaller batches to steady updates.",
    )
    if threshold is None:
        return line.unknown("The manifest does not say whether gradients are clipped.", *do)
    if threshold <= 0:
        return line.crossed("Gradient clipping is off.", *do)
    return line.ticked(f"Gradients are clipped at {num(threshold)}.")


def architecture(facts: Facts) -> Tick:
    """Does a layer stand out?"""
    line = Line(slug="architecture", title="Revisit components of the architecture")
    found = facts.calls_for(Remedy.MODEL)
    do = (
        "Look at normalisation, attention masks and position encodings; replace suspects one by "
        "one.",
    )
    if found is not None:
        return line.crossed(f"{found.title} ({found.slug}).", found.first_action, *do)
    layers = facts.groups("grad_norm")
    told = (
        f"No layer stands out among {plural(layers, 'gradient norm')}; masks and encodings no log "
        "shows."
        if layers
        else "Nothing is logged by layer."
    )
    return line.unknown(told, *do)


def distributed(facts: Facts) -> Tick:
    """Do all ranks do the same?"""
    line = Line(slug="distributed", title="Check distributed training")
    return line.unknown(
        "The log of one process does not show what the others do.",
        "Check that gradients are averaged, and that loss scales and overflow settings agree on "
        "all ranks.",
        "`stabdiag compare FOLDER`, with a log of each rank in it, tells where they part and which "
        "one stopped first.",
        "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL; look through the logs of "
        "every rank for the first error.",
        "Print the indices of the samples on each rank (sampler.set_epoch).",
    )


def minimal(facts: Facts) -> Tick:
    """Is there a smallest script that fails?"""
    line = Line(slug="minimal", title="Make a minimal reproduction and file a bug")
    return line.unknown(
        "No log shows it.",
        "Reduce the run to the smallest script that fails, and report it with the log: "
        "`stabdiag diagnose LOG --format json`.",
    )


STEPS = (
    reproduce,
    data,
    instrument,
    narrow,
    precision,
    learning_rate,
    safety_nets,
    architecture,
    distributed,
    minimal,
)
