"""Other runs in a log: each failed run becomes a note in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.assemble.inputs import infer, match_step_unit
from stabdiag.model.edges import OUTCOME_BY_SLUG
from stabdiag.model.findings import EARLIER_RUN_FAILED, Action, ActionKind, Finding, Severity
from stabdiag.model.text import plural
from stabdiag.symptoms.check import check_symptoms, worst_first
from stabdiag.tree.case import Case
from stabdiag.tree.literal import LiteralCase
from stabdiag.tree.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


def failed_runs(
    history: History, manifest: Manifest, limits: Limits, *, literal: bool = False
) -> tuple[Finding, ...]:
    """Return a note for each other failed run, in the order of the log.

    ``manifest`` belongs to the whole log: its dtype applies to every run.
    """
    return tuple(_failed(history, manifest, limits, literal=literal))


def _failed(
    history: History, manifest: Manifest, limits: Limits, *, literal: bool
) -> Iterator[Finding]:
    for earlier in history.earlier:
        scaled, earlier = match_step_unit(manifest, earlier)  # noqa: PLW2901 - the same run
        case = (LiteralCase if literal else Case)(
            history=earlier, manifest=infer(scaled, earlier), limits=limits
        )
        findings = walk(case).findings
        if not literal and not len(earlier.logged("loss")):
            # The tree asks about losses: only symptoms can show that rewards or scores collapsed.
            findings = worst_first(findings, check_symptoms(case).findings(findings, earlier.unit))
        worst = findings[0]
        if worst.severity is Severity.ERROR:
            yield _note(history, earlier, worst)


def _note(history: History, earlier: History, worst: Finding) -> Finding:
    leaf, number = OUTCOME_BY_SLUG[EARLIER_RUN_FAILED], earlier.source.attempt
    where = "" if worst.step is None else f" at {earlier.unit} {worst.step}"
    problem = f"{worst.title[:1].lower()}{worst.title[1:]}"
    if earlier.source.resumed_at is not None:
        return _abandoned_note(earlier, worst, problem)
    runs = plural(history.source.attempts, "run")
    return Finding(
        slug=leaf.slug,
        severity=leaf.severity,
        section=leaf.section,
        question=worst.question,
        title=leaf.title,
        summary=f"The log holds {runs}, and this is number {history.source.attempt}. Number "
        f"{number} failed{where}: {problem}.",
        actions=(
            Action(
                ActionKind.SEE_FINDING, f"Diagnose the run that failed with --attempt {number}."
            ),
        ),
        unit=earlier.unit,
        evidence={"attempt": number, "outcome": worst.slug, "failed_at": worst.step},
    )


def _abandoned_note(earlier: History, worst: Finding, problem: str) -> Finding:
    """Return the note for an attempt that a resume from a checkpoint gave up."""
    leaf, unit = OUTCOME_BY_SLUG[EARLIER_RUN_FAILED], earlier.unit
    last, resumed_at = earlier.last_step, earlier.source.resumed_at
    where = "" if worst.step is None else f" at {unit} {worst.step}"
    return Finding(
        slug=leaf.slug,
        severity=leaf.severity,
        section=leaf.section,
        question=worst.question,
        title="An earlier attempt of this run failed",
        summary=f"The attempt that ended at {unit} {last} failed{where}: {problem}. The run "
        f"resumed at {unit} {resumed_at}, and the later attempt is diagnosed.",
        actions=(
            Action(
                ActionKind.CHECK_SETTINGS,
                f"Find out what changed at the resume at {unit} {resumed_at}, such as the learning "
                "rate or the order of the data. If nothing did, the failure may come back.",
                step=resumed_at,
            ),
        ),
        unit=unit,
        evidence={"outcome": worst.slug, "failed_at": worst.step, "resumed_at": resumed_at},
    )
