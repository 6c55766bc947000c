"""What a manifest says of the learning rate: its peak, its warm-up, its schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.ticks import Line
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.preflight.settings import Launch
    from stabdiag.ticks import Tick

_TITLES = {"lion": "Lion", "adam": "Adam and its variants", "sgd": "SGD"}


def peak_rate(at: Launch) -> Tick:
    """Is the peak learning rate in the optimizer's usual range?"""
    line = Line(slug="peak-lr", title="Peak learning rate")
    peak, name = at.manifest.peak_lr, at.manifest.optimizer
    if peak is None:
        return line.unknown(
            "The manifest does not say.",
            "Run a learning-rate range test: too low crawls, too high bounces.",
        )
    if peak <= 0:
        return line.crossed(
            f"It is {num(peak)}: nothing would be trained.",
            "Set a learning rate above 0.",
            severity=Severity.ERROR,
        )
    kind = at.family
    if kind is None:
        if name is None:
            return line.unknown(f"It is {num(peak)}; what is usual depends on the optimizer.")
        return line.unknown(f"It is {num(peak)}; the usual range of {name!r} is not known here.")
    held = at.limits.preflight
    low, high = getattr(held, f"{kind}_lr_low"), getattr(held, f"{kind}_lr_high")
    usual = f"{num(low)} to {num(high)} is usual for {_TITLES[kind]}"
    if low <= peak <= high:
        return line.ticked(f"It is {num(peak)}; {usual}.")
    if peak > 10 * high:
        first = f"Lower it to {num(high)} at first, or check in which unit it is given."
    elif peak > high:
        first = f"Lower it by 3 to 10 times, to {num(peak / 10)} at first."
    else:
        first = "Raise it tenfold, or check in which unit it is given."
    return line.crossed(
        f"It is {num(peak)}; {usual}.",
        first,
        "Run a learning-rate range test: too low crawls, too high bounces.",
        severity=Severity.WARNING,
    )


def warmup(at: Launch) -> Tick:
    """Is there a warm-up, and is it of a usual length?"""
    line = Line(slug="warmup", title="Warm-up")
    steps, total = at.warmup, at.manifest.total_steps
    limits = at.limits.preflight
    usual = "Warm up linearly over 1% to 5% of the run."
    if steps is None:
        if at.warmup_share:
            told = f"It is {at.warmup_share:.1%} of the run; its steps are not known."
            return line.unknown(told, usual)
        return line.unknown("The manifest does not say.", usual)
    if steps == 0:
        # Plain SGD needs it with large batches alone.
        severity = Severity.NOTE if at.family == "sgd" else Severity.WARNING
        return line.crossed(
            "There is none: the first steps are taken at the peak learning rate.",
            usual,
            severity=severity,
        )
    if total is None:
        return line.ticked(f"{plural(num(steps), 'step')}.")
    share = steps / total
    told = f"{plural(num(steps), 'step')}, {share:.2g} of the run's {total}"
    if share >= 1:
        return line.crossed(
            f"{told}: the run would end before its warm-up.",
            "Check in which unit it is counted: optimizer steps, micro-batches or samples.",
            severity=Severity.ERROR,
        )
    if not limits.warmup_low <= share <= limits.warmup_high:
        return line.crossed(
            f"{told}; {num(limits.warmup_low)} to {num(limits.warmup_high)} is usual.",
            "Check in which unit it is counted: optimizer steps, micro-batches or samples.",
            usual,
            severity=Severity.WARNING,
        )
    return line.ticked(f"{told}.")


def schedule_length(at: Launch) -> Tick:
    """Does the schedule end when the run does?"""
    line = Line(slug="schedule-length", title="Schedule and length of the run")
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
            f"{told}, and the manifest does not say how many steps it is built for; the run has "
            f"{total}.",
            f"Print the learning rate that the scheduler gives at step {total}.",
        )
    told = f"The schedule has {plural(num(length), 'step')}, the run {total}"
    if abs(length - total) <= at.limits.preflight.schedule_slack * total:
        return line.ticked(f"{told}.")
    meant = "it is at its floor before the run ends" if length < total else "it never gets down"
    return line.crossed(
        f"{told}: {meant}.",
        f"Build the scheduler with {plural(total, 'step')}, on every process alike.",
        severity=Severity.WARNING,
    )
