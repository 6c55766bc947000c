"""What the logs of several processes show together."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.other_losses import RANK_LOSS
from stabdiag.model.text import num
from stabdiag.stats.levels import levels
from stabdiag.stats.standards import HALF, LEAST, MIN_CONSECUTIVE, TENTHS, TWICE
from stabdiag.symptoms.recorded.facts import PREFIX
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_RANKS: Final = f"{PREFIX}/ranks"
_WEIGHTS_COLUMN: Final = f"{PREFIX}/rank_weights_differ"
_BATCHES_COLUMN: Final = f"{PREFIX}/rank_same_batch"

# Fewer measurements show only the start of the run.
_MIN_RANK_MEASUREMENTS: Final = MIN_CONSECUTIVE


def _number_of_ranks(case: Case) -> int:
    ranks = case.history.finite(_RANKS)
    return int(ranks.values.max()) if len(ranks) else 0


def _has_few_comparisons(case: Case) -> bool:
    return bool(at_least(_MIN_RANK_MEASUREMENTS, _WEIGHTS_COLUMN)(case))


def _no_ranks(case: Case) -> str:
    """Return the reason why processes cannot be compared, or ""."""
    if any(_losses_of_ranks(case)):
        return ""
    return at_least(_MIN_RANK_MEASUREMENTS, _WEIGHTS_COLUMN)(case)


def _losses_of_ranks(case: Case) -> list[Series]:
    """Return the losses of the ranks that are not diagnosed."""
    others = case.history.group("other_loss").values()
    return [
        series for series in others if series.role.startswith(RANK_LOSS) and len(series) >= LEAST
    ]


def _losses_differ(case: Case) -> Evidence | None:
    """Report a rank whose loss ends far from the diagnosed one, although both began alike.

    Ranks that average their gradients have the same weights, and batches of the same data.
    """
    x = case.loss.values
    if len(x) < LEAST or x.min() <= 0:
        return None
    own = levels(x, TENTHS)
    for series in _losses_of_ranks(case):
        other = levels(series.values, TENTHS)
        # A stage of a pipeline without a loss logs a constant.
        if series.values.min() <= 0 or not np.ptp(series.values):
            continue
        ratios = np.maximum(other / own, own / other)
        late = ratios[TENTHS // 2 :]
        if ratios[0] >= TWICE or late.min() < TWICE or not (late > ratios[0]).all():
            continue
        ended, rank_ended = float(own[-1]), float(other[-1])
        began = f"{num(float(other[0]))} and {num(float(own[0]))}"
        return Evidence(
            title="The losses of the ranks differ",
            severity=Severity.WARNING,
            because=f"{series.column!r} ends at {num(rank_ended)} and the diagnosed loss "
            f"{case.loss.column!r} at {num(ended)}; in the first tenth they were {began}. Ranks "
            "with the same weights have similar losses.",
            confidence=Confidence.MEDIUM,
            measured={"loss": ended, "rank_loss": rank_ended},
            first=Action(
                Do.CHECK_MODEL,
                "Compare a checksum of the weights of all ranks after a step. If they differ, wrap "
                "the model in DistributedDataParallel, and call it, not the model inside; "
                "otherwise compare the data of the ranks.",
                also=(Do.INSPECT_DATA,),
            ),
        )
    return None


@Symptom(
    slug="ranks-differ",
    severity=Severity.ERROR,
    title="The processes train different weights",
    needs=(f"{_WEIGHTS_COLUMN} or other_loss",),
    preconditions=(_no_ranks,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "If the processes average their weights only occasionally, put this finding on the "
            "ignore list.",
        ),
    ),
)
def ranks_differ(case: Case) -> Evidence | None:
    """Do the weights of the processes differ whenever they are compared, or their losses?"""
    if _has_few_comparisons(case):
        return _losses_differ(case)
    spread = case.history.finite(_WEIGHTS_COLUMN)
    # The first row may be from before the weights were sent to all processes.
    later = spread.values[1:]
    if not later.all():
        return None
    ranks = _number_of_ranks(case)
    return Evidence(
        because=f"The weights of {ranks} processes differ in all {len(later)} comparisons, by "
        f"{spread.values[-1]:.2g} of their sum at the end: each process trains a model of its own.",
        step=int(spread.steps[0]),
        measured={"ranks": ranks, "comparisons": len(later), "spread": float(spread.values[-1])},
        first=Action(
            Do.CHECK_MODEL,
            "Wrap the model in DistributedDataParallel, and call it, not the model inside.",
        ),
    )


@Symptom(
    slug="ranks-share-batches",
    title="All processes train on the same batches",
    needs=(_BATCHES_COLUMN,),
    preconditions=(at_least(_MIN_RANK_MEASUREMENTS, _BATCHES_COLUMN),),
    is_fact=True,
    next_actions=(
        Action(
            Do.FIX_LOADER,
            "If the data is an iterable, let each process skip the examples of the others.",
        ),
    ),
)
def ranks_share_batches(case: Case) -> Evidence | None:
    """Do two processes have the same batch in most steps?"""
    same = case.history.finite(_BATCHES_COLUMN)
    fraction = float(same.values.mean())
    if fraction <= HALF:
        return None
    ranks = _number_of_ranks(case)
    return Evidence(
        because=f"In {fraction:.0%} of {len(same)} steps, two of {ranks} processes had the same "
        "batch: the job does the work of fewer processes.",
        step=int(same.steps[0]),
        measured={"ranks": ranks, "fraction": fraction, "steps": len(same)},
        first=Action(
            Do.FIX_LOADER,
            "Give the loader a DistributedSampler, and call its set_epoch() in each epoch.",
        ),
    )
