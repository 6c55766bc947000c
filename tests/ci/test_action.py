"""The steps of action.yml, run as GitHub would: by bash, with the inputs in the environment."""

import json
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest
import yaml

from tests.conftest import ROOT, RUNS

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, DIAGNOSE = ACTION["runs"]["steps"]

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


class Done(NamedTuple):
    """What a step left behind."""

    code: int
    out: str
    outputs: dict[str, str]
    summary: str


@pytest.fixture
def runner(tmp_path):
    """Return a runner's folder for temporary files, with the package where the action puts it."""
    folder = tmp_path / "runner"
    (folder / "stabdiag-package").mkdir(parents=True)
    (folder / "stabdiag-package" / "stabdiag").symlink_to(ROOT / "stabdiag")
    return folder


def step(which, runner, workspace, **given):
    """Run one step with these inputs, the others at their defaults."""
    inputs = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    inputs["python"] = sys.executable
    environment = {
        variable: inputs[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value).group(1)]
        for variable, value in which["env"].items()
    }
    output, summary = runner / "output", runner / "summary"
    script = runner / "step.sh"
    script.write_text(which["run"], encoding="utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=workspace,
        env={
            **os.environ,
            **environment,
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(runner),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    return Done(
        code=done.returncode,
        out=done.stdout + done.stderr,
        outputs=dict(line.split("=", 1) for line in lines),
        summary=summary.read_text(encoding="utf-8") if summary.exists() else "",
    )


@pytest.mark.parametrize(
    ("run", "fail_on", "code", "severity"),
    [
        ("spike-persistent-lost-layer", "error", 1, "error"),
        ("spike-lr-jump", "warning", 1, "warning"),
    ],
)
def test_a_run_is_diagnosed(runner, tmp_path, run, fail_on, code, severity):
    log = str(RUNS / run)
    done = step(DIAGNOSE, runner, tmp_path, log=log, fail_on=fail_on, formats="json")
    assert done.code == code, done.out
    report = json.loads((tmp_path / "stabdiag" / "stabdiag.json").read_text(encoding="utf-8"))
    assert done.outputs == {
        "diagnosis": report["diagnosis"]["slug"],
        "severity": severity,
        "report": "stabdiag",
    }
    assert done.out.startswith("::")
    assert done.summary.startswith("<!-- stabdiag -->")


def test_every_format_is_written_under_a_name_of_its_own(runner, tmp_path):
    formats = "terminal  lines json\nsvg html markdown github gitlab junit sarif\n"
    done = step(
        DIAGNOSE, runner, tmp_path, log=str(RUNS / "healthy-fp32"), formats=formats, output="a b/c"
    )
    assert done.code == 0, done.out
    assert done.outputs["report"] == "a b/c"
    names = {path.name for path in (tmp_path / "a b" / "c").iterdir()}
    suffixes = ("terminal.txt", "lines.txt", "json", "svg", "html", "md", "github.txt")
    assert names == {f"stabdiag.{suffix}" for suffix in (*suffixes, "gitlab.json", "xml", "sarif")}


def test_several_files_and_arguments_are_on_separate_lines(runner, tmp_path):
    log = (RUNS / "healthy-fp32" / "log.jsonl").read_text(encoding="utf-8").splitlines(True)
    (tmp_path / "part 1.jsonl").write_text("".join(log[:600]), encoding="utf-8")
    (tmp_path / "part 2.jsonl").write_text("".join(log[600:]), encoding="utf-8")
    (tmp_path / "m.json").write_text('{"dtype": "bf16"}', encoding="utf-8")
    done = step(
        DIAGNOSE,
        runner,
        tmp_path,
        log="part 1.jsonl\npart 2.jsonl\n",
        manifest="m.json",
        args="--limit\nspike.sigma=4\n\n--set=peak_lr=0.5\n",
    )
    assert done.code == 0, done.out
    report = json.loads((tmp_path / "stabdiag" / "stabdiag.json").read_text(encoding="utf-8"))
    assert report["source"]["records"] == len(log)
    assert report["limits"]["spike.sigma"] == 4
    assert report["manifest"]["values"]["peak_lr"] == 0.5
    assert report["manifest"]["values"]["dtype"] == "bf16"


@pytest.mark.parametrize("name", ["log", "manifest", "fail_on", "formats", "output", "args"])
def test_inputs_are_not_run_as_commands(runner, tmp_path, name):
    hostile = 'x; touch pwned $(touch pwned) `touch pwned` "; touch pwned; " \'\n$(touch pwned)'
    given = {"log": str(RUNS / "healthy-short"), "formats": "lines", name: hostile}
    done = step(DIAGNOSE, runner, tmp_path, **given)
    assert done.code in (0, 2)
    assert not list(tmp_path.rglob("pwned"))
    assert set(done.outputs) <= {"diagnosis", "severity", "report"}


def test_a_log_that_cannot_be_read_is_one_line_and_no_output(runner, tmp_path):
    (runner / "stabdiag-result.json").write_text('{"left": "over"}', encoding="utf-8")
    done = step(DIAGNOSE, runner, tmp_path, log="nope.jsonl")
    assert done.code == 2
    assert done.out == "stabdiag: nope.jsonl: no such file or folder; check the path\n"
    assert done.outputs == {}


def test_the_checked_out_version_is_installed(tmp_path, monkeypatch):
    # As on a runner, except that pip downloads nothing: this environment has all packages.
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    done = step(INSTALL, tmp_path, tmp_path)
    assert done.code == 0, done.out
    installed = tmp_path / "stabdiag-package"
    assert (installed / "stabdiag" / "formats" / "report.schema.json").is_file()
    outputs = step(DIAGNOSE, tmp_path, tmp_path, log=str(RUNS / "healthy-short")).outputs
    assert (outputs["diagnosis"], outputs["severity"]) == ("healthy", "ok")


@pytest.mark.parametrize("version", ["0.1.0; touch pwned", "--index-url=http://x", "1 2", "$(x)"])
def test_a_version_is_a_version(tmp_path, version):
    done = step(INSTALL, tmp_path, tmp_path, version=version)
    assert done.code == 2
    assert done.out == "::error title=stabdiag::version wants a version such as 0.1.0\n"
