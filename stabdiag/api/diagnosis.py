"""Diagnose a history, and find the step where the problem was first detectable."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.api.earlier_runs import failed_runs
from stabdiag.api.partly_read import INCONCLUSIVE_OUTCOMES, partly_read, with_incomplete_first
from stabdiag.api.shown import Report
from stabdiag.assemble.inputs import infer, match_step_unit
from stabdiag.model.report import Detection, Tree
from stabdiag.symptoms.check import SymptomResults, check_symptoms, worst_first
from stabdiag.tree.advice.shared import with_changes
from stabdiag.tree.case import Case
from stabdiag.tree.literal import LiteralCase
from stabdiag.tree.nothing_found import not_logged
from stabdiag.tree.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from stabdiag.model import report as reported
    from stabdiag.model.findings import Finding, RollingBaseline
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest

    First = TypeVar("First")
    Second = TypeVar("Second")

# Sections that may describe the same problem: a climb may first look like a jump.
_LOSS_WENT_UP = ("§2", "§4")

# From this many losses on, a second thread pays.
_PARALLEL_LOSSES = 50_000

# Losses may be infinite or huge; results are then infinite or NaN, and reported as such.
quiet = np.errstate(all="ignore")


@quiet
def make_report(
    history: History, manifest: Manifest, limits: Limits, *, literal: bool = False
) -> Report:
    """Diagnose a history with the manifest of its run."""
    manifest, history = match_step_unit(manifest, history)
    inferred = infer(manifest, history)
    case = (LiteralCase if literal else Case)(history=history, manifest=inferred, limits=limits)

    def check_rest() -> tuple[SymptomResults, RollingBaseline]:
        # The baseline comes last: while spikes are searched for, memory is short.
        return SymptomResults() if literal else check_symptoms(case), case.baseline

    if len(case.loss) > _PARALLEL_LOSSES:
        result, (symptoms, baseline) = _both(partial(walk, case), check_rest)
    else:
        result, (symptoms, baseline) = walk(case), check_rest()
    tree_findings = symptoms.with_cause_first(with_changes(case, result.findings))
    answers = result.answers
    other_findings = symptoms.findings(tree_findings, history.unit)
    outcome = symptoms.with_skipped_checks(tree_findings[0])
    incomplete = partly_read(case)
    shown = other_findings
    other_findings = symptoms.without_expected(other_findings, shown)
    other_findings += failed_runs(history, manifest, limits, literal=literal)
    findings = worst_first(
        symptoms.without_expected((outcome, *tree_findings[1:]), shown), other_findings
    )
    if incomplete is not None:
        findings = with_incomplete_first(incomplete, findings)
        outcome = incomplete if outcome.slug in INCONCLUSIVE_OUTCOMES else outcome
    return Report(
        findings=tuple(_with_epoch(finding, history) for finding in findings),
        tree=Tree(outcome=outcome, answers=answers),
        not_logged=not_logged(case),
        history=history,
        manifest=inferred,
        limits=limits,
        literal=literal,
        not_checked=symptoms.not_checked,
        clear=symptoms.clear(tree_findings),
        rolling_baseline=baseline,
    )


def _with_epoch(finding: Finding, history: History) -> Finding:
    epoch = None if finding.step is None else history.epoch_of(finding.step)
    return finding if epoch is None else replace(finding, epoch=epoch)


def _both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Return the results of two calls; the second runs in its own thread.

    Errors are raised after both calls have ended.
    """
    # Imported here because it imports logging, which takes too long for a small log.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        # A new thread has NumPy's default error state, which warns about infinite results.
        future = pool.submit(np.errstate(all="ignore")(second))
        return first(), future.result()


def make_early_report(report: reported.Report, last: int) -> Report:
    """Return the diagnosis of a run up to a step, without later records."""
    cut = report.history.before(last + 1)
    events = tuple(e for e in cut.events if e.step is None or e.step <= last)
    history = replace(cut, events=events)
    return make_report(history, report.manifest, report.limits, literal=report.literal)


def make_later_report(report: reported.Report, step: int) -> Report:
    """Return the diagnosis of a run after a step, without earlier records."""
    cut = report.history.after(step)
    events = tuple(e for e in cut.events if e.step is None or e.step > step)
    history = replace(cut, events=events)
    return make_report(history, report.manifest, report.limits, literal=report.literal)


def first_detected(report: Report) -> Detection | None:
    """Return the first step where a diagnosis would have reported the problem.

    The log is cut at the onset and 1, 5, 21, … points later until the finding is as severe as the
    diagnosis. Bisection then refines the step to 1% of its distance from the onset. A finding that
    appears and disappears between two cuts may be missed.
    """
    from stabdiag.formats.postmortem import build_incident

    onset, loss = build_incident(report).onset, report.history.get("loss")
    longest = max(report.history.series.values(), key=len) if loss is None else loss
    steps = longest.steps
    begin = min(int(np.searchsorted(steps, onset)), len(steps) - 1)
    quiet, cut, ahead = begin - 1, begin, 1
    finding = _same_problem(report, onset, int(steps[cut]))
    while finding is None and cut < len(steps) - 1:
        quiet, cut, ahead = cut, min(cut + ahead, len(steps) - 1), 4 * ahead
        finding = _same_problem(report, onset, int(steps[cut]))
    while finding is not None and cut - quiet > max((cut - begin) // 100, 1):
        middle = (quiet + cut) // 2
        earlier = _same_problem(report, onset, int(steps[middle]))
        if earlier is None:
            quiet = middle
        else:
            cut, finding = middle, earlier
    return None if finding is None else Detection(step=int(steps[cut]), slug=finding.slug)


def _same_problem(report: Report, onset: int, last: int) -> Finding | None:
    """Return the finding at a step that describes the same problem as the report, if any."""
    diagnosis = report.diagnosis
    sections = (diagnosis.section, *_LOSS_WENT_UP)
    for finding in make_early_report(report, last).findings:
        is_related = finding.section in sections or (finding.step or 0) >= onset
        is_as_severe = finding.severity.rank <= diagnosis.severity.rank
        if finding.slug == diagnosis.slug or (is_related and is_as_severe):
            return finding
    return None
