"""Several formats in one run, the summary of a job, and what the command line says in CI."""

import json
import os

import pytest

from stabdiag import diagnose
from stabdiag.formats import names, render
from tests.conftest import RUNS, program

LOG = RUNS / "spike-lr-jump" / "log.jsonl"


def test_one_run_writes_every_format(stabdiag, tmp_path):
    written = [f"--write={name}={name}.out" for name in names()]
    code, out, err = stabdiag("diagnose", LOG, *written)
    assert code == 0
    assert err.startswith("stabdiag: wrote terminal.out, json.out, ")
    assert out.startswith("WARNING")
    report = diagnose(str(LOG))
    for name in names():
        page = f" --format html --output {name}.out" if name == "html" else ""
        command = f"stabdiag diagnose {LOG}{page}"
        detail = {"verbose": False} if name == "json" else {}
        expected = render(report, name, command=command, **detail)
        text = (tmp_path / f"{name}.out").read_text(encoding="utf-8")
        assert text == f"{expected.removesuffix(chr(10))}\n"


def test_extra_outputs_do_not_change_the_first(stabdiag, tmp_path):
    arguments = ("--fail-on", "warning", "-f", "json", "-o", "report.json")
    assert stabdiag("diagnose", LOG, *arguments, "--write", "junit=a b.xml")[:2] == (1, "")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["schema"] == 2
    assert "<failure" in (tmp_path / "a b.xml").read_text(encoding="utf-8")


def test_the_job_summary_is_extended(stabdiag, tmp_path, monkeypatch):
    page = tmp_path / "summary.md"
    page.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert stabdiag("diagnose", LOG)[0] == 0
    assert page.read_text(encoding="utf-8") == "before\n"
    code, out, _ = stabdiag("diagnose", LOG, "-f", "github")
    assert code == 0
    assert out.startswith("::warning ")
    text = render(diagnose(str(LOG)), "markdown", command=f"stabdiag diagnose {LOG}")
    assert page.read_text(encoding="utf-8") == f"before\n{text}"


def test_a_summary_that_cannot_be_written_is_one_line(stabdiag, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/summary.md")
    code, _, err = stabdiag("diagnose", LOG, "-f", "github")
    assert code == 2
    assert err.count("\n") == 1
    assert "GITHUB_STEP_SUMMARY" in err


def test_pages_are_utf_8_where_the_system_is_not(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    options = {"env": environment, "cwd": tmp_path, "encoding": "utf-8"}
    text = render(diagnose(str(LOG)), "markdown", command=f"stabdiag diagnose {LOG}")
    assert program("diagnose", LOG, "-f", "markdown", **options).stdout == text


LIMIT_NOTE = "spike.sigma is 9 (default 3, set by stabdiag.toml)"


@pytest.mark.parametrize("name", sorted(set(names()) - {"json", "gitlab", "svg"}))
def test_limits_from_a_file_name_the_file(stabdiag, tmp_path, name):
    healthy = RUNS / "healthy-fp32" / "log.jsonl"
    assert LIMIT_NOTE not in stabdiag("diagnose", healthy, "-f", name, "-o", "plain").out
    (tmp_path / "stabdiag.toml").write_text("[spike]\nsigma = 9\n", encoding="utf-8")
    stabdiag("diagnose", healthy, "-f", name, "-o", "out")
    plain, text = (
        " ".join((tmp_path / file_name).read_text(encoding="utf-8").replace("\\_", "_").split())
        for file_name in ("plain", "out")
    )
    assert LIMIT_NOTE not in plain
    assert LIMIT_NOTE in text


def test_a_check_lists_its_limits_once(stabdiag, tmp_path):
    (tmp_path / "stabdiag.toml").write_text("[spike]\nsigma = 9\n", encoding="utf-8")
    out = stabdiag("check", LOG, LOG, "--limit", "spike.window=90").out.splitlines()
    assert out[0] == f"limits: {LIMIT_NOTE}; spike.window is 90 (default 100, set by --limit)"
    assert not [line for line in out[1:] if line.startswith("limits")]
