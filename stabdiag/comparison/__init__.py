"""Runs that should be the same: where they diverge, by how much, and what that points to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stabdiag.comparison import resume, seeds
from stabdiag.comparison.failures import run_fails
from stabdiag.comparison.kind import kind_of, rank_of, span
from stabdiag.comparison.labels import labels_of
from stabdiag.comparison.outcomes import AGREE, NOT_COMPARABLE
from stabdiag.comparison.points import losses, partings
from stabdiag.comparison.ranks import rank_died, ranks_disagree
from stabdiag.comparison.reruns import nondeterminism
from stabdiag.comparison.settings import config_differs, differences, settings
from stabdiag.errors import StabdiagError
from stabdiag.model.comparison import Comparison, Kind, Run
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import plural

# Of more runs than this, the first is the reference.
_MOST_PAIRS: Final = 12

# What is looked for in each kind of comparison, and what of it needs no common losses.
_CHECKS: Final = {
    Kind.SEEDS: (seeds.seed_variance, config_differs),
    Kind.RERUNS: (nondeterminism, config_differs),
    Kind.RANKS: (rank_died, ranks_disagree, config_differs),
    Kind.RESUME: (resume.resume_parts, config_differs),
    Kind.BASELINE: (),  # the first run is compared with the band of the others
}
_ALWAYS: Final = (rank_died, config_differs)


def compare_runs(
    histories: Sequence[History],
    manifests: Sequence[Manifest],
    limits: Limits,
    *,
    kind: str | None = None,
) -> Comparison:
    """Compare runs, each with its manifest; what they are to each other is inferred if not given.

    Raises:
        StabdiagError: for fewer than two runs, or an unknown kind.
    """
    runs = _runs(histories, manifests)
    chosen, why = kind_of(runs, kind, limits.compare)
    reference = _reference(runs, chosen)
    others = [run for run in runs if run is not reference]
    found = Comparison(
        kind=chosen,
        why=why,
        runs=runs,
        reference=reference.label,
        common=min(len(losses(reference.history, run.history)) for run in others),
        partings=tuple(p for run in others for p in partings(reference, run, limits.compare)),
        differences=differences(runs, chosen),
        limits=limits,
    )
    enough = _enough(found)
    levels = seeds.ends(runs, limits.compare).levels if chosen is Kind.SEEDS and enough else ()
    return replace(
        found, findings=_findings(found, enough=enough), levels=levels, notes=_notes(found)
    )


def _runs(histories: Sequence[History], manifests: Sequence[Manifest]) -> tuple[Run, ...]:
    if len(histories) < 2:
        raise StabdiagError(
            f"{histories[0].source.name if histories else 'no log'}: a comparison needs two or "
            f"more "
            "runs; name each log, or a folder with one log per rank (rank0.jsonl, …)"
        )
    given = list(zip(histories, manifests, strict=True))
    ranks = [rank_of(history.source.name, manifest) for history, manifest in given]
    labels = labels_of([history.source.name for history in histories], ranks)
    return tuple(
        Run(label=label, history=history, manifest=manifest, rank=rank)
        for label, rank, (history, manifest) in zip(labels, ranks, given, strict=True)
    )


def _reference(runs: Sequence[Run], kind: Kind) -> Run:
    """Return the run that stays with most of the others longest; else the first one."""
    if kind is Kind.RESUME:
        return min(runs, key=span)
    if len(runs) == 2 or len(runs) > _MOST_PAIRS or kind is Kind.BASELINE:
        return runs[0]
    return max(runs, key=lambda run: sum(_together(run, other) for other in runs))


def _together(one: Run, other: Run) -> int:
    """Return over how many losses two runs stay together."""
    both = losses(one.history, other.history)
    apart = both.one != both.other
    return int(apart.argmax()) if apart.any() else len(both)


def _enough(comparison: Comparison) -> bool:
    """Tell whether the runs have enough in common; a resume needs no common step."""
    wanted = comparison.limits.compare.min_points
    if comparison.kind is Kind.RESUME:
        return all(len(run.history.logged("loss")) >= wanted for run in comparison.runs)
    return comparison.common >= wanted


def _findings(comparison: Comparison, *, enough: bool) -> tuple[Finding, ...]:
    found = [] if comparison.kind is Kind.BASELINE else [*run_fails(comparison)]
    if found:  # settings and ends that differ are part of that finding
        found += nondeterminism(comparison) if comparison.kind is Kind.RERUNS else ()
        return tuple(found)
    checks = [check for check in _CHECKS[comparison.kind] if enough or check in _ALWAYS]
    found = [finding for check in checks for finding in check(comparison)]
    if not enough:
        found.append(_too_little(comparison))
    if not found:
        told, numbers = _agreement(comparison)
        found.append(AGREE.found(told, _next(comparison), measured=numbers))
    return tuple(sorted(found, key=lambda one: one.severity.rank))


def _too_little(comparison: Comparison) -> Finding:
    told = ", ".join(f"{run.label} {len(run.history.logged('loss'))}" for run in comparison.runs)
    common = comparison.common
    what = plural(common, "common step") if common else "no step in common"
    return NOT_COMPARABLE.found(
        f"The runs have {what} with a loss (losses logged: {told}). A comparison needs "
        f"{comparison.limits.compare.min_points}, so whether the runs agree is unknown.",
        Action(ActionKind.LOG_MORE, "Compare longer logs, or log at the same steps in all runs."),
        measured={"common_points": common},
    )


def _agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return what to say of runs in which nothing was found, and its numbers."""
    if comparison.kind is Kind.RESUME:
        return resume.agreement(comparison)
    common = comparison.common
    numbers: dict[str, Scalar] = {"common_points": common}
    others = any(one.step is not None for one in comparison.partings)
    if not comparison.parted("loss") and not (comparison.kind is Kind.RANKS and others):
        roles = len({one.role for one in comparison.partings})
        rest = f", and so is everything else logged ({plural(roles - 1, 'role')})"
        told = rest if roles > 1 and not others else ""
        return f"All {common} common losses are identical{told}.", numbers
    if comparison.kind is Kind.SEEDS:
        words, more = seeds.agreement(comparison)
        return words, numbers | more
    return (
        f"Over {plural(common, 'common step')} the ranks train the same network, as far as the "
        f"logs "
        "show. Their losses differ no more than their batches explain.",
        numbers,
    )


