"""What can be said of a run before its launch, from its manifest alone."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stabdiag.model.checks import Line, Sheet, State, TickList
from stabdiag.model.findings import Severity
from stabdiag.model.manifest.keys import EVAL_STRATEGY, by_spelling, other_number
from stabdiag.model.text import every, num, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.checks import Tick
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest

_TOLD = {State.TICKED: "fine", State.CROSSED: "look", State.UNKNOWN: "not told"}
_BY_HAND = {State.TICKED: "done", State.CROSSED: "not done", State.UNKNOWN: "to tick by hand"}

# Optimizers whose peak learning rates are alike, by a part of their names; and their title.
_FAMILIES = (
    ("lion", re.compile(r"lion", re.IGNORECASE), "Lion"),
    ("adam", re.compile(r"adam|rmsprop|adafactor", re.IGNORECASE), "Adam and its variants"),
    ("sgd", re.compile(r"sgd|momentum|nesterov", re.IGNORECASE), "SGD"),
)

_UNTOLD = "The manifest does not say."
_RANGE_TEST = "Run a learning-rate range test: too low crawls, too high bounces."
_UNIT = "Check its unit: optimizer steps, micro-batches or samples."
_WARM_UP = "Warm up linearly over 1% to 5% of the run."
_CLIP = "Clip the gradient by its global norm at 1.0."
_DYNAMIC = "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed."


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a check is asked of: the manifest, what it tells beside its fields, the limits."""

    manifest: Manifest
    limits: Limits
    eval_every: float | None = None
    eval_strategy: str = ""
    schedule_steps: float | None = None
    warmup_share: float | None = None
    epochs: float | None = None

    @property
    def family(self) -> str | None:
        """The family of the optimizer, by which its usual learning rates are known."""
        name = self.manifest.optimizer or ""
        return next((family for family, known, _ in _FAMILIES if known.search(name)), None)

    @property
    def warmup(self) -> float | None:
        """The warm-up in steps: told, or as a share of the run. A share goes before 0 steps."""
        told, total = self.manifest.warmup_steps, self.manifest.total_steps
        if self.warmup_share and not told:
            return self.warmup_share * total if total else None
        return told


def preflight(manifest: Manifest, limits: Limits) -> Sheet:
    """Hold a manifest against what is usual, and list what to try before the launch."""
    at = launch(manifest, limits)
    ticks = (judge(Line(slug=slug, title=title), at) for slug, title, _, judge in CHECKS)
    settings = TickList(title="Configuration", words=_TOLD, ticks=tuple(ticks))
    trials = TickList(title="To try before a long run", words=_BY_HAND, ticks=_trials(manifest))
    return Sheet(
        name="preflight",
        subject=manifest.path or "the manifest",
        summary=_summary(settings),
        lists=(settings, trials),
    )


def launch(manifest: Manifest, limits: Limits) -> Launch:
    """Return a manifest with what it tells beside its fields."""
    told = by_spelling(manifest.also)
    asked = ("eval_every", "schedule_steps", "warmup_share", "epochs")
    read = {field: other_number(told, field) for field in asked}
    numbers = {field: value for field, value in read.items() if value is not None and value > 0}
    if numbers.get("warmup_share", 0.0) > 1:  # whatever it counts, it is no share
        del numbers["warmup_share"]
    strategy = next((str(told[name]).lower() for name in EVAL_STRATEGY if name in told), "")
    return Launch(manifest=manifest, limits=limits, eval_strategy=strategy, **numbers)


def _summary(settings: TickList) -> str:
    look, untold = settings.count(State.CROSSED), settings.count(State.UNKNOWN)
    count = plural(len(settings.ticks), "setting")
    if untold == len(settings.ticks):
        return f"Of {count} nothing could be checked: the manifest tells too little."
    needs = "needs" if look <= 1 else "need"
    told = f"; {untold} could not be checked." if untold else "."
    return f"{look or 'None'} of {count} {needs} a look before the launch{told}"


