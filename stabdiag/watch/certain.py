"""Which findings are certain, though the run goes on.

A verdict on a log that grows can be taken back: what looks like a climb may recover. So a finding
is acted on only if it is certain:

- a written NaN, once the next loss is not finite either, or from the second on. At the start of a
  log or of an epoch it takes more: a progress bar has nothing to average yet. A NaN that a missing
  value shows, once the window in which a spike has to recover has passed since;
- a spike that did not recover, immediately: it is called so only after that window;
- one whose window is still open, never, and not one that begins with an epoch of many records, as
  the log, the manifest or repeating batches show: where the data come in one order each time, the
  next epoch shows it to be this run's habit;
- a climb, if it would have been found one window of the climb ago as well, and half a window ago,
  from what the log held then; but not as long as a logged setting makes the loss harder, such as
  the weight of a part of it: whether the loss rises with that shows only afterwards;
- anything else in the same way, with the window of the spike;
- whatever began before the watch, only if what was logged since shows it too;
- nothing, if several runs write the log at the same time: which of them the job is, is unknown;
- never, that only a part of the log was judged.

The rule looks at the log alone, and at what it held when the watch began.
"""

from __future__ import annotations

import numpy as np

from stabdiag.api.diagnosis import report_until
from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.findings import PARTLY_READ, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.history import EventCode, EventKind, History, Series
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.report import Report
from stabdiag.model.roles.settings import difficulty_direction
from stabdiag.stats.quantiles import usual_gap

# How many windows ago; the longest first, since a young finding fails there.
_AGO = (1.0, 0.5)

# Where the loss is logged rarely, a span of steps holds at least this many points.
_FEWEST_POINTS = 10

# The format is certain after as many losses, or this many after the one that matters.
_MORE_LOSSES = 2

# This many batches in a row that repeat the log's first ones begin another epoch.
_SAME_BATCHES = 3


# So many consecutive losses are not finite, at the start of a log or of an epoch and elsewhere. A
# progress bar that has nothing to average yet shows NaN on a few lines.
_MIN_NONFINITE_AT_START = 10
_MIN_NONFINITE = 2
_NEAR_START = 5


@frozen
class InitialLosses:
    """The losses that a log held when the watch began: they may belong to an earlier attempt."""

    loss: Series

    @classmethod
    def of(cls, report: Report) -> InitialLosses:
        """Return the losses of a report."""
        return cls(loss=report.history.logged("loss"))

    def fresh(self, loss: Series) -> Mask:
        """Return which losses of a log, shape (n,), were logged since."""
        _, now, then = np.intersect1d(loss.steps, self.loss.steps, return_indices=True)
        same = np.zeros(len(loss), dtype=bool)
        same[now] = np.isclose(
            loss.values[now], self.loss.values[then], rtol=0, atol=0, equal_nan=True
        )
        return ~same


def certain(report: Report, fail_on: Severity, held: InitialLosses | None = None) -> Finding | None:
    """Return the first certain finding of at least this severity, or None.

    ``held`` is what the log held when the watch began.
    """
    if any(event.code is EventCode.SEVERAL_WRITERS for event in report.history.events):
        return None
    bad = [
        found
        for found in report.findings
        if found.severity.rank <= fail_on.rank
        and found.slug != PARTLY_READ
        and not _begins_an_epoch(found, report)
        and not _gets_harder(found, report)
        and (held is None or _goes_on(found, report, held))
    ]
    at_once = next((found for found in bad if _at_once(found, report)), None)
    if at_once is not None:
        return at_once
    sections = {_section(found) for found in bad} - {"§1", "spike-unresolved"}
    sure = {section for section in sections if _was_there(section, report, fail_on)}
    return next((found for found in bad if _section(found) in sure), None)


def _was_there(section: str, report: Report, fail_on: Severity) -> bool:
    """Tell whether a section's finding would have been found a window ago, and half a window."""
    limits = report.limits
    window = limits.divergence.window if section == "§4" else limits.spike.recovery_steps
    last = report.history.last_step or 0
    for share in _AGO:
        then = report_until(report, last - round(_span(report, share * window))).findings
        if not any(_section(f) == section and f.severity.rank <= fail_on.rank for f in then):
            return False
    return True


def _at_once(found: Finding, report: Report) -> bool:
    if found.section != "§1":
        return found.slug == "spike-persistent"
    if not _is_read_well(found, report):
        return False
    # What other fields of the record prove needs no more records.
    hidden = [one for one in report.history.events if one.kind is EventKind.HIDDEN_NAN]
    is_hidden = any(one.code is not EventCode.NOT_FINITE for one in hidden)
    if not is_hidden or found.step is None:
        return True
    last = report.history.last_step
    return last is not None and last - found.step >= _span(
        report, report.limits.spike.recovery_steps
    )


