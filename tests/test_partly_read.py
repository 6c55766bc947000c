"""The guard: what was not read, and has a place for a loss, makes a log partly read."""

import gzip
import json
import tarfile
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.model.text import num

ROWS = 400
CUT = 200


@pytest.fixture
def stabdiag_command(request):
    """Run the command line; the module of that name is the API."""
    return request.getfixturevalue("stabdiag")


def losses():
    rng = np.random.default_rng(3)
    steps = np.arange(ROWS)
    return (2 + 4 * np.exp(-steps / 60) + rng.normal(0, 0.02, ROWS)).round(4).tolist()


def json_lines(change=json.dumps, *, begin=CUT):
    """Return JSON lines of a healthy run, the later ones changed."""
    rows = [{"step": step, "loss": loss, "lr": 1e-4} for step, loss in enumerate(losses())]
    return [*map(json.dumps, rows[:begin]), *map(change, rows[begin:])]


def csv_lines(change=str):
    rows = [f"{step},{loss},0.0001" for step, loss in enumerate(losses())]
    return ["step,loss,lr", *rows[:CUT], *map(change, rows[CUT:])]


def text_lines(change=str):
    rows = [f"step {step} loss: {loss} lr: 0.0001" for step, loss in enumerate(losses())]
    return [*rows[:CUT], *map(change, rows[CUT:])]


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


