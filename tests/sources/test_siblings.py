"""Every run in a place is judged or named: siblings, ranks, attempts, archives, links."""

import gzip
import io
import json
import math
import os
import tarfile

import numpy as np
import pytest

import stabdiag as api


def lines(*, fails=False):
    """Return a run as JSON lines, healthy or NaN from its middle on."""
    rng = np.random.default_rng(3)
    steps = np.arange(300)
    loss = 2 + 4 * np.exp(-steps / 60) + rng.normal(0, 0.02, 300)
    loss[steps > 150] = np.nan if fails else loss[steps > 150]
    rows = zip(steps.tolist(), loss.tolist(), strict=True)
    return "".join(f"{json.dumps({'step': step, 'loss': value})}\n" for step, value in rows)


def write(folder, **files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


PAIRS = [
    ("run.jsonl", "run2.jsonl"),
    ("run_1.jsonl", "run_2.jsonl"),
    ("train.jsonl", "train_b.jsonl"),
    ("log.jsonl", "log.jsonl.1"),
    ("run.rank0.jsonl", "run.rank1.jsonl"),
    ("rank_0/log.jsonl", "rank_1/log.jsonl"),
    ("version_0/log.jsonl", "version_1/log.jsonl"),
]


@pytest.mark.parametrize("failed", [0, 1])
@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_a_check_of_a_folder_judges_both(stabdiag, tmp_path, pair, failed):
    place = tmp_path / "runs"
    write(place, **{name: lines(fails=n == failed) for n, name in enumerate(pair)})
    result = stabdiag("check", place)
    assert result.code == 1
    assert result.out.endswith("2 runs: 1 failed, 1 healthy\n")


def test_two_healthy_siblings_are_green(stabdiag, tmp_path):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), "run2.jsonl": lines()})
    result = stabdiag("check", place)
    assert (result.code, result.out, result.err) == (0, "2 runs: 2 healthy\n", "")


def test_a_diagnosis_says_which_log_of_a_folder_it_left(tmp_path):
    write(tmp_path, **{"run.rank0.jsonl": lines(), "run.rank1.jsonl": lines(fails=True)})
    result = api.diagnose(tmp_path).diagnosis
    assert result.slug == "partly-read"
    assert "run.rank1.jsonl" in result.summary


def test_views_and_copies_of_one_run_are_not_siblings(tmp_path):
    table = "step,loss\n" + "".join(f"{step},{2 - step / 1000}\n" for step in range(300))
    write(
        tmp_path,
        **{
            "log.jsonl": lines(),
            "metrics.csv": table,
            "eval/log.jsonl": lines(),
            "checkpoint-100/log.jsonl": lines(),
        },
    )
    assert api.diagnose(tmp_path).history.left_out == []


def archive(path, **members):
    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(text.encode()), 1_700_000_000
            tar.addfile(info, io.BytesIO(text.encode()))


def test_every_run_of_an_archive_is_judged(stabdiag, tmp_path):
    path = tmp_path / "runs.tar"
    archive(path, **{"a/log.jsonl": lines(fails=True), "b/log.jsonl": lines()})
    assert stabdiag("check", path).code == 1
    assert api.diagnose(path).diagnosis.slug == "partly-read"


@pytest.mark.parametrize(("fail_on", "code"), [("error", 2), ("never", 0)])
def test_skipped_checks_are_named_and_do_not_pass(stabdiag, tmp_path, fail_on, code):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), ".old/run.jsonl": lines(fails=True)})
    write(tmp_path / "other", **{"run.jsonl": lines(fails=True)})
    (place / "gone.jsonl").symlink_to(tmp_path / "nowhere.jsonl")
    (place / "other").symlink_to(tmp_path / "other")
    result = stabdiag("check", place, "--fail-on", fail_on)
    assert result.code == code
    for name in (".old", "gone.jsonl", "other"):
        assert f"runs/{name}" in result.err


def test_folders_of_tools_are_not_missed(stabdiag, tmp_path):
    place = tmp_path / "runs"
    write(
        place,
        **{
            "run.jsonl": lines(),
            ".git/logs/train.log": "x",
            ".venv/a.csv": "x",
            ".notes/todo.md": "x",
            "__pycache__/a.log": "x",
        },
    )
    result = stabdiag("check", place)
    assert (result.code, result.err) == (0, "")


