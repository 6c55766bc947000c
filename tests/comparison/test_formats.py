"""A comparison as text: for a terminal, as JSON, as Markdown."""

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
from stabdiag.formats.compared import overlay
from stabdiag.formats.json import schema
from tests.comparison.conftest import NAMES, PAIRS, compared
from tests.conftest import ROOT, compare_golden

GOLDEN = Path(__file__).parent / "golden" / "config-differs-lr.txt"


def render(comparison, name, **options):
    return formats.render(comparison, name, "comparison", **options)


def test_the_whole_page():
    with chdir(ROOT):  # the page names the logs as they were asked for
        logs = [f"fixtures/pairs/config-differs-lr/{name}.jsonl" for name in ("base", "low")]
        text = render(stabdiag.compare(logs), "terminal")
    compare_golden(text, GOLDEN)


@pytest.mark.parametrize("pair", NAMES)
def test_every_page_fits_and_leads_with_the_finding(pair):
    found = compared(pair)
    for width in (80, 40):
        lines = render(found, "terminal", width=width).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert all(line == line.rstrip() for line in lines)
        assert f"[{found.diagnosis.slug}]" in " ".join(lines[:3])
    assert render(found, "terminal", encoding="ascii").isascii()
    assert "\x1b" not in render(found, "terminal")
    assert "\x1b[" in render(found, "terminal", color=True)
    assert (overlay(found) is None) or not pair.startswith("agree")
    text = render(found, "markdown", command="stabdiag compare a b")
    assert text.startswith("<!-- stabdiag compare -->\n\n### ")
    assert "| run | log | steps | losses | seed |" in text
    assert "```sh\nstabdiag compare a b\nstabdiag explain " in text


def test_where_the_runs_are_the_same_the_line_hides_the_other():
    text = render(compared("nondeterminism-stays"), "terminal")
    picture = [line for line in text.splitlines() if "│" in line or "┤" in line]
    assert picture
    assert not any("x" in line for line in picture)


def test_settings_that_explain_nothing_are_shown_on_request():
    found = compared("config-differs-lr")
    assert "run_name: base (base); low (low)" not in render(found, "terminal")
    assert "run_name: base (base); low (low)" in render(found, "terminal", verbose=True)


def test_changed_limits_are_shown():
    files = [PAIRS / "agree-twice" / f"{name}.jsonl" for name in ("first", "second")]
    found = stabdiag.compare(files, limits={"compare.min_points": 50})
    for name in ("terminal", "markdown", "html"):
        text = " ".join(render(found, name).replace("\\_", "_").split())
        assert "compare.min_points is 50 (default 20)" in text
    assert json.loads(found.to_json())["limits"]["compare.min_points"] == 50


def test_json_that_is_not_finite_is_a_string():
    steps = list(range(30))
    one = {"step": steps, "loss": [1.0] * 30}
    other = {"step": steps, "loss": [1.0] * 25 + [float("nan")] * 5}
    found = json.loads(stabdiag.compare([one, other], kind="reruns").to_json())
    jsonschema.Draft202012Validator(json.loads(schema("comparison"))).validate(found)
    (loss,) = [one for one in found["partings"] if one["role"] == "loss"]
    assert loss["values"] == [1.0, "NaN"]
    assert loss["largest"] == "Infinity"
    assert found["diagnosis"]["evidence"]["first_difference"] == "NaN"


def test_rich_shows_it():
    console = Console(width=80, file=StringIO())
    with console.capture() as shown:
        console.print(compared("rank-died"))
    assert "[rank-died]" in shown.get()


def test_many_runs_are_cut_and_one_loss_is_singular():
    found = compared("seed-variance")
    assert "and 24 more" in render(replace(found, runs=found.runs * 8), "terminal")
    for name in ("terminal", "markdown"):
        text = render(replace(found, common=1), name)
        assert "1 common loss" in text
        assert "1 common losses" not in text


@pytest.mark.parametrize("short", [25, 27, 40, 150])
def test_a_short_run_beside_a_long_one_is_drawn(short):
    at = np.arange(4000)
    loss = 2 + 2 * np.exp(-at / 300) + 0.05 * np.random.default_rng(0).standard_normal(4000)
    runs = [{"step": at, "loss": loss}, {"step": at[:short], "loss": 1.1 * loss[:short]}]
    found = stabdiag.compare(runs, kind="reruns", manifests=[{"peak_lr": 1e-3}, {"peak_lr": 1e-2}])
    assert "config-differs" in [one.slug for one in found.findings]
    for name in ("terminal", "json", "markdown"):
        assert render(found, name)
