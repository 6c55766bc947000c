"""The command line of a watch: its exit codes, what it refuses, and what it shows on its way."""

import gzip
import json
import os
from functools import partial

import pytest

import stabdiag
from stabdiag.cli.watch import display
from stabdiag.errors import NoUsableRecord
from stabdiag.watch import WatchState


@pytest.fixture
def watch(stabdiag):
    """Watch a log that is quiet, within this process."""
    return partial(stabdiag, "watch", "--until-idle", "0")


@pytest.mark.parametrize(
    ("run", "fail_on", "code"),
    [
        ("spike-persistent-lost-layer", "error", 1),
        ("spike-unresolved", "never", 0),
        ("spike-lr-jump", "warning", 1),
        ("healthy-long", "warning", 0),
    ],
)
def test_a_log_that_is_finished_has_the_exit_code_of_its_diagnosis(watch, runs, run, fail_on, code):
    (log,) = runs.joinpath(run).glob("log.[!r]*")
    assert watch(log, "--fail-on", fail_on).code == code


def test_the_report_alone_goes_to_standard_output(watch, runs, tmp_path):
    log = runs / "spike-persistent-moments" / "log.csv"
    result = watch(log, "--format", "json")
    assert json.loads(result.out)["diagnosis"]["slug"] == "spike-persistent"
    assert "step 899: error: Loss spike that did not recover" in result.err
    watch(log, "-o", tmp_path / "report.txt")
    assert "FIRST ACTION" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_the_options_of_a_diagnosis_hold(watch, tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text(
        "".join(f'{{"n": {n}, "train/ce": {3 - n / 1000}}}\n' for n in range(300))
        + '{"n": 300, "train/ce": NaN}\n',
        encoding="utf-8",
    )
    named = ("--column", "loss=train/ce", "--column", "step=n", "--format", "json")
    report = json.loads(watch(log, *named, "--dtype", "bf16").out)
    assert report["diagnosis"]["slug"] == "nan-bf16"
    (tmp_path / "run.manifest.json").write_text('{"dtype": "fp32"}', encoding="utf-8")
    assert json.loads(watch(log, *named).out)["diagnosis"]["slug"] == "nan-fp32"
    other = tmp_path / "other.json"
    other.write_text('{"dtype": "bf16"}', encoding="utf-8")
    expected = json.loads(watch(log, *named, "--manifest", other).out)
    assert expected["diagnosis"]["slug"] == "nan-bf16"


def test_a_manifest_that_is_found_is_kept_and_the_report_printed(watch, runs, tmp_path):
    run = runs / "spike-persistent-lost-layer"
    for file in run.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (log,) = tmp_path.glob("log.[!r]*")
    result = watch(log, "-f", "json", "-o", "manifest.json")
    assert result.code == 1
    assert json.loads(result.out)["diagnosis"]["severity"] == "error"
    assert "manifest.json: this is also an input" in result.err
    kept = (tmp_path / "manifest.json").read_bytes()
    assert kept == (run / "manifest.json").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.jsonl"], "missing.jsonl: no such file or folder; check the path"),
        (["https://example.org/run.jsonl"], "a URL cannot be watched"),
        (["-", "run.jsonl"], "standard input cannot be watched together with files"),
        (["run.jsonl", "--format", "jsno"], "; did you mean json?"),
        (["run.jsonl", "--manifest", "missing.json"], "missing.json: no such file"),
        (["run.jsonl", "--set", "dtpye=fp16"], "unknown manifest field 'dtpye'"),
        (["run.jsonl", "--column", "los=ce"], "unknown role 'los'"),
        (["run.jsonl", "--limit", "spike.sigma=x"], "spike.sigma"),
        (["run.jsonl", "--interval", "0"], "--interval"),
        (["run.jsonl", "--pid", "2147483648"], "--pid"),
        (["run.jsonl", "--pid", str(10**30)], "--pid"),
        (["run.jsonl", "--kill"], "--kill needs --pid"),
        (["run.jsonl", "--pid", "1", "--kill", "--fail-on", "never"], "a --fail-on"),
        (["run.jsonl", "--pid", str(os.getpid()), "--kill"], "is the watch itself"),
        (["weights.bin"], "weights.bin"),
        (["words.jsonl"], "words.jsonl"),
    ],
)
def test_bad_input_is_one_line_and_code_2(watch, tmp_path, arguments, expected):
    (tmp_path / "run.jsonl").write_text('{"step": 1, "loss": 2.5}\n', encoding="utf-8")
    (tmp_path / "words.jsonl").write_text('{"name": "x"}\n', encoding="utf-8")
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)))
    result = watch(*arguments)
    assert (result.code, result.out) == (2, "")
    assert expected in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


