"""Columns that are in memory already."""

from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers import from_object


def test_a_mapping_of_arrays():
    columns = from_object(
        {
            "step": range(3),
            "loss": np.array([1.0, np.nan, 2.0], dtype=np.float32),
            "lr": [0.1, None, float("nan")],
            "mode": ["train", "val", "train"],
            "at": np.array(["2024-01-01", "NaT", "2024-01-02"], dtype="datetime64[s]"),
            "mixed": np.array([1, "2", None], dtype=object),
            "numpy": [np.float32(1), np.int64(2), None],
        }
    )
    assert (columns.source, columns.format, columns.rows) == ("dict", "memory", 3)
    loss, lr = columns.load("loss"), columns.load("lr")
    assert loss.present.all()
    assert not loss.null.any()
    assert lr.present.tolist() == [True, False, True]
    assert lr.null.tolist() == [False, True, False]
    assert columns.load("mode").is_text
    assert columns.load("at").present.tolist() == [True, False, True]
    np.testing.assert_array_equal(columns.load("mixed").values, [1, 2, np.nan])
    np.testing.assert_array_equal(columns.load("numpy").values, [1, 2, np.nan])


def test_a_data_frame_is_read():
    frame = pd.DataFrame(
        {
            "loss": [1.0, np.nan, 2.0],
            "count": pd.array([1, None, 3], dtype="Int64"),
            "flag": [True, False, True],
            "mode": ["train", None, "val"],
            "mixed": np.array([1.5, "2.5", None], dtype=object),
            "at": pd.to_datetime(["2024-01-01", None, "2024-01-02"]),
        },
        index=pd.Index([10, 20, 30], name="step"),
    )
    columns = from_object(frame)
    assert columns.names == ("step", "loss", "count", "flag", "mode", "mixed", "at")
    assert columns.load("step").values.tolist() == [10, 20, 30]
    for name in ("loss", "count", "mode", "mixed", "at"):
        column = columns.load(name)
        assert column.present.sum() == 2, name
        assert column.null.sum() == 1, name
    assert columns.load("flag").values.tolist() == [1, 0, 1]
    assert columns.load("mode").is_text


def test_a_data_frame_with_names_in_levels():
    frame = pd.DataFrame({("train", "loss"): [1.0], ("step", ""): [2]})
    assert from_object(frame).names == ("train/loss", "step")


def test_an_arrow_table_is_read():
    table = pa.table({"loss": [1.0, None, float("nan")], "train": [{"acc": 1}, None, {"acc": 2}]})
    columns = from_object(table)
    assert columns.names == ("loss", "train/acc")
    assert columns.load("loss").present.tolist() == [True, False, True]
    assert columns.load("loss").null.tolist() == [False, True, False]
    np.testing.assert_array_equal(columns.load("train/acc").values, [1, np.nan, 2])


def test_objects_with_an_arrow_stream_are_read():
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"loss": [1.0, 2.0]}).__arrow_c_stream__(requested_schema)

    assert from_object(Stream()).load("loss").values.tolist() == [1, 2]


def test_a_mapping_of_series_and_arrow_arrays():
    columns = from_object(
        {
            "a": pd.Series([1.0, np.nan]),
            "b": pa.array([1.0, None]),
            "c": pa.chunked_array([[1.0], [float("nan")]]),
        }
    )
    assert [columns.load(name).null.sum() for name in "abc"] == [1, 1, 0]


def test_a_single_series_is_not_a_log():
    with pytest.raises(
        LogError, match=r"cannot read a Series; expected .* mapping of arrays such as"
    ):
        from_object(pd.Series([2.0, 1.9]))


def test_a_list_of_records():
    columns = from_object([{"step": 1, "train": {"loss": 2.5}}, {"step": 2, "lr": None}])
    assert columns.names == ("step", "train/loss", "lr")
    assert columns.load("lr").null.tolist() == [False, True]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (5, "cannot read a int"),
        ({"a": [1], "b": [1, 2]}, "unequal length"),
        ({"a": np.zeros((2, 2))}, "2 dimensions"),
        ({"a": 5}, "0 dimensions"),
    ],
)
def test_other_objects_are_refused(table, words):
    with pytest.raises(LogError, match=words):
        from_object(table)


@pytest.mark.parametrize("table", [{}, {"a": []}, [], [{}], pd.DataFrame(), pa.table({})])
def test_an_empty_table_is_an_error(table):
    with pytest.raises(NoUsableRecord, match="no record could be read"):
        from_object(table)


@pytest.mark.parametrize(
    "number",
    [np.float32, np.float64, np.array, Decimal, lambda x: [np.float32(x)], lambda x: np.array([x])],
    ids=["float32", "float64", "0-d", "Decimal", "a list", "1-d"],
)
def test_records_with_the_numbers_of_libraries(number):
    records = [
        {"step": np.int64(step), "loss": number(value), "on": np.bool_(step)}
        for step, value in enumerate([3.5, 2.5, float("nan"), 1.5])
    ]
    records[1]["note"] = np.array([1.0, 2.0])  # several values are none
    columns = from_object(records)
    assert columns.load("step").values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(columns.load("loss").values, [3.5, 2.5, np.nan, 1.5])
    assert columns.load("loss").present.all()
    assert columns.load("on").values.tolist() == [0, 1, 1, 1]
    assert not columns.load("note").present.any()


@pytest.mark.parametrize(
    "time",
    [datetime.fromisoformat, np.datetime64, pd.Timestamp, lambda at: np.datetime64(at, "ns")],
)
def test_times_in_records_are_read(time):
    records = [{"loss": 1.0, "timestamp": time(f"2026-01-02T03:04:0{n}")} for n in range(5)]
    records.append({"loss": 1.0, "timestamp": pd.NaT})
    records.append({"loss": 1.0, "timestamp": np.datetime64("NaT")})
    at = from_object(records).load("timestamp")
    assert at.is_time
    assert np.diff(at.values[:5]).tolist() == [1, 1, 1, 1]
    assert at.null.tolist() == [False] * 5 + [True] * 2


@pytest.mark.parametrize(
    "duration",
    [lambda s: timedelta(seconds=s), lambda s: np.timedelta64(s, "s")],
    ids=["Python", "NumPy"],
)
def test_durations_in_records_are_seconds(duration):
    records = [{"loss": 1.0, "step_time": duration(n)} for n in range(3)]
    assert from_object(records).load("step_time").values.tolist() == [0, 1, 2]


def test_records_that_are_nested_beyond_reason():
    nested = {"loss": 9.0}
    for _ in range(3000):
        nested = {"in": nested}
    columns = from_object([{"step": n, "loss": 3.0 - n, "x": nested} for n in range(3)])
    assert columns.names == ("step", "loss")
    assert columns.load("loss").values.tolist() == [3, 2, 1]
