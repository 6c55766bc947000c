"""Wide logs: many columns, which Arrow reads to one array, next to columns of other types."""

import json

import numpy as np
import pyarrow as pa
import pytest

import stabdiag
from stabdiag.readers.arrow import MANY_COLUMNS, ArrowTable, schema_layout
from stabdiag.readers.blocks import line_starts
from stabdiag.readers.json import arrow
from stabdiag.readers.words import NULL

LAYERS = MANY_COLUMNS + 50


def records(rows=300):
    random = np.random.default_rng(0)
    names = [f"grad_norm/layers.{number}" for number in range(LAYERS)]
    for step in range(rows):
        norms = dict(zip(names, random.random(LAYERS).tolist(), strict=True))
        yield {"step": step, "loss": 3.0 / (step + 1), "name": f"run{step % 3}", **norms}


@pytest.mark.parametrize("ending", [b"", b"\n"])
@pytest.mark.parametrize("length", [1, 3000])
def test_line_starts_of_short_and_long_lines(length, ending):
    lines = [b"x" * length, b"", b"y" * length]
    block = b"\n".join(lines) + ending
    assert line_starts(block).tolist() == [0, length + 1, length + 2]
    assert line_starts(b"").tolist() == []


def test_floats_of_a_wide_table_are_one_array():
    rows = list(records(5))
    table = ArrowTable(pa.Table.from_pylist(rows))
    first, last = (table.numbers(f"grad_norm/layers.{at}")[0] for at in (0, LAYERS - 1))
    assert first.base is last.base is not None
    assert first.tolist() == [row["grad_norm/layers.0"] for row in rows]
    assert table.numbers("step") is None
    assert table.piece("step").values.tolist() == [0, 1, 2, 3, 4]
    assert table.piece("name").words == ["run0", "run1", "run2", "run0", "run1"]


def test_a_column_with_a_null_is_not_part_of_the_array():
    rows = list(records(5))
    rows[2]["grad_norm/layers.7"] = None
    table = ArrowTable(pa.Table.from_pylist(rows))
    assert table.numbers("grad_norm/layers.7") is None
    assert (table.piece("grad_norm/layers.7").states == NULL).tolist() == [0, 0, 1, 0, 0]
    assert table.numbers("grad_norm/layers.8")[0].tolist() == [
        row["grad_norm/layers.8"] for row in rows
    ]


def test_equal_schemas_share_a_layout():
    first, second = (pa.schema([("a", pa.float64()), ("b", pa.int64())]) for _ in range(2))
    assert schema_layout(first) is schema_layout(second)
    other = schema_layout(pa.schema([("a", pa.float64()), ("b", pa.struct([("a", pa.date32())]))]))
    assert other.is_nested
    assert other.has_inner_times
    assert not other.has_times
    assert dict(other.paths) == {"a": (0,), "b/a": (1, 0)}


@pytest.mark.parametrize("depth", [2, 400])
def test_deep_records_are_left_to_the_tolerant_reader(depth):
    wide = ", ".join(f'"a{number}": 0.5' for number in range(1000))
    line = f'{{{wide}, "x": {"[" * depth}1{"]" * depth}}}\n'
    block = (line * 3).encode()
    assert (arrow.read_block(block) is None) == (depth > 256)


def test_wide_logs_are_read_alike_by_both_readers(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(record)}\n" for record in records()))
    history = stabdiag.read(log)  # 1.6 MB: by Arrow
    rows = list(records())
    for role in ("loss", "grad_norm/layers.0", f"grad_norm/layers.{LAYERS - 1}"):
        assert history.series[role].values.tolist() == [row[role] for row in rows]


def test_line_ends_of_python_are_read_like_others(tmp_path):
    text = "step,loss\n" + "".join(f"{step},{3 / (step + 1)}\n" for step in range(200))
    (tmp_path / "unix.csv").write_bytes(text.encode())
    (tmp_path / "python.csv").write_bytes(text.replace("\n", "\r\n").encode())
    unix, python = (stabdiag.read(tmp_path / f"{name}.csv") for name in ("unix", "python"))
    assert unix.series["loss"].values.tolist() == python.series["loss"].values.tolist()
    assert [event.message for event in unix.events] == [event.message for event in python.events]