def test_each_earlier_run_that_failed_is_a_note(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(lines(fails=True) + lines() + lines(fails=True) + lines())
    report = api.diagnose(path)
    assert report.diagnosis.severity == "note"
    failed = [finding for finding in report.findings if finding.slug == "earlier-run-failed"]
    assert [finding.evidence["attempt"] for finding in failed] == [1, 3]
    assert {finding.evidence["outcome"] for finding in failed} == {"nan-dtype-unknown"}
    assert {finding.evidence["failed_at"] for finding in failed} == {151}


def test_a_run_that_was_asked_for_is_reported_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(lines(fails=True) + lines())
    assert api.diagnose(path, attempt=2).diagnosis.slug == "healthy"


def test_healthy_earlier_runs_are_not_mentioned(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(lines() + lines())
    assert [finding.slug for finding in api.diagnose(path).findings] == ["healthy"]


@pytest.mark.parametrize(("end", "failed"), [(math.nan, True), (3e4, True), (2.2, False)])
def test_an_attempt_that_failed_before_a_resume_is_a_note(tmp_path, end, failed):
    path = tmp_path / "run.jsonl"
    generator = np.random.default_rng(3)
    steps = [*range(200), *range(150, 260)]
    losses = [2 + 0.02 * float(generator.normal()) for _ in steps]
    losses[190:200] = [end] * 10
    path.write_text(
        "".join(
            json.dumps({"step": step, "loss": loss}) + "\n"
            for step, loss in zip(steps, losses, strict=True)
        )
    )
    report = api.diagnose(path)
    notes = [finding for finding in report.findings if finding.slug == "earlier-run-failed"]
    assert bool(notes) == failed
    assert failed != any(finding.slug == "resume-loss-jump" for finding in report.findings)
    for note in notes:
        assert note.evidence["failed_at"] == 190
        assert note.evidence["resumed_at"] == note.actions[0].step == 150


def test_a_manifest_that_only_names_the_start_of_a_run_is_used(tmp_path):
    rng = np.random.default_rng(7)
    losses = 0.3 * np.exp(0.2 * rng.standard_normal(300))
    rows = [{"step": step, "loss": loss} for step, loss in enumerate(losses.tolist())]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)))
    assert api.diagnose(log).diagnosis.slug in ("no-progress", "not-learning")
    (tmp_path / "manifest.json").write_text('{"init_from": "the/model"}')
    assert api.diagnose(log).diagnosis.slug == "healthy"


@pytest.mark.parametrize("text", ["garbage\n" * 9, "\0" * 5000, '{"step": 1, "loss": '])
def test_an_unreadable_sibling_is_named_and_not_healthy(tmp_path, text):
    write(tmp_path, **{"run.jsonl": lines(), "run2.jsonl": text})
    diagnosis = api.diagnose(tmp_path).diagnosis
    assert diagnosis.slug == "partly-read"
    assert "run2.jsonl" in diagnosis.summary


@pytest.mark.parametrize("name", ["events.out.tfevents.17.login.sh", "events.out.tfevents.17.gpu1"])
def test_a_damaged_event_file_is_named_and_not_healthy(stabdiag, tmp_path, name):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), name: "xx" * 400})
    assert f"{name} (not readable)" in api.diagnose(place).to_json()
    assert stabdiag("check", place).code == 2
    (place / name).write_text("")
    assert stabdiag("check", place).code == 0


def test_another_file_is_not_a_sibling(tmp_path):
    write(tmp_path, **{"run.jsonl": lines(), "notes.jsonl": "garbage\n"})
    assert api.diagnose(tmp_path).diagnosis.slug == "healthy"


def test_a_rotated_log_may_be_packed(stabdiag, tmp_path):
    place = tmp_path / "runs"
    write(place, **{"train.jsonl": lines()})
    (place / "train.jsonl.1.gz").write_bytes(gzip.compress(lines(fails=True).encode()))
    result = stabdiag("check", place)
    assert result.code == 1
    assert result.out.endswith("2 runs: 1 failed, 1 healthy\n")
    assert "train.jsonl.1.gz" in str(api.diagnose(place).diagnosis.summary)


