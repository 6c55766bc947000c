"""Compare runs that should be the same: where and how far they diverge, and the likely cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stabdiag.comparison import resume, seeds
from stabdiag.comparison.failures import run_fails
from stabdiag.comparison.kind import find_rank, have_distinct_seeds, infer_kind, span
from stabdiag.comparison.labels import make_labels
from stabdiag.comparison.outcomes import AGREE, NOT_COMPARABLE, RUN_FAILS
from stabdiag.comparison.points import find_divergences, losses
from stabdiag.comparison.ranks import rank_died, ranks_disagree
from stabdiag.comparison.reruns import nondeterminism
from stabdiag.comparison.settings import config_differs, differences, explaining, settings
from stabdiag.comparison.task import different_training
from stabdiag.errors import StabdiagError
from stabdiag.model.comparison import ComparedRun, Comparison, ComparisonKind
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import plural

# With more runs than this, the first one is the reference.
_MAX_PAIRS: Final = 12

# The checks of each kind of comparison, and the checks that need no common losses.
_CHECKS: Final = {
    ComparisonKind.SEEDS: (seeds.seed_variance, config_differs),
    ComparisonKind.RERUNS: (nondeterminism, config_differs),
    ComparisonKind.RANKS: (rank_died, ranks_disagree, config_differs),
    ComparisonKind.RESUME: (resume.resume_diverges, config_differs),
    ComparisonKind.BASELINE: (),  # the first run is compared with the band of the others
}
_NEEDS_NO_COMMON_LOSS: Final = (rank_died, config_differs)


def compare_runs(
    histories: Sequence[History],
    manifests: Sequence[Manifest],
    limits: Limits,
    *,
    kind: str | None = None,
) -> Comparison:
    """Compare runs, each with its manifest; the kind of comparison is inferred if not given.

    Raises:
        StabdiagError: for fewer than two runs, or an unknown kind.
    """
    runs = _runs(histories, manifests)
    chosen, why = infer_kind(runs, kind, limits.compare)
    comparison = _compare(runs, chosen, why, limits)
    if kind is not None or comparison.diagnosis.slug == RUN_FAILS.slug:
        return comparison
    others = tuple(different_training(comparison))
    # Where runs of different tasks diverge and end means nothing.
    return replace(comparison, findings=others, divergences=(), levels=()) if others else comparison


def compare_with_baseline(comparison: Comparison, run: ComparedRun, why: str) -> Comparison:
    """Return the comparison of one run with the others as its baseline."""
    runs = (run, *(other for other in comparison.runs if other is not run))
    return _compare(runs, ComparisonKind.BASELINE, why, comparison.limits)


def ends_differ(comparison: Comparison) -> bool:
    """Return True if the ends of the runs differ by more than seeds usually do."""
    return is_comparable(comparison) and any(seeds.seed_variance(comparison))


def differ_by_seed(comparison: Comparison) -> bool:
    """Return True if each run has its own seed, and no other setting explains a difference."""
    return have_distinct_seeds(comparison.runs) and not explaining(comparison.differences)


def _compare(
    runs: tuple[ComparedRun, ...], kind: ComparisonKind, why: str, limits: Limits
) -> Comparison:
    reference = _reference(runs, kind)
    others = [run for run in runs if run is not reference]
    comparison = Comparison(
        kind=kind,
        why=why,
        runs=runs,
        reference=reference.label,
        common=min(len(losses(reference.history, run.history)) for run in others),
        divergences=tuple(
            p for run in others for p in find_divergences(reference, run, limits.compare)
        ),
        differences=differences(runs, kind),
        limits=limits,
    )
    comparable = is_comparable(comparison)
    levels = (
        seeds.ends(runs, limits.compare).levels
        if kind is ComparisonKind.SEEDS and comparable
        else ()
    )
    return replace(
        comparison,
        findings=_findings(comparison, is_comparable=comparable),
        levels=levels,
        notes=_notes(comparison),
    )


def _runs(histories: Sequence[History], manifests: Sequence[Manifest]) -> tuple[ComparedRun, ...]:
    if len(histories) < 2:
        raise StabdiagError(
            f"{histories[0].source.name if histories else 'no log'}: a comparison needs two or "
            "more runs; name each log, or a folder that has only these runs"
        )
    pairs = list(zip(histories, manifests, strict=True))
    ranks = [find_rank(history.source.name, manifest) for history, manifest in pairs]
    labels = make_labels([history.source.name for history in histories], ranks)
    return tuple(
        ComparedRun(label=label, history=history, manifest=manifest, rank=rank)
        for label, rank, (history, manifest) in zip(labels, ranks, pairs, strict=True)
    )


def _reference(runs: Sequence[ComparedRun], kind: ComparisonKind) -> ComparedRun:
    """Return the run that agrees with the others for the most losses, else the first run."""
    if kind is ComparisonKind.RESUME:
        return min(runs, key=span)
    if len(runs) == 2 or len(runs) > _MAX_PAIRS or kind is ComparisonKind.BASELINE:
        return runs[0]
    return max(runs, key=lambda run: sum(_common_prefix(run, other) for other in runs))


def _common_prefix(run: ComparedRun, other: ComparedRun) -> int:
    """Return the number of losses before two runs diverge."""
    shared = losses(run.history, other.history)
    differs = shared.left != shared.right
    return int(differs.argmax()) if differs.any() else len(shared)


def is_comparable(comparison: Comparison) -> bool:
    """Return True if the runs have enough common losses; a resume needs no common step."""
    min_points = comparison.limits.compare.min_points
    if comparison.kind is ComparisonKind.RESUME:
        return all(len(run.history.logged("loss")) >= min_points for run in comparison.runs)
    return comparison.common >= min_points


def _findings(comparison: Comparison, *, is_comparable: bool) -> tuple[Finding, ...]:
    findings = [] if comparison.kind is ComparisonKind.BASELINE else [*run_fails(comparison)]
    if findings:  # the finding already covers different settings and ends
        findings += nondeterminism(comparison) if comparison.kind is ComparisonKind.RERUNS else ()
        return tuple(findings)
    checks = [
        check
        for check in _CHECKS[comparison.kind]
        if is_comparable or check in _NEEDS_NO_COMMON_LOSS
    ]
    findings = [finding for check in checks for finding in check(comparison)]
    if not is_comparable:
        findings.append(_not_comparable(comparison))
    if not findings:
        summary, evidence = _agreement(comparison)
        findings.append(AGREE.finding(summary, _next(comparison), measured=evidence))
    return tuple(sorted(findings, key=lambda finding: finding.severity.rank))


def _not_comparable(comparison: Comparison) -> Finding:
    counts = ", ".join(f"{run.label} {len(run.history.logged('loss'))}" for run in comparison.runs)
    common = comparison.common
    shared = plural(common, "common step") if common else "no step in common"
    return NOT_COMPARABLE.finding(
        f"The runs have {shared} with a loss (losses logged: {counts}). A comparison needs "
        f"{comparison.limits.compare.min_points}, so whether the runs agree is unknown.",
        Action(ActionKind.LOG_MORE, "Compare longer logs, or log at the same steps in all runs."),
        measured={"common_points": common},
    )


def _agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return the summary of runs without a finding, and its evidence."""
    if comparison.kind is ComparisonKind.RESUME:
        return resume.agreement(comparison)
    common = comparison.common
    evidence: dict[str, Scalar] = {"common_points": common}
    others = any(divergence.step is not None for divergence in comparison.divergences)
    if not comparison.find_divergences("loss") and not (
        comparison.kind is ComparisonKind.RANKS and others
    ):
        roles = len({divergence.role for divergence in comparison.divergences})
        ending = f", and so is everything else logged ({plural(roles - 1, 'role')})"
        detail = ending if roles > 1 and not others else ""
        return f"All {common} common losses are identical{detail}.", evidence
    if comparison.kind is ComparisonKind.SEEDS:
        summary, extra = seeds.agreement(comparison)
        return summary, evidence | extra
    return (
        f"Over {plural(common, 'common step')} the logs show no difference between "
        "the networks of the ranks. Their losses differ no more than their batches explain.",
        evidence,
    )


