"""``stabdiag postmortem``."""

from functools import partial

import pytest


@pytest.fixture
def command(stabdiag):
    """Run ``stabdiag postmortem`` in an empty folder, within this process."""
    return partial(stabdiag, "postmortem")


@pytest.fixture
def log(runs):
    return runs / "spike-persistent-lost-layer" / "log.jsonl"


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        (None, [], "# Post-mortem: Loss spike that did not recover, step 600\n"),
        ("a.md", [], "# Post-mortem"),
        ("a.html", [], "<!doctype html>"),
        ("a.HTM", [], "<!doctype html>"),
        ("a.txt", ["--format", "markdown"], "# Post-mortem"),
        ("a.md", ["--format", "html"], "<!doctype html>"),
    ],
)
def test_the_suffix_or_the_flag_selects_the_format(command, log, tmp_path, name, options, begins):
    result = command(log, *options, *(["-o", name] if name else []))
    assert result.code == 0
    status = f"stabdiag: wrote {name}; error: Loss spike that did not recover, step 600"
    assert result.err.startswith(status) if name else result.err == ""
    text = result.out if name is None else (tmp_path / name).read_text(encoding="utf-8")
    assert text.startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == ([name] if name else [])


def test_options_of_diagnose_are_accepted(command, log):
    result = command(
        log, "--dtype", "bf16", "--set", "checkpoint_every=250", "--limit", "spike.sigma=3.5"
    )
    assert "from the checkpoint of step 500 to the end at 899" in result.out
    assert "- manifest: set by a flag: checkpoint_every 250" in result.out
    assert "- limit: spike.sigma is 3.5 (default 3, set by --limit)" in result.out


def test_the_literal_tree_is_named(command, runs):
    result = command(runs / "nan-blow-up-fp32" / "log.jsonl", "--literal")
    assert "original fixed rules" in result.out
    assert "Symptoms checked" not in result.out
