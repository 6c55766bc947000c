"""Times that are written out: read alike by every reader, and told where they are none."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from stabdiag import diagnose, read
from stabdiag.readers.csv import log as csv
from stabdiag.readers.json import lines as jsonl
from stabdiag.readers.source import open_stream
from stabdiag.readers.words import spelled_seconds

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC)
TIMES = [BEGIN + timedelta(seconds=10 * n + 7200 * (n > 150)) for n in range(200)]

SPELLINGS = {
    "Z": lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "fraction": lambda time: time.isoformat(),
    "nanoseconds": lambda time: time.strftime("%Y-%m-%dT%H:%M:%S.%f000Z"),
    "blank": lambda time: time.strftime("%Y-%m-%d %H:%M:%S"),
    "comma": lambda time: time.strftime("%Y-%m-%d %H:%M:%S,250"),
    "offset": lambda time: time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S+00:00"),
    "slashes": lambda time: time.strftime("%Y/%m/%d %H:%M:%S"),
    "name of a zone": lambda time: time.strftime("%Y-%m-%d %H:%M:%S UTC"),
    "compact": lambda time: time.strftime("%Y%m%dT%H%M%S"),
}
spellings = pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)


def records(column, texts):
    return [{"step": n, "loss": 3 - n / 1000, column: text} for n, text in enumerate(texts)]


def as_csv(rows):
    lines = [",".join(rows[0]), *(",".join(f'"{cell}"' for cell in row.values()) for row in rows)]
    return "\n".join([*lines, ""])


def as_jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


WAYS = {
    "csv": (as_csv, csv.read, 1 << 20),
    "csv by Arrow": (as_csv, csv.read, 0),
    "jsonl": (as_jsonl, jsonl.read, 1 << 22),
    "jsonl by Arrow": (as_jsonl, jsonl.read, 0),
}


@spellings
@pytest.mark.parametrize(("write", "read_as", "small"), WAYS.values(), ids=WAYS)
def test_every_way_reads_the_same_times(put, spelling, write, read_as, small):
    with open_stream(put(write(records("timestamp", map(spelling, TIMES))), "run")) as stream:
        column = read_as(stream, small=small).load("timestamp")
    assert column.is_time
    assert column.present.all()
    expected = [time.timestamp() for time in TIMES]
    np.testing.assert_allclose(column.values, expected, rtol=0, atol=0.26)


@pytest.mark.parametrize("name", ["timestamp", "time", "date", "datetime", "ts", "Created At"])
@pytest.mark.parametrize("write", [as_csv, as_jsonl])
def test_it_is_the_clock(put, name, write):
    report = diagnose(put(write(records(name, map(str, TIMES))), "run"))
    clock = report.history.series["clock"]
    assert (clock.column, len(clock)) == (name, 200)
    stall = next(finding for finding in report.findings if finding.slug == "stall")
    assert (stall.step, stall.evidence["seconds"]) == (150, 7210.0)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([time.replace(tzinfo=None) for time in TIMES]),
        pa.array(TIMES, pa.timestamp("ns", "UTC")),
        pa.array([time.isoformat() for time in TIMES]),
        pa.array([time.isoformat() for time in TIMES]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_times_in_parquet_are_seconds(tmp_path, times):
    path = tmp_path / "run.parquet"
    steps = range(len(TIMES))
    table = pa.table({"step": steps, "loss": [3 - n / 1000 for n in steps], "time": times})
    parquet.write_table(table, path)
    clock = read(path).series["clock"]
    np.testing.assert_allclose(clock.values, [time.timestamp() for time in TIMES], atol=1e-6)


def test_words_among_times_are_left_out_with_a_note(put):
    texts = [*map(str, TIMES[:-2]), "soon", "17"]
    history = read(put(as_csv(records("timestamp", texts)), "run.csv"))
    assert len(history.series["clock"]) == len(TIMES) - 2
    assert any("2 words among the numbers" in event.message for event in history.events)


def test_unknown_time_formats_give_a_note(put):
    history = read(
        put(as_csv(records("timestamp", (time.strftime("%c") for time in TIMES))), "run.csv")
    )
    assert "clock" not in history.series
    message = "'timestamp' contains words instead of numbers or times: not used as clock"
    assert message in [event.message for event in history.events]


def test_days_are_not_a_clock(put):
    rows = [
        {"step": n, "loss": 3 - n / 1000, "date": f"{time:%Y-%m-%d}", "time": f"{time:%H:%M:%S}"}
        for n, time in enumerate(TIMES)
    ]
    history = read(put(as_csv(rows), "run.csv"))
    assert history.series["clock"].column == "time"
    assert any("'date'" in event.message for event in history.events)


def test_durations_are_seconds():
    seconds = spelled_seconds(["0:00:10", "1:02:03.5", "1 day, 2:03:04", "2 days 00:00:01", "?"])
    np.testing.assert_array_equal(seconds, [10, 3723.5, 93784, 172801, np.nan])


def test_words_that_are_mostly_no_times():
    assert spelled_seconds([]) is None
    assert spelled_seconds(["train", "2026-01-02"]) is None
    assert spelled_seconds(["2026-01-02", "train", "val"]) is None
    assert spelled_seconds(["0001-01-01T00:00:00+23:00", "9999-99-99", "2026/13/01"]) is None


def test_the_time_of_a_step_is_not_a_clock(tmp_path):
    path = tmp_path / "run.csv"
    took = np.random.default_rng(0).normal(0.5, 0.01, len(TIMES))
    path.write_text(as_csv(records("time", took)))
    assert set(read(path).series) == {"loss", "step_time"}


def test_a_time_that_rises_all_the_way_is_the_clock(put):
    history = read(
        put(as_csv(records("Time", (3.5 + 2.1 * n for n in range(200)))), "progress.csv")
    )
    assert set(history.series) == {"loss", "clock"}
    assert any("'Time'" in event.message for event in history.events)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("form", ["{}:02:03", "{} days, 1:02:03", "{}d 1s", "{}h 1s", "1m {}s"])
def test_an_overflowing_duration_is_missing(form, digits):
    assert spelled_seconds([form.format("1" * digits)]) is None
