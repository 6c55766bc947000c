"""The row of a report: what a scan keeps of a run."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.formats.postmortem import build_incident
from stabdiag.formats.postmortem.cost import read_clock
from stabdiag.model.findings import Severity
from stabdiag.model.history import Series
from stabdiag.model.report import Report
from stabdiag.model.scan import Row
from stabdiag.scan.run_settings import other_settings, typed_settings

# The points of the curve that a row keeps.
_MAX_CURVE_POINTS: Final = 32


def make_row(report: Report, path: str, run: str) -> Row:
    """Return the row of a report."""
    finding, history = report.diagnosis, report.history
    loss, eval_loss = history.finite("loss"), history.finite("eval_loss")
    severities = [finding.severity for finding in report.findings]
    clock = read_clock(history)
    dated = clock is not None and clock.calendar
    typed = typed_settings(report, run)
    return Row(
        path=path,
        run=run,
        outcome=finding.slug,
        severity=finding.severity.value,
        format=history.source.format,
        section=finding.section,
        step=finding.step,
        title=finding.title,
        headline=finding.headline,
        confidence=finding.confidence.value,
        action_kind=finding.actions[0].kind.value if finding.actions else None,
        action=finding.first_action,
        errors=severities.count(Severity.ERROR),
        warnings=severities.count(Severity.WARNING),
        notes=severities.count(Severity.NOTE),
        losses=len(history.series.get("loss", ())),
        first_step=history.first_step,
        last_step=history.last_step,
        lost_steps=_lost_steps(report),
        loss_first=float(loss.values[0]) if len(loss) else None,
        loss_best=float(loss.values.min()) if len(loss) else None,
        loss_last=float(loss.values[-1]) if len(loss) else None,
        eval_loss=float(eval_loss.values[-1]) if len(eval_loss) else None,
        curve=_curve(loss),
        settings=other_settings(report, run, typed),
        began=float(clock.seconds[0]) if clock is not None and dated else None,
        ended=float(clock.seconds[-1]) if clock is not None and dated else None,
        **typed,
    )


def _lost_steps(report: Report) -> int | None:
    """Return the steps wasted by an error; None without an error."""
    if report.diagnosis.severity is not Severity.ERROR:
        return None
    cost = build_incident(report).lost.cost
    return None if cost is None else cost.steps


def _curve(loss: Series) -> tuple[float, ...]:
    """Return the loss curve: the means of equally long segments."""
    if len(loss) <= _MAX_CURVE_POINTS:
        return tuple(loss.values.tolist())
    begins = np.linspace(0, len(loss), _MAX_CURVE_POINTS, endpoint=False).astype(int)
    with np.errstate(over="ignore"):  # the loss of a run that blew up
        means = np.add.reduceat(loss.values, begins) / np.diff([*begins, len(loss)])
    return tuple(float(f"{mean:.6g}") for mean in means if np.isfinite(mean))