def bar_lines(*, evaluated=True, length=None):
    """Return bars of 8 batches, maybe with a bar of an evaluation below each epoch.

    From the last epoch but one on, the bars of the training have another ``length``.
    """
    lines = []
    for epoch in range(ROWS // 8):
        batches = 8 if length is None or epoch < ROWS // 8 - 2 else length
        lines += [
            f"Epoch: [{epoch}]  [{at}/{batches}]  loss: {loss}  PSNR: 13.5"
            for at, loss in enumerate(losses()[8 * epoch : 8 * epoch + 8])
        ]
        lines += [f"Epoch: [{epoch}]  [0/1]  loss: 2.2345  PSNR: 19.6"] * evaluated
    return lines


PARTLY = {
    "bars of another length.log": bar_lines(evaluated=False, length=12),
    "a broken value.jsonl": json_lines(
        lambda row: json.dumps(row).replace('"loss": ', '"loss": ?')
    ),
    "one broken line.jsonl": [*json_lines(), '{"step": 400, "loss": ?, "lr": 0.0001}'],
    "no step and no near loss.jsonl": json_lines(
        lambda row: f"sample {row['step']} loss: {80 * row['loss']}"
    ),
    "more cells.csv": csv_lines(lambda row: f"0,{row.partition(',')[2]},1,2"),
    "records without a loss.jsonl": json_lines(
        lambda row: json.dumps({"step": row["step"], "message": "x"})
    ),
    "a word on its own line.log": [
        line
        for step, loss in enumerate(losses())
        for line in (f"Step: {step}", f"  Loss: {loss if step < CUT else 'failed'}")
    ],
    "an unknown value.log": [
        *text_lines()[:300],
        "NaN or Inf found in input tensor.",
        *text_lines()[300:],
    ],
    "an unknown value.csv": [*csv_lines()[:300], "Found NaN in embeddings", *csv_lines()[300:]],
    "an unknown value.jsonl": [*json_lines()[:300], "nan detected in layer 3", *json_lines()[300:]],
    "values alone.csv": csv_lines(lambda row: row.split(",")[1]),
    "losses alone.log": text_lines(lambda row: row.split()[3]),
    "glued counts.log": text_lines(lambda row: "it{1}: {3}".format(*row.split())),
    "a perplexity.log": text_lines(
        lambda row: f"step {row.split()[1]} ppl: {np.exp(float(row.split()[3])):.4f}"
    ),
    "an error in place of the loss.jsonl": json_lines(
        lambda row: json.dumps({"step": row["step"], "mse": row["loss"]})
    ),
    "a word.log": text_lines(lambda row: f"{row.partition('loss')[0]}loss: broken! lr: 0.0001"),
}

COMPLETE = {
    "further cells.csv": csv_lines(lambda row: f"{row},1,2"),
    "semicolons.csv": csv_lines(lambda row: row.replace(",", ";")),
    "renamed.jsonl": json_lines(
        lambda row: json.dumps({**without(row, "loss"), "total_loss": row["loss"]})
    ),
    "another model's name.jsonl": json_lines(
        lambda row: json.dumps({**without(row, "loss"), "lm loss": row["loss"]})
    ),
    "a unit in a header.csv": [
        *csv_lines()[: CUT + 1],
        "step,loss (nats),lr",
        *csv_lines()[CUT + 1 :],
    ],
    "losses below steps.log": text_lines(lambda row: "step {1}\n{3}".format(*row.split())),
    "scores alone.log": [*text_lines(), *(f"{n / 80:.3f}" for n in range(40, 80))],
    "layers below.log": [*text_lines(), *(f"conv{n}: {n / 7:.3f}" for n in range(1, 40))],
    "nested lists.jsonl": json_lines(lambda row: json.dumps({**row, "loss": [[row["loss"]]]})),
    "a few values alone.csv": [*csv_lines(), *map(str, losses()[:9])],
    "errors of an evaluation.jsonl": [
        *(json.dumps({**json.loads(row), "mse": 0.5}) for row in json_lines()),
        *(json.dumps({"step": 400 + step, "mse": 0.5}) for step in range(9)),
    ],
    "no step.jsonl": json_lines(lambda row: json.dumps(without(row, "step"))),
    "whole.jsonl": json_lines(),
    "half a line.jsonl": [*json_lines(), '{"step": 400, "lo'],
    "half a row.csv": [*csv_lines(), "400,2."],
    "a summary.jsonl": [*json_lines(), json.dumps({"train_runtime": 12.5, "train_loss": 2.41})],
    "evaluations.jsonl": [
        *json_lines(),
        *(json.dumps({"step": 400 + step, "eval_loss": 2.1}) for step in range(5)),
    ],
    "long evaluations.jsonl": [
        *json_lines(),
        *(json.dumps({"step": 400 + step, "val/accuracy": 0.5 + step / 400}) for step in range(99)),
    ],
    "a few other records.jsonl": [
        *json_lines(),
        *(json.dumps({"step": 400 + step, "message": "saved"}) for step in range(9)),
    ],
    "a traceback.jsonl": [
        *json_lines(),
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "KeyboardInterrupt",
    ],
    "bars of evaluations.log": bar_lines(),
    "no unknown value.log": [
        *text_lines(),
        "No NaN found in the input",
        "NaNs found: 0",
        "Found NaN in sample 3, skipping it",
    ],
    "a value of the data.log": ["Found NaN in column age", *text_lines()],
    "a loss function.log": [*text_lines(), "Loss function: CE", "loss: see the board"],
    "last words.log": [*text_lines(), "Training done", "final loss: 2.01", "val loss: 2.2"],
}


def write(folder, name, lines):
    path = folder / name.replace(" ", "-")
    end = "" if name.startswith("half a") else "\n"
    path.write_text("\n".join(lines) + end)
    return path


@pytest.mark.parametrize("name", PARTLY)
def test_unread_parts_are_unknown(tmp_path, name):
    report = stabdiag.diagnose(write(tmp_path, name, PARTLY[name]))
    assert report.diagnosis.slug == report.tree.outcome.slug == "partly-read"
    assert report.diagnosis.severity == "warning"
    assert {a.question: a.verdict for a in report.tree.answers}["Q1.1"] == "unknown"
    assert not report.ok


@pytest.mark.parametrize("name", COMPLETE)
def test_text_after_the_training_is_not_left_out(tmp_path, name):
    report = stabdiag.diagnose(write(tmp_path, name, COMPLETE[name]))
    assert "partly-read" not in {finding.slug for finding in report.findings}
    assert report.history.left_out == []


def test_the_numbers_are_those_of_the_log(tmp_path):
    name = "a broken value.jsonl"
    diagnosis = stabdiag.diagnose(write(tmp_path, name, PARTLY[name])).diagnosis
    assert diagnosis.evidence == {
        "records": CUT,
        "losses": CUT,
        "judged_until": CUT - 1,
        "lines_left_out": ROWS - CUT,
    }
    assert "up to step 199" in diagnosis.summary
    assert "200 lines" in diagnosis.summary


def test_half_of_a_compressed_file_is_partly_read(tmp_path):
    packed = gzip.compress("\n".join(json_lines()).encode())
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert stabdiag.diagnose(path).diagnosis.slug == "partly-read"
    path.write_bytes(packed)
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"


def test_half_of_a_document_is_partly_read_and_an_open_list_is_not(tmp_path):
    rows = ",\n".join(json_lines())
    path = tmp_path / "trainer_state.json"
    path.write_text(f'{{"log_history": [{rows}], "max_steps": 400}}'[: len(rows) // 2])
    cut = stabdiag.diagnose(path)
    assert cut.diagnosis.slug == "partly-read"
    losses = cut.history.series["loss"].values
    assert f"The loss went from {num(losses[0])} to {num(losses[-1])}" in cut.diagnosis.summary
    path = tmp_path / "log.json"
    path.write_text(f"[{rows},\n")
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"


def test_half_of_an_archive_is_partly_read(tmp_path):
    log, archive = write(tmp_path, "run.jsonl", json_lines()), tmp_path / "run.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(log, "run.jsonl")
    archive.write_bytes(archive.read_bytes()[:8000])
    assert stabdiag.diagnose(archive).diagnosis.slug == "partly-read"


def test_a_nan_still_heads_the_report(tmp_path):
    lines = json_lines()
    lines[150] = '{"step": 150, "loss": NaN}'
    report = stabdiag.diagnose(write(tmp_path, "run.jsonl", [*lines, '{"step": 400, "loss": ?}']))
    assert [finding.slug for finding in report.findings][:2] == ["nan-dtype-unknown", "partly-read"]


@pytest.mark.parametrize("command", ["diagnose", "check"])
@pytest.mark.parametrize(
    ("fail_on", "code"), [("error", 2), ("warning", 2), ("unknown", 2), ("never", 0)]
)
def test_the_exit_code_of_a_part_is_that_of_an_unread_log(
    stabdiag_command, tmp_path, command, fail_on, code
):
    path = write(tmp_path, "run.jsonl", PARTLY["a broken value.jsonl"])
    assert stabdiag_command(command, str(path), "--fail-on", fail_on).code == code


def test_an_additional_error_fails_the_check(stabdiag_command, tmp_path):
    lines = [*json_lines(), '{"step": 400, "loss": ?}']
    lines[150] = '{"step": 150, "loss": NaN}'
    assert stabdiag_command("diagnose", str(write(tmp_path, "run.jsonl", lines))).code == 1


@pytest.mark.parametrize("command", ["diagnose", "check"])
@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("unknown", 2)])
def test_too_little_data_is_open_only_on_request(
    stabdiag_command, tmp_path, command, fail_on, code
):
    path = write(tmp_path, "run.jsonl", json_lines()[:7])
    assert stabdiag_command(command, str(path), "--fail-on", fail_on).code == code


def test_formats_report_an_error_of_the_check(tmp_path):
    report = stabdiag.diagnose(write(tmp_path, "run.jsonl", PARTLY["a broken value.jsonl"]))
    suite = ET.fromstring(render(report, "junit"))
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    assert suite.find(".//error").get("type") == "partly-read"
    assert render(report, "github").startswith("::error ")
    assert json.loads(render(report, "gitlab"))[0]["severity"] == "blocker"
    (run,) = json.loads(render(report, "sarif"))["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_an_ignored_part_is_not_an_error(stabdiag_command, tmp_path):
    path = write(tmp_path, "run.jsonl", PARTLY["a broken value.jsonl"])
    config = tmp_path / "stabdiag.toml"
    config.write_text('[[ignore]]\nfinding = "partly-read"\nreason = "known"\nuntil = 2100-01-01\n')
    assert stabdiag_command("diagnose", str(path), "--config", str(config)).code == 0


def test_settings_that_turn_a_check_green_are_named(stabdiag_command, tmp_path):
    path = write(tmp_path, "run.jsonl", PARTLY["a broken value.jsonl"])
    config = tmp_path / "stabdiag.toml"
    config.write_text('fail-on = "never"\n')
    result = stabdiag_command("check", str(path), "--config", str(config))
    assert result.code == 0
    assert "stabdiag.toml: fail-on is never" in result.err


def test_a_converted_log_is_not_a_complete_log(tmp_path):
    stabdiag.convert(
        write(tmp_path, "run.jsonl", PARTLY["a broken value.jsonl"]), tmp_path / "k.parquet"
    )
    assert stabdiag.diagnose(tmp_path / "k.parquet").diagnosis.slug == "partly-read"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_non_finite_loss_without_a_step_is_unknown(tmp_path, value):
    """It is a part of the log that was not judged, wherever it is."""
    lines = json_lines()
    lines[90] = f'{{"loss": {value}}}'
    report = stabdiag.diagnose(write(tmp_path, "log.jsonl", lines))
    assert report.diagnosis.slug == "partly-read"
    assert "1 record with a loss that is not finite has no step" in report.diagnosis.summary


@pytest.mark.parametrize("line", ['{"loss": 2.5}', '{"step": NaN, "loss": NaN, "val_loss": 2.4}'])
def test_other_records_without_a_step_are_not_missing(tmp_path, line):
    lines = json_lines()
    lines[90] = line
    report = stabdiag.diagnose(write(tmp_path, "log.jsonl", lines))
    assert "partly-read" not in {finding.slug for finding in report.findings}


PRETRAINED = [6.5 - n / 10 for n in range(30)]


@pytest.mark.parametrize(
    ("losses", "is_partly_read"),
    [
        (PRETRAINED, False),
        ([*PRETRAINED[:-1], float("nan")], True),
        (PRETRAINED[::-1], True),
    ],
)
def test_a_pretraining_that_fell_hides_nothing(tmp_path, losses, is_partly_read):
    lines = [f"[PRE] epoch {n} : pre_loss = {loss:.3f}" for n, loss in enumerate(losses)]
    lines += [
        f"[ADV] epoch {5 * n}: g_loss: {1 + n % 3 / 10}, d_loss: {0.6 + n % 5 / 9}"
        for n in range(40)
    ]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines))
    slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
    assert ("partly-read" in slugs) == is_partly_read


@pytest.mark.parametrize("cut", [30, 300])
def test_rows_that_drop_their_loss_for_good_are_not_read(tmp_path, cut):
    """Rows may lack their last cells; here the last one is the loss."""
    path = tmp_path / "run.csv"
    ends = ["" if row % 3 == 1 or row > cut else f",{loss}" for row, loss in enumerate(losses())]
    path.write_text("step,lr,loss\n" + "".join(f"{n},0.1{end}\n" for n, end in enumerate(ends)))
    assert stabdiag.diagnose(path).diagnosis.slug == "partly-read"
