"""Which finding a page opens with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from stabdiag.formats.lead import lead, others

import stabdiag
from stabdiag.findings import Severity
from stabdiag.formats import render


@pytest.fixture
def stuck() -> stabdiag.Report:
    """A run that never left chance, with a spike that the tree finds."""
    loss = math.log(10) + 0.003 * np.random.default_rng(0).standard_normal(800)
    loss[400:404] += 1.5
    return stabdiag.diagnose({"step": np.arange(800), "loss": loss})


def test_an_error_beside_the_tree_goes_before_its_warning(stuck: stabdiag.Report) -> None:
    assert stuck.diagnosis.slug == "spike-recovered"
    assert lead(stuck).slug == "plateau-at-chance"
    assert [finding.slug for finding in others(stuck)] == ["spike-recovered"]


@pytest.mark.parametrize("name", ["terminal", "markdown"])
def test_the_page_opens_with_it(stuck: stabdiag.Report, name: str) -> None:
    page = render(stuck, name)
    assert page.index("plateau-at-chance") < page.index("spike-recovered")


def test_a_warning_does_not_go_before_the_warning_of_the_tree() -> None:
    loss = 3.0 + 0.02 * np.random.default_rng(0).standard_normal(800)
    loss[400:404] += 1.5
    report = stabdiag.diagnose({"step": np.arange(800), "loss": loss})
    assert {finding.severity.value for finding in report.findings} == {"warning"}
    assert lead(report) is report.diagnosis


@pytest.mark.parametrize(("notes", "told"), [(1, ", 1 note\n"), (2, ", 2 notes\n")])
def test_a_page_on_a_run_that_is_well_counts_the_notes_in_its_headline(
    notes: int, told: str
) -> None:
    loss = 3.0 - np.arange(800) / 400 + 0.02 * np.random.default_rng(0).standard_normal(800)
    report = stabdiag.diagnose({"step": np.arange(800), "loss": loss})
    note = replace(report.diagnosis, slug="grad-clip-saturated", severity=Severity.NOTE)
    page = render(replace(report, findings=(report.diagnosis, *[note] * notes)), "markdown")
    assert f"{report.diagnosis.title}{told}" in page
