"""Event files as TensorBoard's own writers leave them, whole and damaged."""

import io
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import CRC_TABLE, masked_crc32c
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.scalar import summary_v2 as scalar
from tensorboard.plugins.text import summary_v2 as text
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_ndarray

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers.source import Stream
from stabdiag.readers.stores import tensorboard
from tests.readers.conftest import read_columns

BREAKS_OFF = "run breaks off inside a record; all before that is read"
SOUND = {}
ODD = {7: math.nan, 8: math.inf, 9: -math.inf}


def simple(tag, value):
    return Summary(value=[Summary.Value(tag=tag, simple_value=value)])


def written(folder, events, *, begun=1e9):
    """Write events with TensorBoard's writer and return the file."""
    writer = EventFileWriter(str(folder))
    for number, (step, summary) in enumerate(events):
        writer.add_event(Event(wall_time=begun + number, step=step, summary=summary))
    writer.close()
    (file,) = folder.glob("events.out.tfevents.*")
    return file


def columns_of(data):
    return tensorboard.read(Stream("run", io.BytesIO(data)))


def points(columns, name):
    column, steps = columns.load(name), columns.load("step").values
    return [(s, v) for s, v, p in zip(steps, column.values, column.present, strict=True) if p]


@pytest.fixture
def losses():
    return [
        (step, simple(tag, ODD.get(step, level + 1 / (step + 1))))
        for step in range(20)
        for tag, level in (("train/loss", 2), ("train/grad_norm", 0.5))
    ]


def test_scalars_equal_those_of_tensorboard(tmp_path, losses):
    file = written(tmp_path, losses)
    columns = read_columns(file)
    assert (columns.format, columns.rows) == ("tensorboard", 20)
    assert columns.names == ("step", "train/loss", "train/grad_norm", "wall_time")
    assert columns.notes == ()
    accumulator = EventAccumulator(str(file)).Reload()
    for tag in columns.names[1:-1]:
        expected = [(event.step, event.value) for event in accumulator.Scalars(tag)]
        np.testing.assert_array_equal(points(columns, tag), expected)
    assert np.isnan(columns.load("train/loss").values[7])
    written_at = [(event.step, event.wall_time) for event in accumulator.Scalars("train/grad_norm")]
    np.testing.assert_array_equal(points(columns, "wall_time"), written_at)


def test_scalars_as_tensorflow_writes_them(tmp_path):
    events = [(s, scalar.scalar_pb("loss", ODD.get(s, 3 - s / 10))) for s in range(12)]
    # After its first value a tag does not name its plugin any more.
    for _, summary in events[1:]:
        summary.value[0].ClearField("metadata")
    file = written(tmp_path, events)
    tensors = EventAccumulator(str(file), {"tensors": 0}).Reload().Tensors("loss")
    expected = [(event.step, make_ndarray(event.tensor_proto).item()) for event in tensors]
    np.testing.assert_array_equal(points(read_columns(file), "loss"), expected)


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (TensorProto(dtype=1, float_val=[1.5]), 1.5),
        (TensorProto(dtype=1, tensor_content=struct.pack("<f", 1.5)), 1.5),
        (TensorProto(dtype=2, double_val=[0.1]), 0.1),
        (TensorProto(dtype=2, tensor_content=struct.pack("<d", math.inf)), math.inf),
        (TensorProto(dtype=3, int_val=[7]), 7),
        (TensorProto(dtype=9, int64_val=[-7]), -7),
        (TensorProto(dtype=10, bool_val=[True]), 1),
        (TensorProto(dtype=19, half_val=[0x3E00]), 1.5),
        (TensorProto(dtype=19, half_val=[0x7C00]), math.inf),
    ],
    ids=str,
)
def test_a_scalar_of_any_type(tmp_path, tensor, value):
    summary = Summary(value=[Summary.Value(tag="loss", tensor=tensor)])
    assert points(read_columns(written(tmp_path, [(3, summary)])), "loss") == [(3, value)]


def test_non_scalars_are_left_out(tmp_path):
    histogram = Summary(value=[Summary.Value(tag="weights", histo={"num": 3.0})])
    row = TensorProto(dtype=1, float_val=[1, 2], tensor_shape={"dim": [{"size": 2}]})
    huge = TensorProto(dtype=2, double_val=[1], tensor_shape={"dim": [{"size": 1 << 60}]})
    other = TensorProto(dtype=99, tensor_content=b"????")
    events = [(1, histogram), (1, simple("loss", 2.0))]
    events += [(1, Summary(value=[Summary.Value(tag="t", tensor=t)])) for t in (row, huge, other)]
    assert read_columns(written(tmp_path, events)).names == ("step", "loss", "wall_time")


def test_tags_written_apart_make_one_record_a_step(tmp_path):
    events = [(s, simple("loss", 3 - s)) for s in range(5)]
    events += [(s, simple("lr", s / 10)) for s in range(5)]
    columns = read_columns(written(tmp_path, events))
    assert columns.rows == 5
    assert points(columns, "lr") == [(s, pytest.approx(s / 10)) for s in range(5)]


def test_points_without_steps_are_all_kept(tmp_path):
    events = [(0, simple(tag, k)) for k in range(4) for tag in ("loss", "lr")]
    columns = read_columns(written(tmp_path, events))
    assert columns.names == ("loss", "lr", "wall_time")
    assert columns.load("loss").values.tolist() == [0, 1, 2, 3]
    assert columns.load("lr").values.tolist() == [0, 1, 2, 3]


