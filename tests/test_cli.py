"""The command line: what it prints, where, and the exit code."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from stabdiag import __version__
from stabdiag.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def stabdiag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Result]:
    """Run a command line in an empty folder, within this process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["stabdiag", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return Result(code=int(end.value.code or 0), out=out, err=err)

    return run


@pytest.mark.parametrize(
    ("run", "fail_on", "code"),
    [
        ("spike-persistent-lost-layer", "error", 1),
        ("spike-persistent-lost-layer", "warning", 1),
        ("spike-persistent-lost-layer", "never", 0),
        ("spike-lr-jump", "error", 0),
        ("spike-lr-jump", "warning", 1),
        ("healthy-fp32", "warning", 0),
        ("insufficient-data", "warning", 0),
    ],
)
def test_exit_code(
    stabdiag: Callable[..., Result], runs: Path, run: str, fail_on: str, code: int
) -> None:
    log = next((runs / run).glob("log.*"))
    assert stabdiag("diagnose", log, "--fail-on", fail_on).code == code


def test_the_report_leads_with_diagnosis_and_first_action(
    stabdiag: Callable[..., Result], runs: Path
) -> None:
    result = stabdiag("diagnose", runs / "spike-lr-jump" / "log.jsonl")
    lines = result.out.splitlines()
    assert "spike-lr-jump" in lines[0]
    assert any("FIRST ACTION" in line for line in lines[:8])
    assert max(map(len, lines)) <= 80
    assert result.err == ""


def test_json_to_a_file_is_whole_and_readable(
    stabdiag: Callable[..., Result], runs: Path, tmp_path: Path
) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    result = stabdiag("diagnose", log, "-f", "json", "-o", "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["diagnosis"]["slug"] == "spike-lr-jump"
    assert result.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_an_output_that_cannot_be_written_is_one_line(
    stabdiag: Callable[..., Result], runs: Path
) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    result = stabdiag("diagnose", log, "-o", "no/such/folder/report.json")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "cannot be written" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["diagnose", "LOG", "-o", "LOG"],
        ["diagnose", "LOG", "-o", "./LOG"],
        ["diagnose", "LOG", "--write", "html=LOG"],
        ["diagnose", "LOG", "--manifest", "MANIFEST", "-o", "MANIFEST"],
        ["diagnose", "LOG", "-o", "new", "--write", "html=new"],
        ["checklist", "LOG", "-o", "LOG"],
        ["compare", "LOG", "LOG", "-o", "LOG"],
        ["convert", "LOG", "-o", "LOG"],
        ["postmortem", "LOG", "-f", "markdown", "-o", "LOG"],
        ["preflight", "MANIFEST", "-o", "MANIFEST"],
        ["watch", "LOG", "-o", "LOG"],
    ],
)
def test_nothing_is_written_over_what_is_read(
    stabdiag: Callable[..., Result], tmp_path: Path, arguments: list[str]
) -> None:
    log = "".join(f'{{"step": {s}, "loss": 2.0}}\n' for s in range(60))
    (tmp_path / "LOG").write_text(log, encoding="utf-8")
    (tmp_path / "MANIFEST").write_text("{}", encoding="utf-8")
    result = stabdiag(*arguments)
    assert result.code == 2
    assert "name another file" in result.err
    assert result.err.count("\n") == 1
    assert (tmp_path / "LOG").read_text(encoding="utf-8") == log
    assert (tmp_path / "MANIFEST").read_text(encoding="utf-8") == "{}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LOG", "MANIFEST"]


