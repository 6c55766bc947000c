"""Parquet: types, nulls, nesting, and files that are cut."""

import io
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers import from_object, read_stream
from stabdiag.readers.arrow import piece_of_array
from stabdiag.readers.columns import every_column
from stabdiag.readers.source import Stream
from stabdiag.readers.words import NULL
from tests.readers.conftest import read_columns


@pytest.fixture
def log(tmp_path):
    def write(columns, **options):
        path = tmp_path / "run.parquet"
        parquet.write_table(pa.table(columns), path, **options)
        return read_columns(path)

    return write


def test_numbers_of_all_types_are_read(log):
    columns = log(
        {
            "step": [1, 2, 3],
            "loss": pa.array([1.5, float("nan"), None]),
            "half": pa.array([np.float16(1), None, np.float16(2)]),
            "small": pa.array([1, None, 3], pa.uint8()),
            "flag": [True, None, False],
            "nothing": pa.nulls(3),
            "price": pa.array([1, None, 3]).cast(pa.decimal128(21, 2)),
            "at": pa.array([1, None, 3], pa.timestamp("s")),
            "day": pa.array([1, None, 3], pa.date32()),
        }
    )
    assert (columns.format, columns.rows) == ("parquet", 3)
    loss = columns.load("loss")
    np.testing.assert_array_equal(loss.values, [1.5, np.nan, np.nan])
    assert loss.present.tolist() == [True, True, False]
    assert loss.null.tolist() == [False, False, True]
    for name in ("small", "price", "at"):
        np.testing.assert_array_equal(columns.load(name).values, [1, np.nan, 3])
    np.testing.assert_array_equal(columns.load("day").values, [86_400, np.nan, 3 * 86_400])
    np.testing.assert_array_equal(columns.load("half").values, [1, np.nan, 2])
    np.testing.assert_array_equal(columns.load("flag").values, [1, np.nan, 0])
    assert columns.load("nothing").null.all()


def test_range_index_of_pandas_is_read(tmp_path):
    steps = range(10, 410, 10)
    frame = pd.DataFrame({"loss": 2.5}, index=pd.RangeIndex(10, 410, 10, name="step"))
    frame.to_parquet(tmp_path / "run.parquet")
    columns = read_columns(tmp_path / "run.parquet")
    assert columns.names == ("step", "loss")
    assert columns.load("step").values.tolist() == [*steps]
    table = pa.Table.from_pandas(frame)
    assert from_object(table).load("step").values.tolist() == [*steps]
    assert from_object(table.slice(1)).names == ("loss",)


@pytest.mark.parametrize(
    "metadata",
    [
        "[",
        "7",
        "{}",
        '{"index_columns": 3}',
        '{"index_columns": [{"kind": "range"}]}',
        '{"index_columns": [{"kind": "range", "name": "step", "start": 0, "stop": 9, "step": 0}]}',
        '{"index_columns": [{"kind": "range", "name": "step", "start": 0, "stop": %s, "step": 1}]}'
        % 10**99,
    ],
)
def test_damaged_pandas_metadata_is_ignored(metadata):
    table = pa.table({"loss": [2.5, 2.25]}).replace_schema_metadata({"pandas": metadata})
    assert from_object(table).names == ("loss",)


def test_texts_are_read(log):
    words = pa.array(["train", None, "val", "train"])
    columns = log(
        {
            "mode": words,
            "code": words.dictionary_encode(),
            "large": words.cast(pa.large_string()),
            "loss": ["1.5", "NaN", " 2 ", "oops"],
            "level": pa.array([1.5, None, 1.5, 2.5]).dictionary_encode(),
        }
    )
    for name in ("mode", "code", "large"):
        mode = columns.load(name)
        assert mode.is_text
        assert mode.values[0] == mode.values[3] != mode.values[2]
        assert mode.null.tolist() == [False, True, False, False]
    loss = columns.load("loss")
    np.testing.assert_array_equal(loss.values, [1.5, np.nan, 2, np.nan])
    assert loss.present.tolist() == [True, True, True, False]
    assert loss.strays == 1
    np.testing.assert_array_equal(columns.load("level").values, [1.5, np.nan, 1.5, 2.5])


def test_numbers_written_as_texts_are_read(log):
    texts = [str(n / 7) for n in range(30_000)]
    columns = log({"loss": texts, "odd": [" 1", *texts[1:]], "mode": ["a", "b"] * 15_000})
    np.testing.assert_array_equal(columns.load("loss").values, np.array(texts, dtype=float))
    assert columns.load("odd").values[0] == 1
    assert columns.load("mode").is_text


def test_members_of_structs_and_first_items_of_lists_are_columns(log):
    columns = log({"train": [{"loss": 1.5, "acc": None}, None], "lr": [[0.1, 0.1], None]})
    assert sorted(columns.names) == ["lr", "train/acc", "train/loss"]
    loss = columns.load("train/loss")
    assert loss.present.tolist() == [True, False]
    assert loss.null.tolist() == [False, True]
    assert columns.load("lr").values[0] == 0.1
    assert columns.load("lr").null.tolist() == [False, True]


def test_requested_columns_survive_damage_to_others(log, tmp_path):
    columns = log({"step": [1, 2]})
    assert columns.load("step").values.tolist() == [1, 2]
    with pytest.raises(KeyError):
        columns.load("no such column")


