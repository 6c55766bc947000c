"""The command line: what it prints, where, and the exit code."""

import html
import json
import os
import re
import shlex
import tarfile

import pytest

from tests.conftest import program


@pytest.mark.parametrize("command", [(), ("diagnose",), ("compare",)])
def test_help_has_its_short_name(stabdiag, command):
    short, long = (stabdiag(*command, flag) for flag in ("-h", "--help"))
    assert (short.code, short.out) == (0, long.out)


@pytest.mark.parametrize(
    ("run", "fail_on", "code"),
    [
        ("spike-persistent-lost-layer", "error", 1),
        ("spike-persistent-lost-layer", "never", 0),
        ("spike-lr-jump", "error", 0),
        ("spike-lr-jump", "warning", 1),
        ("healthy-fp32", "warning", 0),
        ("insufficient-data", "warning", 0),
    ],
)
def test_exit_codes_follow_the_severity(stabdiag, runs, run, fail_on, code):
    result = stabdiag("diagnose", runs / run, "--fail-on", fail_on)
    assert (result.code, result.err) == (code, "")


@pytest.mark.parametrize(
    ("command", "name", "begins"),
    [
        ("diagnose", "report.html", "<!doctype html>"),
        ("diagnose", "report.JSON", "{"),
        ("diagnose", "report.md", "<!-- stabdiag -->"),
        ("diagnose", "report.xml", "<?xml"),
        ("diagnose", "report.txt", "WARNING"),
        ("checklist", "list.json", "{"),
        ("postmortem", "incident.html", "<!doctype html>"),
        ("diagnose -f gitlab", "report.json", "["),  # --format overrides the file name
    ],
)
def test_the_file_name_selects_the_format(stabdiag, runs, tmp_path, command, name, begins):
    code, out, err = stabdiag(*command.split(), runs / "spike-lr-jump", "-o", name)
    assert (code, out) == (0, "")
    assert err.startswith(f"stabdiag: wrote {name}; ")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("command", ["diagnose", "postmortem"])
def test_a_page_is_not_written_onto_a_terminal(stabdiag, runs, command):
    arguments = (command, runs / "healthy-fp32", "-f", "html")
    leader, follower = os.openpty()
    done = program(*arguments, stdout=follower)
    os.close(follower)
    os.close(leader)
    assert (done.returncode, "-o report.html" in done.stderr) == (2, True)
    assert stabdiag(*arguments).out.startswith("<!doctype html>")


