"""The summary that W&B prints at the end of a run, as the only record of a paste."""

import pytest

import stabdiag
from stabdiag.errors import LogError

HISTORY = {
    "eval/loss": "█▄▂▁",
    "train/epoch": "▁▂▃▄▅▆▇█",
    "train/loss": "█▅▄▃▂▂▁▁",
}
SUMMARY = {
    "eval/loss": "1.0412",
    "eval/runtime": "12.31",
    "total_flos": "1.2e+16",
    "train/epoch": "3.0",
    "train/global_step": "1200",
    "train/grad_norm": "0.812",
    "train/loss": "0.8731",
}


def block(heading, values, label="wandb: "):
    rows = "".join(f"{label}{name:>18} {value}\n" for name, value in values.items())
    return f"{label}{heading}:\n{rows}"


def both(label="wandb: ", **changed):
    return block("Run history", HISTORY, label) + block(
        "Run summary", {**SUMMARY, **changed}, label
    )


def read(tmp_path, text):
    (tmp_path / "output.log").write_text(text)
    return stabdiag.diagnose(tmp_path / "output.log")


@pytest.mark.parametrize(
    "text",
    [
        both(),
        both("(main pid=82, ip=10.0.0.1) wandb: "),
        both("[rank0]: wandb: "),
        both("\x1b[34m\x1b[1mwandb\x1b[0m: "),
        both("> wandb: "),
        block("Run summary", SUMMARY),
        "wandb: Waiting for the process to finish... (success).\nwandb: \n"
        + both()
        + "wandb: \nwandb: 🚀 View run a at: https://example.org/runs/a\n",
        # The output of a notebook.
        "Run summary:\n\n" + "".join(f"{name}\t{value}\n" for name, value in SUMMARY.items()),
    ],
)
def test_the_summary_is_a_record(tmp_path, text):
    report = read(tmp_path, text)
    assert report.diagnosis.slug == "insufficient-data"
    series = report.history.series
    assert (series["loss"].steps.tolist(), series["loss"].values.tolist()) == ([1200], [0.8731])
    assert series["eval_loss"].values.tolist() == [1.0412]


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "Infinity"])
def test_a_summary_of_a_failed_run_is_no_success(tmp_path, value):
    report = read(tmp_path, both(**{"train/loss": value}))
    assert report.diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize(
    "text",
    [
        block("Run history", HISTORY),
        block("Run summary", {"_runtime": "12.5", "gpu.0.temp": "51"}),
        "Run summary:\n\nthe loss fell and nothing else happened\n",
        "Run summary: the training loss 0.5 is low\n",
    ],
)
def test_a_text_without_final_values_is_refused(tmp_path, text):
    with pytest.raises(LogError):
        read(tmp_path, text)


def test_the_history_alone_is_called_a_picture(tmp_path):
    with pytest.raises(LogError, match="a picture or a page; pass the log with the numbers"):
        read(tmp_path, block("Run history", HISTORY, "(main pid=82) wandb: "))


def test_the_records_above_a_summary_count(tmp_path):
    records = "".join(f"step {n}: loss {3 / n:.3f}\n" for n in range(1, 9))
    history = read(tmp_path, records + both()).history
    assert len(history.series["loss"]) == 8
