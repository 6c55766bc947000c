"""Everything that the sections of a post-mortem draw on, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.formats.subject import Plot, choose
from stabdiag.postmortem.alarm import Alarm, first_alarm
from stabdiag.postmortem.blanks import blanks
from stabdiag.postmortem.causes import Cause, cause_of, changes_of, panels_of
from stabdiag.postmortem.clock import Clock, clock_of
from stabdiag.postmortem.incident import Incident, incident_of
from stabdiag.postmortem.lost import Lost, lost_by

if TYPE_CHECKING:
    from stabdiag.report import Report
    from stabdiag.tree.changes import Change
    from stabdiag.tree.panels import Panel


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """A report, and what a post-mortem adds to it.

    ``panels`` are those of Q2.3 if there was a spike, whether the tree asked for them or not, and
    ``changes`` the settings that changed where the trouble began.
    """

    report: Report
    incident: Incident
    alarm: Alarm | None
    clock: Clock | None
    lost: Lost
    plot: Plot | None
    panels: tuple[Panel, ...]
    changes: tuple[Change, ...]
    cause: Cause
    blanks: tuple[str, ...]


def study(report: Report) -> Study:
    """Work out what a post-mortem of a report says."""
    incident, clock = incident_of(report), clock_of(report.history)
    panels, changes = panels_of(report, incident), changes_of(report, incident)
    return Study(
        report=report,
        incident=incident,
        alarm=first_alarm(report, incident),
        clock=clock,
        lost=lost_by(report, incident, clock),
        plot=choose(report),
        panels=panels,
        changes=changes,
        cause=cause_of(report, panels, changes),
        blanks=blanks(report, incident),
    )
