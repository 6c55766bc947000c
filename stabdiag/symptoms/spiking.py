"""The symptom of a loss that spikes again and again.

Most logs of noisy tasks have points far out: a hard batch has a high loss, and the next is as
usual. Such a habit is no news. It is told where there is something to find behind it, a rhythm, or
where the spikes cost something, which shows in the loss after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import every, num
from stabdiag.stats.quantiles import MAD_TO_SIGMA, median, medians
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.tree.case import Case

# Spikes so many points apart are one; their rhythm is regular if distances differ by less.
_ONE_SPIKE = 3
_REGULAR = 0.1

# What a spike leaves behind is looked for in so many points after it, held against as many before.
_BESIDE = 5


def frequent_spikes(case: Case) -> Evidence | None:
    """Does the loss spike again and again?"""
    found = _spikes(case)
    if found is None:
        return None
    at, heights, noise = found
    gaps = np.diff(case.loss.steps[at]).astype(np.float64)
    gap, height = median(gaps), median(heights)
    regular = median(np.abs(gaps - gap)) <= _REGULAR * gap
    mark = _mark(case.loss.values, at, noise)
    if not regular and mark < case.limits.data.spike_mark:
        return None
    steps = case.loss.steps[at]
    rhythm = every(gap) if regular else f"{num(gap)} steps apart or so"
    after = (
        "came down again"
        if mark < case.limits.data.spike_mark
        else f"was still {num(mark)} deviations above its level just after"
    )
    first = (
        f"Find out what happens {every(gap)}: one hard shard or batch, an epoch's "
        "first batch, an update of something else."
        if regular
        else f"Save the batches of the spikes (the first at step {int(steps[0])}) and look for "
        "what they have in common."
    )
    return Evidence(
        because=f"The loss spiked {len(at)} times, {rhythm}, by {num(height)} as a rule, and "
        f"{after}.",
        step=int(steps[0]),
        measured={
            "spikes": len(at),
            "apart": gap,
            "height": height,
            "regular": bool(regular),
            "mark": mark,
        },
        first=Action(ActionKind.INSPECT_DATA, first, step=None if regular else int(steps[0])),
        then=(
            Action(
                ActionKind.CLIP_GRADIENTS,
                "Lower the clip threshold, so that one batch cannot move the weights far.",
            ),
            Action(
                ActionKind.CHANGE_OPTIMIZER,
                "Lower β2 of Adam to 0.95, or the learning rate.",
                also=(ActionKind.LOWER_LR,),
            ),
            Action(ActionKind.SHUFFLE_DATA, "Mix the data more finely (stratified batches)."),
        ),
    )


def _spikes(case: Case) -> tuple[Ints, Floats, Floats] | None:
    """Return where spikes begin, how high they rise, and the noise there, if they are many."""
    loss, limits = case.loss, case.limits.data
    width = case.spike_window
    rows = len(loss) // width
    if rows < 2:
        return None
    left_out = len(loss) - rows * width
    x = loss.values[left_out:].reshape(rows, width)
    level = medians(x)[:, np.newaxis]
    noise = MAD_TO_SIGMA * medians(np.abs(x - level))[:, np.newaxis]
    bar = np.maximum(limits.spike_sigma * noise, limits.spike_share * np.abs(level))
    # A level that half of its stretch repeats to the digit has no noise to measure by.
    high = np.flatnonzero(((x - level > bar) & (noise > 0)).ravel())
    if len(high) < limits.spike_count:
        return None
    first = np.append(0, np.flatnonzero(np.diff(high) > _ONE_SPIKE) + 1)
    # What stays up is no spike.
    short = np.diff(np.append(first, len(high))) <= _ONE_SPIKE * 2
    at = high[first[short]]
    if len(at) < limits.spike_count or at[-1] - at[0] < rows * width // 4:
        return None
    return left_out + at, (x - level).ravel()[at], noise.ravel()[at // width]


def _mark(x: Floats, at: Ints, noise: Floats) -> float:
    """Return how far above its level before a spike the loss is after it, in deviations, usually.

    Args:
        x: the losses, shape (n,).
        at: where the spikes begin, shape (k,).
        noise: the deviation of the loss there, shape (k,).
    """
    whole = (at >= _BESIDE) & (at + _ONE_SPIKE + _BESIDE <= len(x))
    if not whole.any():
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(x, _BESIDE)
    before = medians(windows[at[whole] - _BESIDE])
    after = medians(windows[at[whole] + _ONE_SPIKE])
    return median((after - before) / noise[whole])


def _few_losses(case: Case) -> str:
    needed = 2 * case.spike_window
    return "" if len(case.loss) >= needed else too_few(needed, f"{len(case.loss)} of loss")


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="frequent-spikes",
        severity=Severity.NOTE,
        family="data",
        title="The loss keeps spiking",
        check=frequent_spikes,
        needs=("loss",),
        limits=(
            "data.spike_sigma",
            "data.spike_share",
            "data.spike_count",
            "data.spike_mark",
        ),
        explained_by=("nan", "divergence", "spike-persistent"),
        enough=(_few_losses,),
    ),
)
