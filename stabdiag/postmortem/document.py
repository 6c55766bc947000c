"""The whole post-mortem as Markdown: its sections, in the order in which they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.postmortem import evidence, follow_up, head, quiet, reasons
from stabdiag.postmortem.reading import reading
from stabdiag.postmortem.study import Study, study

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stabdiag.report import Report

LAYOUT = (
    head.head,
    head.summary,
    evidence.moments,
    evidence.compute_lost,
    evidence.evidence,
    reasons.ruled_out,
    reasons.root_cause,
    follow_up.actions,
    follow_up.logging,
    follow_up.questions,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Document:
    """A post-mortem: its title as plain text, its Markdown, and what was found out for it.

    ``study`` is None for a run that has nothing to write up.
    """

    title: str
    markdown: str
    study: Study | None = None


def write(report: Report) -> Document:
    """Write the post-mortem of a report."""
    if not report.tree.outcome.section and report.diagnosis.severity is not Severity.ERROR:
        parts = (*quiet.quiet(report), *reading(report))
        return Document(title=quiet.title(report), markdown=_joined(parts))
    told = study(report)
    parts = (*(part for section in LAYOUT for part in section(told)), *reading(report))
    return Document(title=head.title(told), markdown=_joined(parts), study=told)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"
