"""Spikes that recur, and losses with a heavy tail."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import every, num, number_range, sigmas, typed, whole
from stabdiag.stats.peaks import MAX_GAP
from stabdiag.stats.quantiles import MAD_TO_SIGMA, median, medians, robust_sigma
from stabdiag.stats.standards import (
    CACHED_POINTS,
    CLEAR,
    FAR_RATIO,
    HALF,
    MIN_LONG_LOG,
    QUARTERS,
    TENTH,
)
from stabdiag.symptoms.losses import rhythm
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.advice.rates import lowered
from stabdiag.tree.advice.shared import clip
from stabdiag.tree.case import Case
from stabdiag.tree.recurring import Coincidence, RecurringSpikes

# The highest loss of a heavy tail is reported if noise leaves the gap below it with at most this
# probability: more than for a spike, but rarely in healthy runs.
_UNUSUAL_GAP: Final = TENTH


def _few_losses(case: Case) -> str:
    needed = 2 * case.spike_window
    return "" if len(case.loss) >= needed else too_few(needed, f"{len(case.loss)} of loss")


def _untested(case: Case) -> str:
    needed = case.min_losses_for_spikes
    return "" if case.scan.tested else too_few(needed, f"{len(case.loss)} of loss")


_INSPECT = Action(
    Do.INSPECT_DATA, "Print the batches at these steps and compare them with their neighbors."
)


@Symptom(
    slug="frequent-spikes",
    title="The loss keeps spiking",
    needs=("loss",),
    explained_by=("nan", "divergence", "spike-persistent"),
    preconditions=(_untested,),
    next_actions=(
        _INSPECT,
        Action(
            Do.CHANGE_OPTIMIZER,
            "Lower Adam's β2 to 0.95, or the learning rate (per layer, if one layer leads).",
            also=(Do.LOWER_LR,),
        ),
        Action(Do.SKIP_BATCHES, "Skip updates whose gradient norm is far above its median."),
    ),
)
def frequent_spikes(case: Case) -> Evidence | None:
    """Does the loss spike several times, far above its noise?"""
    if case.recurring is None:
        rhythmic = None if _few_losses(case) else _rhythmic(case)
        return rhythmic or _multiplied_epochs(case) or _hard_batches(case)
    if case.recurring.is_hard_batch:
        return _hard_batch(case, case.recurring)
    return _frequent(case, case.recurring)


def _frequent(case: Case, spikes: RecurringSpikes) -> Evidence:
    trends = {"grow": spikes.grow, "come closer together": spikes.come_closer}
    worse = " and ".join(verb for verb, holds in trends.items() if holds)
    sentences = [
        f"{_describe(case, spikes)}, and recovered each time; all other steps stay within "
        f"{sigmas(spikes.noise)}.",
        *((f"They come {every(spikes.period, case.unit)}.",) if spikes.period else ()),
        *((f"The spikes {worse}.",) if worse else ()),
        *(_coincides(coincidence, len(spikes)) for coincidence in spikes.coincidences),
    ]
    cut, count = clip(case), len(spikes)
    clipping = Action(
        Do.CLIP_GRADIENTS,
        f"Clip the gradient norm at {cut}: the loss spiked {count} times.",
        **cut.change,
    )
    lr = case.history.finite("lr").values
    peak = float(lr.max(initial=0.0)) or case.manifest.peak_lr
    half = lowered(case, peak, 2) if peak else None
    first, next_actions = clipping, frequent_spikes.next_actions
    if worse and peak and half:
        first = Action(
            Do.LOWER_LR,
            f"Lower the peak learning rate from {num(peak)} to {num(typed(half))}: the spikes "
            f"{worse}.",
            setting="peak_lr",
            from_=peak,
            to=half,
        )
        next_actions = (clipping, *next_actions)
    return Evidence(
        because=" ".join(sentences),
        step=int(spikes.steps[0]),
        measured=_measured(spikes),
        first=first,
        next_actions=next_actions,
    )


def _describe(case: Case, spikes: RecurringSpikes) -> str:
    """Describe the number of spikes, their steps and their height."""
    by = number_range(float(spikes.heights.min()), float(spikes.heights.max()))
    return (
        f"The loss spiked {len(spikes)} times between {case.unit}s {int(spikes.steps[0])} and "
        f"{int(spikes.steps[-1])}, by {by} (up to {sigmas(float(spikes.scores.max()))})"
    )


def _coincides(coincidence: Coincidence, count: int) -> str:
    values = number_range(coincidence.low, coincidence.high)
    return (
        f"At {coincidence.hits} of the {count}, the {coincidence.name} was {values}; "
        f"{coincidence.fraction:.2g} of all records are as high."
    )


def _measured(spikes: RecurringSpikes) -> dict[str, Scalar]:
    measured: dict[str, Scalar] = {
        "spikes": len(spikes),
        "height": median(spikes.heights),
        "largest_score": float(spikes.scores.max()),
        "noise": spikes.noise,
    }
    if spikes.period is not None:
        measured["interval"] = spikes.period
    if spikes.batch is not None:
        measured["batch_id"] = spikes.batch
    return measured


def _hard_batch(case: Case, spikes: RecurringSpikes) -> Evidence:
    """Report that one batch, or one position in the data order, causes all spikes."""
    if spikes.batch is not None:
        name = whole(spikes.batch)
        where = f"all on batch {name}"
        look = f"Print batch {name}: its loss is far above all others."
    elif spikes.per_epoch:
        where = "at the same position in each epoch"
        look = f"Print the batch of {case.unit} {int(spikes.steps[0])}, and shuffle every epoch."
    else:
        where = every(spikes.period or 0.0, case.unit)
        look = (
            f"Find out what happens {where}: one hard shard or batch, the first batch of an "
            "epoch, a periodic update."
        )
    return Evidence(
        because=f"{_describe(case, spikes)}, {where}, and recovered each time.",
        step=int(spikes.steps[0]),
        measured=_measured(spikes),
        severity=Severity.NOTE,
        title="A hard batch recurs",
        first=Action(Do.INSPECT_DATA, look, also=(Do.SHUFFLE_DATA,)),
        next_actions=(Action(Do.SHUFFLE_DATA, "Mix the data more finely (stratified batches)."),),
    )


def _multiplied_epochs(case: Case) -> Evidence | None:
    """Report epochs whose mean loss jumps to five times the usual one, again and again.

    The mean of an epoch has no heavy tail, and many jumps hide each other from the test for spikes.
    """
    x, usual = case.loss.values, median(case.loss.values)
    if case.reward is not None or case.loss_kind is not None:
        return None
    if not case.history.counts_epochs or x.min() <= 0:
        return None
    at = np.flatnonzero(x > FAR_RATIO * usual)
    at = at[(at > 0) & (x[at - 1] < HALF * x[at])]
    if len(at) < case.limits.data.spike_count:
        return None
    first, last = case.at(int(at[0])), case.at(int(at[-1]))
    return Evidence(
        because=f"The loss jumped to {number_range(float(x[at].min()), float(x[at].max()))} at "
        f"{len(at)} of {len(x)} {case.unit}s, from {case.unit} {first} to {last}; the median is "
        f"{num(usual)}.",
        step=first,
        measured={"spikes": len(at), "median_loss": usual, "highest": float(x[at].max())},
        first=Action(
            Do.LOWER_LR,
            "Lower the learning rate, or use larger batches: the mean loss of an epoch only jumps "
            "if the weights do.",
            also=(Do.CHANGE_BATCH,),
        ),
        explains=("spike-recovered",),
    )


def _hard_batches(case: Case) -> Evidence | None:
    """Report separated peaks that are too frequent to be spikes."""
    peaks = case.scan.frequent_peaks
    if peaks is None or case.scan.spikes or case.reward is not None or case.loss_kind is not None:
        return None
    heights = number_range(float(peaks.heights.min()), float(peaks.heights.max()))
    fraction, step = len(peaks) / case.scan.tested, case.at(int(peaks.peaks[0]))
    return Evidence(
        because=f"{len(peaks)} losses ({fraction:.1%}) are {heights} above the steps before "
        f"them (up to {sigmas(float(peaks.scores.max()))}); all others stay within "
        f"{sigmas(peaks.noise)}. Hard batches are the usual reason for many spikes.",
        step=step,
        measured={
            "spikes": len(peaks),
            "fraction": fraction,
            "height": median(peaks.heights),
            "largest_score": float(peaks.scores.max()),
            "noise": peaks.noise,
        },
        severity=Severity.NOTE,
        title="Hard batches recur",
        first=Action(
            Do.INSPECT_DATA,
            f"Print the batch of {case.unit} {step} and compare it with its neighbors.",
            step=step,
        ),
        next_actions=(Action(Do.SHUFFLE_DATA, "Mix the data more finely (stratified batches)."),),
    )


def _rhythmic(case: Case) -> Evidence | None:
    """Report periodic spikes that are too frequent to be separated from the noise."""
    loss, limits, width = case.loss, case.limits.data, case.spike_window
    rows = len(loss) // width
    left_out = len(loss) - rows * width
    x = loss.values[left_out:].reshape(rows, width)
    count = max(CACHED_POINTS // width, 1)
    parts = [
        (start * width, *_far_above(case, x[start : start + count]))
        for start in range(0, rows, count)
    ]
    high = np.concatenate([start + at for start, at, _ in parts])
    at = _starts(high)
    # Spikes close together are one event.
    if len(at) < limits.spike_count or at[-1] - at[0] < len(loss) // QUARTERS:
        return None
    heights = np.concatenate([above for _, _, above in parts])
    height, steps = median(heights[high.searchsorted(at)]), loss.steps[left_out + at]
    gap = rhythm(steps)
    if gap is None:
        return None
    first = int(steps[0])
    return Evidence(
        because=f"The loss spiked {len(at)} times, {every(gap, case.unit)} from {case.unit} "
        f"{first} on, typically by {num(height)}.",
        step=first,
        measured={"spikes": len(at), "interval": gap, "height": height},
        severity=Severity.NOTE,
        title="A hard batch recurs",
        first=Action(
            Do.INSPECT_DATA,
            f"Find out what happens {every(gap, case.unit)}: one hard shard or batch, the first "
            "batch of an epoch, a periodic update.",
        ),
        next_actions=(Action(Do.SHUFFLE_DATA, "Mix the data more finely (stratified batches)."),),
    )


def _far_above(case: Case, rows: Floats) -> tuple[Ints, Floats]:
    """Return the positions of the losses far above the median of their row, and their heights."""
    limits, level = case.limits.data, medians(rows)[:, np.newaxis]
    above = rows - level
    noise = MAD_TO_SIGMA * medians(np.abs(above))[:, np.newaxis]
    bar = np.maximum(limits.spike_sigma * noise, limits.spike_fraction * np.abs(level))
    at = np.flatnonzero(above > bar)
    return at, above.ravel()[at]


def _starts(high: Ints) -> Ints:
    """Return the positions where short runs of high points begin."""
    if not len(high):
        return high
    first = np.append(0, np.flatnonzero(np.diff(high) > MAX_GAP + 1) + 1)
    short = np.diff(np.append(first, len(high))) <= 2 * (MAX_GAP + 1)
    starts: Ints = high[first[short]]
    return starts


@Symptom(
    slug="heavy-tailed-loss",
    severity=Severity.NOTE,
    title="Single losses are far above the rest",
    needs=("loss",),
    explained_by=("nan", "divergence", "spike", "plateau"),
    preconditions=(_untested,),
    next_actions=(
        Action(
            Do.LOG_MORE,
            "Log the batch id and the gradient norm at every step, to tell hard batches from "
            "instability.",
        ),
    ),
)
def heavy_tailed_loss(case: Case) -> Evidence | None:
    """Is a single loss far above the rest, but not far enough above the next to be a spike?"""
    scan, x = case.scan, case.loss.values
    if not case.has_high_peaks or scan.frequent_peaks is not None or case.loss_kind is not None:
        return None
    # Noise that reaches this high without a gap is usual for the run.
    if scan.largest <= scan.limit and scan.largest_chance > _UNUSUAL_GAP:
        return None
    at = scan.largest_at
    level, value = scan.largest_level, float(x[at])
    # On a steep descent, a loss may be above its trend and still be lower than those before it. In
    # a short window, autocorrelated noise looks smaller than it is.
    context = x[max(at - MIN_LONG_LOG, 0) : at]
    if value <= level or value - median(context) < CLEAR * robust_sigma(context):
        return None
    step = case.at(at)
    return Evidence(
        because=f"The highest single loss, {num(value)} at {case.unit} {step}, is "
        f"{sigmas(scan.largest)} above the steps before it ({num(level)}), and recovered. Other "
        "losses of this run come near enough that it may be heavy-tailed noise.",
        step=step,
        measured={"largest_score": scan.largest, "limit": scan.limit, "loss": value},
        first=Action(
            Do.INSPECT_DATA,
            f"Print the batch of {case.unit} {step}: a hard or damaged sample is the usual reason.",
            step=step,
        ),
    )
