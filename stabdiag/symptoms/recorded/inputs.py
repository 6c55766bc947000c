"""Labels and inputs of the batches, from the recorder."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import plural
from stabdiag.stats.standards import MIN_TREND_POINTS
from stabdiag.symptoms.recorded.facts import PREFIX
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_ORDER: Final = f"{PREFIX}/label_correlation"
_NONFINITE: Final = f"{PREFIX}/input_nonfinite"

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
