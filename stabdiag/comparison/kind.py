"""What runs are to each other: seeds, reruns, ranks of a job, or a run and its resume."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from stabdiag.comparison.names import seed_of
from stabdiag.comparison.points import begin_alike, losses
from stabdiag.model.comparison import Kind, Run
from stabdiag.places.logs import are_of_a_job
from stabdiag.stats.quantiles import usual_gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.limits.compare import CompareLimits

# A run that begins so many logged steps after another did goes on from it.
_LATER: Final = 10

# Logs that agree from so many first losses on, and until the loss has moved, are of one seed.
_SAME: Final = 3


def stride(run: Run) -> float:
    """Return the usual number of steps between two logged losses of a run."""
    loss = run.history.get("loss")
    return usual_gap(loss.steps) if loss is not None and len(loss) > 1 else 1.0


def span(run: Run) -> tuple[int, int]:
    """Return the first and the last step at which a run logged a loss."""
    loss = run.history.get("loss")
    return (0, -1) if loss is None or not len(loss) else (int(loss.steps[0]), int(loss.steps[-1]))


def kind_of(runs: Sequence[Run], limits: CompareLimits) -> tuple[Kind, str]:
    """Return what the runs are taken for and why, judged by the strongest evidence first."""
    if are_of_a_job([run.rank for run in runs]):
        return Kind.RANKS, "each has a rank of its own in its name or manifest"
    seeds = [seed_of(run.name, run.manifest) for run in runs]
    told = [seed for seed in seeds if seed is not None]
    later = _resumes(runs) if len(set(told)) < 2 else None
    if later is not None:
        return Kind.RESUME, later
    if len(told) == len(seeds) and len(set(told)) > 1:
        return Kind.SEEDS, f"their seeds differ ({_listed(told)})"
    if len(told) == len(seeds):
        return Kind.RERUNS, f"all have the seed {told[0]}"
    if _begin_alike(runs, limits):
        return (
            Kind.RERUNS,
            "the seed of not every run is told, and the first losses are the same, as one seed "
            "makes them",
        )
    return (
        Kind.SEEDS,
        "the seed of not every run is told, and the losses differ from the start; "
        "--as reruns if it was the same",
    )


def _resumes(runs: Sequence[Run]) -> str | None:
    """Return how the runs follow on each other, or None where they do not."""
    ordered = sorted(runs, key=span)
    for one, other in pairwise(ordered):
        if span(other)[0] - span(one)[0] < _LATER * max(stride(one), stride(other)):
            return None
    one, other = ordered[0], ordered[1]
    return f"{other.label} begins at step {span(other)[0]}, where {one.label} was under way " + (
        f"(it logged {span(one)[0]} to {span(one)[1]})"
        if span(other)[0] <= span(one)[1]
        else f"or had just ended (at {span(one)[1]})"
    )


def _begin_alike(runs: Sequence[Run], limits: CompareLimits) -> bool:
    pairs = (losses(runs[0].history, other.history) for other in runs[1:])
    return all(begin_alike(both, limits, _SAME) for both in pairs)


def _listed(seeds: Sequence[int]) -> str:
    shown = ", ".join(map(str, seeds[:6]))
    return f"{shown}, …" if len(seeds) > 6 else shown
