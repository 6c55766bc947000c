"""The checklists of debugging, ticked off from what a log and its manifest show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stabdiag.checks.facts import Facts, Remedy, remedies
from stabdiag.model.checks import Line, Sheet, State, Tick, TickList
from stabdiag.model.findings import ActionKind
from stabdiag.model.text import capitalised, num, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.findings import Finding
    from stabdiag.model.report import Report

_DONE = {State.TICKED: "done", State.CROSSED: "not done", State.UNKNOWN: "cannot tell"}
_TRIED = {State.TICKED: "tried", State.CROSSED: "not tried", State.UNKNOWN: "cannot tell"}
_LOGGED = {State.TICKED: "logged", State.CROSSED: "not logged", State.UNKNOWN: "cannot tell"}

# Where a finding says that the fault lies, by what its advice sets about.
_AXES: Final = {
    Remedy.DATA: "the data",
    Remedy.RATE: "the optimizer: its learning rate",
    Remedy.DECAY: "the optimizer: its weight decay",
    Remedy.PRECISION: "the numerics",
    Remedy.MODEL: "the model",
}

# Their advice is to look at the data because nothing points anywhere.
_HIDDEN = ("spike-recovered", "divergence-unexplained")

# What to log for each layer.
_PER_LAYER = {
    "grad_norm": "gradient norms by layer",
    "weight_norm": "weight norms by layer",
    "activation_norm": "sizes of activations",
}

# The health signals: each by its roles, of which one will do, and what it is good for.
_SIGNALS: Final = (
    ("loss", "Loss", ("loss",), "without it there is no diagnosis"),
    ("grad-norm", "Gradient norm before clipping", ("grad_norm",), "it is the smoke alarm"),
    ("lr", "Learning rate", ("lr",), "it shows faults of the schedule"),
    (
        "throughput",
        "Tokens per second, or the time of a step",
        ("tokens_per_second", "step_time"),
        "it shows a starving loader and a failing machine",
    ),
    ("mfu", "MFU", ("mfu",), "it shows how much of the machine is used"),
    ("eval-loss", "Evaluation loss", ("eval_loss",), "it shows overfitting"),
    ("weight-norm", "Weight norms", ("weight_norm",), "they show what weight decay does"),
    ("batch-id", "Batch ids", ("batch_id",), "they show faults of the loader"),
    ("memory", "Memory in use", ("memory",), "it shows a leak before the memory is full"),
)
_FP16_SIGNALS: Final = (("loss-scale", "Loss scale", ("loss_scale",), "it shows overflows"),)

_SAFE_OPERATIONS = "Put the framework's safe ones in their place: log_softmax, clamp, epsilons."


def checklist(report: Report) -> Sheet:
    """Tick the lists off from one run's report."""
    facts, found = Facts(report=report), report.diagnosis
    steps = tuple(judge(Line(slug=slug, title=title), facts) for slug, title, _, judge in STEPS)
    done = {tick.slug: tick for tick in steps}
    tries = tuple(
        judge(Line(slug=slug, title=title), facts) for slug, title, _, judge in INTERVENTIONS
    )
    begin = next((tick.slug for tick in tries if tick.state is not State.TICKED), None)
    ticked = sum(tick.state is State.TICKED for tick in steps)
    return Sheet(
        name="checklist",
        subject=report.history.source.name,
        summary=f"{found.title} ({found.slug}). Of {plural(len(steps), 'step')} the log shows "
        f"{ticked} as done.",
        lists=(
            TickList(title="Ten steps, in this order", words=_DONE, ticks=steps),
            TickList(title="What to try, fast to invasive", words=_TRIED, ticks=tries, begin=begin),
            TickList(title="Health signals", words=_LOGGED, ticks=_signals(facts)),
            TickList(title="To carry away", words=_DONE, ticks=_closing(done)),
        ),
    )


def _signals(facts: Facts) -> tuple[Tick, ...]:
    """Tell of each signal whether it is logged; the loss scale where there is one to log."""
    fp16 = facts.manifest.dtype == "fp16"
    ticks = []
    for slug, title, roles, why in (*_SIGNALS, *(_FP16_SIGNALS if fp16 else ())):
        line, count = Line(slug=slug, title=title), sum(map(facts.logged, roles))
        ticks.append(
            line.ticked(f"{plural(count, 'point')}.")
            if count
            else line.crossed(f"Not logged; {why}.", f"Log it as `{roles[0]}`.")
        )
    return tuple(ticks)


