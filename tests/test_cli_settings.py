"""A project's settings: where they are found, what they do, and what is wrong with them."""

import json
import shutil
from datetime import date, timedelta

import pytest

from tests.scan.conftest import THREADS

LATER = date.today() + timedelta(days=30)
BEFORE = date.today() - timedelta(days=1)
IGNORE = '[[ignore]]\nfinding = "spike-lr-jump"\nreason = "a *warm* restart"\nuntil = {}\n'


@pytest.fixture
def log(runs, tmp_path):
    """A log with a spike, in the working folder of the commands."""
    shutil.copy(runs / "spike-lr-jump" / "log.jsonl", tmp_path)
    return "log.jsonl"


def settings_in_force(stabdiag, *words):
    """Return each setting in force with where it is from."""
    report = json.loads(stabdiag("config", "--json", *words).out)["settings"]
    return {setting["name"]: (setting["value"], setting["source"]) for setting in report}


def test_the_nearest_file_is_in_force_and_no_other(stabdiag, tmp_path, monkeypatch):
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "stabdiag.toml").write_text("[columns]\nloss = 'a'\n")
    (below / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    monkeypatch.chdir(below)
    assert settings_in_force(stabdiag)["columns.loss"] == (
        "a",
        f"{tmp_path}/stabdiag.toml [columns]",
    )
    (below / "pyproject.toml").write_text("[tool.stabdiag]\nfail-on = 'never'\n")
    assert "columns.loss" not in settings_in_force(stabdiag)
    assert settings_in_force(stabdiag)["fail-on"] == ("never", "pyproject.toml [tool.stabdiag]")
    (below / "stabdiag.toml").write_text("format = 'json'\n")
    assert settings_in_force(stabdiag)["fail-on"] == ("error", "default")
    assert settings_in_force(stabdiag)["format"] == ("json", "stabdiag.toml")


def test_the_command_line_precedes_the_file(stabdiag, log, tmp_path):
    (tmp_path / "stabdiag.toml").write_text(
        'fail-on = "warning"\nformat = "json"\n'
        '[manifest]\ndtype = "bf16"\n[limits]\nspike.sigma = 4\n'
    )
    code, out, _ = stabdiag(log)
    assert (code, json.loads(out)["manifest"]["values"]["dtype"]) == (1, "bf16")
    assert json.loads(out)["limits"]["spike.sigma"] == 4
    words = ("--fail-on", "error", "--dtype", "fp32", "--limit", "spike.sigma=5")
    code, out, _ = stabdiag(log, *words)
    assert (code, json.loads(out)["manifest"]["values"]["dtype"]) == (0, "fp32")
    assert stabdiag(log, "-f", "terminal").out.startswith("WARNING")
    assert stabdiag("compare", log, log).out.startswith("{")
    assert stabdiag("postmortem", log).out.startswith("{")
    report = settings_in_force(stabdiag, *words)
    assert report["fail-on"] == ("error", "--fail-on")
    assert report["manifest.dtype"] == ("fp32", "--set")
    assert report["limits.spike.sigma"] == ("5", "--limit")


def test_a_field_applies_if_manifest_and_log_lack_it(stabdiag, log, tmp_path):
    (tmp_path / "stabdiag.toml").write_text("[manifest]\ndtype = 'bf16'\ngrad_clip = 2\n")
    (tmp_path / "manifest.json").write_text('{"dtype": "fp16"}')
    manifest = json.loads(stabdiag(log, "--json").out)["manifest"]
    assert (manifest["values"]["dtype"], manifest["values"]["grad_clip"]) == ("fp16", 2)
    assert [*manifest["inferred"]] == ["grad_clip"]


def test_columns_are_named_once_for_all_commands(stabdiag, tmp_path):
    rows = "".join(f"{n},{2 + n % 3 / 100}\n" for n in range(60))
    (tmp_path / "run.csv").write_text(f"step,goal\n{rows}")
    (tmp_path / "stabdiag.toml").write_text("[columns]\nloss = 'goal'\n")
    scan = f"scan --executor {THREADS}"
    for command in ("diagnose", "check", scan, "compare run.csv", "checklist"):
        assert stabdiag(*command.split(), "run.csv").code == 0, command
    assert stabdiag("run.csv", "--column", "loss=other").code == 2


@pytest.mark.parametrize(
    "command", ["diagnose", "check", "scan", "watch", "checklist", "postmortem"]
)
def test_an_ignored_finding_is_listed_and_does_not_count(stabdiag, log, tmp_path, command):
    counts = command not in ("checklist", "postmortem")
    words = [command, log, *(["--fail-on", "warning"] if counts else [])]
    words += {"watch": ["--until-idle", "0"], "scan": ["--executor", THREADS]}.get(command, [])
    (tmp_path / "stabdiag.toml").write_text(IGNORE.format(LATER))
    result = stabdiag(*words)
    assert result.code == 0
    if command not in ("scan", "checklist"):
        assert f"ignored until {LATER}" in " ".join(result.out.split())
        assert "spike-lr-jump" in result.out
    (tmp_path / "stabdiag.toml").write_text(IGNORE.format(BEFORE))
    result = stabdiag(*words)
    assert result.code == counts
    assert f"the rule for spike-lr-jump expired on {BEFORE}" in result.err
    assert settings_in_force(stabdiag)["ignore.spike-lr-jump"] == (
        f"expired {BEFORE}",
        "stabdiag.toml [ignore]",
    )


def test_preflight_does_not_count_what_is_ignored(stabdiag, tmp_path):
    (tmp_path / "run.json").write_text('{"optimizer": "adam", "learning_rate": 5}')
    words = ("preflight", "run.json", "--fail-on", "warning", "--json")
    assert stabdiag(*words).code == 1
    (tmp_path / "stabdiag.toml").write_text(
        IGNORE.replace("spike-lr-jump", "peak-lr").format(LATER)
    )
    code, out, _ = stabdiag(*words)
    settings_in_force = json.loads(out)
    assert (code, settings_in_force["summary"].partition(" settings")[0]) == (0, "None of 13")
    assert settings_in_force["findings"][0]["ignored"]["severity"] == "warning"


def test_json_and_sarif_have_a_field_for_what_is_ignored(stabdiag, log, tmp_path):
    (tmp_path / "stabdiag.toml").write_text(IGNORE.format(LATER))
    report = json.loads(stabdiag(log, "--json").out)["diagnosis"]
    assert report["severity"] == "note"
    assert report["ignored"] == {
        "reason": "a *warm* restart",
        "until": str(LATER),
        "severity": "warning",
    }
    (result,) = json.loads(stabdiag(log, "-f", "sarif").out)["runs"][0]["results"]
    assert result["suppressions"][0]["justification"].startswith("a *warm* restart (until ")
    assert "*warm*" not in stabdiag(log, "-f", "markdown").out  # as untrusted as a log's text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fail_on = 'error'", "unknown key 'fail_on'; did you mean fail-on?"),
        ("dtype = 'bf16'", "unknown key 'dtype'; did you mean manifest.dtype?"),
        (
            "zzz = 1",
            "unknown key 'zzz'; known keys: fail-on, format, ignore, baseline, columns, manifest",
        ),
        ("fail-on = 'warn'", "fail-on must be one of error, warning, unknown, never, not 'warn'"),
        ("format = 'jsn'", "format must be one of terminal, json, "),
        ("columns = 1", "columns is not a table"),
        ("columns.los = 'x'", "unknown role 'los'; did you mean loss?"),
        ("columns.loss = 1", "columns.loss must be the name of a column, not 1"),
        ("manifest.dtpye = 'bf16'", "unknown manifest field 'dtpye'; did you mean dtype?"),
        ("manifest.dtype = 'fp17'", "dtype must be "),
        ("limits.spike.sgma = 1", "unknown limit 'spike.sgma'; did you mean spike.sigma?"),
        ("ignore = 1", "ignore must be a list of [[tool.stabdiag.ignore]] entries with finding = "),
        ("[[ignore]]\nfinding='spike-lr-jmp'", "no finding is named 'spike-lr-jmp'; did you mean"),
        ("[[ignore]]\nfinding='stall'", "ignore: stall needs a reason"),
        ("[[ignore]]\nfinding='stall'\nreason='x'", "needs an expiry date: until = 20"),
        ("[[ignore]]\nfinding='stall'\nreason='x'\nuntil='2030-01-31'", "needs an expiry date"),
        (
            "[[ignore]]\nfinding='stall'\nreasn='x'",
            "unknown key 'ignore.reasn'; did you mean reason?",
        ),
    ],
)
@pytest.mark.parametrize("name", ["stabdiag.toml", "pyproject.toml"])
def test_an_invalid_setting_is_one_line_with_the_file(stabdiag, tmp_path, text, words, name):
    if name == "pyproject.toml":
        text = text.replace("[[", "[[tool.stabdiag.")
        text = text if text.startswith("[") else f"[tool.stabdiag]\n{text}"
        words = words.replace(
            "unknown key '", "unknown key 'tool.stabdiag.", "ignore." not in words
        )
    (tmp_path / name).write_text(text)
    result = stabdiag("config")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert f"{name}: " in result.err
    assert words in result.err


@pytest.mark.parametrize(
    "text",
    [
        "[tool.stabdiag]\nfail-on = 'never'\n",
        "tool = {stabdiag = {fail-on = 'never'}}\n",
        "  [ tool . stabdiag ]\nfail-on = 'never'\n",
        "[\"tool\".'stabdiag']\nfail-on = 'never'\n",
        "[tool]\nstabdiag = {fail-on = 'never'}\n",
        "tool.stabdiag.fail-on = 'never'\n",
    ],
)
def test_every_spelling_of_the_table_is_found(stabdiag, tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    assert settings_in_force(stabdiag)["fail-on"] == ("never", "pyproject.toml [tool.stabdiag]")


def test_a_dependency_is_not_a_table(stabdiag, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['stabdiag'\n")
    assert stabdiag("config").out.startswith("Settings file: none")


def test_without_a_file_the_defaults_apply(stabdiag):
    out = stabdiag("config").out
    assert out.startswith("Settings file: none in this folder or above\n")
    assert "fail-on  error" in out
    assert max(map(len, out.splitlines())) <= 80
