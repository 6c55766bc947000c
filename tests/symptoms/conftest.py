"""One symptom of one small run."""

import pytest

import stabdiag


@pytest.fixture
def symptom():
    """Return a function that diagnoses a run and gives one symptom's finding.

    It gives None where the symptom does not hold, and what was lacking where it was not checked.
    """

    def symptom_(slug, log, manifest=None):
        report = stabdiag.diagnose(log, manifest=manifest or {})
        missing = [one.missing for one in report.not_checked if one.symptom == slug]
        if missing and missing[0]:
            return missing[0]
        return next((finding for finding in report.findings if finding.slug == slug), None)

    return symptom_
