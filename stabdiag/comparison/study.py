"""What all checks of a comparison share, measured once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stabdiag.comparison.ends import Ends, ends
from stabdiag.comparison.outcomes import BY_SLUG
from stabdiag.model.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.comparison import Difference, Kind, Parting, Run
    from stabdiag.model.findings import Action, Scalar
    from stabdiag.model.limits import Limits


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Runs of a kind, the one that the others are held against, and how they differ.

    ``partings`` has for each other run where it parts from the reference, by role.
    """

    kind: Kind
    runs: tuple[Run, ...]
    reference: Run
    partings: Mapping[str, Mapping[str, Parting]]
    differences: tuple[Difference, ...]
    limits: Limits

    @property
    def others(self) -> tuple[Run, ...]:
        """All runs but the reference."""
        return tuple(run for run in self.runs if run is not self.reference)

    def run(self, label: str) -> Run:
        """Return the run of a label."""
        return next(run for run in self.runs if run.label == label)

    def of(self, role: str) -> list[Parting]:
        """Return where the runs part in a role, one parting for each run that logged it."""
        return [found[role] for found in self.partings.values() if role in found]

    def parted(self, role: str) -> list[Parting]:
        """Return where the runs part in a role, those left out that do not differ at all."""
        return [one for one in self.of(role) if one.step is not None]

    def unrounded(self, role: str) -> list[Parting]:
        """Return where the runs part in a role by more than rounding."""
        return [one for one in self.of(role) if one.unrounded is not None]

    @cached_property
    def ends(self) -> Ends:
        """Where the runs end; each has to have logged a loss."""
        return ends(self.runs, self.limits.compare)


def finding(
    slug: str,
    *,
    because: str,
    first: Action,
    then: tuple[Action, ...] = (),
    step: int | None = None,
    measured: Mapping[str, Scalar] | None = None,
    severity: Severity | None = None,
) -> Finding:
    """Return a finding, with the title and severity of its outcome filled in."""
    outcome = BY_SLUG[slug]
    return Finding(
        slug=slug,
        severity=severity or outcome.severity,
        section="compare",
        question="",
        title=outcome.title,
        summary=because,
        actions=(first, *then),
        step=step,
        evidence=measured or {},
    )
