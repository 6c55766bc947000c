"""Logs whose lines are wrapped in JSON."""

import gzip
import json

import pytest

from stabdiag import read
from stabdiag.errors import LogError
from tests.readers.conftest import read_columns

STEPS = [*range(0, 400, 10)]
LOSSES = [round(3 - step / 400, 4) for step in STEPS]
TIME = "2026-01-02T03:04:05.678Z"

LINES = {
    "text": [
        "starting",
        *(f"step {step} loss {loss} lr 0.001" for step, loss in zip(STEPS, LOSSES, strict=True)),
    ],
    "json": [json.dumps({"step": n, "loss": x}) for n, x in zip(STEPS, LOSSES, strict=True)],
    "csv": ["step,loss", *(f"{n},{x}" for n, x in zip(STEPS, LOSSES, strict=True))],
}

WRAPPINGS = {
    "docker": lambda line: {"log": f"{line}\n", "stream": "stdout", "time": TIME},
    "fluentd": lambda line: {"log": line, "kubernetes": {"pod_name": "train-0", "restarts": 2}},
    "logger": lambda line: {"levelname": "INFO", "message": line, "lineno": 7},
    "journald": lambda line: {"MESSAGE": line, "PRIORITY": "6"},
    "loguru": lambda line: {"text": f"{line}\n", "record": {"elapsed": {"seconds": 7.5}}},
}


ROWS = "".join(f"<tr><td>{n}</td>\n<td>{x}</td></tr>" for n, x in zip(STEPS, LOSSES, strict=True))
TABLE = f"<table><thead><tr style=''><th>Step</th><th>Training Loss</th></tr></thead>{ROWS}</table>"
OUTPUTS = {
    "printed": {"output_type": "stream", "name": "stdout", "text": "\n".join(LINES["text"])},
    "printed line by line": {
        "output_type": "stream",
        "text": [f"{line}\n" for line in LINES["text"]],
    },
    "a table": {
        "output_type": "display_data",
        "data": {"text/html": ["<p>[40/40]</p>", TABLE], "text/plain": ["<HTML object>"]},
    },
}


@pytest.fixture
def log(put):
    def write(records, name="train.json"):
        text = "".join(f"{json.dumps(record)}\n" for record in records).encode()
        return read_columns(put(gzip.compress(text) if name.endswith(".gz") else text, name))

    return write


@pytest.mark.parametrize("name", ["train.log", "train.jsonl", "train.json.gz"])
@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_the_lines_are_read(log, wrap, lines, name):
    columns = log(map(wrap, lines), name)
    for role, expected in (("step", STEPS), ("loss", LOSSES)):
        column = columns.load(role)
        assert column.values[column.present].tolist() == expected
    assert "the lines of the log are in the field" in columns.events[0].message


def test_kaggle_logs_are_unwrapped(put):
    lines = (f"step {n} loss {x}\n" for n, x in zip(STEPS, LOSSES, strict=True))
    records = ({"stream_name": "stdout", "time": 1.5, "data": line} for line in lines)
    text = "\n,".join(json.dumps(record, separators=(",", ":")) for record in records)
    loss = read(put(f"[{text}\n]\n", "notebook.log")).series["loss"]
    assert (loss.steps.tolist(), loss.values.tolist()) == (STEPS, LOSSES)


def test_a_long_line_that_docker_cut(log):
    line = json.dumps({"step": 1, "loss": 2.5, "note": "x" * 300})
    cut = [{"log": line[:100]}, {"log": line[100:200]}, {"log": f"{line[200:]}\n"}]
    columns = log([*({"log": f"{text}\n"} for text in LINES["json"][:5]), *cut])
    assert columns.load("loss").values.tolist() == [*LOSSES[:5], 2.5]


@pytest.mark.parametrize("key", ["message", "event", "text"])
def test_records_with_a_loss_are_not_wrapped_lines(log, key):
    records = [
        {key: f"step {2 * n}, loss 7", "step": n, "train": {"loss": x}}
        for n, x in enumerate(LOSSES)
    ]
    assert log(records).load("train/loss").values.tolist() == LOSSES


def test_other_texts_in_records_are_not_a_log(log):
    columns = log([{"text": "yes", "rank": float(n)} for n in range(9)])
    assert columns.names == ("text", "rank")
    with pytest.raises(LogError, match="a text without a training loss"):
        log([{"text": f"what a day, o{'o' * n}h", "rank": n} for n in range(9)])


def test_lines_of_another_kind_among_them_stay(put):
    wrapped = [json.dumps(WRAPPINGS["docker"](line)) for line in LINES["text"]]
    text = "\n".join([*wrapped[:21], "step 195 loss 2.5 lr 0.5", *wrapped[21:], '{"lo'])
    steps = read_columns(put(text)).load("step")
    assert steps.values.tolist() == [*STEPS[:20], 195, *STEPS[20:]]


def notebook(*outputs):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Training\n", "step 1 loss 2"]},
        {"cell_type": "code", "execution_count": 1, "outputs": outputs, "source": ["train()"]},
        {"cell_type": "code", "execution_count": None, "outputs": [], "source": []},
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_notebook_outputs_are_unwrapped(put, output):
    fault = {"output_type": "error", "ename": "OutOfMemoryError", "evalue": "CUDA out of memory"}
    nothing = {"output_type": "stream", "text": []}
    history = read(put(notebook(nothing, output, fault), "train.ipynb"))
    assert history.series["loss"].steps.tolist() == STEPS
    assert history.series["loss"].values.tolist() == LOSSES


def test_a_table_of_a_notebook_has_no_line_too_many(put):
    columns = read_columns(put(notebook(OUTPUTS["a table"]), "train.ipynb"))
    assert (columns.rows, columns.bad_count) == (len(STEPS), 0)


def test_a_bar_in_a_cell_of_a_table_ends_no_cell(put):
    rows = "".join(f"<tr><td>a|b</td><td>{n}</td><td>{9 - n}</td></tr>" for n in range(5))
    table = f"<table><tr><th>Run</th><th>Step</th><th>Loss</th></tr>{rows}</table>"
    columns = read_columns(put(notebook({"data": {"text/html": table}}), "train.ipynb"))
    assert columns.load("Loss").values.tolist() == [9, 8, 7, 6, 5]


def test_odd_outputs_and_none(put):
    odd = [{"text": None}, {"text": [1, "2\n"]}, {"data": {"text/html": 7}}]
    path = put(notebook(*odd, OUTPUTS["printed"]), "train.ipynb")
    assert read(path).series["loss"].values.tolist() == LOSSES
    with pytest.raises(LogError, match="it contains no output of the program"):
        read(put(notebook(), "train.ipynb"))


@pytest.mark.parametrize("text", ['{"cells": [{"cell_type": 1}', '{"cells": ["cell_type", 7]}'])
def test_a_notebook_that_is_none(put, text):
    with pytest.raises(LogError, match=r"no record could be read|no column looks like"):
        read(put(text, "train.ipynb"))