def _closing(step: dict[str, Tick]) -> tuple[Tick, ...]:
    """Answer the closing questions from the steps that they come back to."""
    order = (State.CROSSED, State.UNKNOWN, State.TICKED)
    tried = min(step["learning-rate"], step["safety-nets"], key=lambda t: order.index(t.state))
    asked = (
        ("carry-minimal", "Is there a minimal reproduction?", step["minimal"]),
        ("carry-data", "Are there unit tests of the data?", step["data"]),
        (
            "carry-telemetry",
            "Is telemetry of gradients and activations in place?",
            step["instrument"],
        ),
        ("carry-precision", "Was mixed precision compared with fp32?", step["precision"]),
        ("carry-tried", "Were learning rate, warm-up and clipping tried?", tried),
    )
    return tuple(replace(tick, slug=slug, title=title, do=()) for slug, title, tick in asked)


def _told(found: Finding) -> str:
    return f"{found.title} ({found.slug})."


def _reproduce(line: Line, facts: Facts) -> Tick:
    seed = facts.manifest.seed
    told = f"The seed is {seed}, but one log does not show whether a second run fails alike."
    return line.unknown(
        "The manifest names no seed." if seed is None else told,
        f"{facts.reload}, fix all seeds, and run it twice: one process, one worker of the loader. "
        "`stabdiag compare FIRST SECOND` tells where they part.",
        "If it does not fail at a smaller scale, look at distribution and at races in the data.",
    )


def _data(line: Line, facts: Facts) -> Tick:
    found = facts.calls_for(Remedy.DATA)
    do = (
        "Unit-test a batch: indices in range, labels that belong to their inputs, lengths, masks.",
        "Feed a tiny synthetic batch through, to see shapes and types.",
    )
    if found is not None:
        return line.crossed(_told(found), found.first_action, *do)
    ids = "; no batches were found to repeat" if facts.logged("batch_id") else ""
    return line.unknown(f"Nothing in the log points at the data{ids}; no log shows a batch.", *do)


def _pipeline(line: Line, facts: Facts) -> Tick:
    tick, seed = _data(line, facts), facts.manifest.seed
    return tick if seed is None else replace(tick, because=f"{tick.because} The seed is {seed}.")


def _instrument(line: Line, facts: Facts) -> Tick:
    there = {role: facts.groups(role) for role in _PER_LAYER}
    lacking = [role for role, count in there.items() if not count]
    if not lacking:
        counts = ", ".join(f"{role} of {count}" for role, count in there.items())
        return line.ticked(f"Logged by group: {counts}.")
    words = [_PER_LAYER[role] for role in lacking]
    columns = ", ".join(f"{role}/<layer>" for role in lacking)
    return line.crossed(
        f"Not in the log: {', '.join(words)}.",
        f"Log {' and '.join(words)}, every ten steps or so: {columns}.",
    )


def _narrow(line: Line, facts: Facts) -> Tick:
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


def _precision(line: Line, facts: Facts) -> Tick:
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
        return line.crossed(_told(found), *do)
    if dtype is None:
        return line.unknown("The dtype is not known.", *do)
    return line.ticked(f"The run is in {dtype}, and no finding blames it.")


def _loss_scale(line: Line, facts: Facts) -> Tick:
    dtype, found = facts.manifest.dtype, facts.calls_for(Remedy.PRECISION)
    do = "Run in fp32 or bf16; where fp16 has to be, scale the loss dynamically."
    if dtype is None:
        return line.unknown("The dtype is not known.", do)
    if dtype in ("fp32", "fp64"):
        return line.ticked(f"The run is in {dtype}.")
    if found is not None:
        return line.crossed(f"The run is in {dtype}: {_told(found)}", do)
    return line.ticked(f"The run is in {dtype}, and no finding blames it.")


def _learning_rate(line: Line, facts: Facts) -> Tick:
    found, peak, warmup = facts.calls_for(Remedy.RATE), facts.peak_rate, facts.warmup
    now = f" (now {num(peak)})" if peak else ""
    do = (
        f"Lower the peak learning rate{now} by 3 to 10 times.",
        "Add a warm-up, or lengthen it; take a gentler schedule.",
    )
    if found is not None:
        # A rate that is 0 is not lowered.
        return line.crossed(_told(found), found.first_action, *(() if peak == 0 else do))
    if warmup is not None:
        return line.ticked(f"{capitalised(warmup)}, and no finding blames it.")
    if peak is None:
        return line.unknown("The learning rate is neither logged nor told.", *do)
    if not facts.from_the_start:
        return line.unknown("The log begins after a warm-up would have been over.", *do)
    return line.crossed("There is no sign of a warm-up.", *do)