def test_a_file_without_rows_is_an_error(log):
    with pytest.raises(NoUsableRecord, match="has no rows"):
        log({"step": pa.array([], pa.int64())})


def test_every_cut_is_refused(tmp_path):
    path = tmp_path / "run.parquet"
    parquet.write_table(pa.table({"step": [1, 2], "loss": [1.0, 2.0]}), path)
    intact = path.read_bytes()
    for length in range(4, len(intact), 17):
        path.write_bytes(intact[:length])
        with pytest.raises(LogError, match=r"run\.parquet: a Parquet file that is cut off or dam"):
            read_columns(path)


@pytest.mark.parametrize("is_required", [every_column, {"step", "loss"}.__contains__])
@pytest.mark.parametrize("piped", [False, True])
def test_columns_next_to_a_damaged_column_are_read(tmp_path, is_required, piped):
    path = tmp_path / "run.parquet"
    numbers = np.random.default_rng(0).normal(size=5000)
    parquet.write_table(pa.table({"step": numbers, "loss": numbers + 1, "note": numbers}), path)
    intact = path.read_bytes()
    path.write_bytes(intact[:4] + b"\xff" * 1996 + intact[2000:])
    stream = Stream("run", io.BytesIO(path.read_bytes()), path=None if piped else path)
    columns = read_stream(stream, is_required=is_required)
    for name, values in (("note", numbers), ("loss", numbers + 1), ("loss", numbers + 1)):
        assert np.array_equal(columns.load(name).values, values)
    with pytest.raises(LogError, match="column step cannot be read"):
        columns.load("step")
    assert np.array_equal(columns.load("loss").values, numbers + 1)


def test_a_flipped_bit_never_makes_a_column_of_another_length():
    sink = io.BytesIO()
    parquet.write_table(pa.table({"loss": [1.5, 2.5, 3.5]}), sink)
    intact = sink.getvalue()
    refused = []
    for place in range(len(intact)):
        damaged = intact[:place] + bytes([intact[place] ^ 2]) + intact[place + 1 :]
        try:
            columns = read_stream(Stream("run", io.BytesIO(damaged)))
            assert all(len(columns.load(name).values) == columns.rows for name in columns.names)
        except LogError as error:
            refused.append(str(error))
    assert any("rows, but the file should have 3" in message for message in refused)


def test_an_index_beyond_its_dictionary():
    beyond = pa.DictionaryArray.from_arrays([0, 91], ["a"], safe=False)
    with pytest.raises(pa.ArrowException, match="beyond its dictionary"):
        piece_of_array(beyond, missing=NULL)


def test_a_damaged_name_is_refused(tmp_path):
    path = tmp_path / "run.parquet"
    parquet.write_table(pa.table({"step": [1, 2], "some_loss_of_mine": [1.0, 2.0]}), path)
    path.write_bytes(path.read_bytes().replace(b"some_loss_of_mine", b"some_\xe0oss_of_mine"))
    with pytest.raises(LogError, match="cut off or damaged"):
        read_columns(path)


LONG = "x" * (1 << 18)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("setting", [LONG] * 200),
        ("setting/name", [{"name": LONG}, None] * 100),
        ("setting/a/name", [{"a": {"name": LONG}}] * 200),
        ("setting", [[LONG]] * 200),
    ],
    ids=["a text", "in a struct", "in two structs", "in a list"],
)
def test_a_repeated_long_text_is_stored_once(tmp_path, name, setting):
    path = tmp_path / "run.parquet"
    table = pa.table({"step": range(200), "loss": [2.5] * 200, "setting": setting})
    parquet.write_table(table, path, compression="zstd", store_schema=False)
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        column = read_columns(path).load(name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert column.words == (LONG,)
    assert column.present.sum() == sum(text is not None for text in setting)
    # Stored for each row, it would take 50 MB.
    assert pool.max_memory() < 1 << 24
    assert peak < 1 << 24


# What unpacks to far more than it takes, and the ratio that is allowed in the test.
BOMBS = {
    "rows": ({"loss": np.ones(2_000_000)}, 500),
    "texts": ({"note": [f"{n}" + "x" * 100_000 for n in range(30)], "loss": [1.0] * 30}, 500),
    "many columns": ({f"grad_norm/{n}": np.ones(2000) for n in range(99)}, 20),
    "a long list": ({"loss": pa.array([[1.0] * 200_000] + [[1.0]] * 1999)}, 20),
    "long values": ({"note": pa.array([bytes(1000)] * 2000, pa.binary(1000))}, 20),
}


@pytest.mark.parametrize(("columns", "ratio"), BOMBS.values(), ids=BOMBS)
def test_a_decompression_bomb_is_refused(log, monkeypatch, columns, ratio):
    monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._FROM_PARQUET", 1 << 20)
    if ratio < 500:  # for what takes too much room to be made
        monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._RATIO_PARQUET", ratio)
    with pytest.raises(LogError, match=f"unpacks to more than {ratio} times its size, as no log"):
        log(columns, compression="zstd")


def test_varied_columns_are_not_a_bomb(log, monkeypatch):
    monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._FROM_PARQUET", 1 << 20)
    varied = {"loss": np.random.default_rng(0).normal(size=200_000)}
    assert log(varied, compression="zstd").rows == 200_000