def _peak_rate(line: Line, at: Launch) -> Tick:
    peak, name, family = at.manifest.peak_lr, at.manifest.optimizer, at.family
    if peak is None:
        return line.unknown(_UNTOLD, _RANGE_TEST)
    if peak <= 0:
        told = f"It is {num(peak)}: nothing would be trained."
        return line.crossed(told, "Set a learning rate above 0.", severity=Severity.ERROR)
    if family is None:
        why = "what is usual depends on the optimizer"
        if name is not None:
            why = f"the usual range of {name!r} is not known here"
        return line.unknown(f"It is {num(peak)}; {why}.")
    held = at.limits.preflight
    low, high = getattr(held, f"{family}_lr_low"), getattr(held, f"{family}_lr_high")
    title = next(title for one, _, title in _FAMILIES if one == family)
    told = f"It is {num(peak)}; {num(low)} to {num(high)} is usual for {title}."
    if low <= peak <= high:
        return line.ticked(told)
    first = "Raise it tenfold, or check in which unit it is given."
    if peak > 10 * high:
        first = f"Lower it to {num(high)} at first, or check in which unit it is given."
    elif peak > high:
        first = f"Lower it by 3 to 10 times, to {num(peak / 10)} at first."
    return line.crossed(told, first, _RANGE_TEST, severity=Severity.WARNING)


def _warmup(line: Line, at: Launch) -> Tick:
    steps, total, limits = at.warmup, at.manifest.total_steps, at.limits.preflight
    if steps is None:
        if at.warmup_share is None:
            return line.unknown(_UNTOLD, _WARM_UP)
        told = f"It is {at.warmup_share:.1%} of the run, whose steps are not known."
        return line.unknown(told, _WARM_UP)
    if steps == 0:
        # Plain SGD needs it with large batches alone.
        severity = Severity.NOTE if at.family == "sgd" else Severity.WARNING
        told = "There is none: the first steps are taken at the peak learning rate."
        return line.crossed(told, _WARM_UP, severity=severity)
    if total is None:
        return line.ticked(f"{plural(num(steps), 'step')}.")
    share = steps / total
    told = f"{plural(num(steps), 'step')}, {share:.2g} of the run's {total}"
    if share >= 1:
        told = f"{told}: the run would end before its warm-up."
        return line.crossed(told, _UNIT, severity=Severity.ERROR)
    if not limits.warmup_low <= share <= limits.warmup_high:
        told = f"{told}; {num(limits.warmup_low)} to {num(limits.warmup_high)} is usual."
        return line.crossed(told, _UNIT, _WARM_UP, severity=Severity.WARNING)
    return line.ticked(f"{told}.")


def _schedule_length(line: Line, at: Launch) -> Tick:
    total, schedule, length = at.manifest.total_steps, at.manifest.schedule, at.schedule_steps
    if total is None:
        epochs = f" (it says {plural(num(at.epochs), 'epoch')})" if at.epochs else ""
        return line.unknown(
            f"The manifest does not say how many steps the run has{epochs}.",
            "Compute the steps, and print the learning rate that the scheduler gives at the last.",
        )
    if schedule is not None and schedule.lower().startswith("constant"):
        return line.crossed(
            f"The schedule is {schedule!r}: the learning rate never decays in "
            f"{plural(total, 'step')}.",
            "Decay it after the warm-up: cosine or linear, to a tenth of the peak or to zero.",
        )
    if length is None:
        told = f"The schedule is {schedule!r}" if schedule else "No schedule is named"
        return line.unknown(
            f"{told}, and the manifest does not give its length; the run has {total} steps.",
            f"Print the learning rate that the scheduler gives at step {total}.",
        )
    told = f"The schedule has {plural(num(length), 'step')}, the run {total}"
    if abs(length - total) <= at.limits.preflight.schedule_slack * total:
        return line.ticked(f"{told}.")
    meant = "it is at its floor before the run ends" if length < total else "it never gets down"
    return line.crossed(
        f"{told}: {meant}.",
        f"Build the scheduler with {plural(total, 'step')}, the same on every process.",
        severity=Severity.WARNING,
    )


def _clip(line: Line, at: Launch) -> Tick:
    threshold, limits = at.manifest.grad_clip, at.limits.preflight
    if threshold is None:
        return line.unknown(_UNTOLD, _CLIP)
    if threshold <= 0:
        severity = Severity.NOTE if at.family == "sgd" else Severity.WARNING
        return line.crossed("It is off: one bad batch can wreck the run.", _CLIP, severity=severity)
    told = f"The threshold is {num(threshold)}"
    if threshold < limits.clip_low:
        return line.crossed(f"{told}: it would cut nearly every step.", _CLIP)
    if threshold > limits.clip_high:
        return line.crossed(f"{told}: it would seldom cut anything.", _CLIP)
    return line.ticked(f"{told}.")


