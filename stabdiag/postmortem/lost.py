"""What an incident lost: which steps have to be trained again, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.postmortem.cost import Cost, cost_of, duration, large
from stabdiag.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.postmortem.clock import Clock
    from stabdiag.postmortem.incident import Incident
    from stabdiag.report import Report


@dataclass(frozen=True, kw_only=True)
class Lost:
    """What was lost, in words, and its cost where there is one.

    ``at_least`` says that more was lost than can be told, for want of a checkpoint's step.
    """

    what: str
    cost: Cost | None = None
    at_least: bool = False

    @property
    def briefly(self) -> str:
        """The cost in one clause."""
        if self.cost is None:
            return self.what
        told = ", ".join(_amounts(self.cost))
        return f"{'at least ' if self.at_least else ''}{told}: {self.what}"


def lost_by(report: Report, incident: Incident, clock: Clock | None) -> Lost:
    """Return what was lost by an incident.

    An error costs all that was trained since the last good checkpoint. What is less than an error
    costs nothing that would have to be trained again.
    """
    if incident.recovered is not None:
        took = plural(incident.took, report.history.unit)
        return Lost(what=f"nothing has to be trained again: the loss was back after {took}")
    if report.diagnosis.severity is not Severity.ERROR:
        broke = "the run survived this" if _is_warning(report) else "nothing broke"
        return Lost(what=f"nothing has to be trained again: {broke}")
    last, saved, back = incident.last, incident.checkpoint, report.diagnosis.back
    unit = report.history.unit
    if back is not None:
        what = f"from the onset at {incident.onset} to {back}, by which the loss was back"
        return Lost(what=what, cost=cost_of(report, clock, incident.onset, back))
    if saved.step is None:
        since, what = incident.onset, f"from the onset at {incident.onset} to the end at {last}"
        what += "; which checkpoint is the last good one is not known"
    elif saved.step:
        since, what = saved.step, f"from the checkpoint of {unit} {saved.step} to the end at {last}"
    else:
        # A log that begins later than its run did shows the cost from there on.
        since = 0 if incident.first <= 1 else incident.first
        what = f"from the start to the end at {last}, as no checkpoint is from before the onset"
    cost = cost_of(report, clock, since, last)
    return Lost(what=what, cost=cost, at_least=saved.step is None)


def _is_warning(report: Report) -> bool:
    return report.diagnosis.severity is Severity.WARNING


def _amounts(cost: Cost) -> Iterator[str]:
    """Yield the figures that are known."""
    yield plural(cost.steps, cost.step_unit)
    if cost.hours.value is not None:
        yield duration(cost.hours.value)
    if cost.work.value is not None:
        yield f"{large(cost.work.value)} {cost.unit}"