def test_a_tag_called_step_does_not_hide_the_steps(tmp_path):
    events = [(s, simple(tag, 5.0)) for s in (10, 20) for tag in ("loss", "step")]
    columns = read_columns(written(tmp_path, events))
    assert columns.names == ("step", "loss", "wall_time")
    assert columns.load("step").values.tolist() == [10, 20]


def test_settings_are_read(tmp_path, losses):
    arguments = json.dumps({"learning_rate": 3e-4, "bf16": True}, indent=2)
    events = [
        (0, hparams.hparams_pb({"optimizer": "adamw", "weight_decay": 0.1, "fused": True})),
        (0, text.text_pb("args/text_summary", arguments)),
        (0, text.text_pb("clip_grad/text_summary", "1.0")),
        (0, text.text_pb("samples/text_summary", "Once upon a time\nthere was\n")),
        (0, text.text_pb("broken/text_summary", '{"lr": ')),
    ]
    columns = read_columns(written(tmp_path, events + losses))
    assert columns.config == {
        "optimizer": "adamw",
        "weight_decay": 0.1,
        "fused": True,
        "learning_rate": 3e-4,
        "bf16": True,
        "clip_grad": "1.0",
    }


def test_cut_anywhere_all_before_the_cut_is_read(tmp_path, losses):
    data = written(tmp_path, losses).read_bytes()
    ends, at = [], 0
    while at < len(data):
        at += 16 + struct.unpack_from("<Q", data, at)[0]
        ends.append(at)
    intact = columns_of(data)
    tags = intact.names[1:-1]
    expected = [(t, *p) for s in range(20) for t in tags for p in [points(intact, t)[s]]]
    for cut in range(max(ends[1], len(data) - 300), len(data)):
        columns = columns_of(data[:cut])
        count = sum(end <= cut for end in ends) - 1
        read_points = [(t, *p) for t in columns.names[1:-1] for p in points(columns, t)]
        np.testing.assert_array_equal(sorted(read_points), sorted(expected[:count]))
        assert columns.notes == (() if cut in ends else (BREAKS_OFF,))


def test_a_damaged_value_is_left_out_and_later_values_are_read(tmp_path, losses):
    data = bytearray(written(tmp_path, losses).read_bytes())
    at = data.index(b"train/loss", 400)
    data[at + 12] ^= 1  # in the number
    columns = columns_of(bytes(data))
    assert len(points(columns, "train/loss")) == 19
    assert len(points(columns, "train/grad_norm")) == 20
    assert columns.notes == ("1 record of run is damaged (wrong checksum) and left out",)


def test_after_a_damaged_length_the_next_record_is_found(tmp_path, losses):
    data = written(tmp_path, losses).read_bytes()
    second = 16 + struct.unpack_from("<Q", data)[0]
    third = second + 16 + struct.unpack_from("<Q", data, second)[0]
    columns = columns_of(data[:second] + b"\xff" * 8 + data[second + 8 :])
    assert len(points(columns, "train/loss")) == 19
    assert columns.notes == (
        f"{third - second} bytes of run are damaged: no record is found in them",
    )
    columns = columns_of(data[:third] + bytes(5_000_000) + data[third:])
    assert len(points(columns, "train/loss")) == 20
    assert columns.notes == ("5000000 bytes of run are damaged: no record is found in them",)


def test_a_huge_record_is_passed_over(tmp_path, losses):
    data = written(tmp_path, losses).read_bytes()
    second = 16 + struct.unpack_from("<Q", data)[0]
    length = struct.pack("<Q", 1 << 27)
    frame = length + struct.pack("<I", masked_crc32c(length)) + bytes((1 << 27) + 4)
    assert columns_of(data[:second] + frame + data[second:]).rows == 20
    cut = columns_of(data + frame[:1_000_000])
    assert (cut.rows, cut.notes) == (20, (BREAKS_OFF,))


def test_a_file_without_scalars_says_so(tmp_path):
    data = written(tmp_path, []).read_bytes()
    with pytest.raises(NoUsableRecord, match=r"run: no record could be read; it holds no scalars$"):
        columns_of(data)
    with pytest.raises(NoUsableRecord, match=r"no scalars \(run breaks off"):
        columns_of(data[:-1])


@given(st.binary(max_size=400))
def test_random_bytes_give_one_line(data):
    version = Event(wall_time=1, file_version="brain.Event:2").SerializeToString()
    for start in (b"", version, struct.pack("<Q", len(version))):
        with pytest.raises(LogError) as refused:
            columns_of(start + data)
        assert len(str(refused.value).splitlines()) == 1


@given(st.data())
def test_any_damage_leaves_the_rest(tmp_path_factory, data):
    """A changed byte costs at most the record that contains it."""
    intact = SOUND.setdefault(
        "data",
        written(
            tmp_path_factory.mktemp("damage"), [(s, simple("loss", s)) for s in range(30)]
        ).read_bytes(),
    )
    at = data.draw(st.integers(0, len(intact) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != intact[at]))
    read_points = points(columns_of(intact[:at] + bytes([value]) + intact[at + 1 :]), "loss")
    assert len(read_points) >= 29
    assert set(read_points) <= {(s, s) for s in range(30)}


def test_the_checksums_are_those_of_tensorboard():
    assert tensorboard._CRC_TABLE.tolist() == list(CRC_TABLE)
