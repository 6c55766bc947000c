"""The symptom of a loss that spikes again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.quantiles import median, medians
from stabdiag.stats.rolling import MAD_TO_SIGMA
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# Spikes so many points apart are one; their rhythm is regular if distances differ by less.
_ONE_SPIKE = 3
_REGULAR = 0.1


def frequent_spikes(case: Case) -> Evidence | None:
    """Does the loss spike again and again?"""
    loss = case.loss
    width = case.spike_window
    rows = len(loss) // width
    if rows < 2:
        return None
    x = loss.values[len(loss) - rows * width :].reshape(rows, width)
    level = medians(x)[:, np.newaxis]
    noise = MAD_TO_SIGMA * medians(np.abs(x - level))[:, np.newaxis]
    limits = case.limits.data
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
    steps = loss.steps[len(loss) - rows * width + at]
    gaps = np.diff(steps).astype(np.float64)
    every, height = median(gaps), median((x - level).ravel()[at])
    regular = median(np.abs(gaps - every)) <= _REGULAR * every
    rhythm = f"every {num(every)} steps" if regular else f"{num(every)} steps apart or so"
    hint = (
        f"Find out what happens every {num(every)} steps: one hard shard or batch, an epoch's "
        "first batch, an update of something else."
        if regular
        else f"Save the batches of the spikes (the first at step {int(steps[0])}) and look for "
        "what they have in common."
    )
    return Evidence(
        because=f"The loss spiked {len(at)} times, {rhythm}, by {num(height)} as a rule, and came "
        "down again.",
        step=int(steps[0]),
        measured={"spikes": len(at), "apart": every, "height": height, "regular": bool(regular)},
        first=hint,
        then=(
            "Lower the clip threshold, so that one batch cannot move the weights far.",
            "Lower β2 of Adam to 0.95, or the learning rate.",
            "Mix the data more finely (stratified batches).",
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="frequent-spikes",
        severity=Severity.NOTE,
        family="data",
        title="Spikes that come again and again",
        check=frequent_spikes,
        needs=("loss",),
        limits=("data.spike_sigma", "data.spike_share", "data.spike_count"),
        explained_by=("nan", "divergence", "spike-persistent"),
    ),
)
