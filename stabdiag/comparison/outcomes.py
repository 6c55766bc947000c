"""What can be found of runs that are compared."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.comparison import Kind
from stabdiag.model.findings import Severity

EVERY = tuple(Kind)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What can be found: slug, severity at its worst, title, kinds of comparison, limits."""

    slug: str
    severity: Severity
    title: str
    kinds: tuple[Kind, ...] = EVERY
    limits: tuple[str, ...] = ()


_PARTING = ("compare.rounding", "compare.noise_sigma", "compare.lasting")

OUTCOMES: tuple[Outcome, ...] = (
    Outcome(
        slug="rank-died",
        severity=Severity.ERROR,
        title="A rank died",
        kinds=(Kind.RANKS,),
        limits=("compare.rank_gap",),
    ),
    Outcome(
        slug="ranks-disagree",
        severity=Severity.ERROR,
        title="The ranks do not hold the same network",
        kinds=(Kind.RANKS,),
        limits=(*_PARTING, "compare.rank_sigma", "compare.min_points"),
    ),
    Outcome(
        slug="config-differs",
        severity=Severity.WARNING,
        title="The configurations differ",
        limits=("compare.rounding",),
    ),
    Outcome(
        slug="nondeterminism",
        severity=Severity.WARNING,
        title="The same configuration and seed, and other losses",
        kinds=(Kind.RERUNS,),
        limits=(*_PARTING, "compare.min_points"),
    ),
    Outcome(
        slug="resume-parts",
        severity=Severity.WARNING,
        title="The resumed run does not carry on where the first one was",
        kinds=(Kind.RESUME,),
        limits=(
            *_PARTING,
            *("resume.points", "resume.jump_sigma", "resume.lr_ratio", "resume.gap_ratio"),
            "spike.min_rise",
        ),
    ),
    Outcome(
        slug="seed-variance",
        severity=Severity.WARNING,
        title="The seeds do not end alike",
        kinds=(Kind.SEEDS,),
        limits=("compare.final_share", "compare.seed_significance", "compare.seed_share"),
    ),
    Outcome(
        slug="not-comparable",
        severity=Severity.NOTE,
        title="Too little in common to compare",
        limits=("compare.min_points",),
    ),
    Outcome(slug="agree", severity=Severity.OK, title="The runs agree"),
)

BY_SLUG = {outcome.slug: outcome for outcome in OUTCOMES}
