"""Lint our workflows and those in the documentation, and check that both are equal."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, python

WORKFLOWS = ROOT / "docs" / "workflows"
OWN_WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
GITHUB = [WORKFLOWS / "pull-request.yml", WORKFLOWS / "nightly.yml", *OWN_WORKFLOWS]

# An action is pinned to a commit; only where this one lives is the reader's to say.
POLICY = """
rules:
  unpinned-uses:
    config:
      policies:
        "OWNER/*": ref-pin
        "*": hash-pin
"""


def check(schema, *arguments):
    return python("-m", "check_jsonschema", "--builtin-schema", schema, *arguments)


def audit(*paths, config):
    """Run zizmor without network access."""
    search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    zizmor = shutil.which("zizmor", path=search_path)
    command = [zizmor, "--offline", "--persona=auditor", "--no-progress", f"--config={config}"]
    return subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)


@pytest.fixture
def policy(tmp_path):
    """Return the configuration of the audit."""
    path = tmp_path / "zizmor.yml"
    path.write_text(POLICY, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("schema", "paths", "options"),
    [
        ("vendor.github-actions", [ROOT / "action.yml"], []),
        ("vendor.github-workflows", GITHUB, []),
        ("vendor.gitlab-ci", [WORKFLOWS / "gitlab-ci.yml"], ["--data-transform", "gitlab-ci"]),
    ],
)
def test_files_are_valid(schema, paths, options):
    done = check(schema, *options, *paths)
    assert done.returncode == 0, done.stdout


def test_the_image_copies_existing_files_and_runs_unprivileged():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in copied[: copied.index("--from=build")]:
        assert (ROOT / name).exists()
        assert f"!{name}" in let_in
    assert "USER 10001:10001" in lines[lines.index("FROM python:3.13-slim") :]


def test_an_invalid_file_is_seen(tmp_path):
    wrong = tmp_path / "pull-request.yml"
    text = (WORKFLOWS / "pull-request.yml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("runs-on:", "runs_on:"), encoding="utf-8")
    assert check("vendor.github-workflows", wrong).returncode == 1


def test_nothing_is_found_by_an_audit(policy):
    paths = [ROOT / "action.yml", ROOT / ".pre-commit-hooks.yaml"]
    done = audit(*paths, *GITHUB, config=policy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("completed") == len(paths) + len(GITHUB)


def test_an_injection_is_seen(tmp_path, policy):
    wrong = tmp_path / "action.yml"
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    wrong.write_text(text.replace('"--fail-on=$FAIL_ON"', "${{ inputs.args }}"), encoding="utf-8")
    done = audit(wrong, config=policy)
    assert done.returncode != 0
    assert "template-injection" in done.stdout


def test_workflow_commands_contain_no_inputs():
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    for path in GITHUB:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        steps += [step for job in content["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands
    assert not [command for command in commands if "${{" in command]


def test_the_page_shows_the_files_as_they_are():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert sorted(shown) == sorted(path.read_text("utf-8") for path in WORKFLOWS.iterdir())


def test_the_page_lists_every_input_and_output():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for name, spec in {**action["inputs"], **action["outputs"]}.items():
        assert f"| `{name}` |" in page
        if spec.get("default"):
            row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
            assert f"`{spec['default']}` |" in row
