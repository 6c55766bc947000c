"""The relation of runs: seeds, reruns, ranks of a job, or a run and its resume."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stabdiag.comparison.points import losses
from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.model.comparison import ComparedRun, ComparisonKind
from stabdiag.model.limits.checks import CompareLimits
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import NUMBERS
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.text import and_more
from stabdiag.sources.logs import are_ranks_of_one_job, parse_rank
from stabdiag.stats.quantiles import usual_gap
from stabdiag.stats.standards import MIN_CONSECUTIVE

# A run that begins this many logged steps after another continues it.
_MIN_OFFSET: Final = 10

# Runs share a seed if at least this many first losses agree, and all until the loss moves.
_MIN_EQUAL: Final = MIN_CONSECUTIVE

_SEED: Final = re.compile(r"(?<![a-z])seed[-_.=]?(\d{1,12})(?!\d)", re.IGNORECASE)

# At most this many seeds are listed.
_MAX_SEEDS: Final = 6

# In a section with one of these words, a rank is the rank of a matrix: lora.rank.
_OF_MATRICES: Final = ("lora", "adapter", "peft", "galore")


def stride(run: ComparedRun) -> float:
    """Return the typical number of steps between two logged losses of a run."""
    return usual_gap(run.history.logged("loss").steps)


def span(run: ComparedRun) -> tuple[int, int]:
    """Return the first and the last step with a loss."""
    steps = run.history.logged("loss").steps
    return (int(steps[0]), int(steps[-1])) if len(steps) else (0, -1)


def find_rank(name: str, manifest: Manifest) -> int | None:
    """Return the rank in the manifest, else the one in the name: ``run.rank3.jsonl``."""
    for key, value in manifest.also.items():
        section, _, last = key.rpartition(".")
        is_of_process = not any(word in plain(section) for word in _OF_MATRICES)
        if is_of_process and plain(last) in NUMBERS["rank"] and str(value).isdecimal():
            return int(str(value)[:9])
    return parse_rank(name)


def infer_kind(
    runs: Sequence[ComparedRun], requested: str | None, limits: CompareLimits
) -> tuple[ComparisonKind, str]:
    """Return the kind of comparison and the reason; the strongest evidence decides.

    Raises:
        StabdiagError: if the requested kind is unknown.
    """
    if requested is not None and requested not in list(ComparisonKind):
        hint = did_you_mean(requested, list(ComparisonKind))
        raise StabdiagError(
            f"runs cannot be compared as {requested!r}{hint} "
            f"(there are: {', '.join(ComparisonKind)})"
        )
    if requested is not None:
        return ComparisonKind(requested), "as requested"
    if are_ranks_of_one_job([run.rank for run in runs]):
        return ComparisonKind.RANKS, "each run has its own rank in its name or manifest"
    seeds = [seed for run in runs if (seed := _find_seed(run)) is not None]
    resume = _resumes(runs) if len(set(seeds)) < 2 else None
    if resume is not None:
        return ComparisonKind.RESUME, resume
    if len(seeds) == len(runs) and len(set(seeds)) > 1:
        return ComparisonKind.SEEDS, f"their seeds differ ({and_more(seeds, _MAX_SEEDS)})"
    if len(seeds) == len(runs):
        return ComparisonKind.RERUNS, f"all runs have seed {seeds[0]}"
    pairs = [losses(runs[0].history, other.history) for other in runs[1:]]
    if all(shared.begin_alike(limits, _MIN_EQUAL) for shared in pairs):
        return ComparisonKind.RERUNS, "not every seed is recorded, and the first losses are equal"
    return (
        ComparisonKind.SEEDS,
        "not every seed is recorded, and the losses differ from the start; pass --as reruns if "
        "the seeds are equal",
    )


def have_distinct_seeds(runs: Sequence[ComparedRun]) -> bool:
    """Return True if each run records another seed."""
    seeds = {_find_seed(run) for run in runs}
    return None not in seeds and len(seeds) == len(runs)


def _find_seed(run: ComparedRun) -> int | None:
    """Return the seed in the manifest, else the one in the name: ``seed7.csv``."""
    if run.manifest.seed is not None:
        return run.manifest.seed
    matches = _SEED.findall(run.name)
    return int(matches[-1]) if matches else None


def _resumes(runs: Sequence[ComparedRun]) -> str | None:
    """Return a description of how the runs continue each other, or None if they do not."""
    ordered = sorted(runs, key=span)
    for earlier, later in pairwise(ordered):
        if span(later)[0] - span(earlier)[0] < _MIN_OFFSET * max(stride(earlier), stride(later)):
            return None
    earlier, later = ordered[:2]
    (first, last), start = span(earlier), span(later)[0]
    where = f"within {earlier.label} ({first} to {last})"
    if start > last:
        where = f"after {earlier.label} ended (at {last})"
    return f"{later.label} begins at step {start}, {where}"
