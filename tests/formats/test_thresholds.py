"""The thresholds in force, in all formats."""

import json

import pytest
from rich.cells import cell_len

from stabdiag.formats import render
from stabdiag.formats.limits import rows, source
from stabdiag.model.limits import Limits
from stabdiag.model.text import filled

CHANGED = Limits().override({"spike.sigma": 4, "divergence.significance": 1e-6})


def thresholds(format_name, **options):
    return render(CHANGED, format_name, "limits", **options)


def test_the_rows_of_the_tree_come_first_and_have_limits_that_exist():
    assert [row.node for row in rows()[:6]] == ["Q1.1", "Q2.1", "Q2.2", "Q3.1", "Q4.1", "Q4.3"]
    limits = {info.name for info in Limits().items()}
    for row in rows():
        assert set(row.limits) <= limits
        assert "{" not in filled(row.threshold, CHANGED)
        assert source(row, CHANGED)


def test_overrides_are_shown_with_their_default():
    assert "spike.sigma = 4 σ  (default 3)" in thresholds("terminal")
    assert "loss > μ + 4 σ" in thresholds("markdown")
    assert "| **4** | 3 |" in thresholds("markdown")
    declared = json.loads(thresholds("json"))["limits"]["spike.sigma"]
    assert (declared["value"], declared["default"]) == (4.0, 3.0)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_terminal_page_fits(width, encoding):
    text = thresholds("terminal", width=width, encoding=encoding)
    assert all(cell_len(line) <= width and line == line.rstrip() for line in text.splitlines())
    text.encode(encoding)
    assert ("\nQ1.1\n" in text) == (width == 40)  # too narrow for a table
    assert "\x1b[" not in text
    assert "\x1b[" in thresholds("terminal", color=True)


def test_the_original_rules_are_the_six_rows_of_the_tree():
    rules = json.loads(render(Limits(), "json", "rules"))["rows"]
    assert [rule["node"] for rule in rules] == ["Q1.1", "Q2.1", "Q2.2", "Q3.1", "Q4.1", "Q4.3"]
    assert rules[1]["threshold"].startswith("loss > μ + 3σ")
    assert rules[4]["threshold"] == "200 steps monotonic"
    text = render(Limits(), "terminal", "rules", width=100)
    assert "find originating layer" in text
    assert "[spike]" not in text
    assert "μ + 4σ" in render(CHANGED, "markdown", "rules")
