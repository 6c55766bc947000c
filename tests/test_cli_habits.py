"""What people type out of habit, and what they get."""

import json
import os
import re
import shutil

import pytest

from stabdiag import __version__
from stabdiag.formats import names
from tests.conftest import program

VERDICT = "warning: Loss spike from a learning-rate jump, step 261 [spike-lr-jump]"


@pytest.fixture
def log(runs, tmp_path):
    """A log with a spike, in the working folder of the commands."""
    shutil.copy(runs / "spike-lr-jump" / "log.jsonl", tmp_path)
    return "log.jsonl"


def test_a_log_alone_is_diagnosed(stabdiag, log):
    output = stabdiag("diagnose", log)
    assert stabdiag(log) == output
    assert stabdiag(f"./{log}", "--fail-on", "warning").code == 1
    assert stabdiag("-q", log) == (0, f"{VERDICT}\n", "")
    assert stabdiag("--fail-on", "warning", ".").code == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nope.jsonl", r"nope\.jsonl: no such file or folder; check the path"),
        ("s3://none/nope.jsonl", "s3://none/nope.jsonl: "),
        ("diagnos log.jsonl", r"diagnos: no such command, file or folder; did you mean diagnose\?"),
        ("nonsense", "nonsense: no such command, file or folder; see stabdiag --help"),
        (r"C:\runs\log", r"C:\\runs\\log: no such file"),
        ("log.jsonl scan", "scan: write the command before the log: stabdiag scan log.jsonl"),
        ("formats log.jsonl", "unexpected argument: log.jsonl"),
        ("help nonsense", "nonsense: no such command; `stabdiag help` lists the commands"),
        ("help scam", r"scam: no such command; did you mean scan\?"),
        ("runs/*.jsonl", r"runs/\*\.jsonl: no file or folder matches this pattern"),
        ("preflight *.json", r"\*\.json: no file or folder matches this pattern"),
        # Older click puts the option in quotes.
        ("--verson", r"No such option:? '?--verson\b.* \(see stabdiag --help\)"),
        ("-x log.jsonl", r"No such option:? '?-x\b.* \(see stabdiag diagnose --help\)"),
        ("log.jsonl -q --json", "--quiet prints one line and --format json a report"),
        ("log.jsonl --json -f html", "--json and --format html exclude each other"),
        (
            "log.jsonl -o out.pdf",
            "out.pdf: this command cannot write .pdf files; end the name with",
        ),
        ("log.jsonl -o out.csv", "cannot write .csv files"),
        ("log.jsonl -o a.tom", r"\.txt .json .svg .md .markdown .xml .sarif .html .htm"),
    ],
)
def test_invalid_command_lines_are_usage_errors(stabdiag, log, tmp_path, words, expected):
    result = stabdiag(*words.split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert re.search(expected, result.err)
    assert [path.name for path in tmp_path.iterdir()] == [log]


def test_a_command_precedes_a_file_of_its_name(stabdiag, log, tmp_path):
    (tmp_path / log).rename(tmp_path / "formats")
    assert stabdiag("formats").out == stabdiag("formats", "-f", "terminal").out
    assert stabdiag("./formats", "-q").out == f"{VERDICT}\n"


def test_short_options_work(stabdiag, log):
    assert stabdiag("-V") == stabdiag("--version") == (0, f"stabdiag {__version__}\n", "")
    assert stabdiag(log, "--json") == stabdiag(log, "--format", "json")
    assert "\x1b[" in stabdiag(log, "--color").out
    assert stabdiag(log, "--columns", "loss=loss") == stabdiag(log, "--column", "loss=loss")
    assert json.loads(stabdiag("thresholds", "--json").out)["limits"]


def test_json_is_brief_by_default(stabdiag, log):
    short, full = (
        json.loads(stabdiag(log, *words).out) for words in (["--json"], ["--json", "full"])
    )
    assert short["omitted"]["not_checked"] == len(full["not_checked"]) > 0
    assert "omitted" not in full
    assert stabdiag("--json", "full", log).out == stabdiag(log, "--json=full").out
    assert json.loads(stabdiag("diagnose", "--json", log).out) == short


def test_quiet_prints_the_verdict(stabdiag, log, tmp_path):
    assert stabdiag(log, "--quiet", "--fail-on", "warning") == (1, f"{VERDICT}\n", "")
    both = stabdiag(log, "-q", "-o", "report.json")
    assert both == (0, f"{VERDICT}\n", f"stabdiag: wrote report.json; {VERDICT}\n")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert stabdiag("compare", log, log, "-q").out == "ok: The runs agree [agree]\n"
    assert stabdiag("watch", log, "-q", "--until-idle", "0") == (0, f"{VERDICT}\n", "")
    assert stabdiag("check", log, "-q").out == "1 run: 1 with a warning\n"
    assert stabdiag("check", log, "-q", "-o", "x.json").out == "1 run: 1 with a warning\n"


def test_written_files_are_reported_except_devices(stabdiag, log):
    assert stabdiag(log, "-o", "out").err == f"stabdiag: wrote out; {VERDICT}\n"
    assert stabdiag(log, "-o", "/dev/null").err == ""
    assert stabdiag("formats", "-o", "formats.md").err.startswith("stabdiag: wrote formats.md")


LISTED = program("help").stdout.partition("Commands:")[2].partition("Options:")[0]
COMMANDS = re.findall(r"^  ([a-z]+) ", LISTED, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_short_and_has_examples(stabdiag, command):
    output = stabdiag(command, "--help").out
    lines = output.splitlines()
    assert f"stabdiag {command}" in output.partition("Examples")[2]
    assert (len(lines) <= 60, max(map(len, lines)) <= 80) == (True, True)
    assert stabdiag("help", command).out == output
    # The options that most people use come first.
    common, _, advanced = output.partition("Examples:")[0].partition("More options:")
    assert not re.search("^  .*--(output|format|fail-on|json) ", advanced, re.MULTILINE)
    assert not re.search("^  .*--(limit|config|log-format) ", common, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("diagnose", "report"),
        ("watch", "report"),
        ("scan", "overview"),
        ("compare", "comparison"),
        ("postmortem", "postmortem"),
        ("checklist", "checks"),
        ("thresholds", "limits"),
        ("formats", "logs"),
    ],
)
def test_help_lists_the_formats_that_exist(stabdiag, command, kind):
    text = " ".join(stabdiag(command, "--help").out.split())
    listed = re.search(r"-f, --format FORMAT (.*?)\. Default", text)
    assert sorted(re.split(", | or ", listed[1])) == sorted(names(kind))
    for severity in ("error", "warning", "never", "unknown"):
        assert "--fail-on SEVERITY" not in text or f" {severity}" in text


def test_patterns_in_quotes_are_expanded(stabdiag, log, tmp_path):
    shutil.copy(tmp_path / log, tmp_path / "log2.jsonl")
    assert stabdiag("l?g.jsonl", "-q") == (0, f"{VERDICT}\n", "")
    assert stabdiag("check", "*.jsonl", "-q").out == "2 runs: 2 with a warning\n"
    assert stabdiag("compare", "log*.jsonl", "-q").out == "ok: The runs agree [agree]\n"
    assert stabdiag("convert", "log.*", "-o", "x.parquet", "-q") == (0, "", "")
    (tmp_path / "a[1].jsonl").write_bytes((tmp_path / log).read_bytes())  # a name, not a pattern
    assert stabdiag("a[1].jsonl", "-q").out == f"{VERDICT}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["log.jsonl log.jsonl"], "2 paths in one argument; leave out the quotes"),
        (["diagnose", ""], "a path is empty; is a shell variable not set?"),
        ([""], "the first argument is empty; is a shell variable not set?"),
        (["compare", "log.jsonl", r"D:\a"], "this is a path of Windows"),
        (["preflight", "folder"], "folder: a folder; name the manifest in it"),
        (["log.jsonl", "--config", "folder"], "folder: a folder; name a file in it"),
    ],
)
def test_common_mistakes_in_paths_are_named(stabdiag, log, tmp_path, words, expected):
    (tmp_path / "folder").mkdir()
    result = stabdiag(*words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert expected in result.err


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "nope"],
        ["check", "nope"],
        ["scan", "nope"],
        ["compare", "nope", "log.jsonl"],
        ["baseline", "nope", "-o", "x"],
        ["convert", "nope", "-o", "x"],
        ["postmortem", "nope"],
        ["checklist", "nope"],
        ["watch", "nope", "--until-idle", "0"],
        ["preflight", "nope"],
        ["diagnose", "log.jsonl", "--manifest", "nope"],
        ["diagnose", "log.jsonl", "--config", "nope"],
    ],
)
def test_a_missing_file_has_one_wording(stabdiag, log, words):
    result = stabdiag(*words)
    assert result.code == 2
    assert re.search(r"nope(: | \()no such file or folder; check the path", result.err)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_quiet_and_json(stabdiag, command):
    output = stabdiag(command, "--help").out
    assert command == "help" or ("-q, --quiet" in output and "--json" in output)


