"""What people type out of habit, and what they get."""

import json
import os
import re
import shutil

import pytest

from stabdiag import __version__
from tests.conftest import program

VERDICT = "warning: Loss spike from a learning-rate jump, step 261 [spike-lr-jump]"


@pytest.fixture
def log(runs, tmp_path):
    """A log with a spike, in the folder in which commands run."""
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
        ("nope.jsonl", r"nope\.jsonl: no such file; check the path"),
        ("s3://none/nope.jsonl", "s3://none/nope.jsonl: "),
        ("diagnos log.jsonl", r"No such command 'diagnos'\."),
        ("nonsense", r"No such command 'nonsense'\. \(see stabdiag --help\)"),
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
def test_invalid_command_lines(stabdiag, log, tmp_path, words, expected):
    result = stabdiag(*words.split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert re.search(expected, result.err)
    assert [path.name for path in tmp_path.iterdir()] == [log]


def test_a_command_goes_before_a_file_of_its_name(stabdiag, log, tmp_path):
    (tmp_path / log).rename(tmp_path / "formats")
    assert stabdiag("formats").out == stabdiag("formats", "-f", "terminal").out
    assert stabdiag("./formats", "-q").out == f"{VERDICT}\n"


def test_short_names(stabdiag, log):
    assert stabdiag("-V") == stabdiag("--version") == (0, f"stabdiag {__version__}\n", "")
    assert stabdiag(log, "--json") == stabdiag(log, "--format", "json")
    assert "\x1b[" in stabdiag(log, "--color").out
    assert stabdiag(log, "--columns", "loss=loss") == stabdiag(log, "--column", "loss=loss")
    assert json.loads(stabdiag("thresholds", "--json").out)["limits"]


def test_the_verdict_alone(stabdiag, log, tmp_path):
    assert stabdiag(log, "--quiet", "--fail-on", "warning") == (1, f"{VERDICT}\n", "")
    both = stabdiag(log, "-q", "-o", "report.json")
    assert both == (0, f"{VERDICT}\n", f"stabdiag: wrote report.json; {VERDICT}\n")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert stabdiag("compare", log, log, "-q").out == "ok: The runs agree [agree]\n"
    assert stabdiag("watch", log, "-q", "--until-idle", "0").out == f"{VERDICT}\n"
    assert stabdiag("check", log, "-q").out == "1 run: 1 with a warning\n"
    assert stabdiag("check", log, "-q", "-o", "x.json").out == "1 run: 1 with a warning\n"


def test_what_was_written_is_told_but_not_of_devices(stabdiag, log):
    assert stabdiag(log, "-o", "out").err == f"stabdiag: wrote out; {VERDICT}\n"
    assert stabdiag(log, "-o", "/dev/null").err == ""
    assert stabdiag("thresholds", "-o", "limits.toml").err == "stabdiag: wrote limits.toml\n"


def test_an_option_has_examples_in_its_help(stabdiag):
    for command in re.findall(r"^│ ([a-z]+) ", stabdiag("--help").out, re.MULTILINE):
        output = stabdiag(command, "--help").out
        assert f"stabdiag {command}" in output.partition("Examples")[2], command
        assert max(map(len, output.splitlines())) <= 80


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
    code, out, err = stabdiag("check", sweep, "-o", "report.xml")
    assert (code, out) == (1, "")
    assert err == "stabdiag: wrote report.xml; 3 runs: 1 failed, 1 with a warning, 1 healthy\n"
    assert (tmp_path / "report.xml").read_text(encoding="utf-8").startswith("<?xml")
    plain, colored = stabdiag("check", sweep).out, stabdiag("check", sweep, "--color").out
    assert "\x1b[1;31merror:\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_a_check_of_nothing_is_told(stabdiag, tmp_path):
    (tmp_path / "empty").mkdir()
    output = stabdiag("check", "empty", "missing")
    assert (output.code, output.out) == (2, "0 runs: none\n")
    assert output.err.splitlines() == [
        "stabdiag: empty: no log of a run found; stabdiag formats lists what can be read",
        "stabdiag: missing: no such file; check the path",
    ]


def test_no_color_is_respected(runs):
    log = runs / "spike-lr-jump" / "log.jsonl"
    for variables, colored in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        leader, follower = os.openpty()
        program(log, stdout=follower, env={**os.environ, "TERM": "xterm", **variables})
        os.close(follower)
        assert (b"\x1b[" in os.read(leader, 10000)) == colored
        os.close(leader)
