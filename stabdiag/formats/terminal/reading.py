"""How the log was read: whatever was assumed, inferred or overridden on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.measured import changed_limits, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.report import Report


def reading(report: Report, page: Page) -> Iterator[Text]:
    """Yield one note for everything about the input that a reader could dispute."""
    notes = [
        *_columns(report, page),
        ("manifest", "; ".join(_manifest(report, page))),
        *(("limit", told) for told in changed_limits(report.limits)),
        *((event.kind.value, event.message) for event in report.history.notes),
    ]
    width = max(len(name) for name, _ in notes)
    yield from page.heading("How the log was read")
    for name, told in notes:
        yield from page.wrap(told, f"  {name:<{width}}  ")


def _columns(report: Report, page: Page) -> Iterator[tuple[str, str]]:
    """Yield where each role came from; in short, where the loss did."""
    for role, series in report.history.series.items():
        if series.column != role and (page.verbose or role == "loss"):
            yield "column", f"{role} is read from {series.column}"


def _manifest(report: Report, page: Page) -> Iterator[str]:
    manifest = report.manifest
    yield manifest.path or "none found"
    for name in manifest.overridden:
        yield f"{name} {number(getattr(manifest, name, None))} was set by a flag"
    if manifest.logged:
        told = (f"{name} {number(getattr(manifest, name, None))}" for name in manifest.logged)
        yield f"the log tells {', '.join(told)}"
    for name, why in manifest.inferred.items():
        yield f"{name} {number(getattr(manifest, name, None))} is inferred: {why}"
    if page.verbose and manifest.unknown:
        yield f"not understood: {', '.join(str(key) for key in manifest.unknown)}"
