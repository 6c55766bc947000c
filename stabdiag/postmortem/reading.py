"""How a post-mortem was made: what was read, assumed, and set by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag import __version__
from stabdiag.formats.markdown_text import escape
from stabdiag.formats.measured import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.report import Report


def reading(report: Report) -> Iterator[str]:
    """Yield everything about the input that a reader could dispute."""
    yield "## How this was made"
    yield "\n".join(f"- {escape(note)}" for note in _notes(report))


def _notes(report: Report) -> Iterator[str]:
    tree = "the decision tree to the letter" if report.literal else "its decision tree"
    yield f"stabdiag {__version__} read the log, walked {tree} and wrote this draft"
    series = report.history.series.items()
    columns = [f"{role} from {one.column}" for role, one in series if one.column != role]
    if columns:
        yield f"read: {', '.join(columns)}"
    manifest = report.manifest
    yield f"manifest: {manifest.path or 'none found'}"
    for names, how in ((manifest.overridden, "set by hand"), (manifest.logged, "told by the log")):
        if names:
            told = (f"{name} {number(getattr(manifest, name, None))}" for name in names)
            yield f"{how}: {', '.join(told)}"
    for name, why in manifest.inferred.items():
        yield f"{name} {number(getattr(manifest, name, None))}, inferred: {why}"
    for info in report.limits.changed:
        yield f"limit {info.name} {number(info.value)} (default {number(info.default)})"
    for event in report.history.notes:
        yield event.message