def test_two_outputs_may_be_devices(stabdiag: Callable[..., Result], runs: Path) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    result = stabdiag("diagnose", log, "-o", "/dev/null", "--write", "html=/dev/null")
    assert result.code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["diagnose", "LOG", "-o", "/"], ["/: cannot be written (Is a directory)"]),
        (["diagnose", ""], ["name is empty"]),
        (["watch", "LOG", "--interval", "nan"], ["--interval wants a number of seconds"]),
        (["watch", "LOG", "--until-idle", "inf"], ["--until-idle wants a number of seconds"]),
        (["diagnose", "nope.jsonl"], ["nope.jsonl", "no such file"]),
        (["diagnose"], ["LOG"]),
        (["diagnose", "LOG", "--limit", "spike.sgma=4"], ["did you mean spike.sigma"]),
        (["diagnose", "LOG", "--limit", "spike.sigma=-1"], ["spike.sigma", "0.5 to 100"]),
        (["diagnose", "LOG", "--limit", "spike.sigma"], ["NAME=VALUE"]),
        (["diagnose", "LOG", "--column", "los=loss"], ["did you mean loss"]),
        (["diagnose", "LOG", "--column", "loss=lss"], ["did you mean"]),
        (["diagnose", "LOG", "--column", "loss"], ["ROLE=NAME"]),
        (["diagnose", "LOG", "--dtype", "fp17"], ["fp16, bf16 or fp32"]),
        (["diagnose", "LOG", "--set", "peek_lr=1"], ["did you mean peak_lr"]),
        (["diagnose", "LOG", "--manifest", "nope.json"], ["nope.json"]),
        (["diagnose", "LOG", "--config", "nope.toml"], ["nope.toml"]),
        (["diagnose", "LOG", "--format", "jason"], ["did you mean json"]),
        (["diagnose", "LOG", "--attempt", "7"], ["no attempt 7"]),
        (["diagnose", "LOG", "--fail-on", "sometimes"], ["error", "warning", "never"]),
        (["explain", "spike-lr-jmp"], ["did you mean spike-lr-jump"]),
        (["thresholds", "--format", "yaml"], ["toml"]),
        (["explian", "Q2.1"], ["explain"]),
    ],
)
def test_usage_errors_are_one_line_that_helps(
    stabdiag: Callable[..., Result], runs: Path, arguments: list[str], words: list[str]
) -> None:
    log = str(runs / "healthy-fp32" / "log.jsonl")
    result = stabdiag(*(log if a == "LOG" else a for a in arguments))
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("stabdiag: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err


def test_a_file_name_cannot_inject(stabdiag: Callable[..., Result], tmp_path: Path) -> None:
    name = "a\n::error::b\x1b[31m.csv"
    (tmp_path / name).write_text("step,acc\n1,2\n2,3\n")
    result = stabdiag("diagnose", name)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "\x1b" not in result.err


def test_flags_go_before_the_manifest(stabdiag: Callable[..., Result], runs: Path) -> None:
    log = runs / "nan-log0-fp32" / "log.jsonl"
    result = stabdiag(
        "diagnose", log, "--dtype", "bf16", "--set", "checkpoint_every=7", "-f", "json"
    )
    report = json.loads(result.out)
    assert report["diagnosis"]["slug"] == "nan-bf16"
    assert "checkpoint of step 315," in report["diagnosis"]["first_action"]
    assert report["manifest"]["overridden"] == ["checkpoint_every", "dtype"]


def test_a_column_can_be_named(stabdiag: Callable[..., Result], tmp_path: Path) -> None:
    lines = [json.dumps({"step": i, "a": 2.0, "mine": float("nan")}) for i in range(50)]
    (tmp_path / "run.jsonl").write_text("\n".join(lines))
    result = stabdiag("diagnose", "run.jsonl", "--column", "loss=mine")
    assert "nan-dtype-unknown" in result.out


def test_limits_are_overridden_by_files_and_flags(
    stabdiag: Callable[..., Result], tmp_path: Path
) -> None:
    def sigma(*arguments: str) -> float:
        table = json.loads(stabdiag("thresholds", "-f", "json", *arguments).out)
        return float(table["limits"]["spike.sigma"]["value"])

    assert sigma() == 3
    (tmp_path / "pyproject.toml").write_text("[tool.stabdiag.limits]\nspike.sigma = 4\n")
    assert sigma() == 4
    (tmp_path / "stabdiag.toml").write_text("[spike]\nsigma = 5\n")
    assert sigma() == 5
    assert sigma("--limit", "spike.sigma=6") == 6
    (tmp_path / "other.toml").write_text("[spike]\nsigma = 7\n")
    assert sigma("--config", "other.toml") == 7


def test_thresholds_as_toml_read_back_give_the_same(
    stabdiag: Callable[..., Result], tmp_path: Path
) -> None:
    first = stabdiag("thresholds", "-f", "toml", "--limit", "spike.sigma=4.5")
    (tmp_path / "stabdiag.toml").write_text(first.out, encoding="utf-8")
    again = stabdiag("thresholds", "-f", "toml")
    assert again.out == first.out
    assert "sigma = 4.5" in again.out


@pytest.mark.parametrize("name", ["spike-lr-jump", "Q2.1", "spike.sigma"])
def test_explain(stabdiag: Callable[..., Result], name: str) -> None:
    result = stabdiag("explain", name)
    assert result.code == 0
    assert name in result.out


def test_explain_for_a_terminal_has_no_marks(stabdiag: Callable[..., Result]) -> None:
    result = stabdiag("explain", "spike-lr-jump", "--color")
    assert "##" not in result.out
    assert "\x1b[1m" in result.out


def test_version_and_help(stabdiag: Callable[..., Result]) -> None:
    assert stabdiag("--version").out.strip() == f"stabdiag {__version__}"
    assert "Examples" in stabdiag("diagnose", "--help").out


def test_color_can_be_asked_for(stabdiag: Callable[..., Result], runs: Path) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    assert "\x1b[" in stabdiag("diagnose", log, "--color").out
    assert "\x1b[" not in stabdiag("diagnose", log).out


def test_a_large_log_shows_that_it_is_being_read(
    stabdiag: Callable[..., Result], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    assert "Reading" not in stabdiag("diagnose", log).err
    monkeypatch.setattr("stabdiag.cli.terminal._LARGE", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    result = stabdiag("diagnose", log)
    assert "Reading log.jsonl" in result.err
    assert "Reading" not in result.out


@pytest.mark.parametrize(
    ("logs", "told"),
    [
        (["."], "Reading . …"),
        (["runs/", "runs/log.jsonl"], "Reading runs and 1 more …"),
        (["nope://me:password@host?token=1"], "Reading nope://host?... …"),
        (["runs/log.jsonl"], None),
        (["runs/log.jsonl", "none.jsonl"], None),
        (["x" * 5000], None),
    ],
)
def test_what_may_take_long_shows_that_it_is_being_read(
    stabdiag: Callable[..., Result],
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logs: list[str],
    told: str | None,
) -> None:
    (tmp_path / "runs").symlink_to(runs / "spike-lr-jump")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    result = stabdiag("diagnose", *logs)
    assert told in result.err if told else "Reading" not in result.err
    assert "password" not in result.err
    assert "Reading" not in result.out


def test_standard_input_and_a_reader_that_leaves(runs: Path) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    command = [sys.executable, "-m", "stabdiag", "diagnose", "-"]
    with log.open("rb") as stream:
        whole = subprocess.run(command, stdin=stream, capture_output=True, check=False)
    assert b"spike-lr-jump" in whole.stdout
    reading, writing = os.pipe()
    os.close(reading)
    with log.open("rb") as stream:
        left = subprocess.run(
            command, stdin=stream, stdout=writing, stderr=subprocess.PIPE, check=False
        )
    os.close(writing)
    assert left.stderr == b""


def test_ascii_terminals_get_ascii(runs: Path) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    command = [sys.executable, "-m", "stabdiag", "diagnose", str(log)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    result = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert result.stderr == b""
    assert result.stdout.isascii()


def test_a_page_names_the_command_that_makes_it_again(
    stabdiag: Callable[..., Result], runs: Path, tmp_path: Path
) -> None:
    log = runs / "spike-lr-jump" / "log.jsonl"
    words = ["diagnose", log, "--dtype", "bf16", "--set", "grad_clip=2", "--limit", "spike.sigma=4"]
    words += ["--literal", "--format", "html", "--output", "a page.html"]
    assert stabdiag(*words).code == 0
    page = (tmp_path / "a page.html").read_text(encoding="utf-8")
    found = re.search(r'<code id="command">(.*?)</code>', page)
    assert found is not None
    again = shlex.split(html.unescape(found[1]))
    assert again[0] == "stabdiag"
    (tmp_path / "a page.html").unlink()
    assert stabdiag(*again[1:]).code == 0
    assert (tmp_path / "a page.html").read_text(encoding="utf-8") == page


def test_a_command_that_is_shown_keeps_secrets() -> None:
    from stabdiag.cli.again import command

    told = command("diagnose", ["https://me:word@host/run.csv?sig=1", "a b"], {"--attempt": 2})
    assert told == "stabdiag diagnose 'https://host/run.csv?...' 'a b' --attempt 2"


def test_preflight_and_checklist_have_exit_codes(
    stabdiag: Callable[..., Result], runs: Path, tmp_path: Path
) -> None:
    manifest = runs / "spike-lr-jump" / "manifest.json"
    assert stabdiag("preflight", manifest).code == 0
    assert stabdiag("preflight", manifest, "--set", "peak_lr=0").code == 1
    assert stabdiag("preflight", manifest, "--set", "grad_clip=0").code == 0
    bad = stabdiag("preflight", manifest, "--set", "grad_clip=0", "--fail-on", "warning")
    assert bad.code == 1
    never = stabdiag("preflight", manifest, "--set", "peak_lr=0", "--fail-on", "never")
    assert never.code == 0
    missing = stabdiag("preflight", tmp_path / "no.json")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.count("\n") == 1

    log = runs / "spike-lr-jump" / "log.jsonl"
    assert stabdiag("checklist", log).code == 0
    assert stabdiag("checklist", log, "--fail-on", "not-done").code == 1
    assert stabdiag("checklist", log, "--format", "jsno").code == 2
    out = tmp_path / "list.json"
    assert stabdiag("checklist", log, "--format", "json", "-o", out).code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["sheet"] == "checklist"
