"""A comparison as text: for a terminal, as JSON, as Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import stabdiag
from stabdiag.errors import StabdiagError
from stabdiag.formats import names
from stabdiag.formats.compared import render
from stabdiag.formats.compared.structured import schema
from stabdiag.formats.compared.view import overlay

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.comparison import Comparison

    Compared = Callable[[str], Comparison]

FOLDER = Path(__file__).parents[2] / "fixtures" / "pairs"
PAIRS = sorted(folder.name for folder in FOLDER.iterdir())


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("width", [80, 40])
def test_no_line_is_wider_than_the_terminal(compared: Compared, pair: str, width: int) -> None:
    lines = render(compared(pair), "terminal", width=width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("pair", PAIRS)
def test_ascii_is_ascii_and_color_changes_no_word(compared: Compared, pair: str) -> None:
    assert render(compared(pair), "terminal", encoding="ascii").isascii()
    plain = render(compared(pair), "terminal")
    assert "\x1b" not in plain
    assert "\x1b[" in render(compared(pair), "terminal", color=True)


def test_the_terminal_leads_with_finding_and_first_action(compared: Compared) -> None:
    lines = render(compared("rank-died"), "terminal").splitlines()
    assert lines[0] == "ERROR  A rank died, step 136  [rank-died]"
    assert any("FIRST ACTION" in line for line in lines[:10])
    assert lines[-1] == "more: --verbose; stabdiag explain rank-died"


def test_the_picture_shows_where_one_run_leaves_the_other(compared: Compared) -> None:
    text = render(compared("config-differs-lr"), "terminal")
    assert "A is the line, B the Bs (where they leave it)" in text
    assert "BBB" in text
    assert "▲ 0" in text
    assert "apart by" in text


def test_where_the_runs_are_the_same_the_line_hides_the_other(compared: Compared) -> None:
    drawn = overlay(compared("nondeterminism-stays"))
    assert drawn is not None
    text = render(compared("nondeterminism-stays"), "terminal")
    picture = [line for line in text.splitlines() if "│" in line or "┤" in line]
    assert picture
    assert not any("B" in line for line in picture)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.startswith("agree")])
def test_nothing_is_drawn_where_nothing_parts(compared: Compared, pair: str) -> None:
    assert overlay(compared(pair)) is None
    assert "is the line" not in render(compared(pair), "terminal")


def test_settings_that_explain_nothing_stand_apart(compared: Compared) -> None:
    text = render(compared("config-differs-lr"), "terminal")
    assert "  explains        peak_lr: 0.003 (A); 0.001 (B)" in text
    assert "no explanation in: run_name" in text
    assert "run_name: base (A); low (B)" not in text
    assert "run_name: base (A); low (B)" in render(
        compared("config-differs-lr"), "terminal", verbose=True
    )
    assert "as expected: seed" in render(compared("seed-variance"), "terminal")


def test_changed_limits_are_told() -> None:
    files = [FOLDER / "agree-twice" / f"{name}.jsonl" for name in ("first", "second")]
    found = stabdiag.compare(files, limits={"compare.min_points": 50})
    assert "compare.min_points = 50" in render(found, "terminal")
    assert json.loads(found.to_json())["limits"]["compare.min_points"] == 50


@pytest.mark.parametrize("pair", PAIRS)
def test_markdown_has_the_tables(compared: Compared, pair: str) -> None:
    text = render(compared(pair), "markdown", command="stabdiag compare a b")
    assert text.startswith("<!-- stabdiag compare -->\n\n### ")
    assert "| run | log | steps | losses | seed |" in text
    assert "```sh\nstabdiag compare a b\nstabdiag explain " in text


def test_json_that_is_not_finite_is_a_string() -> None:
    steps = list(range(30))
    one = {"step": steps, "loss": [1.0] * 30}
    other = {"step": steps, "loss": [1.0] * 25 + [float("nan")] * 5}
    found = json.loads(stabdiag.compare([one, other], kind="reruns").to_json())
    jsonschema.Draft202012Validator(json.loads(schema())).validate(found)
    (loss,) = [one for one in found["partings"] if one["role"] == "loss"]
    assert loss["values"] == [1.0, "NaN"]
    assert loss["largest"] == "Infinity"
    assert found["diagnosis"]["evidence"]["first_difference"] == "NaN"


def test_every_format_there_is(compared: Compared) -> None:
    assert names("comparison") == ("terminal", "json", "markdown")
    with pytest.raises(StabdiagError, match=r"unknown format 'jason'; did you mean json\?"):
        render(compared("agree-twice"), "jason")


def test_rich_shows_it(compared: Compared) -> None:
    console = Console(width=80, file=StringIO())
    with console.capture() as shown:
        console.print(compared("rank-died"))
    assert "[rank-died]" in shown.get()


def test_many_runs_are_cut(compared: Compared) -> None:
    found = compared("seed-variance")
    many = replace(found, runs=found.runs * 8)
    assert "and 24 more" in render(many, "terminal")


@pytest.mark.parametrize("short", [25, 27, 40, 150])
def test_a_short_run_beside_a_long_one_is_drawn(short: int) -> None:
    at = np.arange(4000)
    loss = 2 + 2 * np.exp(-at / 300) + 0.05 * np.random.default_rng(0).standard_normal(4000)
    runs = [
        {"step": at, "loss": loss},
        {"step": at[:short], "loss": 1.1 * loss[:short]},
    ]
    found = stabdiag.compare(runs, kind="reruns", manifests=[{"peak_lr": 1e-3}, {"peak_lr": 1e-2}])
    assert "config-differs" in [one.slug for one in found.findings]
    for name in names("comparison"):
        assert render(found, name)
