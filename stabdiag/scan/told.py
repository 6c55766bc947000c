"""What a scan keeps of a report: one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.comparison.settings import is_secret
from stabdiag.formats.postmortem.cost import clock_of
from stabdiag.formats.postmortem.incident import incident_of
from stabdiag.model.findings import Severity
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.scan import Row
from stabdiag.places.remote import shown
from stabdiag.scan.settings import TYPED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.history import Series
    from stabdiag.model.report import Report

# Points of the curve, settings, and characters of one: a row stays small, whatever a log holds.
_POINTS: Final = 32
_SETTINGS: Final = 500
_LONGEST: Final = 200


def row_of(report: Report, path: str, run: str) -> Row:
    """Return the row of a report."""
    found, history, manifest = report.diagnosis, report.history, report.manifest
    loss, held = history.finite("loss"), history.finite("eval_loss")
    severities = [finding.severity for finding in report.findings]
    clock = clock_of(history)
    dated = clock is not None and clock.calendar
    told = {name: getattr(manifest, name) for name in TYPED if name not in manifest.inferred}
    return Row(
        path=path,
        run=run,
        outcome=found.slug,
        severity=found.severity.value,
        format=history.source.format,
        section=found.section,
        step=found.step,
        headline=found.headline,
        action_kind=found.actions[0].kind.value if found.actions else None,
        action=found.first_action,
        errors=severities.count(Severity.ERROR),
        warnings=severities.count(Severity.WARNING),
        notes=severities.count(Severity.NOTE),
        losses=len(history.series.get("loss", ())),
        first_step=history.first_step,
        last_step=history.last_step,
        lost_steps=_lost(report),
        loss_first=float(loss.values[0]) if len(loss) else None,
        loss_best=float(loss.values.min()) if len(loss) else None,
        loss_last=float(loss.values[-1]) if len(loss) else None,
        eval_loss=float(held.values[-1]) if len(held) else None,
        curve=_curve(loss),
        settings=dict(_settings(report)),
        began=float(clock.seconds[0]) if clock is not None and dated else None,
        ended=float(clock.seconds[-1]) if clock is not None and dated else None,
        **told,
    )


def _lost(report: Report) -> int | None:
    """Return the steps that an error wasted; None for what is none."""
    if report.diagnosis.severity is not Severity.ERROR:
        return None
    cost = incident_of(report).lost.cost
    return None if cost is None else cost.steps


def _curve(loss: Series) -> tuple[float, ...]:
    """Return the course of the loss: the mean of each of so many stretches of equal length."""
    if len(loss) <= _POINTS:
        return tuple(loss.values.tolist())
    begins = np.linspace(0, len(loss), _POINTS, endpoint=False).astype(int)
    with np.errstate(over="ignore"):  # of a run that blew up
        means = np.add.reduceat(loss.values, begins) / np.diff([*begins, len(loss)])
    return tuple(float(f"{mean:.6g}") for mean in means if np.isfinite(mean))


def _settings(report: Report) -> Iterator[tuple[str, str]]:
    """Yield all else that the run was configured with, and nothing that was read off its course."""
    manifest, typed = report.manifest, set(TYPED)
    known = {
        key.name: getattr(manifest, key.name)
        for key in KEYS
        if key.name not in manifest.inferred and key.name not in typed
    }
    told = {**report.history.config, **manifest.unknown, **manifest.also, **known}
    # Rows are passed on: no key of a service is among them, and no password in a URL.
    names = [
        name
        for name, value in told.items()
        if isinstance(value, str | int | float) and not is_secret(name)
    ]
    for name in names[:_SETTINGS]:
        value = str(told[name])
        yield name[:_LONGEST], (shown(value) if "://" in value else value)[:_LONGEST]
