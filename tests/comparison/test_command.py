"""``stabdiag compare``: its output and its exit codes."""

import json
from functools import partial

import pytest

from tests.comparison.conftest import PAIRS

LR = [PAIRS / "config-differs-lr" / f"{name}.jsonl" for name in ("base", "low")]
SAME = [PAIRS / "agree-twice" / f"{name}.jsonl" for name in ("first", "second")]


@pytest.fixture
def compare(stabdiag):
    """Run ``stabdiag compare`` in an empty folder, within this process."""
    return partial(stabdiag, "compare")


@pytest.mark.parametrize(
    ("runs", "fail_on", "code"),
    [
        ([PAIRS / "rank-died"], "error", 1),
        ([PAIRS / "rank-died"], "never", 0),
        (LR, "error", 0),
        (LR, "warning", 1),
        (SAME, "warning", 0),
    ],
)
def test_fail_on_decides_the_exit_code(compare, runs, fail_on, code):
    result = compare(*runs, "--fail-on", fail_on)
    assert (result.code, result.err) == (code, "")


@pytest.mark.parametrize(
    ("folder", "runs", "slug"),
    [
        ("seed-variance", 5, "seed-variance"),
        ("resume-diverges-schedule", 2, "resume-diverges"),
        ("rank-died", 4, "rank-died"),  # ranks take precedence
    ],
)
def test_a_folder_is_compared_as_its_runs(compare, folder, runs, slug):
    content = json.loads(compare(PAIRS / folder, "--json", "--fail-on", "never").out)
    assert (len(content["runs"]), content["diagnosis"]["slug"]) == (runs, slug)


def test_subfolders_with_logs_are_runs(compare, tmp_path):
    for name, log in zip(("run2", "run10"), LR, strict=True):
        (tmp_path / "sweep" / name).mkdir(parents=True)
        (tmp_path / "sweep" / name / "metrics.jsonl").write_bytes(log.read_bytes())
    content = json.loads(compare("sweep", "--json").out)
    assert [run["label"] for run in content["runs"]] == ["run2", "run10"]


def test_a_folder_of_one_run_or_too_many_is_refused(compare, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    log = LR[0].read_bytes()
    (tmp_path / "one" / "run.jsonl").write_bytes(log)
    for number in range(17):
        (tmp_path / "many" / f"run{number}.jsonl").write_bytes(log)
    single, crowded = compare("one"), compare("many")
    assert (single.code, crowded.code) == (2, 2)
    assert "needs two or more runs" in single.err
    assert "contains 17 runs, too many to compare" in crowded.err


def test_json_is_written_to_a_file(compare, tmp_path):
    result = compare(*LR, "-f", "json", "-o", "found.json")
    assert result.out == ""
    written = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert written["diagnosis"]["slug"] == "config-differs"
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_manifests_belong_to_the_runs_in_order(compare, tmp_path):
    for name, rate in (("a.json", 1), ("b.json", 2)):
        (tmp_path / name).write_text(json.dumps({"seed": 1, "peak_lr": rate}), encoding="utf-8")
    result = compare(*SAME, "--manifest", "a.json", "--manifest", "b.json", "-f", "json")
    (difference,) = json.loads(result.out)["differences"]
    assert difference["values"] == {"first": 1, "second": 2}
    short = compare(*SAME, "--manifest", "a.json")
    assert (short.code, short.out) == (2, "")


def test_columns_and_formats_are_accepted(compare, tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        rows = [json.dumps({"step": i, "mine": 2.0 - i / 40}) for i in range(40)]
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    result = compare("a.jsonl", "b.jsonl", "--column", "loss=mine", "--log-format", "jsonl")
    assert "[agree]" in result.out


def test_a_comparison_is_written_as_a_page(compare, tmp_path):
    assert compare(*LR, "-o", "page.html").err.startswith("stabdiag: wrote page.html; ")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["RUN"]),
        ([*LR, "--as", "twins"], ["seeds", "reruns", "ranks", "resume"]),
        ([*LR, "--format", "xml"], ["terminal", "json", "html"]),
        ([*LR, "-o", "no/such/file.json"], ["cannot be written"]),
        ([PAIRS], ["several jobs", "name the folder of one"]),
        ([SAME[0], "bad.jsonl"], ["bad.jsonl"]),
    ],
)
def test_errors_are_one_line(compare, tmp_path, arguments, words):
    (tmp_path / "bad.jsonl").write_bytes(b"\x00\x01\x02")
    result = compare(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("stabdiag: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err
