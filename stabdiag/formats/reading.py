"""What every page says alike about its source: which log it was, how it was read, what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.measured import changed_limits, number
from stabdiag.model.findings import Severity
from stabdiag.model.report import skipped
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.manifest import Manifest
    from stabdiag.model.report import Report


def source_facts(report: Report) -> list[str]:
    """Return which log the report is about, how much of it there is, and its manifest."""
    source, first = report.history.source, report.history.first_step
    told = [f"{source.name} ({source.format})", plural(source.records, "record")]
    if source.unreadable:
        told.append(f"{source.unreadable} unreadable")
    if first is not None:
        told.append(f"{report.history.unit}s {first} to {report.history.last_step}")
    if source.attempts > 1:
        told.append(f"attempt {source.attempt} of {source.attempts}")
    if report.literal:
        told.append("original fixed rules (--literal)")
    path, folder = report.manifest.path, source.name.rpartition("/")[0]
    told.append(path.removeprefix(f"{folder}/") if path else "no manifest")
    return told


def notes(report: Report, *, verbose: bool = True) -> list[tuple[str, str]]:
    """Return what a reader could dispute about the input: the kind of each note and its text.

    Unless ``verbose``, only the column of the loss is named, and no key that was not understood.
    """
    return [
        *_columns(report, verbose=verbose),
        *(("manifest", told) for told in _manifest(report.manifest, verbose=verbose)),
        *(("limit", told) for told in changed_limits(report.limits)),
        *((event.kind.value, event.message) for event in report.history.notes),
    ]


def _columns(report: Report, *, verbose: bool) -> Iterator[tuple[str, str]]:
    for role, series in report.history.series.items():
        if series.column != role and (verbose or role == "loss"):
            yield "column", f"{role} is read from {series.column}"


def _manifest(manifest: Manifest, *, verbose: bool) -> Iterator[str]:
    if manifest.overridden:
        yield f"set by a flag: {_fields(manifest, manifest.overridden)}"
    if manifest.logged:
        yield f"from the log: {_fields(manifest, manifest.logged)}"
    for name, why in manifest.inferred.items():
        yield f"inferred: {_fields(manifest, (name,))} ({why})"
    if manifest.unknown and verbose:
        yield f"not understood: {', '.join(str(key) for key in manifest.unknown)}"


def _fields(manifest: Manifest, names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {number(getattr(manifest, name, None))}" for name in names)


def unchecked(report: Report) -> str:
    """Return how many checks were skipped for want of what; nothing where the summary tells it."""
    told = report.tree.outcome.severity is Severity.OK or not report.not_checked
    return "" if told else skipped(report.not_checked)