@pytest.mark.parametrize(
    "arguments",
    [
        "diagnose log.jsonl -o ./log.jsonl",
        "diagnose log.jsonl --write html=log.jsonl",
        "diagnose log.jsonl -o new --write html=new",
        "checklist log.jsonl -o log.jsonl",
        "compare log.jsonl more.jsonl -o more.jsonl",
        "preflight manifest.json -o manifest.json",
        "watch log.jsonl -o log.jsonl",
        "diagnose log.jsonl -o manifest.json",
        "diagnose log.jsonl --manifest other.json -o manifest.json",
        "diagnose log.jsonl --write json=manifest.json",
        "diagnose . -f json -o log.jsonl",
        "diagnose log.jsonl more.jsonl -o manifest.json",
        "diagnose log.jsonl -o stabdiag.toml",
        "diagnose log.jsonl -o pyproject.toml",
        "diagnose packed.tar -o ./packed.tar",
        "convert log.jsonl -o stabdiag.toml",
        "checklist log.jsonl -o manifest.json",
        "compare log.jsonl more.jsonl -o manifest.json",
        "postmortem . -f markdown -o log.jsonl",
        "preflight other.json -o stabdiag.toml",
        "thresholds -f json -o stabdiag.toml",
    ],
)
def test_inputs_are_not_overwritten(stabdiag, runs, tmp_path, arguments):
    for file in (runs / "spike-lr-jump").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "more.jsonl").write_bytes((tmp_path / "log.jsonl").read_bytes())
    os.utime(tmp_path / "more.jsonl", (0, 0))  # in the folder, the log is the newer one
    with tarfile.open(tmp_path / "packed.tar", "w") as archive:
        archive.add(tmp_path / "log.jsonl", "log.jsonl")
    (tmp_path / "other.json").write_text('{"dtype": "bf16"}', encoding="utf-8")
    (tmp_path / "stabdiag.toml").write_text("spike.sigma = 4\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = stabdiag(*arguments.split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "name another file" in result.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_report_may_be_written_over_that_of_last_time(stabdiag, runs, tmp_path):
    log = runs / "spike-lr-jump" / "log.jsonl"
    (tmp_path / "log.jsonl").write_bytes(log.read_bytes())
    for _ in range(2):
        result = stabdiag("diagnose", ".", "-f", "json", "-o", "report.json", "--write", "html=r")
        output = "warning: Loss spike from a learning-rate jump, step 261 [spike-lr-jump]"
        assert (result.code, result.err) == (0, f"stabdiag: wrote report.json, r; {output}\n")


@pytest.mark.parametrize("command", ["diagnose", "checklist", "postmortem"])
def test_a_dash_is_standard_output(stabdiag, runs, tmp_path, command):
    log = runs / "spike-lr-jump" / "log.jsonl"
    assert stabdiag(command, log, "-o", "-").out == stabdiag(command, log).out != ""
    assert list(tmp_path.iterdir()) == []


# Options are checked before the log is opened, as reading it may take long.
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("diagnose", "LOG"),
        ("explian Q2.1", "explain"),
        ("explain spike-lr-jmp", "did you mean spike-lr-jump"),
        ("explain Q2.1 --format html", "'html' is not one of 'terminal', 'json', 'markdown'"),
        ("thresholds --format yaml", "'yaml' is not one of"),
        ("diagnose LOG --format xml", "'xml' is not one of 'terminal', 'json', 'svg'"),
        ("diagnose LOG --write jsn=x", "unknown format 'jsn'; did you mean json?"),
        ("diagnose LOG --write json=-", "--write json=- is not a file; --format json writes to"),
        ("diagnose LOG", "missing.jsonl: no such file"),
        ("diagnose LOG -o /", "/: cannot be written (Is a directory)"),
        ("diagnose LOG --limit spike.sigma=-1", "spike.sigma must be a number from 0.5 to 100"),
        ("diagnose LOG --limit spike.sigma", "NAME=VALUE"),
        ("diagnose LOG --column loss", "ROLE=NAME"),
        ("diagnose LOG --dtype fp17", "fp16, bf16, fp8 or fp32"),
        ("diagnose LOG --manifest nope.json", "nope.json: no such file or folder"),
        ("diagnose LOG --write sarif", "FORMAT=FILE such as html=report.html"),
        ("diagnose LOG --write sarif=", "FORMAT=FILE"),
        ("diagnose LOG --write =x", "FORMAT=FILE"),
        ("diagnose LOG -o none/x", "none/x: cannot be written (the folder"),
        ("diagnose LOG -o file/x", "file/x: cannot be written (Not a directory)"),
        ("diagnose LOG --set foo=1", "unknown manifest field 'foo'; the fields are dtype, "),
        ("diagnose LOG --set dtype=fp17", "dtype must be"),
        ("diagnose LOG --column los=x", "unknown role 'los'; did you mean loss?"),
        ("diagnose LOG --log-format jsnl", "unknown format 'jsnl'; did you mean jsonl?"),
        ("diagnose LOG --config none.toml", "none.toml: no such file or folder; check the path"),
        ("checklist LOG --format html", "'html' is not one of 'terminal', 'json'"),
        ("checklist LOG -o none/x", "does not exist; create it first"),
        ("postmortem LOG --format xml", "'xml' is not one of 'markdown', 'html'"),
        ("postmortem LOG -o none/x.md", "does not exist; create it first"),
        ("postmortem LOG -o a.pdf", "a.pdf: "),
        ("postmortem LOG --fail-on error", "--fail-on"),
        (
            "diagnose LOG --fail-on x",
            "is not one of 'error', 'warning', 'never', 'unknown' (see stabdiag diagnose --help)",
        ),
        ("formats -o none/x", "does not exist; create it first"),
        ("formats -o formats.html", "--format (terminal, json, markdown)"),
        ("compare LOG LOG -o none/x", "does not exist; create it first"),
        ("convert LOG -o none/x", "does not exist; create it first"),
        ("convert LOG -o -", "-o - is not a file"),
        ("convert LOG -o run.csv", "run.csv: convert writes Parquet"),
        ("convert LOG -o x --set foo=1", "unknown manifest field 'foo'"),
        ("preflight LOG --format xml", "'xml' is not one of 'terminal'"),
        ("watch LOG --log-format jsnl", "unknown format 'jsnl'"),
        ("watch LOG -o none/x", "does not exist; create it first"),
        ("watch LOG --interval nan", "--interval"),
        ("watch LOG --until-idle inf", "--until-idle must be a finite number of seconds"),
    ],
)
def test_options_are_checked_before_the_log_is_opened(stabdiag, tmp_path, arguments, expected):
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = stabdiag(*arguments.replace("LOG", "missing.jsonl").split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert expected in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_name_cannot_inject(stabdiag, tmp_path):
    name = "a\n::error::b\x1b[31m.csv"
    (tmp_path / name).write_text("step,goal\n1,2\n2,3\n")
    result = stabdiag("diagnose", name)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "\x1b" not in result.err


def test_the_run_without_the_column_or_attempt_is_named(stabdiag, tmp_path):
    rows = "".join(f"{i},{2 + i % 3}\n" for i in range(30))
    for name in ("goal", "aim"):
        (tmp_path / f"{name}.csv").write_text(f"step,{name}\n{rows}", encoding="utf-8")
    named = ("--column", "loss=goal")
    output = stabdiag("compare", "goal.csv", "aim.csv", *named).err
    assert "aim.csv has no column 'goal' for loss" in output
    assert "did you mean" in stabdiag("diagnose", "goal.csv", "--column", "loss=gaol").err
    assert "no attempt 7" in stabdiag("diagnose", "goal.csv", *named, "--attempt", 7).err


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("config.json", '{"lr": 3e-4, "max_steps": 1000}', True),
        ("config.yaml", "lr: 3e-4\nloss: cross_entropy\n", True),
        ("notes.yaml", "who: me\nwhat: nothing\n", False),
    ],
)
def test_a_configuration_is_not_read_as_a_log(stabdiag, tmp_path, name, text, is_one):
    (tmp_path / name).write_text(text, encoding="utf-8")
    result = stabdiag("diagnose", name)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert ("stabdiag preflight" in result.err) is is_one


