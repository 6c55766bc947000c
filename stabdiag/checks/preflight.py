"""What can be said of a run before its launch, from its manifest alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from stabdiag.checks import judged
from stabdiag.model.checks import (
    Checklist,
    ChecklistItem,
    ChecklistReport,
    State,
    failed,
    passed,
    unknown,
)
from stabdiag.model.findings import Ignored, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits
from stabdiag.model.limits.checks import family_of
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import EVAL_STRATEGY, by_spelling, other_number
from stabdiag.model.ranges import Setting, settings_with_ranges
from stabdiag.model.text import every, kept_table, num, plural

_SETTING: Final = {State.PASSED: "fine", State.FAILED: "look", State.UNKNOWN: "not recorded"}
_BY_HAND: Final = {State.PASSED: "done", State.FAILED: "not done", State.UNKNOWN: "tick by hand"}

_NOT_RECORDED: Final = "The manifest does not say."
_RANGE_TEST: Final = "Run a learning-rate range test: too low crawls, too high bounces."
_UNIT: Final = "Check its unit: optimizer steps, micro-batches or samples."
_WARM_UP: Final = "Warm up linearly over 1% to 5% of the run."
_CLIP: Final = "Clip the global gradient norm at 1.0."
_DYNAMIC: Final = "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed."


wrong: Final = partial(failed, severity=Severity.ERROR)
risky: Final = partial(failed, severity=Severity.WARNING)


@frozen
class Launch:
    """What a check is asked of: the manifest, what it holds beside its fields, the limits."""

    manifest: Manifest
    limits: Limits
    eval_every: float | None = None
    eval_strategy: str = ""
    schedule_steps: float | None = None
    warmup_share: float | None = None
    epochs: float | None = None

    @property
    def family(self) -> str | None:
        """The optimizer's family, whose usual learning rates are known."""
        return family_of(self.manifest.optimizer)

    @property
    def warmup(self) -> float | None:
        """The warm-up in steps: configured, or as a share of the run, which goes before 0 steps."""
        steps, total = self.manifest.warmup_steps, self.manifest.total_steps
        if self.warmup_share and not steps:
            return self.warmup_share * total if total else None
        return steps

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings that have a usual range, by name."""
        return settings_with_ranges(self.manifest, self.limits)

    @property
    def unless_sgd(self) -> Severity:
        """A warning; a note for plain SGD, which does without warm-up and clipping."""
        return Severity.NOTE if self.family == "sgd" else Severity.WARNING


def preflight(
    manifest: Manifest,
    limits: Limits,
    ignored: Iterable[Ignored] = (),
    sanity: Iterable[ChecklistItem] = (),
) -> ChecklistReport:
    """Hold a manifest against what is usual, and list what to try before the launch."""
    at, rules = launch(manifest, limits), {rule.slug: rule for rule in ignored}
    items = tuple(item.ignoring(rules) for item in judged("configuration", CHECKS, at))
    settings = Checklist(title="Configuration", words=_SETTING, items=items)
    trials = Checklist(
        title="To try before a long run", words=_BY_HAND, items=_trials(manifest, sanity)
    )
    return ChecklistReport(
        name="preflight",
        subject=manifest.path or "the manifest",
        summary=_summary(settings),
        lists=(settings, trials),
    )


def launch(manifest: Manifest, limits: Limits) -> Launch:
    """Return a manifest with what it holds beside its fields."""
    also = by_spelling(manifest.also)
    asked = ("eval_every", "schedule_steps", "warmup_share", "epochs")
    read = {field: other_number(also, field) for field in asked}
    numbers = {field: value for field, value in read.items() if value is not None and value > 0}
    if numbers.get("warmup_share", 0.0) > 1:  # whatever it counts, it is no share
        del numbers["warmup_share"]
    strategy = next((str(also[name]).lower() for name in EVAL_STRATEGY if name in also), "")
    return Launch(manifest=manifest, limits=limits, eval_strategy=strategy, **numbers)


def _summary(settings: Checklist) -> str:
    ignored = sum(item.ignored is not None for item in settings.items)
    look, open_ = settings.count(State.FAILED) - ignored, settings.count(State.UNKNOWN)
    count = plural(len(settings.items), "setting")
    if open_ == len(settings.items):
        return f"None of {count} could be checked: the manifest records too little."
    needs = "needs" if look <= 1 else "need"
    rest = f"; {open_} could not be checked." if open_ else "."
    return f"{look or 'None'} of {count} {needs} a look before the launch{rest}"


def _peak_rate(at: Launch) -> ChecklistItem:
    peak, name = at.manifest.peak_lr, at.manifest.optimizer
    if peak is None:
        return unknown(_NOT_RECORDED, _RANGE_TEST)
    if peak <= 0:
        because, do = f"It is {num(peak)}: nothing would train.", "Set a learning rate above 0."
        return wrong(because, do)
    setting = at.settings.get("peak_lr")
    if setting is None:
        why = "the usual range depends on the optimizer"
        if name is not None:
            why = f"the usual range for {name!r} is not known here"
        return unknown(f"It is {num(peak)}; {why}.")
    low, high = setting.usual.low, setting.usual.high
    because = f"It is {num(peak)}; {setting.usual.text}."
    if low <= peak <= high:
        return passed(because)
    first = "Raise it tenfold, or check its unit."
    if peak > 10 * high:
        first = f"Lower it to {num(high)} first, or check its unit."
    elif peak > high:
        first = f"Lower it 3 to 10 times, to {num(peak / 10)} first."
    return risky(because, first, _RANGE_TEST)


def _warmup(at: Launch) -> ChecklistItem:
    steps, total, limits = at.warmup, at.manifest.total_steps, at.limits.preflight
    if steps is None:
        if at.warmup_share is None:
            return unknown(_NOT_RECORDED, _WARM_UP)
        because = f"It is {at.warmup_share:.1%} of the run, whose length is unknown."
        return unknown(because, _WARM_UP)
    if steps == 0:
        because = "There is none: the first steps run at the peak learning rate."
        return failed(because, _WARM_UP, severity=at.unless_sgd)
    if total is None:
        return passed(f"{plural(num(steps), 'step')}.")
    share = steps / total
    because = f"{plural(num(steps), 'step')}, {share:.2g} of the run's {total}"
    if share >= 1:
        return wrong(f"{because}: the run would end before its warm-up.", _UNIT)
    if not limits.warmup_low <= share <= limits.warmup_high:
        because += f"; {num(limits.warmup_low)} to {num(limits.warmup_high)} is usual."
        return risky(because, _UNIT, _WARM_UP)
    return passed(f"{because}.")


def _schedule_length(at: Launch) -> ChecklistItem:
    total, schedule, length = at.manifest.total_steps, at.manifest.schedule, at.schedule_steps
    if total is None:
        epochs = f" ({plural(num(at.epochs), 'epoch')})" if at.epochs else ""
        return unknown(
            f"The manifest does not say how many steps the run has{epochs}.",
            "Compute the steps, and print the scheduler's learning rate at the last one.",
        )
    if schedule is not None and schedule.lower().startswith("constant"):
        return failed(
            f"The schedule is {schedule!r}: the learning rate never decays in "
            f"{plural(total, 'step')}.",
            "Decay it after the warm-up: cosine or linear, to a tenth of the peak or to zero.",
        )
    if length is None:
        named = f"The schedule is {schedule!r}" if schedule else "No schedule is named"
        return unknown(
            f"{named}, and its length is not recorded; the run has {total} steps.",
            f"Print the scheduler's learning rate at step {total}.",
        )
    because = f"The schedule has {plural(num(length), 'step')}, the run {total}"
    if abs(length - total) <= at.limits.preflight.schedule_slack * total:
        return passed(f"{because}.")
    meant = "it reaches its floor before the run ends" if length < total else "it never gets down"
    return failed(
        f"{because}: {meant}.",
        f"Build the scheduler with {plural(total, 'step')}, the same on every process.",
        severity=Severity.WARNING,
    )


def _clip(at: Launch) -> ChecklistItem:
    threshold, limits = at.manifest.grad_clip, at.limits.preflight
    if threshold is None:
        return unknown(_NOT_RECORDED, _CLIP)
    if threshold <= 0:
        return failed("It is off: one bad batch can wreck the run.", _CLIP, severity=at.unless_sgd)
    because = f"The threshold is {num(threshold)}"
    if threshold < limits.clip_low:
        return failed(f"{because}: it would cut nearly every step.", _CLIP)
    if threshold > limits.clip_high:
        return failed(f"{because}: it would rarely cut anything.", _CLIP)
    return passed(f"{because}.")


def _weight_decay(at: Launch) -> ChecklistItem:
    decay = at.manifest.weight_decay
    if decay is None:
        return unknown(_NOT_RECORDED)
    because = f"It is {num(decay)}"
    if decay < 0:
        return wrong(f"{because}: weights would grow without end.", "Check its sign.")
    if not at.settings["weight_decay"].is_usual:
        because += f"; {at.settings['weight_decay'].usual.text}: weights would shrink to nothing."
        return risky(because, "Use 0.1 or less, and exclude biases and normalisation layers.")
    return passed(f"{because}.")


def _label_smoothing(at: Launch) -> ChecklistItem:
    return _regularization(at, "label_smoothing", "0.1")


def _dropout(at: Launch) -> ChecklistItem:
    return _regularization(at, "dropout", "0.1, or 0.5 in a small network")


def _regularization(at: Launch, name: str, usual: str) -> ChecklistItem:
    setting = at.settings.get(name)
    if setting is None:
        return unknown(_NOT_RECORDED)
    because = f"It is {num(setting.value)}; {setting.usual.text}."
    if setting.is_usual:
        return passed(because)
    return risky(because, f"Use {usual}: too much of it keeps a model from learning.")


def _epsilon(at: Launch) -> ChecklistItem:
    manifest, value = at.manifest, at.manifest.epsilon
    if manifest.optimizer is not None and at.family != "adam":
        return passed(f"{manifest.optimizer} is not an Adam variant.")
    if value is None:
        return unknown(f"{_NOT_RECORDED} 1e-8 is the usual default.")
    because = f"It is {num(value)}"
    if value <= 0:
        return wrong(f"{because}: a second moment of 0 would divide by zero.", "Set it to 1e-8.")
    scaled = manifest.loss_scale_window is not None or manifest.static_loss_scale is not None
    if manifest.dtype == "fp16" and not scaled and value < at.limits.overflow.least_epsilon:
        because += ", which is zero in an fp16 optimizer state (smallest value 6e-08)."
        return failed(because, "Keep that state in fp32, or raise epsilon to 1e-4.")
    return passed(f"{because}.")


def _precision(at: Launch) -> ChecklistItem:
    dtype = at.manifest.dtype
    if dtype is None:
        return unknown(_NOT_RECORDED, "Add `dtype` to it.")
    if dtype == "fp16":
        return failed(
            "fp16: activations and gradients beyond 65504 overflow.",
            "Use bf16 where the hardware has it: wider range, and no loss scale.",
        )
    wider = "wider than" if dtype == "fp64" else "the same as"
    return passed(f"{dtype}: its range is {wider} that of fp32.")


def _loss_scaling(at: Launch) -> ChecklistItem:
    manifest, window = at.manifest, at.manifest.loss_scale_window
    if manifest.dtype is None:
        return unknown("The dtype is not recorded; fp16 needs loss scaling.")
    if manifest.dtype != "fp16":
        return passed(f"{manifest.dtype} needs none.")
    if manifest.static_loss_scale:
        return risky("The loss scale is fixed: an overflow cannot lower it.", _DYNAMIC)
    if manifest.static_loss_scale is None and window is None:
        return unknown("The run is in fp16; how the loss is scaled is not recorded.", _DYNAMIC)
    grows = f", and grows after {plural(window, 'step')} without overflow" if window else ""
    return passed(f"The loss scale is dynamic{grows}.")


def _checkpoints(at: Launch) -> ChecklistItem:
    steps, total = at.manifest.checkpoint_every, at.manifest.total_steps
    if steps is None:
        do = "Save one as often as you can afford to lose the steps between two."
        return unknown("The manifest does not say how often.", do)
    often, most = f"One {every(steps)}", at.limits.preflight.checkpoint_share
    if total is None:
        return passed(f"{often}.")
    do = f"Save one {every(max(round(most * total / 2), 1))}."
    if steps > total:
        return wrong(f"{often}, and the run has {total}: there would be none.", do)
    if steps > most * total:
        return risky(f"{often}: a failure costs up to {steps / total:.0%} of the run.", do)
    return passed(f"{often}; a failure costs at most {steps / total:.1%}.")


def _evaluations(at: Launch) -> ChecklistItem:
    steps, total = at.eval_every, at.manifest.total_steps
    least = at.limits.generalisation.min_evaluations
    if at.eval_strategy.endswith("no"):
        because = "There are none: nobody would see the model overfit."
        return risky(because, "Evaluate on held-out data at regular steps.")
    if steps is None:
        do = f"Evaluate at regular steps, at least {least} times in the run."
        return unknown("The manifest does not say how often.", do)
    often = f"One {every(steps)}"
    if total is None or steps < 1:  # Lightning takes a share of an epoch as well.
        return passed(f"{often}.")
    count = int(total // steps)
    if count < least:
        because = f"{often}, {count} in the run: fewer than {least} show no trend."
        return risky(because, f"Evaluate {every(max(total // (4 * least), 1))}.")
    return passed(f"{often}, {count} in the run.")


def _seed(at: Launch) -> ChecklistItem:
    if at.manifest.seed is not None:
        return passed(f"It is {at.manifest.seed}.")
    do = "Fix the seeds of Python, NumPy, the framework and the loader, and record them."
    return unknown("Seed not recorded.", do)


CHECKS: Final = {
    "peak-lr": _peak_rate,
    "warmup": _warmup,
    "schedule-length": _schedule_length,
    "grad-clip": _clip,
    "weight-decay": _weight_decay,
    "label-smoothing": _label_smoothing,
    "dropout": _dropout,
    "epsilon": _epsilon,
    "dtype": _precision,
    "loss-scaling": _loss_scaling,
    "checkpoints": _checkpoints,
    "evaluations": _evaluations,
    "seed": _seed,
}


def _trials(manifest: Manifest, sanity: Iterable[ChecklistItem]) -> tuple[ChecklistItem, ...]:
    """Return the checks to tick by hand, with this run's numbers where the manifest has them.

    They are kept as a text: what to try, why and how. No manifest shows whether it was done;
    ``sanity`` has the checks that were.
    """
    done = {item.slug: item for item in sanity}
    classes = manifest.vocab_size
    chance = "Guessing among K classes costs log K; the manifest does not record K."
    if classes is not None and classes > 1:
        cost = f"log {classes} = {num(math.log(classes))}"
        chance = f"Guessing among {classes} classes costs {cost}."
    by_hand = tuple(
        replace(unknown(because.format(chance=chance), do), slug=slug, title=title)
        for slug, title, because, do in kept_table("trials")
    )
    merged = tuple(done.pop(item.slug, item) for item in by_hand)
    return (*merged, *done.values())