def _weight_decay(line: Line, at: Launch) -> Tick:
    decay = at.manifest.weight_decay
    if decay is None:
        return line.unknown(_UNTOLD)
    told = f"It is {num(decay)}"
    if decay < 0:
        told = f"{told}: weights would grow without end."
        return line.crossed(told, "Check its sign.", severity=Severity.ERROR)
    if decay > at.limits.preflight.decay_high:
        do = "Take 0.1 or less, and leave biases and normalisation layers out."
        told = f"{told}: weights would shrink to nothing."
        return line.crossed(told, do, severity=Severity.WARNING)
    return line.ticked(f"{told}.")


def _epsilon(line: Line, at: Launch) -> Tick:
    manifest, value = at.manifest, at.manifest.epsilon
    if manifest.optimizer is not None and at.family != "adam":
        return line.ticked(f"{manifest.optimizer} is no variant of Adam.")
    if value is None:
        return line.unknown(f"{_UNTOLD} 1e-8 is the usual default.")
    told = f"It is {num(value)}"
    if value <= 0:
        told = f"{told}: a second moment of 0 would divide by zero."
        return line.crossed(told, "Set it to 1e-8.", severity=Severity.ERROR)
    scaled = manifest.loss_scale_window is not None or manifest.static_loss_scale is not None
    if manifest.dtype == "fp16" and not scaled and value < at.limits.overflow.least_epsilon:
        told = f"{told}; an optimizer state in fp16, which ends at 6e-08, makes it zero."
        return line.crossed(told, "Keep that state in fp32, or raise epsilon to 1e-4.")
    return line.ticked(f"{told}.")


def _precision(line: Line, at: Launch) -> Tick:
    dtype = at.manifest.dtype
    if dtype is None:
        return line.unknown(_UNTOLD, "Write `dtype` into it.")
    if dtype != "fp16":
        wider = "wider than " if dtype == "fp64" else ""
        return line.ticked(f"{dtype}: its range is {wider}that of fp32.")
    return line.crossed(
        "fp16: activations and gradients beyond 65504 overflow.",
        "Take bf16, where the hardware has it: wider range, and no loss scale.",
    )


def _loss_scaling(line: Line, at: Launch) -> Tick:
    manifest = at.manifest
    if manifest.dtype is None:
        return line.unknown("The manifest names no dtype; fp16 needs it.")
    if manifest.dtype != "fp16":
        return line.ticked(f"{manifest.dtype} needs none.")
    if manifest.static_loss_scale:
        told = "The loss scale is fixed: an overflow cannot lower it."
        return line.crossed(told, _DYNAMIC, severity=Severity.WARNING)
    window = manifest.loss_scale_window
    if manifest.static_loss_scale is None and window is None:
        told = "The run is in fp16, and the manifest does not say how the loss is scaled."
        return line.unknown(told, _DYNAMIC)
    grows = f", and grows after {plural(window, 'step')} without an overflow" if window else ""
    return line.ticked(f"The loss scale is dynamic{grows}.")


def _checkpoints(line: Line, at: Launch) -> Tick:
    steps, total = at.manifest.checkpoint_every, at.manifest.total_steps
    if steps is None:
        return line.unknown(
            "The manifest does not say how often.",
            "Write one as often as you can afford to lose the steps between two.",
        )
    often, most = f"One {every(steps)}", at.limits.preflight.checkpoint_share
    if total is None:
        return line.ticked(f"{often}.")
    do = f"Write one {every(max(round(most * total / 2), 1))}."
    if steps > total:
        told = f"{often}, and the run has {total}: there would be none."
        return line.crossed(told, do, severity=Severity.ERROR)
    if steps > most * total:
        told = f"{often}: a failure costs up to {steps / total:.0%} of the run."
        return line.crossed(told, do, severity=Severity.WARNING)
    return line.ticked(f"{often}; a failure costs {steps / total:.1%} at most.")


