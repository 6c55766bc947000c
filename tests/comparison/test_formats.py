"""A comparison for a terminal, as JSON, as HTML."""

import json
from contextlib import chdir
from dataclasses import replace
from io import StringIO
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import stabdiag
from stabdiag import formats
from stabdiag.formats.compared import overlay, run_names
from stabdiag.formats.json import schema
from tests.comparison.conftest import NAMES, PAIRS, compared
from tests.conftest import ROOT, compare_golden

GOLDEN = Path(__file__).parent / "golden" / "config-differs-lr.txt"


def render(comparison, name, **options):
    return formats.render(comparison, name, "comparison", **options)


def test_the_page_is_unchanged():
    with chdir(ROOT):  # the page has the paths of the logs as given
        logs = [f"fixtures/pairs/config-differs-lr/{name}.jsonl" for name in ("base", "low")]
        text = render(stabdiag.compare(logs), "terminal")
    compare_golden(text, GOLDEN)


@pytest.mark.parametrize("pair", NAMES)
def test_every_page_fits_and_leads_with_the_finding(pair):
    comparison = compared(pair)
    for width in (80, 40):
        lines = render(comparison, "terminal", width=width).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert all(line == line.rstrip() for line in lines)
        assert f"[{comparison.diagnosis.slug}]" in " ".join(lines[:4])
    assert render(comparison, "terminal", encoding="ascii").isascii()
    assert "\x1b" not in render(comparison, "terminal")
    assert "\x1b[" in render(comparison, "terminal", color=True)
    assert (overlay(comparison) is None) or not pair.startswith("agree")


def test_the_line_hides_an_identical_run():
    text = render(compared("nondeterminism-stays"), "terminal")
    picture = [line for line in text.splitlines() if "│" in line or "┤" in line]
    assert picture
    assert not any("x" in line for line in picture)


def test_settings_that_explain_nothing_are_shown_on_request():
    comparison = compared("config-differs-lr")
    assert "run_name: base (base); low (low)" not in render(comparison, "terminal")
    assert "run_name: base (base); low (low)" in render(comparison, "terminal", verbose=True)


def test_changed_limits_are_shown():
    files = [PAIRS / "agree-twice" / f"{name}.jsonl" for name in ("first", "second")]
    comparison = stabdiag.compare(files, limits={"compare.min_points": 50})
    for name in ("terminal", "html"):
        text = " ".join(render(comparison, name).replace("\\_", "_").split())
        assert "compare.min_points is 50 (default 20)" in text
    assert json.loads(comparison.to_json())["limits"]["compare.min_points"] == 50


def test_json_that_is_not_finite_is_a_string():
    steps = list(range(30))
    first = {"step": steps, "loss": [1.0] * 30}
    second = {"step": steps, "loss": [1.0] * 25 + [float("nan")] * 5}
    content = json.loads(stabdiag.compare([first, second], kind="reruns").to_json())
    jsonschema.Draft202012Validator(json.loads(schema("comparison"))).validate(content)
    (loss,) = [part for part in content["divergences"] if part["role"] == "loss"]
    assert loss["values"] == [1.0, "NaN"]
    assert loss["largest"] == "Infinity"
    assert content["diagnosis"]["evidence"]["first_difference"] == "NaN"


def test_rich_prints_a_comparison():
    console = Console(width=80, file=StringIO())
    with console.capture() as shown:
        console.print(compared("rank-died"))
    assert "[rank-died]" in shown.get()


def test_many_runs_are_cut_and_one_loss_is_singular():
    comparison = compared("seed-variance")
    assert "and 24 more" in render(replace(comparison, runs=comparison.runs * 8), "terminal")
    for name in ("terminal", "html"):
        text = render(replace(comparison, common=1), name)
        assert "1 loss at a common step" in text
        assert "losses at common steps" not in text


def test_a_label_that_contains_its_setting_is_the_name_of_a_run():
    names = run_names(compared("seed-variance"))
    assert list(names.values()) == ["seed1", "seed2", "seed3", "seed4", "seed5"]
    assert list(run_names(compared("config-differs-lr")).values()) == [
        "peak_lr 0.003 (base)",
        "peak_lr 0.001 (low)",
    ]


@pytest.mark.parametrize("short", [25, 27, 40, 150])
def test_a_short_run_next_to_a_long_one_is_drawn(short):
    at = np.arange(4000)
    loss = 2 + 2 * np.exp(-at / 300) + 0.05 * np.random.default_rng(0).standard_normal(4000)
    runs = [{"step": at, "loss": loss}, {"step": at[:short], "loss": 1.1 * loss[:short]}]
    comparison = stabdiag.compare(
        runs, kind="reruns", manifests=[{"peak_lr": 1e-3}, {"peak_lr": 1e-2}]
    )
    assert "config-differs" in [finding.slug for finding in comparison.findings]
    for name in ("terminal", "json", "html"):
        assert render(comparison, name)