@pytest.mark.parametrize(
    ("line", "is_named"),
    [
        ("Epoch {n} - gain of the policy: {x}, spread {x}\n", True),
        ("steps: {n}, episodes: {n}, zeta {x}\n", True),
        ("downloaded part {n} in {x} s\n", False),
        ("epoch {n} begins\n", False),
        ("file 7, epoch 3, size {x}\n", False),
    ],
)
def test_an_output_with_unknown_records_is_named(stabdiag, tmp_path, line, is_named):
    place = tmp_path / "runs"
    unknown = "".join(line.format(n=n, x=n * 37 % 11 / 8) for n in (1, 2, 3, 4, 5, 6, 1, 1))
    write(place / "a", **{"metrics.jsonl": lines()})
    write(place / "b", **{"train_log.txt": unknown})
    result = stabdiag("check", place)
    assert result.out.endswith("1 run: 1 healthy\n")
    assert result.code == (2 if is_named else 0)
    message = "skipped, an output with records, without a known loss in them: "
    assert (f"{message}{place}/b/train_log.txt" in result.err) == is_named


def test_a_hidden_log_is_named_as_not_read(stabdiag, tmp_path):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), ".run2.jsonl": lines(fails=True)})
    result = stabdiag("check", place)
    assert result.code == 2
    assert f"skipped, a hidden file that may be a log; to scan it, name it: {place}" in result.err
    report = api.diagnose(place)
    assert report.diagnosis.slug == "partly-read"
    assert ".run2.jsonl (a hidden file)" in report.diagnosis.summary


@pytest.mark.parametrize("name", ["._run.jsonl", ".run.jsonl.swp", ".DS_Store", ".settings.yaml"])
def test_other_hidden_files_are_ignored(stabdiag, tmp_path, name):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), name: "x"})
    assert stabdiag("check", place).code == 0
    assert api.diagnose(place).diagnosis.slug == "healthy"


@pytest.mark.parametrize(
    ("name", "others", "shown"),
    [
        ("log.0", ["log.1"], "log.1 has"),
        ("train.1.log", ["train.2.log", "train.3.log.gz"], "train.2.log, train.3.log.gz have"),
        ("gpu4.log", ["gpu8.log"], "gpu8.log has"),
        ("lora_rank0.log", ["lora_rank8.log"], "lora_rank8.log has"),
        ("run.jsonl", ["run2.jsonl"], "run2.jsonl has"),
        ("run1.jsonl", [f"run{n}.jsonl" for n in range(2, 8)], "run4.jsonl and 3 more have"),
        ("run.jsonl", ["other.jsonl", "run.jsonl.bak", "runner.jsonl"], ""),
        ("01.txt", ["02.txt"], ""),
    ],
)
def test_a_file_names_those_with_another_number(stabdiag, tmp_path, name, others, shown):
    write(tmp_path, **{name: lines()}, **{other: lines(fails=True) for other in others})
    result = stabdiag("diagnose", tmp_path / name)
    assert result.code == 0
    output = " ".join(result.out.split())
    assert ("the same name with another number" in output) == bool(shown)
    assert shown in output


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("out_rank0.log", "out_rank1.log"),
        ("out-worker-0.jsonl", "out-worker-3.jsonl"),
        ("run.jsonl", "run_rank1.jsonl"),
        ("run.jsonl", "rank1/run.jsonl"),
        ("run.jsonl", "run-resumed.jsonl"),
        ("run_part1.jsonl", "run_part2.jsonl"),
        ("run.jsonl", "attempt2/run.jsonl"),
        ("attempt_1/run.jsonl", "attempt_2/run.jsonl"),
        ("run.jsonl", "run.jsonl.1"),
        ("train.log", "train.log.2"),
    ],
)
def test_other_ranks_and_attempts_of_a_file_count_as_not_read(stabdiag, tmp_path, name, other):
    write(tmp_path, **{name: lines(), other: lines(fails=True)})
    result = stabdiag("check", tmp_path / name)
    assert result.code == 2
    report = api.diagnose(tmp_path / name)
    assert report.diagnosis.slug == "partly-read"
    assert f"1 other log of the run: {'../' * name.count('/')}{other}" in report.diagnosis.summary
    both = stabdiag("check", tmp_path / name, tmp_path / other)
    assert both.code == 1
    assert both.out.endswith("2 runs: 1 failed, 1 healthy\n")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("run_rank0.log", "run_rank1.log"),
        ("train.log", "departed.log"),
        ("run.jsonl", "particles.jsonl"),
        ("version_0/metrics.csv", "version_1/metrics.csv"),
        ("seed0/run.jsonl", "seed1/run.jsonl"),
    ],
)
def test_files_without_a_loss_and_other_runs_do_not_count(stabdiag, tmp_path, name, other):
    text = "NCCL INFO Channel 00\n" * 40 if "rank" in other else lines(fails=True)
    write(tmp_path, **{name: lines(), other: text})
    assert stabdiag("check", tmp_path / name).code == 0
    assert api.diagnose(tmp_path / name).diagnosis.slug == "healthy"