def _next(comparison: Comparison) -> Action:
    if comparison.kind is ComparisonKind.SEEDS and not comparison.find_divergences("loss"):
        return Action(
            ActionKind.CHECK_SETTINGS,
            "Check that the seed is used: different seeds should not give identical losses.",
            setting="seed",
        )
    return Action(
        ActionKind.DO_NOTHING,
        "No action needed. Run stabdiag check to see whether each run is healthy.",
    )


def _notes(comparison: Comparison) -> tuple[str, ...]:
    """Return notes on the comparison: missing manifests, several runs in a log, missing steps."""
    unconfigured = [run.label for run in comparison.runs if not settings(run)]
    notes = [f"no configuration is known for {', '.join(unconfigured)}"] if unconfigured else []
    notes += [
        f"{run.label} contains {run.history.source.attempts} runs; the last is compared"
        for run in comparison.runs
        if run.history.source.attempts > 1
    ]
    if comparison.kind is ComparisonKind.RESUME:
        notes += resume.gap_note(comparison)
    if comparison.kind is ComparisonKind.SEEDS:
        last_steps = sorted(span(run)[1] for run in comparison.runs)
        if 2 * last_steps[0] < last_steps[-1]:
            notes.append(
                f"ends are compared at step {last_steps[0]}, where the shortest log ends; the "
                f"longest log ends at step {last_steps[-1]}"
            )
    return tuple(notes)