def _goes_on(found: Finding, report: Report, held: InitialLosses) -> bool:
    """Return True if a finding began since the watch did, or what was logged since shows it too.

    After a restart the first losses are finite, and as low as they were before the failure.
    """
    loss = report.history.logged("loss")
    fresh = held.fresh(loss)
    if not fresh.any():
        return False
    first = int(loss.steps[np.argmax(fresh)])
    if found.step is None or found.step >= first:
        return True
    values = loss.values[fresh]
    if found.section == "§1":
        return not np.isfinite(values[-1])
    finite, before = values[np.isfinite(values)], loss.finite().until(first - 1).values
    if len(finite) < _FEWEST_POINTS or len(before) < _FEWEST_POINTS:
        return False
    # Halfway between the best level and the one at which the watch found the run.
    best, last = min(_levels(before)), float(np.median(before[-_FEWEST_POINTS:]))
    return float(np.median(finite)) > (best + last) / 2


def _levels(values: Floats) -> list[float]:
    parts = np.array_split(values, max(len(values) // _FEWEST_POINTS, 1))
    return [float(np.median(part)) for part in parts]


def _is_read_well(found: Finding, report: Report) -> bool:
    """Return True if a NaN is no placeholder, and lasts.

    The first lines of a job may look like a log of another format, and a bar that has nothing to
    average yet shows NaN.
    """
    loss = report.history.logged("loss")
    if found.step is None or not len(loss):
        return True
    bad = ~np.isfinite(loss.values)
    in_a_row = len(bad) if bad.all() else int(np.argmin(bad[::-1]))
    at = int(np.searchsorted(loss.steps, found.step))
    if at < _NEAR_START or _is_near_turn(report.history, found.step):
        return in_a_row >= _MIN_NONFINITE_AT_START
    since = int((loss.steps > found.step).sum())
    if len(loss) < _FEWEST_POINTS and since < _MORE_LOSSES:
        return False
    return in_a_row >= _MIN_NONFINITE


def _is_near_turn(history: History, step: int) -> bool:
    """Return True if a step is among the first few records of an epoch of many."""
    epoch = history.get("epoch")
    if epoch is None:
        return False
    at = int(np.searchsorted(epoch.steps, step))
    recent = np.floor(epoch.values[max(at - _NEAR_START, 0) : at + 1])
    length = np.floor(epoch.values[max(at - 2 * _FEWEST_POINTS, 0) : at + 1])
    turns = int((np.diff(length) > 0).sum())
    return bool(len(recent) and recent[0] != recent[-1]) and turns <= 1


def _begins_an_epoch(found: Finding, report: Report) -> bool:
    """Tell whether a spike that lasts begins with the first record of an epoch of many records."""
    if found.slug != "spike-persistent" or found.step is None:
        return False
    epoch = report.history.get("epoch")
    if epoch is not None:
        return _turns(epoch, found.step)
    return _by_the_manifest(found.step, report) or _batches_come_round(found.step, report)


def _gets_harder(found: Finding, report: Report) -> bool:
    """Tell whether the loss climbs while a logged setting changes that makes it harder."""
    if found.section != "§4" or found.step is None:
        return False
    history, last = report.history, report.history.last_step or 0
    harder = [
        *history.group("loss_weight").values(),
        *(
            one
            for one in history.group("setting").values()
            if difficulty_direction(one.column) is not None
        ),
    ]
    over = (one.finite().between(found.step, last).values for one in harder)
    return any(len(values) > 1 and np.ptp(values) > 0 for values in over)


def _turns(epoch: Series, step: int) -> bool:
    """Tell whether the number of the epoch is another from about a step on."""
    at = int(np.searchsorted(epoch.steps, step))
    turns = np.diff(np.floor(epoch.values[max(at - _FEWEST_POINTS, 0) : at + 1]))
    # The record that completes an epoch may bear the number of the next.
    return len(turns) == _FEWEST_POINTS and turns[-2:].sum() == 1 and not turns[:-2].any()


def _by_the_manifest(step: int, report: Report) -> bool:
    """Tell whether an epoch ends between a record and the one before it, by what is configured.

    That is the steps of an epoch, or of the run and how many epochs these are.
    """
    told = report.manifest.others(report.history.config)
    length, epochs = other_number(told, "steps_per_epoch"), other_number(told, "epochs")
    if not length and epochs and report.manifest.total_steps:
        length = report.manifest.total_steps / epochs
    stride = usual_gap(report.history.logged("loss").steps)
    if not length or length < _FEWEST_POINTS * stride:
        return False
    # An epoch's first step is a multiple of its length, or the next where steps count from 1.
    return step > stride and step % length <= stride


def _batches_come_round(step: int, report: Report) -> bool:
    """Tell whether the batches from a step on are those that the log begins with."""
    batches = report.history.get("batch_id")
    if batches is None:
        return False
    at, first = int(np.searchsorted(batches.steps, step)), batches.values[:_SAME_BATCHES]
    again = batches.values[at : at + _SAME_BATCHES]
    return at >= _FEWEST_POINTS and np.array_equal(first, again) and bool(np.ptp(first))


def _section(found: Finding) -> str:
    """Return what a finding has to have in common with an earlier one to be the same."""
    open_ = found.slug == "spike-unresolved"
    return found.section if found.section.startswith("§") and not open_ else found.slug


def _span(report: Report, steps: float) -> float:
    """Return a number of steps, or more where the loss is logged rarely."""
    return max(steps, _FEWEST_POINTS * usual_gap(report.history.logged("loss").steps))