def test_watch_does_not_wait_for_a_log_without_read_permission(watch, tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text('{"step": 1, "loss": 2.5}\n', encoding="utf-8")
    log.chmod(0)
    if os.access(log, os.R_OK):
        pytest.skip("the user of the tests may read everything")
    result = watch(log)
    assert result.code == 2
    assert "cannot be read (Permission denied)" in result.err


def test_a_process_that_has_ended_ends_the_watch(watch, runs):
    result = watch(runs / "healthy-fp32" / "log.jsonl", "--pid", 2**22 + 1)
    assert result.code == 0
    assert "the watch ended: the process has ended" in result.err


CSV = "step,loss\n" + "".join(f"{n},{2e-5 + n % 7 / 1e7}\n" for n in range(600))
TEXT = "".join(f"step {n} loss: {2e-5 + n % 7 / 1e7}\n" for n in range(600))


@pytest.mark.parametrize(
    ("name", "text", "half", "place"),
    [
        ("run.csv", CSV, "600,2.0312", "file"),
        ("train.log", TEXT, "step 600 loss: 2.0312", "file"),
        ("run.csv", CSV, "600,2.0312", "folder"),
        ("train.log", TEXT, "step 600 loss: 2.0312", "packed"),
    ],
)
def test_half_a_number_at_the_end_of_a_log_decides_nothing(
    watch, tmp_path, name, text, half, place
):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / (name + ".gz" if place == "packed" else name)
    for end, watched in (("", 0), ("e-05\n", 0), ("\n", 1)):
        data = (text + half + end).encode()
        log.write_bytes(gzip.compress(data) if place == "packed" else data)
        assert watch(folder if place == "folder" else log).code == watched
    log.write_bytes(data[:-1] if place != "packed" else gzip.compress(data[:-1]))
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-unresolved"  # the log of a finished run


def test_several_files_are_one_run(watch, tmp_path):
    for number in (1, 2):
        steps = range(150 * number, 150 * number + 150)
        (tmp_path / f"part-{number}.jsonl").write_text(
            "".join(f'{{"step": {step}, "loss": {3 - step / 1000}}}\n' for step in steps), "utf-8"
        )
    result = watch("part-1.jsonl", "part-2.jsonl")
    assert result.code == 0
    assert "steps 150 to 449" in result.out


def test_a_line_is_printed_when_the_verdict_changes(capsys):
    trouble = WatchState(trouble=NoUsableRecord("run.jsonl: empty\x1b[2J"))
    with display(["run.jsonl"], None) as show:
        for seen in (WatchState(), WatchState(quiet_for=1), trouble, trouble):
            show(seen)
    assert capsys.readouterr().err.splitlines() == [
        "stabdiag: waiting for the first records",
        "stabdiag: waiting: run.jsonl: empty\\x1b[2J",
    ]


def test_a_run_that_logs_no_loss_can_be_watched(watch, tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text(
        "".join(f'{{"step": {n}, "grad_norm": 1.5, "loss_scale": 1024}}\n' for n in range(99)),
        encoding="utf-8",
    )
    result = watch(log)
    assert result.code == 0
    assert "[insufficient-data]" in result.out