def test_flags_go_before_the_manifest(stabdiag, runs):
    log = runs / "nan-log0-fp32" / "log.jsonl"
    result = stabdiag(
        "diagnose", log, "--dtype", "bf16", "--set", "checkpoint_every=7", "-f", "json"
    )
    report = json.loads(result.out)
    assert report["diagnosis"]["slug"] == "nan-bf16"
    assert "checkpoint of step 322," in report["diagnosis"]["actions"][0]["text"]
    assert report["manifest"]["overridden"] == ["checkpoint_every", "dtype"]


def test_limits_are_overridden_by_files_and_flags(stabdiag, tmp_path):
    def sigma(*arguments):
        table = json.loads(stabdiag("thresholds", "-f", "json", *arguments).out)
        return float(table["limits"]["spike.sigma"]["value"])

    assert sigma() == 3
    (tmp_path / "pyproject.toml").write_text("[tool.stabdiag.limits]\nspike.sigma = 4\n")
    assert sigma() == 4
    (tmp_path / "stabdiag.toml").write_text("[spike]\nsigma = 5\n")
    assert sigma() == 5
    assert sigma("--limit", "spike.sigma=6") == 6
    # A file of any name may hold limits as pyproject.toml does.
    (tmp_path / "other.toml").write_text("[tool.stabdiag.limits.spike]\nsigma = 7\n[tool.x]\ny = 1")
    assert sigma("--config", "other.toml") == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[tool.stabdiag.limit]\nspike.sigma = 4\n", "unknown key 'tool.stabdiag.limit'; "),
        ("[tool]\nstabdiag = 4\n", "tool.stabdiag is not a table"),
        ("[tool.stabdiag]\nlimits = 4\n", "tool.stabdiag.limits is not a table"),
        (f"[tool.stabdiag]\na = {'1' * 5000}\n", "not valid TOML (Exceeds the limit"),
        (
            f"[tool.stabdiag]\na = 0x{'f' * 5000}\n",
            "not valid TOML (a number of more than 1000 digits)",
        ),
        (f"[tool.stabdiag]\na = {'[' * 2000}\n", "not valid TOML ("),
        (
            f"[tool.stabdiag]\n{'a.' * 3000}a = 1\n",
            "not valid TOML (nested more than 100 levels deep)",
        ),
    ],
)
@pytest.mark.parametrize("name", ["pyproject.toml", "stabdiag.toml"])
def test_unreadable_or_misspelled_tool_inputs_are_errors(stabdiag, tmp_path, name, text, expected):
    (tmp_path / name).write_text(text, encoding="utf-8")
    result = stabdiag("thresholds")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert f"{name}: {expected}" in result.err


def test_the_list_of_explanations_is_complete(stabdiag):
    listed = stabdiag("explain").out
    assert "spike-lr-jump: Loss spike from a learning-rate jump" in listed
    assert "Q4.1: Did the loss rise over the last 200 steps?" in listed
    assert all(name in listed for name in ("spike.sigma", "agree"))