def test_width_and_color_follow_the_environment(stabdiag, log, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in stabdiag(log).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in stabdiag(log).out
    assert "\x1b[" not in stabdiag(log, "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in stabdiag(log).out
    widths = []
    for columns in ("60", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        widths.append(max(map(len, stabdiag(log).out.splitlines())))
    assert widths[0] <= 60 < widths[1] <= 120


@pytest.fixture
def sweep(runs, tmp_path):
    """A folder of runs, one of them broken."""
    for name in ("healthy-fp32", "spike-lr-jump", "spike-persistent-lost-layer"):
        shutil.copytree(runs / name, tmp_path / "sweep" / name)
    (tmp_path / "sweep" / "half").mkdir()
    (tmp_path / "sweep" / "half" / "trainer_state.json").write_text("{", encoding="utf-8")
    return "sweep"


def test_a_check_of_a_folder_has_every_run_and_totals(stabdiag, sweep):
    code, out, err = stabdiag("check", sweep)
    heads = [line.split(" ")[:2] for line in out.splitlines() if not line.startswith(" ")]
    assert heads == [
        ["sweep/spike-lr-jump/log.jsonl:", "warning:"],
        ["sweep/spike-persistent-lost-layer/log.jsonl:", "error:"],
        ["4", "runs:"],
    ]
    assert out.splitlines()[-1] == "4 runs: 1 failed, 1 with a warning, 1 healthy, 1 not read"
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("stabdiag: sweep/half/trainer_state.json: ")


def test_a_check_has_formats_and_color(stabdiag, sweep, tmp_path):
    shutil.rmtree(tmp_path / "sweep" / "half")
    output = json.loads(stabdiag("check", sweep, "--json").out)
    assert output["runs"] == 3
    code, out, err = stabdiag("check", sweep, "-o", "report.md")
    assert (code, out) == (1, "")
    assert err == "stabdiag: wrote report.md; 3 runs: 1 failed, 1 with a warning, 1 healthy\n"
    assert "spike-lr-jump" in (tmp_path / "report.md").read_text(encoding="utf-8")
    plain, colored = stabdiag("check", sweep).out, stabdiag("check", sweep, "--color").out
    assert "\x1b[1;31merror:\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_a_check_without_runs_is_reported(stabdiag, tmp_path):
    (tmp_path / "empty").mkdir()
    output = stabdiag("check", "empty", "missing")
    assert (output.code, output.out) == (2, "no runs\n")
    assert output.err.splitlines() == [
        "stabdiag: empty: no log of a run found; stabdiag formats lists what can be read",
        "stabdiag: missing: no such file or folder; check the path",
    ]


def test_no_color_is_respected(runs):
    log = runs / "spike-lr-jump" / "log.jsonl"
    for variables, colored in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        leader, follower = os.openpty()
        program(log, stdout=follower, env={**os.environ, "TERM": "xterm", **variables})
        os.close(follower)
        assert (b"\x1b[" in os.read(leader, 10000)) == colored
        os.close(leader)
