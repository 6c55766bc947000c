"""A log that comes in pieces is read as one that came as a whole."""

import io
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers import read_stream
from stabdiag.readers.columns import every_column
from stabdiag.readers.registry import READERS
from stabdiag.readers.source import Stream
from stabdiag.sources import ReadRequest
from stabdiag.watch.grown import GrownLog
from tests.conftest import RUNS

SAMPLES = Path(__file__).parents[1] / "readers" / "samples"
LOGS = sorted(
    path
    for path in [*SAMPLES.glob("*/*"), *sorted(RUNS.glob("*/log.[!r]*"))[::6]]
    if path.is_file() and path.suffix not in (".json", ".parquet", ".gz", ".md")
)
BY_LINES = [reader.name for reader in READERS if reader.text or reader.name == "jsonl"]


@pytest.fixture
def grow():
    """Return a function that makes a log that grows."""
    with ExitStack() as made:

        def make(name, settled=1 << 22):
            grown = GrownLog(
                name, ReadRequest(format=None, is_required=every_column), settled=settled
            )
            made.callback(grown.close)
            return grown

        yield make


def read(path):
    try:
        return read_stream(Stream(str(path), io.BytesIO(path.read_bytes())))
    except LogError as error:
        return str(error)


def pieces(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


def is_same(reader, other):
    same = (reader.format, reader.rows, reader.bad_lines, reader.bad_count, reader.config) == (
        other.format,
        other.rows,
        other.bad_lines,
        other.bad_count,
        other.config,
    )
    return (
        same
        and set(reader.names) == set(other.names)
        and all(
            np.array_equal(a, b, equal_nan=True)
            for name in reader.names
            for a, b in zip(parts(reader, name), parts(other, name), strict=True)
        )
    )


def parts(columns, name):
    reader = columns.load(name)
    return [np.where(reader.present, reader.values, np.nan), reader.present, reader.null]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_log_in_pieces_is_the_same_log(grow, path, monkeypatch):
    monkeypatch.setattr("stabdiag.watch.grown._GROWN_BLOCK", 2000)
    expected = read(path)
    grown = grow(str(path), settled=3000)
    for piece in pieces(path.read_bytes(), 1777):
        grown.add(piece)
    if isinstance(expected, str):
        with pytest.raises(LogError):
            grown.columns(is_complete=True)
    else:
        assert is_same(grown.columns(is_complete=True), expected)


def test_most_formats_of_lines_are_not_read_twice():
    growing = [reader.name for reader in READERS if reader.growing() is not None]
    reread = {
        "alarms",
        "baselines",
        "coqui",
        "dowel",
        "hf-trainer-stdout",
        "printed-table",
        "rllib",
        "text",
        "yolo",
    }
    assert set(BY_LINES) - set(growing) == reread


def test_old_records_are_not_read_again(grow, monkeypatch):
    lines = [b'{"step": %d, "loss": %f}\n' % (step, 5 - step / 1e4) for step in range(9000)]
    grown = grow("run.jsonl", settled=1000)
    grown.add(b"".join(lines))
    monkeypatch.setattr(
        "stabdiag.readers.json.lines.read", lambda _stream: pytest.fail("it was read as a whole")
    )
    for _ in range(3):
        grown.add(lines[-1])
        assert grown.columns(is_complete=False).load("loss").present.all()
    assert grown.columns(is_complete=False).rows == 9003


def test_a_format_is_settled_only_where_no_later_line_can_change_it(grow, monkeypatch):
    """Some formats are looked for only where those that are tried first show in no line."""
    looks = sys.modules["stabdiag.readers.sniff"]  # the package has a function of this name
    monkeypatch.setattr(looks, "_HEAD_SIZES", (5000, 20_000))
    first = (SAMPLES / "mllog" / "plain.log").read_bytes()
    earlier = (SAMPLES / "megatron" / "plain.log").read_bytes()
    data = first * (6000 // len(first) + 1) + earlier
    grown = grow("train.log", settled=1000)
    for piece in pieces(data, 777):
        grown.add(piece)
    expected = read_stream(Stream("train.log", io.BytesIO(data)))
    assert grown.columns(is_complete=True).format == expected.format == "megatron"


@pytest.mark.parametrize("settled", [10, 10_000])
def test_half_a_line_waits_for_its_rest(grow, settled):
    grown = grow("run.jsonl", settled=settled)
    grown.add(b'{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2')
    assert grown.columns(is_complete=False).load("loss").values.tolist() == [2.5]
    assert grown.columns(is_complete=False).bad_count == 0
    assert grown.columns(is_complete=True).bad_count == 1
    grown.add(b".25}\n")
    assert grown.columns(is_complete=False).load("loss").values.tolist() == [2.5, 2.25]


@pytest.mark.parametrize("settled", [10, 10_000])
def test_half_a_line_of_one_file_is_not_joined_with_the_next_file(grow, settled):
    grown = grow("run.jsonl", settled=settled)
    grown.add(b'{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    grown.end_line()
    grown.end_line()
    grown.add(b'{"step": 3, "loss": 2.25}\n')
    columns = grown.columns(is_complete=False)
    assert columns.load("step").values.tolist() == [1, 3]
    assert columns.bad_count == 1


def test_nothing_is_an_error_until_something_comes(grow):
    grown = grow("run.jsonl")
    assert grown.is_empty
    with pytest.raises(NoUsableRecord, match="empty"):
        grown.columns(is_complete=True)
    grown.add(b'{"step": 1, "loss": 2.5}\n')
    assert grown.columns(is_complete=True).rows == 1
    grown.forget()
    assert grown.is_empty


def test_a_text_that_shows_its_format_late_is_looked_at_again(grow):
    grown = grow("train.log", settled=500)
    grown.add(200 * b"loading a shard of the data\n")
    with pytest.raises(LogError):
        grown.columns(is_complete=False)
    line = b" iteration %8d/ 1000 | lm loss: %.3E | loss scale: 1.0 | grad norm: 0.5 |\n"
    grown.add(b"".join(line % (step, 3.0) for step in range(1, 200)))
    assert grown.columns(is_complete=False).format == "megatron"


def test_a_long_log_that_is_read_again_each_time_goes_to_the_disk(grow, monkeypatch):
    monkeypatch.setattr("stabdiag.watch.grown._IN_MEMORY", 1000)
    grown = grow("run.csv", settled=2000)
    grown.add(b"step,loss\n")
    for step in range(500):
        grown.add(b"%d,2.5\n" % step)
    assert grown.columns(is_complete=False).rows == 500
