"""The ten steps of debugging, each as far as a log and a manifest show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.checklist.facts import remedies
from stabdiag.findings import Remedy
from stabdiag.ticks import crossed, ticked, unknown
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
    slug, title = "reproduce", "Reproduce the failure deterministically"
    seed = facts.manifest.seed
    told = (
        "no seed is told of"
        if seed is None
        else f"the seed is {seed}, but whether a second run fails alike, one log does not show"
    )
    return unknown(
        slug,
        title,
        sentence(told),
        f"{facts.reload}, fix all seeds, and run it twice: one process, one worker of the loader. "
        "`stabdiag compare FIRST SECOND` tells where they part.",
        "If it does not fail at a smaller scale, look at distribution and at races in the data.",
    )


def data(facts: Facts) -> Tick:
    """Do the batches hold what they should?"""
    slug, title = "data", "Check data and tokenizer"
    found = facts.calls_for(Remedy.DATA)
    do = (
        "Unit-test a batch: indices in range, labels that belong to their inputs, lengths, masks.",
        "Feed a tiny synthetic batch through, to see shapes and types.",
    )
    if found is not None:
        return crossed(slug, title, f"{found.title} ({found.slug}).", found.first_action, *do)
    ids = "; no batches were found to repeat" if facts.logged("batch_id") else ""
    return unknown(
        slug, title, f"Nothing in the log points at the data{ids}; no log shows a batch.", *do
    )


def instrument(facts: Facts) -> Tick:
    """Is enough logged to see where a fault begins?"""
    slug, title = "instrument", "Instrument gradients and parameter statistics"
    there = [role for role in _PER_LAYER if facts.groups(role)]
    lacking = [_PER_LAYER_WORDS[role] for role in _PER_LAYER if role not in there]
    if not lacking:
        counts = ", ".join(f"{role} of {facts.groups(role)}" for role in there)
        return ticked(slug, title, f"Logged by group: {counts}.")
    return crossed(
        slug,
        title,
        f"Not in the log: {', '.join(lacking)}.",
        f"Log {' and '.join(lacking)}, every ten steps or so: {_columns(facts)}.",
    )


def _columns(facts: Facts) -> str:
    """Return how the columns are to be called that are lacking."""
    return ", ".join(f"{role}/<layer>" for role in _PER_LAYER if not facts.groups(role))


def narrow(facts: Facts) -> Tick:
    """Is it the model, the data or the optimizer?"""
    slug, title = "narrow", "Narrow it to model, data or optimizer"
    for found in facts.report.findings if facts.broke else ():
        axes = [_AXES[remedy] for remedy in remedies(found) if remedy in _AXES]
        if axes and found.slug not in _HIDDEN:
            return ticked(slug, title, f"The log points at {axes[0]} ({found.slug}).")
    return unknown(
        slug,
        title,
        "The log does not tell them apart.",
        "Train a small model on the same data.",
        "Train the same model on a tiny synthetic set.",
        "Change one setting of the optimizer at a time.",
    )


def precision(facts: Facts) -> Tick:
    """Is it the precision?"""
    slug, title = "precision", "Check numerics and precision"
    dtype, found = facts.manifest.dtype, facts.calls_for(Remedy.PRECISION)
    if facts.report.diagnosis.section == "§1":
        found = facts.report.diagnosis
    do = (
        f"{facts.reload}, and run the same batches in fp32: if it goes well, it is the precision.",
        "Scale the loss dynamically, or take bf16.",
    )
    if dtype in ("fp32", "fp64"):
        return ticked(slug, title, f"The run is in {dtype}: mixed precision is not its fault.")
    if found is not None:
        return crossed(slug, title, f"{found.title} ({found.slug}).", *do)
    if dtype is None:
        return unknown(slug, title, "The dtype is not known.", *do)
    return ticked(slug, title, f"The run is in {dtype}, and no finding blames it.")


def learning_rate(facts: Facts) -> Tick:
    """Were learning rate and warm-up seen to?"""
    slug, title = "learning-rate", "Tune learning rate and warm-up"
    found, peak = facts.calls_for(Remedy.RATE), facts.peak_rate
    now = f" (now {num(peak)})" if peak else ""
    do = (
        f"Lower the peak learning rate{now} by 3 to 10 times.",
        "Add a warm-up, or lengthen it; take a gentler schedule.",
    )
    if found is not None:
        # A rate that is 0 is not lowered.
        lower = () if peak == 0 else do
        return crossed(slug, title, f"{found.title} ({found.slug}).", found.first_action, *lower)
    warmup = facts.warmup
    if warmup is not None:
        return ticked(slug, title, f"{capitalised(warmup)}, and no finding blames it.")
    if peak is None:
        return unknown(slug, title, "The learning rate is neither logged nor told.", *do)
    if not facts.from_the_start:
        return unknown(slug, title, "The log begins after a warm-up would have been over.", *do)
    return crossed(slug, title, "There is no sign of a warm-up.", *do)


def safety_nets(facts: Facts) -> Tick:
    """Are gradients clipped, and weights decayed within reason?"""
    slug, title = "safety-nets", "Apply safety nets"
    threshold = facts.manifest.grad_clip
    found = facts.calls_for(Remedy.DECAY) or facts.calls_for(Remedy.CLIP)
    if found is not None:
        return crossed(slug, title, f"{found.title} ({found.slug}).", found.first_action)
    do = (
        "Clip the gradient by its global norm at 1.0.",
        "Check weight decay and the epsilon of Adam; take smaller batches to steady updates.",
    )
    if threshold is None:
        return unknown(slug, title, "The manifest does not say whether gradients are clipped.", *do)
    if threshold <= 0:
        return crossed(slug, title, "Gradient clipping is off.", *do)
    return ticked(slug, title, f"Gradients are clipped at {num(threshold)}.")


def architecture(facts: Facts) -> Tick:
    """Does a layer stand out?"""
    slug, title = "architecture", "Revisit components of the architecture"
    found = facts.calls_for(Remedy.MODEL)
    do = (
        "Look at normalisation, attention masks and position encodings; replace suspects one by "
        "one.",
    )
    if found is not None:
        return crossed(slug, title, f"{found.title} ({found.slug}).", found.first_action, *do)
    layers = facts.groups("grad_norm")
    told = (
        f"No layer stands out among {plural(layers, 'gradient norm')}; masks and encodings no log "
        "shows."
        if layers
        else "Nothing is logged by layer."
    )
    return unknown(slug, title, told, *do)


def distributed(facts: Facts) -> Tick:
    """Do all ranks do the same?"""
    return unknown(
        "distributed",
        "Check distributed training",
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
    return unknown(
        "minimal",
        "Make a minimal reproduction and file a bug",
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
