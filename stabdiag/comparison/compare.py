"""Compare several runs: what they are to each other, where they part, what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.comparison import resume
from stabdiag.comparison.agreement import agree, too_little
from stabdiag.comparison.configs import config_differs
from stabdiag.comparison.died import rank_died
from stabdiag.comparison.disagree import ranks_disagree
from stabdiag.comparison.kind import kind_of, span
from stabdiag.comparison.names import labels, rank_of
from stabdiag.comparison.points import losses, partings
from stabdiag.comparison.reruns import nondeterminism
from stabdiag.comparison.seeds import seed_variance
from stabdiag.comparison.settings import differences, settings
from stabdiag.comparison.study import Study
from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.model.comparison import Comparison, Kind, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.findings import Finding
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest

# Of more runs than this, the first is what the others are held against.
_MOST_PAIRS = 12

# What can be found of each kind of comparison, and of it what needs no common losses.
_CHECKS = {
    Kind.SEEDS: (seed_variance, config_differs),
    Kind.RERUNS: (nondeterminism, config_differs),
    Kind.RANKS: (rank_died, ranks_disagree, config_differs),
    Kind.RESUME: (resume.resume_parts, config_differs),
}
_FIRST = (rank_died, config_differs)


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
    told = chosen is Kind.SEEDS and _enough(study, common)
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
        levels=study.ends.levels if told else (),
        notes=_notes(study),
    )


def _runs(histories: Sequence[History], manifests: Sequence[Manifest]) -> tuple[Run, ...]:
    if len(histories) < 2:
        raise StabdiagError(
            f"{histories[0].source.name if histories else 'no log'}: a comparison takes two runs "
            "or more; name each log, or one folder with a log of every rank (rank0.jsonl, …)"
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
    enough = _enough(study, common)
    checks = _CHECKS[study.kind] if enough else [c for c in _CHECKS[study.kind] if c in _FIRST]
    found = [one for check in checks for one in check(study)]
    if not enough:
        found.append(too_little(study, common))
    if not found:
        found.append(agree(study, common))
    return tuple(sorted(found, key=lambda one: one.severity.rank))


def _enough(study: Study, common: int) -> bool:
    """Tell whether the runs have enough in common; a resume may follow without a common step."""
    wanted = study.limits.compare.min_points
    if study.kind is Kind.RESUME:
        return all(len(run.history.series.get("loss", ())) >= wanted for run in study.runs)
    return common >= wanted


def _notes(study: Study) -> tuple[str, ...]:
    """Return what a reader should know of the comparison: manifests and steps that are missing."""
    bare = [run.label for run in study.runs if not settings(run)]
    notes = [f"no configuration is known for {', '.join(bare)}"] if bare else []
    notes += [
        f"{run.label} holds {run.history.source.attempts} runs, of which the last is compared"
        for run in study.runs
        if run.history.source.attempts > 1
    ]
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
