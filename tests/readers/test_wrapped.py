"""Logs whose lines stand in JSON."""

from __future__ import annotations

import gzip
import json

import pytest

from stabdiag.errors import LogError
from stabdiag.readers import read_columns

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


@pytest.fixture
def log(tmp_path):
    def write(records, name: str = "train.json"):
        path = tmp_path / name
        text = "".join(f"{json.dumps(record)}\n" for record in records).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return read_columns(path)

    return write


@pytest.mark.parametrize("name", ["train.log", "train.jsonl", "train.json.gz"])
@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_the_lines_are_read(log, wrap, lines, name):
    columns = log(map(wrap, lines), name)
    for role, expected in (("step", STEPS), ("loss", LOSSES)):
        column = columns.load(role)
        assert column.values[column.present].tolist() == expected
    assert "in JSON, and are read from there" in columns.events[0].message


def test_a_long_line_that_docker_cut(log):
    line = json.dumps({"step": 1, "loss": 2.5, "note": "x" * 300})
    cut = [{"log": line[:100]}, {"log": line[100:200]}, {"log": f"{line[200:]}\n"}]
    columns = log([*({"log": f"{one}\n"} for one in LINES["json"][:5]), *cut])
    assert columns.load("loss").values.tolist() == [*LOSSES[:5], 2.5]


@pytest.mark.parametrize("key", ["message", "event", "text"])
def test_records_that_tell_of_a_loss_are_no_wrapping(log, key):
    records = [
        {key: f"step {2 * n}, loss 7", "step": n, "train": {"loss": x}}
        for n, x in enumerate(LOSSES)
    ]
    assert log(records).load("train/loss").values.tolist() == LOSSES


def test_other_texts_in_records_are_no_log(log):
    columns = log([{"text": "yes", "rank": float(n)} for n in range(9)])
    assert columns.names == ("text", "rank")
    with pytest.raises(LogError, match="a text log in which no line of a known framework"):
        log([{"text": f"what a day, number {n}", "rank": n} for n in range(9)])


def test_lines_of_another_kind_among_them_stay(tmp_path):
    path = tmp_path / "train.log"
    wrapped = [json.dumps(WRAPPINGS["docker"](line)) for line in LINES["text"]]
    path.write_text("\n".join([*wrapped[:21], "step 195 loss 2.5 lr 0.5", *wrapped[21:], '{"lo']))
    assert read_columns(path).load("step").values.tolist() == [*STEPS[:20], 195, *STEPS[20:]]