def test_the_ranks_of_a_node_count_as_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.logs._MAX_FILES", 2)
    write(tmp_path, **{f"node0/log_rank{rank}.jsonl": lines() for rank in range(5)})
    summary = api.diagnose(tmp_path / "node0" / "log_rank0.jsonl").diagnosis.summary
    # Not all of them were inspected.
    assert "at least 2 other logs of the run" in summary


def test_check_names_the_files_with_another_number(stabdiag, tmp_path):
    write(tmp_path, **{"run.jsonl": lines(), "run2.jsonl": lines(fails=True)})
    result = stabdiag("check", tmp_path / "run.jsonl")
    assert result.code == 0
    assert "run2.jsonl has the same name with another number and was not read" in result.err


SIMILAR = """\
run (copy).jsonl|run copy.jsonl|Copy of run.jsonl|run_v2.jsonl|run.bak|run.jsonl.bak|run.jsonl~
run.jsonl.old|run_old.jsonl|old_run.jsonl|run-final.jsonl|run_b.jsonl|run_lr3e-4.jsonl|.run.jsonl
run_v2.jsonl.gz
"""


@pytest.mark.parametrize("other", SIMILAR.replace("\n", "|").strip("|").split("|"))
def test_a_file_names_those_with_a_similar_name(stabdiag, tmp_path, other):
    write(tmp_path, **{"run.jsonl": lines(), other: lines(fails=True)})
    note = f"{other} has a similar name and was not read"
    result = stabdiag("check", tmp_path / "run.jsonl")
    assert result.code == 0
    assert note in result.err
    report = api.diagnose(tmp_path / "run.jsonl")
    assert (report.diagnosis.slug, report.history.events[-1].message) == ("healthy", note)
    if other.endswith((".jsonl", ".bak")) and not other.startswith("."):
        assert "run.jsonl has a similar name" in stabdiag("check", tmp_path / other).err


@pytest.mark.parametrize(
    "other",
    [
        *("other.jsonl", "runner.jsonl", "run_config.jsonl", "run.yaml", "run.pt", "run.md"),
        *("run_eval.jsonl", "run_vocab.jsonl", "run_summary.jsonl", "run.csv"),
    ],
)
def test_a_file_does_not_name_other_things(stabdiag, tmp_path, other):
    write(tmp_path, **{"run.jsonl": lines(), other: lines()})
    assert "similar name" not in stabdiag("check", tmp_path / "run.jsonl").err


def test_a_link_to_nothing_with_a_similar_name_is_named(stabdiag, tmp_path):
    write(tmp_path, **{"run.jsonl": lines()})
    (tmp_path / "run_v2.jsonl").symlink_to(tmp_path / "gone")
    assert "run_v2.jsonl has a similar name" in stabdiag("check", tmp_path / "run.jsonl").err


def test_a_packed_log_that_breaks_off_at_its_start_is_named(stabdiag, tmp_path):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines()})
    (place / "run_v2.jsonl.gz").write_bytes(gzip.compress(lines().encode())[:40])
    assert stabdiag("check", place).code == 2
    assert "run_v2.jsonl.gz (not readable)" in api.diagnose(place).diagnosis.summary


def test_files_that_are_read_together_are_not_named(stabdiag, tmp_path):
    write(tmp_path, **{"log.0": lines(), "log.1": lines()})
    out = stabdiag("diagnose", tmp_path / "log.0", tmp_path / "log.1").out
    assert "another number" not in out


VIEWS = ["checkpoint-40/trainer_state.json", "other.csv", "notes.txt", "output"]