def test_explain_wraps_lines_unless_markdown_is_requested(stabdiag, tmp_path):
    output = stabdiag("explain", "spike-lr-jump").out
    assert "##" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b[1m" in stabdiag("explain", "spike-lr-jump", "--color").out
    page = tmp_path / "page.md"
    assert stabdiag("explain", "spike-lr-jump", "-f", "markdown", "-o", page).out == ""
    assert "\n## What to do\n" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        (["."], "Reading . …"),
        (["runs/", "runs/log.jsonl"], "Reading runs and 1 more …"),
        (["nope://me:password@host?token=1"], "Reading nope://host?... …"),
        (["runs/log.jsonl"], None),
        (["large.jsonl"], "Reading large.jsonl, 100 MB …"),
        (["large.jsonl"], "%"),
        (["runs/log.jsonl", "none.jsonl"], None),
        (["x" * 5000], None),
    ],
)
def test_slow_reads_show_progress(stabdiag, runs, tmp_path, monkeypatch, logs, expected):
    (tmp_path / "runs").symlink_to(runs / "spike-lr-jump")
    (tmp_path / "large.jsonl").touch()
    os.truncate(tmp_path / "large.jsonl", 100_000_000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    result = stabdiag("diagnose", *logs)
    assert expected in result.err if expected else "Reading" not in result.err
    assert "password" not in result.err
    assert "Reading" not in result.out


@pytest.mark.parametrize("command", ["diagnose", "postmortem"])
def test_standard_input_is_a_log(stabdiag, runs, command, monkeypatch):
    with (runs / "spike-lr-jump" / "log.jsonl").open() as log:
        monkeypatch.setattr("sys.stdin", log)
        assert "spike-lr-jump" in stabdiag(command, "-").out


def test_ascii_terminals_get_ascii(runs):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    done = program("diagnose", runs / "spike-lr-jump", env=environment)
    assert (done.stderr, done.stdout.isascii()) == ("", True)


def test_a_page_names_the_command_that_makes_it_again(stabdiag, runs, tmp_path):
    log = runs / "spike-lr-jump" / "log.jsonl"
    words = ["diagnose", log, "--dtype", "bf16", "--set", "grad_clip=2", "--limit", "spike.sigma=4"]
    words += ["--literal", "--format", "html", "--output", "a page.html"]
    assert stabdiag(*words).code == 0
    page = (tmp_path / "a page.html").read_text(encoding="utf-8")
    result = re.search(r'<code id="command">(.*?)</code>', page)
    arguments = shlex.split(html.unescape(result[1]))
    assert arguments[0] == "stabdiag"
    (tmp_path / "a page.html").unlink()
    assert stabdiag(*arguments[1:]).code == 0
    assert (tmp_path / "a page.html").read_text(encoding="utf-8") == page


def test_a_command_that_is_shown_keeps_secrets():
    from stabdiag.cli.commands import command

    output = command("diagnose", ["https://me:word@host/run.csv?sig=1", "a b"], {"--attempt": 2})
    assert output == "stabdiag diagnose 'https://host/run.csv?...' 'a b' --attempt 2"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        ("preflight manifest.json", 0, ""),
        ("preflight manifest.json --set peak_lr=0", 1, ""),
        ("preflight manifest.json --set peak_lr=0 --fail-on never", 0, ""),
        ("preflight manifest.json --set grad_clip=0", 0, ""),
        ("preflight manifest.json --set grad_clip=0 --fail-on warning", 1, ""),
        ("preflight log.jsonl", 2, "log.jsonl: this is a log"),
        ("preflight broken.json", 2, "broken.json: not valid JSON"),
        ("preflight no.json", 2, "no.json: "),
        ("checklist log.jsonl", 0, ""),
        ("checklist log.jsonl --fail-on failed", 1, ""),
        ("checklist log.jsonl --format jsno", 2, "did you mean json?"),
    ],
)
def test_preflight_and_checklist_have_exit_codes(
    stabdiag, runs, tmp_path, arguments, code, expected
):
    for file in (runs / "spike-lr-jump").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "broken.json").write_text('{"dtype": "fp16",}', encoding="utf-8")
    result = stabdiag(*arguments.split())
    assert (result.code, result.out == "", result.err.count("\n")) == (code, code == 2, code == 2)
    assert expected in result.err


def test_files_that_each_start_a_run_are_reported(stabdiag, tmp_path):
    lines = [f'{{"step": {n}, "loss": {3 - n / 100}}}\n' for n in range(100)]
    first, second, third = (tmp_path / f"{name}.jsonl" for name in ("a", "b", "c"))
    first.write_text("".join(lines[:90]) + '{"step": 90, "loss": NaN}\n', encoding="utf-8")
    second.write_text("".join(lines), encoding="utf-8")
    third.write_text("".join(lines[91:]), encoding="utf-8")
    result = stabdiag("diagnose", first, second)
    assert result.code == 0
    assert "2 separate runs" in result.err
    assert "stabdiag check" in result.err
    assert stabdiag("diagnose", first, second, "--attempt", "1").err == ""
    assert stabdiag("diagnose", first, third).err == ""


def test_without_arguments_the_help_is_shown(stabdiag):
    result = stabdiag()
    assert (result.code, result.err) == (2, "")
    assert result.out.startswith("Usage: stabdiag LOG... [OPTIONS]\n")
    assert result.out == stabdiag("--help").out
