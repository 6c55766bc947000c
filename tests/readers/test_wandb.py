"""Run files that W&B itself wrote, whole and damaged."""

import contextlib
import io
import math
import os
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from hypothesis import given
from hypothesis import strategies as st

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers.source import Stream
from stabdiag.readers.stores import wandb
from stabdiag.readers.stores.leveldb import MESSAGES, record_class
from tests.conftest import python
from tests.readers.conftest import read_columns

WRITER = Path(__file__).parent / "stores" / "write_wandb.py"
HEADER = b":W&B\xe1\xbe\x00"
BREAKS_OFF = "run breaks off inside a record; all before that is read"


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    """A run that the installed W&B wrote, in a process of its own as it starts others."""
    folder = tmp_path_factory.mktemp("wandb")
    folders = {name: str(folder) for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR")}
    environment = {**os.environ, **folders, "WANDB_ERROR_REPORTING": "false"}
    environment.pop("PYTHONPATH", None)
    python(WRITER, folder, check=True, env=environment, cwd=folder)
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    return file


def columns_of(data):
    return wandb.read(Stream("run", io.BytesIO(data)))


def framed(contents):
    """Write records as LevelDB does; return the file and the end of each record."""
    out = bytearray(HEADER)
    ends = []
    for content in contents:
        first, remaining = True, content
        while first or remaining:
            left = -len(out) % 32768
            if left < 7:
                out += bytes(left)
                left = 32768
            part, remaining = remaining[: left - 7], remaining[left - 7 :]
            kind = {(True, False): 1, (True, True): 2, (False, True): 3, (False, False): 4}[
                first, bool(remaining)
            ]
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
        ends.append(len(out))
    return bytes(out), ends


@cache
def records_of_wandb():
    """Return W&B's class of a record; to import it takes more than a second."""
    from wandb.proto.wandb_internal_pb2 import Record

    return Record


def history(step, **values):
    record = records_of_wandb()()
    record.history.step.num = step
    for key, value in values.items():
        record.history.item.add(key=key, value_json=value)
    return record.SerializeToString()


def test_the_history_is_what_was_logged(run_file):
    columns = read_columns(run_file)
    assert (columns.format, columns.rows, columns.notes) == ("wandb", 20, ())
    assert columns.load("_step").values.tolist() == [10 * step for step in range(20)]
    odd = {7: math.nan, 8: math.inf, 9: -math.inf}
    np.testing.assert_array_equal(
        columns.load("train/loss").values, [odd.get(s, 2 + 1 / (s + 1)) for s in range(20)]
    )
    assert columns.load("train/loss").present.all()
    assert columns.load("train/lr").values.tolist() == [step / 1000 for step in range(20)]
    evaluation = columns.load("eval/loss")
    assert np.flatnonzero(evaluation.present).tolist() == [4, 9, 14, 19]
    assert columns.load("eval/text").is_text


def test_the_configuration_is_read(run_file):
    assert read_columns(run_file).config == {
        "lr": 3e-4,
        "precision": "bf16",
        "optimizer": {"name": "adamw", "weight_decay": 0.1},
    }
    manifest = stabdiag.diagnose(run_file).manifest
    assert (manifest.dtype, manifest.peak_lr, manifest.weight_decay) == ("bf16", 3e-4, 0.1)


def test_printed_errors_and_the_exit_code_are_events(run_file):
    out_of_memory, end = read_columns(run_file).events
    assert "CUDA out of memory. Tried to allocate 2.00 GiB" in out_of_memory.message
    assert out_of_memory.step in (110, 120)  # W&B writes a step when the next one begins
    assert end.message == "the run ended with exit code 3"


def test_cut_anywhere_all_before_the_cut_is_read(run_file):
    data = run_file.read_bytes()
    intact = columns_of(data).load("train/loss").values
    rows = []
    for cut in range(len(data) - 1024, len(data), 7):
        columns = columns_of(data[:cut])
        np.testing.assert_array_equal(columns.load("train/loss").values, intact[: columns.rows])
        assert columns.notes in ((), (BREAKS_OFF,))
        assert "recorded no end of the run" in columns.events[-1].message or cut > len(data) - 100
        rows.append(columns.rows)
    assert rows == sorted(rows)


def test_a_cut_loses_no_record_before_it():
    data, ends = framed([history(s, loss=f"{3 - s / 10}", note='"abc"') for s in range(60)])
    for cut in range(len(data) - 300, len(data)):
        columns = columns_of(data[:cut])
        assert columns.rows == sum(end <= cut for end in ends)
        assert columns.notes == (() if cut in ends else (BREAKS_OFF,))


def test_records_across_blocks_are_joined():
    data, _ = framed([history(s, loss=f"{s}.5", text=f'"{"x" * 3000}"') for s in range(100)])
    assert len(data) > 9 * 32768
    columns = columns_of(data)
    assert columns.load("loss").values.tolist() == [s + 0.5 for s in range(100)]
    assert columns.notes == ()
    assert columns_of(data.ljust(20 * 32768, b"\0")).rows == 100


def test_records_after_damage_are_read():
    data, ends = framed([history(s, loss=f"{s}.5", text=f'"{"x" * 300}"') for s in range(500)])
    inside = bytearray(data)
    inside[ends[9] + 50] ^= 255
    columns = columns_of(bytes(inside))
    assert columns.rows == 499
    assert columns.notes == ("run is damaged in 1 place: the records there are lost",)
    hole = data[:40_000] + bytes(500) + data[40_500:]
    columns = columns_of(hole)
    lost = [s for s in range(500) if s + 0.5 not in columns.load("loss").values]
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert ends[lost[0]] > 40_000
    assert ends[lost[-1]] <= 2 * 32768 + 1000
    assert columns.notes == ("run is damaged in 1 place: the records there are lost",)


@pytest.mark.parametrize("written", ["NaN", '"NaN"', '"Infinity"', "-Infinity"])
def test_values_that_are_not_finite(written):
    data, _ = framed([history(0, loss="1"), history(1, loss=written)])
    loss = columns_of(data).load("loss")
    assert loss.present.all()
    assert not math.isfinite(loss.values[1])


def test_members_that_are_not_numbers():
    members = {
        "loss": "2.5",
        "ok": "true",
        "none": "null",
        "image": '{"_type": "image-file", "width": 3}',
        "deep": '{"a": {"b": 1}, "c": [1, 2]}',
        "broken": "{",
        "list": "[1, 2]",
        "deepest": '{"a":' * 960 + "1" + "}" * 960,
        "beyond": '{"a":' * 100_000,
    }
    columns = columns_of(framed([history(3, **members)])[0])
    names = [name for name in columns.names if not name.startswith("deepest")]
    assert names == ["_step", "beyond", "broken", "deep/a/b", "loss", "none", "ok"]
    assert columns.load("_step").values.tolist() == [3]
    assert columns.load("ok").values.tolist() == [1]
    assert columns.load("none").null.tolist() == [True]


def test_a_long_run_is_read_in_bunches():
    data, _ = framed([history(s, loss=f"{s}.25") for s in range(10_000)])
    columns = columns_of(data)
    assert columns.rows == 10_000
    assert columns.load("loss").values.tolist() == [s + 0.25 for s in range(10_000)]


def test_a_run_that_logged_nothing_says_so():
    with pytest.raises(NoUsableRecord, match=r"run: no record could be read; the run logged"):
        columns_of(framed([])[0])
    with pytest.raises(NoUsableRecord, match=r"logged nothing \(run breaks off"):
        columns_of(framed([history(0, loss="1")])[0][:-1])


@given(st.binary(max_size=400), st.binary(max_size=40))
def test_random_bytes_give_records_or_an_error(data, content):
    for file in (HEADER + data, framed([content])[0] + data):
        with contextlib.suppress(LogError):
            assert columns_of(file).rows > 0


def declared(message):
    proto = DescriptorProto()
    message.CopyToProto(proto)
    return {field.name: (field.number, field.type, field.label) for field in proto.field}


def test_the_records_are_declared_as_wandb_declares_them():
    own_record, wandb_record = record_class().DESCRIPTOR, records_of_wandb().DESCRIPTOR
    for name, fields in MESSAGES.items():
        own, expected = (
            declared(record.file.message_types_by_name[name])
            for record in (own_record, wandb_record)
        )
        assert own.keys() == {field for field, _, _ in fields}
        assert own.items() <= expected.items()