def _evaluations(line: Line, at: Launch) -> Tick:
    steps, total = at.eval_every, at.manifest.total_steps
    least = at.limits.generalisation.min_evaluations
    if at.eval_strategy.endswith("no"):
        return line.crossed(
            "There are none: nobody would see the model overfit.",
            "Evaluate on held-out data at regular steps.",
            severity=Severity.WARNING,
        )
    if steps is None:
        return line.unknown(
            "The manifest does not say how often.",
            f"Evaluate at regular steps, {least} times or more in the run.",
        )
    often = f"One {every(steps)}"
    if total is None or steps < 1:  # Lightning takes a share of an epoch as well.
        return line.ticked(f"{often}.")
    count = int(total // steps)
    if count < least:
        return line.crossed(
            f"{often}, {count} in the run: fewer than {least} show no trend.",
            f"Evaluate {every(max(total // (4 * least), 1))}.",
            severity=Severity.WARNING,
        )
    return line.ticked(f"{often}, {count} in the run.")


def _seed(line: Line, at: Launch) -> Tick:
    if at.manifest.seed is not None:
        return line.ticked(f"It is {at.manifest.seed}.")
    return line.unknown(
        "The manifest names none.",
        "Fix the seeds of Python, NumPy, the framework and the loader, and write them down.",
    )


Check = tuple[str, str, str, "Callable[[Line, Launch], Tick]"]
"""Slug and title of a line, what it asks, and how that is judged."""

CHECKS: tuple[Check, ...] = (
    ("peak-lr", "Peak learning rate", "Is it in the optimizer's usual range?", _peak_rate),
    ("warmup", "Warm-up", "Is there one, and is it of a usual length?", _warmup),
    ("schedule-length", "Schedule length", "Does it end when the run does?", _schedule_length),
    ("grad-clip", "Gradient clipping", "Is it on, at a threshold that means something?", _clip),
    ("weight-decay", "Weight decay", "Is it one that weights survive?", _weight_decay),
    ("epsilon", "Epsilon of Adam", "Can the compute type hold it?", _epsilon),
    ("dtype", "Precision", "Has the compute type the range that training needs?", _precision),
    ("loss-scaling", "Loss scaling", "Is it dynamic where fp16 needs it?", _loss_scaling),
    ("checkpoints", "Checkpoints", "Is one written often enough?", _checkpoints),
    ("evaluations", "Evaluations", "Are they frequent enough to show a trend?", _evaluations),
    ("seed", "Seed", "Is it fixed?", _seed),
)

# What to try before a long run, by slug: what, why and how. No manifest tells whether it was done.
_TRIALS = {
    "overfit-one-batch": (
        "The model can overfit one batch",
        "If its loss does not go to nearly zero, something is wired wrongly: no setting helps.",
        "Train on one batch of 32 examples again and again, without regularisation.",
    ),
    "gradients-flow": (
        "Gradients reach every parameter",
        "A parameter without one is frozen, detached, or not in the optimizer.",
        "After one backward pass print the parameters whose grad is None or all zero.",
    ),
    "initial-loss": (
        "The first loss is at chance level",
        "Among K classes a guess costs log K; the manifest does not name K.",
        "Compute the loss of the untrained model on a batch.",
    ),
    "known-recipe": (
        "A published recipe gives the published result",
        "Matching a published number shows that the whole pipeline is right.",
        "Train a published recipe with your code before you change anything in it.",
    ),
    "batches": (
        "Batches hold what they should",
        "Indices in range, labels that belong to their inputs, sane lengths, masks in place.",
        "Write unit tests of a batch, and decode one and read it.",
    ),
    "same-twice": (
        "Two short runs with one seed are the same",
        "Otherwise no failure can be reproduced later.",
        "Run 100 steps twice: `stabdiag compare FIRST SECOND --as reruns`.",
    ),
    "resume": (
        "A resume continues where the run stopped",
        "Weights, optimizer, schedule, scaler and the position in the data all come back.",
        "Stop a short run and resume it, beside a run in one go: `stabdiag compare WHOLE RESUMED "
        "--as resume`.",
    ),
    "ranks": (
        "Ranks see different data, and take as many steps",
        "Without set_epoch all see the same; an uneven last batch leaves the others waiting.",
        "Print the sample indices of the first batch on every rank.",
    ),
    "signals": (
        "The health signals are logged",
        "Loss, gradient norm before clipping, learning rate, throughput, MFU and evaluation loss; "
        "by layer where it costs little, and the loss scale in fp16.",
        "Log ten steps and run `stabdiag checklist` on the log.",
    ),
}


def _trials(manifest: Manifest) -> tuple[Tick, ...]:
    """Return the checks to tick by hand, with this run's numbers where the manifest has them."""
    ticks = {
        slug: Line(slug=slug, title=title).unknown(because, do)
        for slug, (title, because, do) in _TRIALS.items()
    }
    classes, first = manifest.vocab_size, ticks["initial-loss"]
    if classes is not None and classes > 1:
        chance = f"log {classes} = {num(math.log(classes))}"
        told = f"Among {classes} classes a guess costs {chance}."
        ticks["initial-loss"] = replace(first, because=told)
    return tuple(ticks.values())
