"""The diagnosis of a history, and the step at which it could first have been made."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.api.earlier_runs import failed_runs
from stabdiag.api.partly_read import INCONCLUSIVE_OUTCOMES, partly_read, with_incomplete_first
from stabdiag.api.shown import Report
from stabdiag.assemble.inputs import in_its_steps, infer
from stabdiag.model.report import Detected, Tree
from stabdiag.symptoms import Checked, check_symptoms, worst_first
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

    One = TypeVar("One")
    Other = TypeVar("Other")

# Sections whose errors are about the same trouble: a climb may look like a jump at first.
_LOSS_WENT_UP = ("§2", "§4")

# From this many losses on, a second thread pays.
_LONG = 50_000

# Losses may be infinite or huge; results are then infinite or NaN, and reported as such.
quiet = np.errstate(all="ignore")


@quiet
def report_on(history: History, told: Manifest, limits: Limits, *, literal: bool = False) -> Report:
    """Diagnose a history as it is, with the manifest of its run."""
    told, history = in_its_steps(told, history)
    known = infer(told, history)
    case = (LiteralCase if literal else Case)(history=history, manifest=known, limits=limits)

    def beside() -> tuple[Checked, RollingBaseline]:
        # The baseline comes last: while spikes are searched for, memory is short.
        return Checked() if literal else check_symptoms(case), case.baseline

    if len(case.loss) > _LONG:
        found, (symptoms, baseline) = _both(partial(walk, case), beside)
    else:
        found, (symptoms, baseline) = walk(case), beside()
    of_the_tree = symptoms.with_cause_first(with_changes(case, found.findings))
    answers = found.answers
    beside_it = symptoms.findings(of_the_tree, history.unit)
    outcome = symptoms.with_skipped_checks(of_the_tree[0])
    incomplete = partly_read(history)
    beside_it = symptoms.without_expected(beside_it)
    beside_it += failed_runs(history, told, limits, literal=literal)
    findings = worst_first(symptoms.without_expected((outcome, *of_the_tree[1:])), beside_it)
    if incomplete is not None:
        findings = with_incomplete_first(incomplete, findings)
        outcome = incomplete if outcome.slug in INCONCLUSIVE_OUTCOMES else outcome
    return Report(
        findings=findings,
        tree=Tree(outcome=outcome, answers=answers),
        not_logged=not_logged(case),
        history=history,
        manifest=known,
        limits=limits,
        literal=literal,
        not_checked=symptoms.not_checked,
        clear=symptoms.clear(of_the_tree),
        rolling_baseline=baseline,
    )


def _both(one: Callable[[], One], other: Callable[[], Other]) -> tuple[One, Other]:
    """Return the results of two calls; the second runs in a thread of its own.

    An error of either is raised once both are done.
    """
    # Imported here: it brings logging along, which a small log does not wait for.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        # A thread begins with NumPy's own setting, by which it warns of an infinite result.
        beside = pool.submit(np.errstate(all="ignore")(other))
        return one(), beside.result()


def report_until(report: reported.Report, last: int) -> Report:
    """Return the diagnosis of a run as it was at a step; what happened later was not known then."""
    cut = report.history.before(last + 1)
    events = tuple(e for e in cut.events if e.step is None or e.step <= last)
    history = replace(cut, events=events)
    return report_on(history, report.manifest, report.limits, literal=report.literal)


def first_detected(report: Report) -> Detected | None:
    """Return the step at which a diagnosis would first have reported the trouble.

    The log is cut at the onset, and 1, 5, 21, … points later, until the finding is as bad as the
    diagnosis. The last gap is then searched, to a hundredth of its distance from the onset. A
    finding that comes and goes within a gap may be missed.
    """
    from stabdiag.formats.postmortem import build_incident

    onset, loss = build_incident(report).onset, report.history.get("loss")
    longest = max(report.history.series.values(), key=len) if loss is None else loss
    steps = longest.steps
    begin = min(int(np.searchsorted(steps, onset)), len(steps) - 1)
    quiet, cut, ahead = begin - 1, begin, 1
    found = _found_by(report, onset, int(steps[cut]))
    while found is None and cut < len(steps) - 1:
        quiet, cut, ahead = cut, min(cut + ahead, len(steps) - 1), 4 * ahead
        found = _found_by(report, onset, int(steps[cut]))
    while found is not None and cut - quiet > max((cut - begin) // 100, 1):
        middle = (quiet + cut) // 2
        earlier = _found_by(report, onset, int(steps[middle]))
        if earlier is None:
            quiet = middle
        else:
            cut, found = middle, earlier
    return None if found is None else Detected(step=int(steps[cut]), slug=found.slug)


def _found_by(report: Report, onset: int, last: int) -> Finding | None:
    """Return the finding of the log up to a step that is about the trouble of the whole, if any."""
    whole = report.diagnosis
    for found in report_until(report, last).findings:
        about = found.section in (whole.section, *_LOSS_WENT_UP) or (found.step or 0) >= onset
        if found.slug == whole.slug or (about and found.severity.rank <= whole.severity.rank):
            return found
    return None
