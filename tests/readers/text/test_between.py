"""Messages between the records of a machine-readable log."""

import io
import json

import numpy as np
import pytest

from stabdiag.model.events import EventCode
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import sniff
from stabdiag.readers.source import Stream

MESSAGES = {
    3: ["Saving checkpoint to run/3.pt"],
    5: ["Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 16384.0"],
    # A sentence with as many commas as the table of two columns has.
    8: ["Loss is nan, stopping training"],
    9: [
        "Traceback (most recent call last):",
        '  File "train.py", line 7, in <module>',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ],
}
FORMS = {
    "jsonl": ("", lambda step: json.dumps({"step": 10 * step, "loss": 4 - 0.1 * step})),
    "csv": ("step,loss\n", lambda step: f"{10 * step},{4 - 0.1 * step}"),
    "csv|": ("|step|loss|\n|---|---|\n", lambda step: f"|{10 * step}|{4 - 0.1 * step}|"),
    "printed-table": (
        "  step    loss\n------  ------\n",
        lambda step: f"{10 * step:>6}  {4 - 0.1 * step:6.2f}",
    ),
}


@pytest.fixture(params=[*FORMS])
def log(request):
    """Return the format and text of a log of 10 records and the number of lines above them."""
    above, row = FORMS[request.param]
    lines = [line for step in range(10) for line in [row(step), *MESSAGES.get(step, [])]]
    return request.param.rstrip("|"), above + "\n".join(lines) + "\n", above.count("\n")


@pytest.fixture
def columns(log):
    name, text, _ = log
    return reader(name).read(Stream("run.log", io.BytesIO(text.encode())))


def test_messages_have_a_line_and_a_step(columns, log):
    messages = [(event.code, event.line - log[2], event.step) for event in columns.events]
    assert messages == [
        (EventCode.NOT_FINITE, 12, 81),
        (EventCode.OUT_OF_MEMORY, 14, 90),
    ]
    out_of_memory = columns.events[1]
    assert out_of_memory.quote.startswith("torch.OutOfMemoryError")


def test_losses_and_scales_make_records(columns):
    assert columns.rows == 12
    steps, losses = columns.load("step"), columns.load("loss")
    assert steps.values.tolist() == [0, 10, 20, 30, 40, 50, 51, 60, 70, 80, 81, 90]
    assert np.flatnonzero(np.isnan(losses.values) & losses.present).tolist() == [10]
    assert np.flatnonzero(~losses.present).tolist() == [6]
    assert columns.load("loss_scale").logged.tolist() == [16384]
    assert columns.load("skipped_step").logged.tolist() == [1]


def test_only_meaningless_lines_are_unreadable(columns, log):
    # The rows of a printed table may have any text between them.
    assert columns.bad_count == (0 if log[0] == "printed-table" else 1)


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_records_are_found_below_many_lines(name):
    above, row = FORMS[name]
    header = "".join(f"[10:00:{n}] [INFO] option_{n}: {n}\n" for n in range(40))
    text = f"{header}{above}" + "".join(f"{row(n)}\n" for n in range(60))
    assert sniff(Stream("run.log", io.BytesIO(text.encode()))).name == name


def test_a_nan_message_overrides_the_number_of_the_next_record(read):
    columns = read("csv", "step,loss\n1,2.5\n2,2.4\nLoss is nan, stopping training\n3,0.0\n4,2.3\n")
    assert columns.rows == 4
    assert np.isnan(columns.load("loss").values).tolist() == [False, False, True, False]


@pytest.mark.parametrize(("name", "row"), [("csv", "{0},{1}"), ("jsonl", '{{"step":{0},"a":{1}}}')])
def test_a_long_log_gives_the_same_messages(name, row):
    rows = [row.format(step, 2.5) for step in range(60_000)]
    rows.insert(50_000, "CUDA out of memory")
    rows.insert(50_000, "Loss is nan, stopping training")
    head = "step,a\n" if name == "csv" else ""
    data = (head + "\n".join(rows)).encode()
    reads = [
        reader(name).functions().read(Stream("run", io.BytesIO(data)), small=small)
        for small in (-1, 1 << 40)
    ]
    for columns in reads:
        assert [event.step for event in columns.events] == [50_000, 50_000]
        assert (columns.rows, columns.bad_count) == (60_000, 0)
        assert np.flatnonzero(columns.load("loss").present).tolist() == [50_000]
