"""Labels and inputs of the batches, from the recorder."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num, plural, times
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    HALF,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_TREND_POINTS,
    QUARTER,
    TENTH,
)
from stabdiag.symptoms.recorded.facts import PREFIX
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_ORDER: Final = f"{PREFIX}/label_correlation"
_NONFINITE: Final = f"{PREFIX}/input_nonfinite"
_INPUT_SCALE: Final = f"{PREFIX}/input_std"

# Fewer batches do not show whether the labels are sorted.
_MIN_BATCHES: Final = MIN_TREND_POINTS


@Symptom(
    slug="labels-in-order",
    title="The labels are sorted",
    needs=(_ORDER,),
    preconditions=(at_least(_MIN_BATCHES, _ORDER),),
    is_fact=True,
    next_actions=(
        Action(
            Do.FIX_LOADER, "Check that each epoch and each process shuffles with a different seed."
        ),
    ),
)
def labels_in_order(case: Case) -> Evidence | None:
    """Do the classes of a batch resemble the classes of the previous batch?"""
    series = case.history.finite(_ORDER)
    mean = float(series.values.mean())
    if mean <= case.limits.recorded.label_order:
        return None
    return Evidence(
        because=f"The classes of a batch have a correlation of {mean:.2f} with the previous batch "
        f"({len(series)} batches); in shuffled data it is about 0.",
        step=int(series.steps[0]),
        measured={"correlation": mean, "batches": len(series)},
        first=Action(Do.SHUFFLE_DATA, "Shuffle the training data: DataLoader(…, shuffle=True)."),
    )


@Symptom(
    slug="inputs-rescaled",
    title="The inputs change their scale",
    needs=(_INPUT_SCALE,),
    preconditions=(at_least(MIN_LONG_LOG, _INPUT_SCALE),),
    is_fact=True,
    next_actions=(
        Action(
            Do.FIX_LOADER,
            "Check that all sources and workers normalize with the same mean and deviation.",
        ),
    ),
)
def inputs_rescaled(case: Case) -> Evidence | None:
    """Do the inputs of some batches clearly differ in scale from the other batches?"""
    series = case.history.finite(_INPUT_SCALE)
    positive = series.values > 0
    steps, scale = series.steps[positive], series.values[positive]
    if len(scale) < MIN_LONG_LOG:
        return None
    in_minority = _minority(np.log(scale))
    where = np.flatnonzero(in_minority)
    if not len(where):
        return None
    count, is_stretch = len(where), int(np.ptp(where)) + 1 == len(where)
    other, level = median(scale[in_minority]), median(scale[~in_minority])
    ratio, limits = max(other / level, level / other), case.limits.recorded
    is_rare = count <= TENTH * len(scale) and ratio >= limits.input_outlier
    has_changed = is_stretch and count >= MIN_TREND_POINTS and ratio >= limits.input_scale
    if not has_changed and (not is_rare or count < MIN_CONSECUTIVE):
        return None
    if has_changed and in_minority[0]:
        # The first batches are usual until the scale changes.
        where, other, level = where[-1:] + 1, level, other
    step, unit = int(steps[where[0]]), case.unit
    if not has_changed:
        batches = f"{count} of {len(scale)} batches, the first at {unit} {step},"
    elif in_minority[0] or in_minority[-1]:
        batches = f"the batches from {unit} {step} on"
    else:
        batches = f"the batches from {unit} {step} to {int(steps[where[-1]])}"
    return Evidence(
        because=f"The inputs of {batches} have a standard deviation of {num(other)}, "
        f"{times(other / level)} the usual {num(level)}.",
        step=step,
        measured={"batches": count, "std": other, "usual_std": level},
        first=Action(
            Do.INSPECT_DATA,
            f"Compare the inputs of the batch of {unit} {step} with earlier ones: look for a "
            "missing normalization, another unit, another source.",
            step=step,
        ),
    )


def _minority(x: Floats) -> Mask:
    """Return a mask of the smaller of two groups; it is empty if no gap separates them.

    The groups are on both sides of the widest gap between neighbors in order of size.
    """
    ordered = np.sort(x)
    gaps = np.diff(ordered)
    at = int(np.argmax(gaps))
    is_high: Mask = x > (ordered[at] + ordered[at + 1]) / 2
    if gaps[at] < QUARTER * (median(x[is_high]) - median(x[~is_high])):
        return np.zeros(len(x), np.bool_)
    return is_high if np.mean(is_high) <= HALF else ~is_high


@Symptom(
    slug="inputs-nonfinite",
    severity=Severity.ERROR,
    title="Batches contain NaN or infinite inputs",
    needs=(_NONFINITE,),
    is_fact=True,
    next_actions=(
        Action(Do.SKIP_BATCHES, "Skip and count these batches until the data is clean."),
    ),
)
def inputs_nonfinite(case: Case) -> Evidence | None:
    """Does a batch contain inputs that are not finite?"""
    series = case.history.finite(_NONFINITE)
    bad = np.flatnonzero(series.values)
    if not len(bad):
        return None
    step, count = int(series.steps[bad[0]]), int(series.values[bad[0]])
    return Evidence(
        because=f"{plural(len(bad), 'batch', 'batches')} of {len(series)} had NaN or infinite "
        f"inputs, the first at step {step} ({plural(count, 'value')}).",
        step=step,
        measured={"batches": len(bad), "values": count},
        first=Action(
            Do.INSPECT_DATA, f"Find the NaN in the inputs of the batch of step {step}.", step=step
        ),
    )