def view(name, *, fails):
    """Return the same run in the form of a name."""
    rows = [json.loads(line) for line in lines(fails=fails).splitlines()]
    if name.endswith(".json"):
        return json.dumps({"log_history": [{**row, "epoch": row["step"] / 100} for row in rows]})
    if name.endswith(".csv"):
        return "".join(["step,loss\n", *(f"{row['step']},{row['loss']}\n" for row in rows)])
    return "".join(f"step {row['step']} loss {row['loss']}\n" for row in rows)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("fails", [False, True])
def test_a_log_of_another_format_counts_if_it_fails(stabdiag, tmp_path, name, fails):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), name: view(name, fails=fails)})
    os.utime(place / name, (1e9, 1e9))
    result = stabdiag("check", place)
    assert result.code == fails
    assert (name in result.out) == fails
    assert result.out.endswith("2 runs: 1 failed, 1 healthy\n" if fails else "1 run: 1 healthy\n")


def test_a_short_log_that_fails_counts_next_to_many_others(stabdiag, tmp_path):
    place = tmp_path / "runs"
    others = {f"{letter}-job.log": view("log", fails=False) for letter in "abcdef"}
    write(place, **{"metrics.jsonl": lines(), **others, "last.log": view("log", fails=True)[500:]})
    result = stabdiag("check", place)
    assert (result.code, "last.log" in result.out) == (1, True)


@pytest.mark.parametrize(("name", "code"), [("run2.jsonl", 2), ("run.rank1.jsonl", 0)])
def test_an_empty_log_of_a_run_is_named(stabdiag, tmp_path, name, code):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), name: ""})
    result = stabdiag("check", place)
    assert result.code == code


def page(*, fails=False, rows=60):
    """Return a table of Markdown, healthy or NaN from its middle on."""
    values = (math.nan if fails and n > rows // 2 else 2 - n / 100 for n in range(rows))
    body = "".join(f"| {n} | {value:.4f} |\n" for n, value in enumerate(values))
    return f"# Run\n\n| step | loss |\n|---|---|\n{body}"


def notebook(text):
    """Return a notebook with a cell that printed a text."""
    output = {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    cell = {"cell_type": "code", "source": ["fit()"], "outputs": [output]}
    return json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


PAGES = {
    "results.md": page(fails=True),
    "log_2.rst": "\n".join(f"step {n} loss {2 if n < 40 else math.nan}" for n in range(90)),
    "metrics.yaml": "".join(
        f"- step: {n}\n  loss: {2 if n < 40 else math.nan}\n" for n in range(90)
    ),
    "my model.ipynb": notebook(
        "\n".join(f"step {n} loss {2 if n < 40 else math.nan}" for n in range(90))
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_a_log_is_judged(stabdiag, tmp_path, name):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), name: PAGES[name]})
    result = stabdiag("check", place)
    assert result.code == 1
    assert name in result.out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", page(fails=True)),
        ("CHANGELOG.md", page(fails=True)),
        ("results.md", page(fails=True, rows=6)),
        ("results.md", "| model | loss |\n|---|---|\n| a | 1.2 |\n| b | nan |\n| c | 1.4 |\n"),
        ("train.yaml", "lr: 0.1\nlosses:\n- name: ce\n  weight: 1.0\n- name: kl\n  weight: 0.1\n"),
        ("results.md", page()),
        ("plot.ipynb", notebook("the best loss is 1.2\n")),
    ],
)
@pytest.mark.parametrize("folder", ["", "pages/"])
def test_other_pages_are_no_runs(stabdiag, tmp_path, folder, name, text):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), f"{folder}{name}": text})
    result = stabdiag("check", place)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("name", ["history.pkl", "train_losses.npy", "loss_history.pt", "loss.mat"])
def test_losses_that_cannot_be_opened_are_named_without_a_log_next_to_them(
    stabdiag, tmp_path, name
):
    place = tmp_path / "runs"
    write(place, **{"run.jsonl": lines(), name: "x"})
    assert stabdiag("check", place).code == 0
    write(place, **{f"other/{name}": "x", "third/lossless.npy": "x", "third/weights.pkl": "x"})
    result = stabdiag("check", place)
    assert result.code == 2
    assert f"other/{name}\n" in result.err
