"""``stabdiag formats``: what can be read here."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module

import pytest

from stabdiag.errors import LogError, StabdiagError
from stabdiag.log_formats import formats_table, log_formats
from stabdiag.readers import read_columns
from stabdiag.readers.registry import READERS


def test_every_format_is_listed_in_order():
    names = [one.name for one in READERS]
    assert [one.name for one in log_formats()] == names
    rows = json.loads(formats_table("json"))
    assert (rows["schema"], [row["name"] for row in rows["formats"]]) == (1, names)
    markdown = formats_table("markdown").splitlines()[2:]
    assert [line.split("`")[1] for line in markdown] == names
    assert {len(line.replace("\\|", "").split("|")) for line in markdown} == {6}
    terminal = formats_table("terminal", width=70)
    assert max(map(len, terminal.splitlines())) <= 70
    assert all(any(line.startswith(f"{name} ") for line in terminal.splitlines()) for name in names)


def test_each_says_what_it_is_and_how_it_is_told():
    for one in log_formats():
        assert one.title
        assert one.recognised
        assert not one.recognised.endswith(".")
        assert one.state in {"built in", "installed", "missing"}
        assert (one.state == "built in") == (one.extra is None)


@pytest.fixture
def bare(monkeypatch):
    """Hide all packages that come with an extra."""
    optional = {package for one in READERS for package in one.packages}

    def find(name: str):
        return None if name in optional else object()

    monkeypatch.setattr(import_module("stabdiag.readers.reader"), "find_spec", find)


@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_named_with_its_command():
    row = next(one for one in log_formats() if one.name == "tensorboard")
    assert (row.state, row.install) == ("missing", "pip install 'stabdiag[tensorboard]'")
    assert "missing: `pip install 'stabdiag[tensorboard]'`" in formats_table("markdown")
    assert "tensorboard is missing: pip install 'stabdiag[tensorboard]'" in formats_table(
        "terminal"
    )


@pytest.mark.usefixtures("bare")
def test_a_log_whose_package_is_missing_says_how_to_install_it(tmp_path):
    (tmp_path / "run.wandb").write_bytes(b":W&B\xbe\xfa\0\0" + bytes(64))
    with pytest.raises(LogError, match=r"run\.wandb: a run file of W&B; .* pip install 'stabdiag"):
        read_columns(tmp_path / "run.wandb")


def test_a_package_in_a_package_that_is_missing_is_missing():
    one = replace(READERS[0], packages=("stabdiag.nowhere", "nowhere.at.all", "stabdiag.errors"))
    assert one.missing == ("stabdiag.nowhere", "nowhere.at.all")


def test_an_unknown_format_of_the_table():
    with pytest.raises(StabdiagError, match="unknown format 'jsno'; did you mean json"):
        formats_table("jsno")


def test_the_command(stabdiag):
    code, out, _ = stabdiag("formats", "-f", "markdown")
    assert code == 0
    assert "| `jsonl` | JSON lines" in out
