"""Decide which findings are certain while the run continues.

A verdict on a growing log may change: an apparent climb may recover. A watch acts only on a certain
finding:

- A logged NaN is certain once the next loss is not finite either. At the start of a log or an epoch
  more are needed, because a progress bar has nothing to average yet. A NaN inferred from a missing
  value is certain after the recovery window of a spike.
- A spike that did not recover is certain immediately, because its recovery window has passed. A
  spike whose window is still open is never certain. Neither is a spike that begins with an epoch
  of many records, according to the log, the manifest or repeating batches: with a fixed order of
  the data, it may repeat in each epoch.
- After a NaN that recovers, the losses since then are judged by themselves.
- A climb is certain if it would have been found one window and half a window earlier as well. It is
  not certain while a logged setting makes the loss harder, such as a loss weight.
- A run that is worse than its baseline is certain once it was outside for the window of a climb.
- Any other finding follows the same rule with the window of a spike.
- A problem that began before the watch is certain only if the records since then show it, too.
- No finding is certain if several runs write to the log at the same time, because it is unknown
  which of them is the job.
- A partly read log is never a certain finding.

The decision uses only the log, and its losses at the start of the watch.
"""

from __future__ import annotations

import numpy as np

from stabdiag.api.diagnosis import make_early_report, make_later_report
from stabdiag.model.arrays import Mask
from stabdiag.model.events import EventCode, EventKind
from stabdiag.model.findings import PARTLY_READ, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.report import Report
from stabdiag.model.roles.settings import difficulty_direction
from stabdiag.stats.course import present_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.standards import MIN_TREND_POINTS

# The section of a finding against earlier good runs.
_BASELINE = "baseline"

# Earlier times that have to show the finding, in windows; the longest first, since it fails
# soonest.
_LOOKBACK_WINDOWS = (1.0, 0.5)

# If the loss is logged rarely, a window contains at least this many points.
_MIN_WINDOW_POINTS = MIN_TREND_POINTS

# The format is certain after _MIN_POINTS losses, or this many after the finding.
_MORE_LOSSES = 2

# This many consecutive batches equal to the first ones of the log begin another epoch.
_SAME_BATCHES = 3

# The minimum number of consecutive non-finite losses, at the start of a log or of an epoch and
# elsewhere. A progress bar that has nothing to average yet shows NaN on a few lines.
_MIN_NONFINITE_AT_START = 10
_MIN_NONFINITE = 2
_NEAR_START = 5


@frozen
class InitialLosses:
    """The losses in the log at the start of the watch, which may belong to an earlier attempt."""

    loss: Series

    @classmethod
    def of(cls, report: Report) -> InitialLosses:
        """Return the losses of a report."""
        return cls(loss=report.history.logged("loss"))

    def fresh(self, loss: Series) -> Mask:
        """Return the mask of losses, shape (n,), that were logged since then."""
        _, now, before = np.intersect1d(loss.steps, self.loss.steps, return_indices=True)
        same = np.zeros(len(loss), dtype=bool)
        same[now] = np.isclose(
            loss.values[now], self.loss.values[before], rtol=0, atol=0, equal_nan=True
        )
        return ~same


def certain(
    report: Report, fail_on: Severity, initial: InitialLosses | None = None
) -> Finding | None:
    """Return the first certain finding of at least this severity, or None.

    After a NaN that recovers, the losses since then are judged by themselves, because the diagnosis
    tests only those before it. ``initial`` has the losses at the start of the watch.
    """
    finding = _first_certain(report, fail_on, initial)
    if finding is not None or report.diagnosis.section != "§1":
        return finding
    since = _since_last_nan(report)
    return None if since is None else _first_certain(since, fail_on, initial)


def _since_last_nan(report: Report) -> Report | None:
    """Return the diagnosis of the losses after the last NaN, or None if they are few."""
    loss = report.history.logged("loss")
    bad = np.flatnonzero(~np.isfinite(loss.values))
    if not len(bad) or len(loss) - 1 - bad[-1] < report.limits.spike.min_points:
        return None
    return make_later_report(report, int(loss.steps[bad[-1]]))


