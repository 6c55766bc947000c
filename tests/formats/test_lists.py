"""Checklists, and the list of readable log formats, in all formats."""

import json
from dataclasses import replace
from importlib import import_module

import pytest
from rich.cells import cell_len

from stabdiag.cli.tables import log_formats
from stabdiag.errors import LogError
from stabdiag.formats import render
from stabdiag.model.checks import CheckReport, failed, manual, passed, titled, unknown
from stabdiag.model.findings import Severity
from stabdiag.readers.registry import READERS
from tests.readers.conftest import read_columns

EVIL = "##[error]run\x1b[31m\n| <img src=x> [a](b) `c` *d* \ud800 ✗"
CHECKLISTS = CheckReport(
    name="preflight",
    subject=EVIL,
    summary="One of three wants a look.",
    checks=tuple(
        titled(check, "Configuration", slug, title, None)
        for slug, title, check in (
            ("one", "First", passed("All is well.")),
            ("two", "Second", failed(f"The name is {EVIL}.", "Change it.", "Or leave it.")),
            ("three", "Third", failed("It is wrong.", severity=Severity.ERROR)),
            ("four", "Fourth", unknown("Nothing is known.", "Write it down.")),
            ("five", "Fifth", manual("No log shows it.", "Do it.")),
        )
    ),
    begin="two",
)


def test_the_json_of_checklists_is_strict_and_has_everything():
    text = render(CHECKLISTS, "json", "checks")
    assert "##[" not in text  # which a server that runs the command would obey
    content = json.loads(text)
    assert (content["schema"], content["kind"]) == (2, "preflight")
    assert content["subject"].startswith("##[error]run")
    checks = content["findings"]
    assert [(check["state"], check["severity"]) for check in checks] == [
        ("passed", "ok"),
        ("failed", "note"),
        ("failed", "error"),
        ("unknown", "note"),
        ("manual", "note"),
    ]
    assert content["begin"] == "two"
    assert [action["text"] for action in checks[1]["actions"]] == ["Change it.", "Or leave it."]
    assert {check["section"] for check in checks} == {"Configuration"}


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_page_of_checklists_fits_and_is_inert(width, encoding):
    page = render(CHECKLISTS, "terminal", "checks", width=width, encoding=encoding)
    assert max(map(cell_len, page.splitlines())) <= min(width, 100)
    assert "\x1b" not in page
    assert page.isascii() == (encoding == "ascii")
    assert ("x Second" if encoding == "ascii" else "✗ Second") in page
    assert "1 passed, 2 failed, 1 unknown, 1 manual" in " ".join(page.split())
    assert "Third  error" in page
    assert page.count("start here") == 1
    assert "\x1b[" in render(CHECKLISTS, "terminal", "checks", color=True)


def test_the_markdown_of_checklists_escapes_names():
    text = render(CHECKLISTS, "markdown", "checks")
    assert (text.count("- [x]"), text.count("- [ ]")) == (1, 4)
    assert "<img" not in text.replace("\\<img", "")
    assert "[a](b)" not in text
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3 + 3 + 5 + 4


def test_every_log_format_is_listed_in_order():
    names = [reader.name for reader in READERS]
    formats = log_formats()
    assert [reader["name"] for reader in formats] == names
    assert all((reader["state"] == "built in") == (reader["extra"] is None) for reader in formats)
    rows = json.loads(render(formats, "json", "logs"))
    assert (rows["schema"], [row["name"] for row in rows["formats"]]) == (1, names)
    markdown = render(formats, "markdown", "logs").splitlines()[2:]
    assert [line.split("`")[1] for line in markdown] == names
    assert {len(line.replace("\\|", "").split("|")) for line in markdown} == {6}
    terminal = render(formats, "terminal", "logs", width=70).splitlines()
    assert max(map(len, terminal)) <= 70
    assert all(any(line.startswith(f"{name} ") for line in terminal) for name in names)


@pytest.fixture
def bare(monkeypatch):
    """Hide all packages that come with an extra."""
    optional = {package for reader in READERS for package in reader.packages}
    monkeypatch.setattr(
        import_module("stabdiag.readers.reader"),
        "find_spec",
        lambda name: None if name in optional else object(),
    )


@pytest.mark.usefixtures("bare")
def test_a_missing_format_has_its_install_command(tmp_path):
    formats = log_formats()
    command = "pip install 'stabdiag[tensorboard]'"
    row = next(entry for entry in formats if entry["name"] == "tensorboard")
    assert (row["state"], row["install"]) == ("missing", command)
    assert f"missing: `{command}`" in render(formats, "markdown", "logs")
    assert f"tensorboard is missing: {command}" in render(formats, "terminal", "logs")
    (tmp_path / "run.wandb").write_bytes(b":W&B\xbe\xfa\0\0" + bytes(64))
    with pytest.raises(LogError, match=r"run\.wandb: a run file of W&B; .* pip install 'stabdiag"):
        read_columns(tmp_path / "run.wandb")


def test_nested_packages_may_be_missing():
    reader = replace(READERS[0], packages=("stabdiag.nowhere", "nowhere.at.all", "stabdiag.errors"))
    assert reader.missing == ("stabdiag.nowhere", "nowhere.at.all")
