"""What the logs of several processes show together, from the recorder."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.stats.standards import HALF, MIN_CONSECUTIVE
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


@Symptom(
    slug="ranks-differ",
    severity=Severity.ERROR,
    title="The processes train different weights",
    needs=(_WEIGHTS_COLUMN,),
    preconditions=(at_least(_MIN_RANK_MEASUREMENTS, _WEIGHTS_COLUMN),),
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
    """Do the weights of the processes differ whenever they are compared?"""
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