def _first_certain(
    report: Report, fail_on: Severity, initial: InitialLosses | None
) -> Finding | None:
    if any(event.code is EventCode.SEVERAL_WRITERS for event in report.history.events):
        return None
    bad = [
        finding
        for finding in report.findings
        if finding.severity.rank <= fail_on.rank
        and finding.slug != PARTLY_READ
        and not _follows_a_change_of_form(finding, report)
        and not _begins_an_epoch(finding, report)
        and not _has_harder_objective(finding, report)
        and (initial is None or _persists(finding, report, initial))
    ]
    immediate = next((finding for finding in bad if _is_immediate(finding, report)), None)
    if immediate is not None:
        return immediate
    sections = {_section(finding) for finding in bad} - {"§1", "spike-unresolved"}
    sure = {section for section in sections if _was_found_earlier(section, report, fail_on)}
    return next((finding for finding in bad if _section(finding) in sure), None)


def _was_found_earlier(section: str, report: Report, fail_on: Severity) -> bool:
    """Return True if a finding of the section existed a window and half a window ago."""
    limits = report.limits
    if any(f.section == _BASELINE for f in report.findings if _section(f) == section):
        return _departure_lasts(report, _span(report, limits.divergence.window))
    window = limits.divergence.window if section == "§4" else limits.spike.recovery_steps
    last = report.history.last_step or 0
    for share in _LOOKBACK_WINDOWS:
        earlier = make_early_report(report, last - round(_span(report, share * window))).findings
        if not any(_section(f) == section and f.severity.rank <= fail_on.rank for f in earlier):
            return False
    return True


def _departure_lasts(report: Report, steps: float) -> bool:
    """Return True if the run has been outside the band of its references for some steps."""
    comparison = report.baseline
    series = None if comparison is None else comparison.deciding
    if series is None or series.onset is None:
        return False
    return series.last_step - series.onset >= steps


def _is_immediate(finding: Finding, report: Report) -> bool:
    """Return True if a finding is certain regardless of earlier diagnoses."""
    if finding.section != "§1":
        return finding.slug == "spike-persistent"
    if not _is_lasting_nan(finding, report):
        return False
    # A NaN that other fields of the record prove needs no more records.
    hidden = [event for event in report.history.events if event.kind is EventKind.HIDDEN_NAN]
    is_hidden = any(event.code is not EventCode.NOT_FINITE for event in hidden)
    if not is_hidden or finding.step is None:
        return True
    last = report.history.last_step
    return last is not None and last - finding.step >= _span(
        report, report.limits.spike.recovery_steps
    )


