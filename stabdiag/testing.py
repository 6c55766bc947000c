"""Check a run in a test suite: ``stabdiag.assert_healthy("runs/smoke.jsonl")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stabdiag.api import diagnose
from stabdiag.formats import render
from stabdiag.model.fail_on import fails
from stabdiag.model.findings import UNTESTED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stabdiag.api.shown import Report
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


class UnhealthyRun(AssertionError):
    """A run is not healthy; ``report`` and the message have the details."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"\n{render(report, 'terminal')}")
        self.report = report


def assert_healthy(
    source: object,
    *,
    fail_on: Literal["error", "warning"] = "error",
    manifest: Manifest | Mapping[str, object] | str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    attempt: int | None = None,
    literal: bool = False,
    format: str | None = None,
) -> Report:
    """Diagnose a run and return the report, if nothing as severe as ``fail_on`` is found.

    A run with too little data to diagnose does not pass either. See ``diagnose`` for the other
    arguments.

    Raises:
        UnhealthyRun: an ``AssertionError`` whose message is the report.
        StabdiagError: if the log, the manifest or a limit cannot be read.

    >>> loss = [3.0 * 0.99**step + 0.01 * (step * 7 % 5) for step in range(300)]
    >>> assert_healthy({"loss": loss}).diagnosis.slug
    'healthy'
    """
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    report = diagnose(
        source,
        manifest=manifest,
        settings=settings,
        limits=limits,
        columns=columns,
        attempt=attempt,
        literal=literal,
        format=format,
    )
    untested = report.tree.outcome.slug in UNTESTED
    if untested or fails(report.diagnosis.severity, fail_on):
        raise UnhealthyRun(report)
    return report
