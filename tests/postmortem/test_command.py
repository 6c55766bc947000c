"""``stabdiag postmortem``."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Result


@pytest.fixture
def command(stabdiag: Callable[..., Result]) -> Callable[..., Result]:
    """Run ``stabdiag postmortem`` in an empty folder, within this process."""
    return partial(stabdiag, "postmortem")


@pytest.fixture
def log(runs: Path) -> Path:
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
def test_the_format_is_that_of_the_file_or_the_flag(
    command: Callable[..., Result],
    log: Path,
    tmp_path: Path,
    name: str | None,
    options: list[str],
    begins: str,
) -> None:
    result = command(log, *options, *(["-o", name] if name else []))
    assert (result.code, result.err) == (0, "")
    text = result.out if name is None else (tmp_path / name).read_text(encoding="utf-8")
    assert text.startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == ([name] if name else [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "a.pdf"], ["a.pdf", ".md or .html", "--format"]),
        (["--format", "htlm"], ["did you mean html"]),
        (["-o", "no/such/folder/a.md"], ["cannot be written"]),
        (["--limit", "spike.sgma=4"], ["did you mean spike.sigma"]),
        (["--column", "loss=lss"], ["did you mean"]),
        (["--fail-on", "error"], ["--fail-on"]),
        (["nope.jsonl"], ["no such file"]),
    ],
)
def test_usage_errors_are_one_line_and_leave_no_file(
    command: Callable[..., Result], log: Path, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    result = command(log, *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err
    assert list(tmp_path.iterdir()) == []


def test_options_of_diagnose_are_taken(command: Callable[..., Result], log: Path) -> None:
    result = command(
        log, "--dtype", "bf16", "--set", "checkpoint_every=250", "--limit", "spike.sigma=3.5"
    )
    assert "from the checkpoint of step 500 to the end at 899" in result.out
    assert "- checkpoint_every 250, set by hand." in result.out
    assert "- Limit spike.sigma 3.5 (default 3)." in result.out


def test_the_literal_tree_is_named(command: Callable[..., Result], runs: Path) -> None:
    result = command(runs / "nan-blow-up-fp32" / "log.jsonl", "--literal")
    assert "original fixed rules" in result.out
    assert "Symptoms checked" not in result.out


def test_standard_input_is_a_log(log: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stabdiag", "postmortem", "-"],
        input=log.read_bytes(),
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"# Post-mortem: ")


def test_diagnose_does_not_pay_for_it(log: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom stabdiag.cli import main\n"
        f"sys.argv = ['stabdiag', 'diagnose', {str(log)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in sys.modules if m.startswith('stabdiag.formats.postmortem')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"
