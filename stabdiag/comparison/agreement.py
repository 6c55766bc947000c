"""What to say when nothing was found: that the runs agree, or that too little is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.comparison import resume, seeds
from stabdiag.comparison.study import Study, finding
from stabdiag.model.comparison import Kind
from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.comparison import Parting
    from stabdiag.model.findings import Finding, Scalar


def too_little(study: Study, common: int) -> Finding:
    """Return that the runs have too little in common."""
    counts = [len(run.history.series.get("loss", ())) for run in study.runs]
    told = ", ".join(f"{run.label} {count}" for run, count in zip(study.runs, counts, strict=True))
    what = plural(common, "common step") if common else "no step in common"
    return finding(
        "not-comparable",
        because=f"The runs have {what} with a loss (logged: {told}); a comparison wants "
        f"{study.limits.compare.min_points}. Nothing is said of whether they agree.",
        first=Action(
            ActionKind.LOG_MORE, "Compare longer logs, or log at the same steps in all runs."
        ),
        then=(
            Action(
                ActionKind.CHECK_SETTINGS, "Pass --limit compare.min_points=N to compare fewer."
            ),
        ),
        measured={"common_points": common},
    )


def agree(study: Study, common: int) -> Finding:
    """Return that the runs agree, and how far that was seen."""
    words, measured = _agreement(study, common)
    return finding("agree", because=words, first=_next(study), measured=measured)


def _agreement(study: Study, common: int) -> tuple[str, dict[str, Scalar]]:
    if study.kind is Kind.RESUME:
        return resume.healthy_words(study)
    numbers: dict[str, Scalar] = {"common_points": common}
    if not study.parted("loss") and not (study.kind is Kind.RANKS and _other_roles(study)):
        roles = len({role for found in study.partings.values() for role in found})
        told = f"All {common} common losses are equal to the last bit"
        if roles > 1 and not _other_roles(study):
            told += f", and so is whatever else was logged ({plural(roles - 1, 'role')})"
        return f"{told}.", numbers
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


def _next(study: Study) -> Action:
    if study.kind is Kind.SEEDS and not study.parted("loss"):
        return Action(
            ActionKind.CHECK_SETTINGS,
            "Check that the seed is used: with other seeds the losses should not be the same to "
            "the last bit.",
            setting="seed",
        )
    return Action(
        ActionKind.DO_NOTHING,
        "Nothing needs to be done about how they differ; whether each run is well, `stabdiag check`"
        " tells.",
    )
