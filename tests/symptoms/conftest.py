"""One symptom of one small run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import stabdiag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.model.findings import Finding


@pytest.fixture
def symptom() -> Callable[..., Finding | tuple[str, ...] | None]:
    """Return a function that diagnoses a run and gives one symptom's finding.

    It gives None where the symptom does not hold, and what was lacking where it was not checked.
    """

    def symptom_(
        slug: str, log: Mapping[str, Any], manifest: Mapping[str, object] | None = None
    ) -> Finding | tuple[str, ...] | None:
        report = stabdiag.diagnose(log, manifest=manifest or {})
        missing = [one.missing for one in report.not_checked if one.symptom == slug]
        if missing and missing[0]:
            return missing[0]
        return next((finding for finding in report.findings if finding.slug == slug), None)

    return symptom_
