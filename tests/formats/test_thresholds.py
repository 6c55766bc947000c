"""The thresholds in force, in all their formats."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from rich.cells import cell_len

from stabdiag.errors import StabdiagError
from stabdiag.formats.limits import ROWS, filled, source
from stabdiag.model.limits import Limits
from stabdiag.thresholds import thresholds

CHANGED = Limits().override({"spike.sigma": 4, "divergence.significance": 1e-6})


def flat(tables: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{section}.{name}": v for section, table in tables.items() for name, v in table.items()
    }


@pytest.mark.parametrize("limits", [Limits(), CHANGED], ids=["default", "changed"])
def test_toml_gives_the_same_limits_back(limits: Limits):
    read = flat(tomllib.loads(thresholds(limits, "toml")))
    assert Limits().override(read) == limits
    assert list(read) == [info.name for info in limits.items()]


@pytest.mark.parametrize("format_name", ["terminal", "markdown", "json", "toml"])
def test_every_limit_is_in_every_format(format_name: str):
    text = thresholds(CHANGED, format_name)
    for info in CHANGED.items():
        assert info.name in text or format_name == "toml"


def test_rows_are_held_against_limits_that_exist():
    known = {info.name for info in Limits().items()}
    for row in ROWS:
        assert set(row.limits) <= known
        assert "$" not in filled(row, CHANGED)
        assert source(row, CHANGED)


def test_the_rows_of_the_tree_come_first():
    assert [row.node for row in ROWS[:6]] == ["Q1.1", "Q2.1", "Q2.2", "Q3.1", "Q4.1", "Q4.3"]


def test_overrides_are_shown_with_their_default():
    assert "spike.sigma = 4 σ  (default 3)" in thresholds(CHANGED, "terminal")
    assert "loss > μ + 4 σ" in thresholds(CHANGED, "markdown")
    assert "| **4** | 3 |" in thresholds(CHANGED, "markdown")
    declared = json.loads(thresholds(CHANGED, "json"))["limits"]["spike.sigma"]
    assert (declared["value"], declared["default"]) == (4.0, 3.0)
    assert "default 3; source" in thresholds(CHANGED, "toml")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_terminal_page_fits(width: int, encoding: str):
    text = thresholds(CHANGED, "terminal", width=width, encoding=encoding)
    assert all(cell_len(line) <= width and line == line.rstrip() for line in text.splitlines())
    text.encode(encoding)


def test_on_a_narrow_page_the_cells_of_a_row_stand_below_its_first():
    lines = thresholds(CHANGED, "terminal", width=40).splitlines()
    at = lines.index("Q1.1")
    assert lines[at + 1 : at + 3] == [
        "  loss NaN or infinite; any; §1: find",
        "  the layer where it starts; tree",
    ]


def test_colour_is_asked_for():
    assert "\x1b[" in thresholds(CHANGED, "terminal", color=True)
    assert "\x1b[" not in thresholds(CHANGED, "terminal")


def test_unknown_format_names_the_nearest():
    with pytest.raises(StabdiagError, match=r"'tml'; did you mean toml\?"):
        thresholds(CHANGED, "tml")