def _next(comparison: Comparison) -> Action:
    if comparison.kind is Kind.SEEDS and not comparison.parted("loss"):
        return Action(
            ActionKind.CHECK_SETTINGS,
            "Check that the seed is used: different seeds should not give identical losses.",
            setting="seed",
        )
    return Action(
        ActionKind.DO_NOTHING,
        "No action needed. Run `stabdiag check` to see whether each run is healthy.",
    )


def _notes(comparison: Comparison) -> tuple[str, ...]:
    """Return what a reader should know of the comparison: manifests and steps that are missing."""
    bare = [run.label for run in comparison.runs if not settings(run)]
    notes = [f"no configuration is known for {', '.join(bare)}"] if bare else []
    notes += [
        f"{run.label} contains {run.history.source.attempts} runs; the last is compared"
        for run in comparison.runs
        if run.history.source.attempts > 1
    ]
    if comparison.kind is Kind.RESUME:
        notes += resume.gap_note(comparison)
    if comparison.kind is Kind.SEEDS:
        lasts = sorted(span(run)[1] for run in comparison.runs)
        if 2 * lasts[0] < lasts[-1]:
            notes.append(
                f"ends are compared at step {lasts[0]}, where the shortest log ends; the longest "
                f"log "
                f"ends at step {lasts[-1]}"
            )
    return tuple(notes)