def _safety_nets(line: Line, facts: Facts) -> Tick:
    threshold = facts.manifest.grad_clip
    found = facts.calls_for(Remedy.DECAY) or facts.calls_for(Remedy.CLIP)
    if found is not None:
        return line.crossed(_told(found), found.first_action)
    do = (
        "Clip the gradient by its global norm at 1.0.",
        "Check weight decay and the epsilon of Adam; take smaller batches to steady updates.",
    )
    if threshold is None:
        return line.unknown("The manifest does not say whether gradients are clipped.", *do)
    if threshold <= 0:
        return line.crossed("Gradient clipping is off.", *do)
    return line.ticked(f"Gradients are clipped at {num(threshold)}.")


def _clip(line: Line, facts: Facts) -> Tick:
    threshold, found = facts.manifest.grad_clip, facts.calls_for(Remedy.CLIP)
    do = "Clip it at 1.0." if found is None else found.first_action
    if threshold is None:
        return line.unknown("The manifest does not say.", do)
    if threshold <= 0:
        return line.crossed("It is off.", do)
    told = f"It is clipped at {num(threshold)}."
    return line.ticked(told) if found is None else line.crossed(f"{told} {_told(found)}", do)


def _architecture(line: Line, facts: Facts) -> Tick:
    found, layers = facts.calls_for(Remedy.MODEL), facts.groups("grad_norm")
    do = "Look at normalisation, attention masks and position encodings; replace suspects in turn."
    if found is not None:
        return line.crossed(_told(found), found.first_action, do)
    norms = plural(layers, "gradient norm")
    told = f"No layer stands out among {norms}; masks and encodings no log shows."
    return line.unknown(told if layers else "Nothing is logged by layer.", do)


def _operations(line: Line, facts: Facts) -> Tick:
    found = facts.calls_for(Remedy.OPERATIONS)
    if found is None and ActionKind.INSPECT_LAYERS in facts.after_nan:
        found = facts.report.diagnosis
    if found is not None:
        return line.crossed(_told(found), found.first_action, _SAFE_OPERATIONS)
    return line.unknown("No log shows which operations there are.", _SAFE_OPERATIONS)


def _batch_size(line: Line, facts: Facts) -> Tick:
    size = facts.manifest.batch_size
    return line.unknown(
        "The manifest names no batch size." if size is None else f"The batch is {size}.",
        "Halve the batch, and the learning rate with it; check that accumulated losses are "
        "divided by the number of micro-batches.",
    )


def _distributed(line: Line, facts: Facts) -> Tick:
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


def _minimal(line: Line, facts: Facts) -> Tick:
    return line.unknown(
        "No log shows it.",
        "Reduce the run to the smallest script that fails, and report it with the log: "
        "`stabdiag diagnose LOG --format json`.",
    )


_RATE_ASKS = "Is there a warm-up, and a learning rate that no finding blames?"

Step = tuple[str, str, str, "Callable[[Line, Facts], Tick]"]
"""A line of a list: its slug and title, what it asks, and how that is judged."""

STEPS: tuple[Step, ...] = (
    ("reproduce", "Reproduce the failure deterministically", "Does it come again?", _reproduce),
    ("data", "Check data and tokenizer", "Do the batches hold what they should?", _data),
    ("instrument", "Instrument gradients and parameters", "Is enough logged?", _instrument),
    ("narrow", "Narrow it to model, data or optimizer", "Which of them is it?", _narrow),
    ("precision", "Check numerics and precision", "Is it the precision?", _precision),
    ("learning-rate", "Tune learning rate and warm-up", _RATE_ASKS, _learning_rate),
    ("safety-nets", "Apply safety nets", "Are gradients clipped, is the decay sane?", _safety_nets),
    ("architecture", "Revisit parts of the architecture", "Does a layer stand out?", _architecture),
    ("distributed", "Check distributed training", "Do all ranks do the same?", _distributed),
    ("minimal", "Make a minimal reproduction and file a bug", "Is there one?", _minimal),
)

INTERVENTIONS: tuple[Step, ...] = (
    ("try-rate", "Lower the learning rate, or warm up longer", _RATE_ASKS, _learning_rate),
    (
        "try-precision",
        "Switch off mixed precision, or adjust the loss scale",
        "Is it off, or without overflows?",
        _loss_scale,
    ),
    (
        "try-clip",
        "Clip the gradient by its global norm",
        "Is there a threshold that no finding wants changed?",
        _clip,
    ),
    (
        "try-data",
        "Validate the data pipeline, fix the seeds",
        "Does no finding blame the data? Its tests no log shows.",
        _pipeline,
    ),
    (
        "try-operations",
        "Replace suspicious custom operations",
        "Did a finite forward pass, or gradient, turn NaN?",
        _operations,
    ),
    (
        "try-batch",
        "Reduce the batch, or accumulate with more care",
        "How large is it?",
        _batch_size,
    ),
    ("try-bisect", "Bisect code and changes on a minimal example", "The last resort.", _minimal),
)
