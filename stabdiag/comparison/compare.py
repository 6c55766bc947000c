"""Compare several runs: what they are to each other, where they part, what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.compared import Comparison, Kind, Run
from stabdiag.comparison import resume, seeds
from stabdiag.comparison.configs import config_differs
from stabdiag.comparison.died import rank_died
from stabdiag.comparison.disagree import ranks_disagree
from stabdiag.comparison.kind import kind_of, span
from stabdiag.comparison.names import labels, rank_of
from stabdiag.comparison.points import losses, partings
from stabdiag.comparison.reruns import nondeterminism
from stabdiag.comparison.settings import differences
from stabdiag.comparison.study import Study, finding
from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.tree.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.compared import Parting
    from stabdiag.findings import Finding, Scalar
    from stabdiag.history import History
    from stabdiag.limits import Limits
    from stabdiag.manifest import Manifest

# Of more runs than this, the first is what the others are held against.
_MOST_PAIRS = 12

# What can be found of each kind of comparison. Ranks that died leave too little to agree on.
_CHECKS = {
    Kind.SEEDS: (seeds.seed_variance, config_differs),
    Kind.RERUNS: (nondeterminism, config_differs),
    Kind.RANKS: (rank_died, ranks_disagree, config_differs),
    Kind.RESUME: (resume.resume_parts, config_differs),
}


def compare_runs(
    histories: Sequence[History],
    manifests: Sequence[Manifest],
    limits: Limits,
    *,
    kind: str | None = None,
) -> Comparison:
    """Compare runs with what is told of each.

    Args:
        histories: two or more.
        manifests: one for each.
        limits: thresholds.
        kind: ``seeds``, ``reruns``, ``ranks`` or ``resume``; told from the runs if not given.

    Raises:
        StabdiagError: for fewer than two runs, or an unknown kind.
    """
    runs = _runs(histories, manifests)
    chosen, why = _kind(runs, kind, limits)
    reference = _reference(runs, chosen)
    found = {
        run.label: {one.role: one for one in partings(reference, run, limits.compare)}
        for run in runs
        if run is not reference
    }
    study = Study(
        kind=chosen,
        runs=runs,
        reference=reference,
        partings=found,
        differences=differences(runs, chosen),
        limits=limits,
    )
    common = min(len(losses(reference.history, run.history)) for run in study.others)
    findings = _findings(study, common)
    levels = seeds.ends(runs, limits.compare).levels if _ends(study, common) else ()
    return Comparison(
        kind=chosen,
        why=why,
        runs=runs,
        reference=reference.label,
        common=common,
        findings=findings,
        partings=tuple(one for roles in found.values() for one in roles.values()),
        differences=study.differences,
        limits=limits,
        levels=levels,
        notes=_notes(study),
    )


def _runs(histories: Sequence[History], manifests: Sequence[Manifest]) -> tuple[Run, ...]:
    if len(histories) < 2:
        raise StabdiagError(
            "a comparison wants two runs or more, or one folder that holds the logs of several "
            "ranks"
        )
    ranks = [
        rank_of(history.source.name, manifest)
        for history, manifest in zip(histories, manifests, strict=True)
    ]
    return tuple(
        Run(label=label, history=history, manifest=manifest, rank=rank)
        for label, history, manifest, rank in zip(
            labels(ranks), histories, manifests, ranks, strict=True
        )
    )


def _kind(runs: Sequence[Run], asked: str | None, limits: Limits) -> tuple[Kind, str]:
    if asked is None:
        return kind_of(runs, limits.compare)
    if asked not in list(Kind):
        raise StabdiagError(
            f"runs cannot be compared as {asked!r}{did_you_mean(asked, list(Kind))} "
            f"(there are: {', '.join(Kind)})"
        )
    return Kind(asked), "as was asked for"


def _reference(runs: Sequence[Run], kind: Kind) -> Run:
    """Return the run that stays with most of the others longest; of a resume the first one."""
    if kind is Kind.RESUME:
        return min(runs, key=span)
    if len(runs) == 2 or len(runs) > _MOST_PAIRS:
        return runs[0]
    return max(runs, key=lambda run: sum(_together(run, other) for other in runs))


def _together(one: Run, other: Run) -> int:
    """Return over how many losses two runs stay together."""
    both = losses(one.history, other.history)
    apart = both.one != both.other
    return int(apart.argmax()) if apart.any() else len(both)


def _findings(study: Study, common: int) -> tuple[Finding, ...]:
    found = [one for check in _CHECKS[study.kind] for one in check(study)]
    if not _enough(study, common):
        found = [one for one in found if one.slug in ("rank-died", "config-differs")]
        found.append(_too_little(study, common))
    if not found:
        found.append(_agree(study, common))
    return tuple(sorted(found, key=lambda one: one.severity.rank))


def _enough(study: Study, common: int) -> bool:
    """Tell whether the runs have enough in common; a resume may follow without a common step."""
    wanted = study.limits.compare.min_points
    if study.kind is Kind.RESUME:
        return all(len(run.history.series.get("loss", ())) >= wanted for run in study.runs)
    return common >= wanted


def _ends(study: Study, common: int) -> bool:
    return study.kind is Kind.SEEDS and _enough(study, common)


def _too_little(study: Study, common: int) -> Finding:
    counts = [len(run.history.series.get("loss", ())) for run in study.runs]
    told = ", ".join(f"{run.label} {count}" for run, count in zip(study.runs, counts, strict=True))
    what = plural(common, "common step") if common else "no step in common"
    return finding(
        "not-comparable",
        because=f"The runs have {what} with a loss (logged: {told}); a comparison wants "
        f"{study.limits.compare.min_points}. Nothing is said of whether they agree.",
        first="Compare longer logs, or log at the same steps in all runs.",
        then=("--limit compare.min_points=N compares fewer.",),
        measured={"common_points": common},
    )


def _agree(study: Study, common: int) -> Finding:
    words, measured = _agreement(study, common)
    return finding("agree", because=words, first=_next(study), measured=measured)


def _agreement(study: Study, common: int) -> tuple[str, dict[str, Scalar]]:
    if study.kind is Kind.RESUME:
        return resume.healthy_words(study)
    parted = [one for one in study.of("loss") if one.step is not None]
    numbers: dict[str, Scalar] = {"common_points": common}
    if not parted and not (study.kind is Kind.RANKS and _other_roles(study)):
        roles = len({role for found in study.partings.values() for role in found})
        told = f"All {common} common losses are equal to the last bit"
        told += f", and so is whatever else was logged ({roles - 1} roles)." if roles > 1 else "."
        if _other_roles(study):
            told = f"All {common} common losses are equal to the last bit."
        return told, numbers
    if study.kind is Kind.SEEDS:
        words, more = seeds.healthy_words(study)
        return words, numbers | more
    return (
        f"Over {plural(common, 'common step')} the ranks hold the same network, as far as the logs "
        "tell; their losses differ by no more than their batches explain.",
        numbers,
    )


def _other_roles(study: Study) -> list[Parting]:
    return [
        one for found in study.partings.values() for one in found.values() if one.step is not None
    ]


def _next(study: Study) -> str:
    if study.kind is Kind.SEEDS and not any(one.step is not None for one in study.of("loss")):
        return (
            "Check that the seed is used: with other seeds the losses should not be the same to "
            "the last bit."
        )
    return "Nothing needs to be done."


def _notes(study: Study) -> tuple[str, ...]:
    """Return what a reader should know of the comparison: manifests and steps that are missing."""
    bare = [run.label for run in study.runs if run.manifest.path is None]
    notes = [f"nothing is told of the configuration of {', '.join(bare)}"] if bare else []
    if study.kind is Kind.RESUME:
        notes += resume.gap_note(study)
    if study.kind is Kind.SEEDS:
        lasts = sorted(span(run)[1] for run in study.runs)
        if 2 * lasts[0] < lasts[-1]:
            notes.append(
                f"the seeds are compared up to step {lasts[0]}, where the shortest log ends; the "
                f"longest goes on to {lasts[-1]}"
            )
    return tuple(notes)