def _persists(finding: Finding, report: Report, initial: InitialLosses) -> bool:
    """Return True if a finding began during the watch, or the losses since then show it, too.

    After a restart the first losses are finite and as low as before the failure.
    """
    loss = report.history.logged("loss")
    fresh = initial.fresh(loss)
    if not fresh.any():
        return False
    first = int(loss.steps[np.argmax(fresh)])
    if finding.step is None or finding.step >= first:
        return True
    values = loss.values[fresh]
    if finding.section == "§1":
        return not np.isfinite(values[-1])
    if finding.section == _BASELINE:
        return True  # it is outside at the end
    finite, before = values[np.isfinite(values)], loss.finite().until(first - 1).values
    if len(finite) < _MIN_WINDOW_POINTS or len(before) < _MIN_WINDOW_POINTS:
        return False
    # Above the midpoint between the best level and the level at the start of the watch.
    best = float(levels(before, len(before) // _MIN_WINDOW_POINTS).min())
    return median(finite) > (best + present_level(before)) / 2


def _is_lasting_nan(finding: Finding, report: Report) -> bool:
    """Return True if a NaN persists and is not a placeholder.

    The first lines of a job may look like a log of another format, and a progress bar that has
    nothing to average yet shows NaN.
    """
    loss = report.history.logged("loss")
    if finding.step is None or not len(loss):
        return True
    bad = ~np.isfinite(loss.values)
    consecutive = len(bad) if bad.all() else int(np.argmin(bad[::-1]))
    at = int(np.searchsorted(loss.steps, finding.step))
    if at < _NEAR_START or _is_near_epoch_start(report.history, finding.step):
        return consecutive >= _MIN_NONFINITE_AT_START
    since = int((loss.steps > finding.step).sum())
    if len(loss) < _MIN_WINDOW_POINTS and since < _MORE_LOSSES:
        return False
    return consecutive >= _MIN_NONFINITE


def _is_near_epoch_start(history: History, step: int) -> bool:
    """Return True if a step is among the first records of a long epoch."""
    epoch = history.get("epoch")
    if epoch is None:
        return False
    at = int(np.searchsorted(epoch.steps, step))
    recent = np.floor(epoch.values[max(at - _NEAR_START, 0) : at + 1])
    length = np.floor(epoch.values[max(at - 2 * _MIN_WINDOW_POINTS, 0) : at + 1])
    turns = int((np.diff(length) > 0).sum())
    return bool(len(recent) and recent[0] != recent[-1]) and turns <= 1


def _follows_a_change_of_form(finding: Finding, report: Report) -> bool:
    """Return True if a finding began after the log changed its form.

    More records may show that the losses below the change do not continue the losses above it.
    """
    changes = (e for e in report.history.events if e.code is EventCode.FORM_CHANGED)
    return any(
        change.step is None or finding.step is None or finding.step > change.step
        for change in changes
    )


def _begins_an_epoch(finding: Finding, report: Report) -> bool:
    """Return True if an unrecovered spike begins with the first record of a long epoch."""
    if finding.slug != "spike-persistent" or finding.step is None:
        return False
    epoch = report.history.get("epoch")
    if epoch is not None:
        return _epoch_changes(epoch, finding.step)
    return _starts_configured_epoch(finding.step, report) or _batches_repeat(finding.step, report)


def _has_harder_objective(finding: Finding, report: Report) -> bool:
    """Return True if the loss climbs while a logged setting makes it harder."""
    if finding.section != "§4" or finding.step is None:
        return False
    history, last = report.history, report.history.last_step or 0
    harder = [
        *history.group("loss_weight").values(),
        *(
            setting
            for setting in history.group("setting").values()
            if difficulty_direction(setting.column) is not None
        ),
    ]
    changes = (series.finite().between(finding.step, last).values for series in harder)
    return any(len(values) > 1 and np.ptp(values) > 0 for values in changes)


def _epoch_changes(epoch: Series, step: int) -> bool:
    """Return True if the epoch number changes at about a step."""
    at = int(np.searchsorted(epoch.steps, step))
    turns = np.diff(np.floor(epoch.values[max(at - _MIN_WINDOW_POINTS, 0) : at + 1]))
    # The record that completes an epoch may have the number of the next epoch.
    return len(turns) == _MIN_WINDOW_POINTS and turns[-2:].sum() == 1 and not turns[:-2].any()


def _starts_configured_epoch(step: int, report: Report) -> bool:
    """Return True if a record is the first one of an epoch according to the configuration.

    The configuration states the steps per epoch, or the number of steps and epochs of the run.
    """
    settings = report.manifest.others(report.history.config)
    length, epochs = other_number(settings, "steps_per_epoch"), other_number(settings, "epochs")
    if not length and epochs and report.manifest.total_steps:
        length = report.manifest.total_steps / epochs
    stride = usual_gap(report.history.logged("loss").steps)
    if not length or length < _MIN_WINDOW_POINTS * stride:
        return False
    # The first step of an epoch is a multiple of its length, or one more if steps count from 1.
    return step > stride and step % length <= stride


def _batches_repeat(step: int, report: Report) -> bool:
    """Return True if the batches from a step on repeat the first batches of the log."""
    batches = report.history.get("batch_id")
    if batches is None:
        return False
    at, first = int(np.searchsorted(batches.steps, step)), batches.values[:_SAME_BATCHES]
    current = batches.values[at : at + _SAME_BATCHES]
    return at >= _MIN_WINDOW_POINTS and np.array_equal(first, current) and bool(np.ptp(first))


def _section(finding: Finding) -> str:
    """Return the key that matches a finding with earlier ones: its section or slug."""
    is_unresolved = finding.slug == "spike-unresolved"
    has_section = finding.section.startswith("§") and not is_unresolved
    return finding.section if has_section else finding.slug


def _span(report: Report, steps: float) -> float:
    """Return a number of steps, or more if the loss is logged rarely."""
    return max(steps, _MIN_WINDOW_POINTS * usual_gap(report.history.logged("loss").steps))
