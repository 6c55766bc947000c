"""One symptom of one small run."""

import pytest

import stabdiag


@pytest.fixture
def symptom():
    """Return a function that diagnoses a run and gives one symptom's finding.

    It returns None if the symptom is absent, and the missing roles if it was not checked.
    """

    def symptom_(slug, log, manifest=None):
        report = stabdiag.diagnose(log, manifest=manifest or {})
        missing = [check.missing for check in report.not_checked if check.symptom == slug]
        if missing and missing[0]:
            return missing[0]
        return next((finding for finding in report.findings if finding.slug == slug), None)

    return symptom_
