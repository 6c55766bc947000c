"""Checks of a configuration before the launch, from the manifest alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from stabdiag.checks import judged
from stabdiag.model.checks import (
    Check,
    CheckReport,
    State,
    count_states,
    failed,
    manual,
    passed,
    titled,
    unknown,
)
from stabdiag.model.findings import IgnoreRule, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits
from stabdiag.model.limits.checks import optimizer_family
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import EVAL_STRATEGY, by_spelling, other_number
from stabdiag.model.ranges import SettingRange, settings_with_ranges
from stabdiag.model.text import every, kept_table, num, plural

_SETTINGS_HEADING: Final = "Configuration"
_TRIALS_HEADING: Final = "To try before a long run"

_NOT_RECORDED: Final = "The manifest does not say."
_RANGE_TEST_ADVICE: Final = "Run a learning-rate range test: too low crawls, too high bounces."
_UNIT_ADVICE: Final = "Check its unit: optimizer steps, micro-batches or samples."
_WARM_UP_ADVICE: Final = "Warm up linearly over 1% to 5% of the run."
_CLIP_ADVICE: Final = "Clip the global gradient norm at 1.0."
_DYNAMIC: Final = "Scale dynamically: torch.amp.GradScaler, or loss_scale 0 for DeepSpeed."


wrong: Final = partial(failed, severity=Severity.ERROR)
risky: Final = partial(failed, severity=Severity.WARNING)


@frozen
class Launch:
    """The input of a check: the manifest, settings that are not fields of it, the limits."""

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
        return optimizer_family(self.manifest.optimizer)

    @property
    def warmup(self) -> float | None:
        """The warm-up in steps; a fraction of the run takes precedence over 0 steps."""
        steps, total = self.manifest.warmup_steps, self.manifest.total_steps
        if self.warmup_share and not steps:
            return self.warmup_share * total if total else None
        return steps

    @property
    def settings(self) -> dict[str, SettingRange]:
        """The settings that have a usual range, by name."""
        return settings_with_ranges(self.manifest, self.limits)

    @property
    def unless_sgd(self) -> Severity:
        """Warning, or note for plain SGD, which needs no warm-up or clipping."""
        return Severity.NOTE if self.family == "sgd" else Severity.WARNING


def preflight(
    manifest: Manifest,
    limits: Limits,
    ignored: Iterable[IgnoreRule] = (),
    sanity: Iterable[Check] = (),
) -> CheckReport:
    """Compare a manifest with usual values, and list the checks to run before the launch."""
    launch, rules = read_launch(manifest, limits), {rule.slug: rule for rule in ignored}
    settings = tuple(
        check.with_ignore_rules(rules)
        for check in judged("configuration", _SETTINGS_HEADING, CHECKS, launch)
    )
    return CheckReport(
        name="preflight",
        subject=manifest.path or "the manifest",
        summary=_summary(settings),
        checks=(*settings, *_trials(manifest, sanity)),
    )


def read_launch(manifest: Manifest, limits: Limits) -> Launch:
    """Return the manifest with the settings that are not fields of it."""
    settings = by_spelling(manifest.also)
    fields = ("eval_every", "schedule_steps", "warmup_share", "epochs")
    values = {field: other_number(settings, field) for field in fields}
    numbers = {field: value for field, value in values.items() if value is not None and value > 0}
    if numbers.get("warmup_share", 0.0) > 1:  # not a fraction: the unit is unknown
        del numbers["warmup_share"]
    strategy = next((str(settings[name]).lower() for name in EVAL_STRATEGY if name in settings), "")
    return Launch(manifest=manifest, limits=limits, eval_strategy=strategy, **numbers)


def _summary(settings: tuple[Check, ...]) -> str:
    states = count_states(check for check in settings if check.ignored is None)
    need_look, unchecked = states.get(State.FAILED, 0), states.get(State.UNKNOWN, 0)
    count = plural(len(settings), "setting")
    if unchecked == len(settings):
        return f"None of {count} could be checked: the manifest records too little."
    needs = "needs" if need_look <= 1 else "need"
    ending = f"; {unchecked} could not be checked." if unchecked else "."
    return f"{need_look or 'None'} of {count} {needs} a look before the launch{ending}"


def _peak_rate(launch: Launch) -> Check:
    peak, name = launch.manifest.peak_lr, launch.manifest.optimizer
    if peak is None:
        return unknown(_NOT_RECORDED, _RANGE_TEST_ADVICE)
    if peak <= 0:
        because, do = f"It is {num(peak)}: nothing would train.", "Set a learning rate above 0."
        return wrong(because, do)
    setting = launch.settings.get("peak_lr")
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
    return risky(because, first, _RANGE_TEST_ADVICE)


def _warmup(launch: Launch) -> Check:
    steps, total, limits = launch.warmup, launch.manifest.total_steps, launch.limits.preflight
    if steps is None:
        if launch.warmup_share is None:
            return unknown(_NOT_RECORDED, _WARM_UP_ADVICE)
        because = f"It is {launch.warmup_share:.1%} of the run, whose length is unknown."
        return unknown(because, _WARM_UP_ADVICE)
    if steps == 0:
        because = "There is none: the first steps run at the peak learning rate."
        return failed(because, _WARM_UP_ADVICE, severity=launch.unless_sgd)
    if total is None:
        return passed(f"{plural(num(steps), 'step')}.")
    share = steps / total
    because = f"{plural(num(steps), 'step')}, {share:.2g} of the run's {total}"
    if share >= 1:
        return wrong(f"{because}: the run would end before its warm-up.", _UNIT_ADVICE)
    if not limits.warmup_low <= share <= limits.warmup_high:
        because += f"; {num(limits.warmup_low)} to {num(limits.warmup_high)} is usual."
        return risky(because, _UNIT_ADVICE, _WARM_UP_ADVICE)
    return passed(f"{because}.")


def _schedule_length(launch: Launch) -> Check:
    total, schedule, length = (
        launch.manifest.total_steps,
        launch.manifest.schedule,
        launch.schedule_steps,
    )
    if total is None:
        epochs = f" ({plural(num(launch.epochs), 'epoch')})" if launch.epochs else ""
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
    if abs(length - total) <= launch.limits.preflight.schedule_slack * total:
        return passed(f"{because}.")
    meant = (
        "it reaches its floor before the run ends"
        if length < total
        else "it never reaches its floor"
    )
    return failed(
        f"{because}: {meant}.",
        f"Build the scheduler with {plural(total, 'step')}, the same on every process.",
        severity=Severity.WARNING,
    )


def _clip(launch: Launch) -> Check:
    threshold, limits = launch.manifest.grad_clip, launch.limits.preflight
    if threshold is None:
        return unknown(_NOT_RECORDED, _CLIP_ADVICE)
    if threshold <= 0:
        return failed(
            "It is off: one bad batch can wreck the run.", _CLIP_ADVICE, severity=launch.unless_sgd
        )
    because = f"The threshold is {num(threshold)}"
    if threshold < limits.clip_low:
        return failed(f"{because}: it would cut nearly every step.", _CLIP_ADVICE)
    if threshold > limits.clip_high:
        return failed(f"{because}: it would rarely cut anything.", _CLIP_ADVICE)
    return passed(f"{because}.")


def _weight_decay(launch: Launch) -> Check:
    decay = launch.manifest.weight_decay
    if decay is None:
        return unknown(_NOT_RECORDED)
    because = f"It is {num(decay)}"
    if decay < 0:
        return wrong(f"{because}: weights would grow without end.", "Check its sign.")
    if not launch.settings["weight_decay"].is_usual:
        because += (
            f"; {launch.settings['weight_decay'].usual.text}: weights would shrink to nothing."
        )
        return risky(because, "Use 0.1 or less, and exclude biases and normalization layers.")
    return passed(f"{because}.")


def _label_smoothing(launch: Launch) -> Check:
    return _regularization(launch, "label_smoothing", "0.1")


def _dropout(launch: Launch) -> Check:
    return _regularization(launch, "dropout", "0.1, or 0.5 in a small network")


def _regularization(launch: Launch, name: str, usual: str) -> Check:
    setting = launch.settings.get(name)
    if setting is None:
        return unknown(_NOT_RECORDED)
    because = f"It is {num(setting.value)}; {setting.usual.text}."
    if setting.is_usual:
        return passed(because)
    return risky(because, f"Use {usual}: too much of it keeps a model from learning.")


def _epsilon(launch: Launch) -> Check:
    manifest, value = launch.manifest, launch.manifest.epsilon
    if manifest.optimizer is not None and launch.family != "adam":
        return passed(f"{manifest.optimizer} is not an Adam variant.")
    if value is None:
        return unknown(f"{_NOT_RECORDED} 1e-8 is the usual default.")
    because = f"It is {num(value)}"
    if value <= 0:
        return wrong(f"{because}: a second moment of 0 would divide by zero.", "Set it to 1e-8.")
    scaled = manifest.loss_scale_window is not None or manifest.static_loss_scale is not None
    if manifest.dtype == "fp16" and not scaled and value < launch.limits.overflow.min_epsilon:
        because += ", which is zero in an fp16 optimizer state (smallest value 6e-08)."
        return failed(because, "Keep that state in fp32, or raise epsilon to 1e-4.")
    setting = launch.settings.get("epsilon")
    if setting is not None and not setting.is_usual:
        because += f"; {setting.usual.text}: the updates of most weights would be tiny."
        return risky(because, "Use 1e-8, Adam's default.")
    return passed(f"{because}.")


def _precision(launch: Launch) -> Check:
    dtype = launch.manifest.dtype
    if dtype is None:
        return unknown(_NOT_RECORDED, "Add `dtype` to it.")
    if dtype == "fp16":
        return failed(
            "fp16: activations and gradients beyond 65504 overflow.",
            "Use bf16 where the hardware has it: wider range, and no loss scale.",
        )
    span = {
        "fp64": "its range is the widest",
        "fp32": "its range is wide enough for gradients",
        "fp8": "everything else is computed in bf16, which has the range of fp32",
    }
    return passed(f"{dtype}: {span.get(dtype, 'it has the range of fp32')}.")


def _loss_scaling(launch: Launch) -> Check:
    manifest, window = launch.manifest, launch.manifest.loss_scale_window
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


def _checkpoints(launch: Launch) -> Check:
    steps, total = launch.manifest.checkpoint_every, launch.manifest.total_steps
    if steps is None:
        do = "Save one as often as you can afford to lose the steps between two."
        return unknown("The manifest does not say how often.", do)
    often, max_fraction = f"One {every(steps)}", launch.limits.preflight.checkpoint_fraction
    if total is None:
        return passed(f"{often}.")
    do = f"Save one {every(max(round(max_fraction * total / 2), 1))}."
    if steps > total:
        return wrong(f"{often}, and the run has {total}: there would be none.", do)
    if steps > max_fraction * total:
        return risky(f"{often}: a failure costs up to {steps / total:.0%} of the run.", do)
    return passed(f"{often}; a failure costs at most {steps / total:.1%}.")


def _evaluations(launch: Launch) -> Check:
    steps, total = launch.eval_every, launch.manifest.total_steps
    min_count = launch.limits.generalization.min_evaluations
    if launch.eval_strategy.endswith("no"):
        because = "There are none: overfitting would go unnoticed."
        return risky(because, "Evaluate on held-out data at regular steps.")
    if steps is None:
        do = f"Evaluate at regular steps, at least {min_count} times in the run."
        return unknown("The manifest does not say how often.", do)
    often = f"One {every(steps)}"
    if total is None or steps < 1:  # Lightning also accepts a fraction of an epoch.
        return passed(f"{often}.")
    count = int(total // steps)
    if count < min_count:
        because = f"{often}, {count} in the run: fewer than {min_count} show no trend."
        return risky(because, f"Evaluate {every(max(total // (4 * min_count), 1))}.")
    return passed(f"{often}, {count} in the run.")


def _seed(launch: Launch) -> Check:
    if launch.manifest.seed is not None:
        return passed(f"It is {launch.manifest.seed}.")
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


def _trials(manifest: Manifest, sanity: Iterable[Check]) -> tuple[Check, ...]:
    """Return the checks to run by hand, with this run's numbers if the manifest has them.

    A text file lists what to try, why and how. A manifest does not show whether it was done;
    ``sanity`` has the checks that ran.
    """
    done = {item.slug: item for item in sanity}
    classes = manifest.vocab_size
    chance = "Guessing among K classes costs log K; the manifest does not record K."
    if classes is not None and classes > 1:
        cost = f"log {classes} = {num(math.log(classes))}"
        chance = f"Guessing among {classes} classes costs {cost}."
    by_hand = tuple(
        titled(manual(because.format(chance=chance), do), _TRIALS_HEADING, slug, title, None)
        for slug, title, because, do in kept_table("trials")
    )
    merged = tuple(done.pop(check.slug, check) for check in by_hand)
    return tuple(replace(check, section=_TRIALS_HEADING) for check in (*merged, *done.values()))
