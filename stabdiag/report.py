"""The report: everything that was found out about one run, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.findings import Answer, Baseline, Finding
    from stabdiag.history import History
    from stabdiag.limits import Limits
    from stabdiag.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class NotLogged:
    """A role that the log lacks, and what its absence costs the diagnosis."""

    role: str
    cost: str


@dataclass(frozen=True, kw_only=True)
class Unchecked:
    """A symptom that could not be checked, and which roles or manifest fields it lacked."""

    symptom: str
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report:
    """One diagnosis with all that led to it.

    ``diagnosis`` is the first of ``findings``: the tree's, worst first, then the symptoms, worst
    first, unless a symptom is an error and the tree found none and no warning. ``trail`` holds the
    answers in the order in which the walk met them, those about the lead-up to a NaN last;
    ``unchecked`` names the symptoms that could not be checked. ``baseline`` is what the losses were
    held against.
    """

    diagnosis: Finding
    findings: tuple[Finding, ...]
    trail: tuple[Answer, ...]
    not_logged: tuple[NotLogged, ...]
    history: History
    manifest: Manifest
    limits: Limits
    literal: bool = False
    unchecked: tuple[Unchecked, ...] = ()
    baseline: Baseline | None = None

    @property
    def also_found(self) -> tuple[Finding, ...]:
        """All findings but the diagnosis."""
        return self.findings[1:]

    @property
    def worst(self) -> Finding:
        """The worst finding, which need not be the diagnosis: a warning beside a run that is well.

        Of equally bad ones the first.
        """
        return min(self.findings, key=lambda finding: finding.severity.rank)

    @property
    def lacking(self) -> list[str]:
        """What symptoms could not be checked for lack of, the most wanted first."""
        wanted = Counter(role for symptom in self.unchecked for role in symptom.missing)
        return [role for role, _ in wanted.most_common()]

    def to_json(self) -> str:
        """Return the report as strict JSON, schema 1."""
        from stabdiag.formats import render

        return render(self, "json")

    def __repr__(self) -> str:
        """Tell in one line which report this is; all of its data would fill a screen."""
        found, source = self.diagnosis, self.history.source
        step = "" if found.step is None else f", step {found.step}"
        return f"<Report on {source.name}: {found.severity.value}, {found.slug}{step}>"

    def __str__(self) -> str:
        """Return the terminal report."""
        from stabdiag.formats import render

        return render(self, "terminal")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the terminal report where rich prints."""
        from stabdiag.formats.terminal import ReportPage

        yield ReportPage(report=self, width=options.max_width)

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        from stabdiag.formats.html import notebook

        return notebook(self)
