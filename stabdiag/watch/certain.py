"""Which findings are certain, though the run goes on.

A verdict on a log that grows can be taken back: what looks like a climb may be made good. So a
finding is acted on only if it is certain:

- a NaN that was written, at once. One that a missing value tells, once the window in which a spike
  has to recover has passed since;
- a spike that did not recover, at once: it is called so only after that window;
- one whose window is still open, never, nor one that begins with an epoch of many records: where
  the data come in one order each time, the next epoch shows it to be this run's habit;
- a climb, if it would have been found one window of the climb ago as well, and half a window ago,
  from what the log held then;
- anything else in the same way, with the window of the spike.

The rule looks at the log alone, not at when the log was looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.api import report_on
from stabdiag.history import EventKind
from stabdiag.stats.quantiles import usual_gap

if TYPE_CHECKING:
    from stabdiag.findings import Finding, Severity
    from stabdiag.report import Report

# So many windows ago; the longest first, as it is what a young finding fails at.
_AGO = (1.0, 0.5)

# Where the loss is logged seldom, a span of steps is to hold so many points at least.
_FEWEST_POINTS = 10


def certain(report: Report, fail_on: Severity) -> Finding | None:
    """Return the first certain finding of at least this severity, or None."""
    bad = [
        found
        for found in report.findings
        if found.severity.rank <= fail_on.rank and not _begins_an_epoch(found, report)
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
    for share in _AGO:
        then = _earlier(report, share * window).findings
        if not any(_section(f) == section and f.severity.rank <= fail_on.rank for f in then):
            return False
    return True


def _at_once(found: Finding, report: Report) -> bool:
    if found.section != "§1":
        return found.slug == "spike-persistent"
    is_hidden = any(event.kind is EventKind.HIDDEN_NAN for event in report.history.events)
    if not is_hidden or found.step is None:
        return True
    last = report.history.last_step
    return last is not None and last - found.step >= _span(
        report, report.limits.spike.recovery_steps
    )


def _begins_an_epoch(found: Finding, report: Report) -> bool:
    """Tell whether a spike that lasts begins with the first record of an epoch."""
    epoch = report.history.get("epoch")
    if found.slug != "spike-persistent" or found.step is None or epoch is None:
        return False
    at = int(np.searchsorted(epoch.steps, found.step))
    turns = np.diff(np.floor(epoch.values[max(at - _FEWEST_POINTS, 0) : at + 1]))
    # The record that completes an epoch may bear the number of the next.
    return len(turns) == _FEWEST_POINTS and turns[-2:].sum() == 1 and not turns[:-2].any()


def _section(found: Finding) -> str:
    """Return what a finding has to have in common with an earlier one to be the same."""
    open_ = found.slug == "spike-unresolved"
    return found.section if found.section.startswith("§") and not open_ else found.slug


def _earlier(report: Report, steps: float) -> Report:
    """Return the diagnosis of the log as it was so many steps ago."""
    last = report.history.last_step or 0
    history = report.history.before(last + 1 - round(_span(report, steps)))
    return report_on(history, report.manifest, report.limits, literal=report.literal)


def _span(report: Report, steps: float) -> float:
    """Return so many steps, or more where the loss is logged seldom."""
    loss = report.history.get("loss")
    if loss is None or len(loss) < 2:
        return steps
    return max(steps, _FEWEST_POINTS * usual_gap(loss.steps))
