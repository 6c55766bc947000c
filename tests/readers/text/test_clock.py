"""The time stamps before what lines say."""

from datetime import UTC, datetime

import numpy as np
import pytest

from stabdiag.readers.text.lines.prefix import line_seconds

BEGIN = 1_767_225_600


def stamped(form, seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def found(lines):
    data, starts = b"\n", []
    for line in lines:
        starts.append(len(data) + line.index(b"iteration"))
        data += line + b"\n"
    return line_seconds(data, starts)


@pytest.mark.parametrize(
    "form",
    [
        "[%Y-%m-%d %H:%M:%S] ",
        "%Y/%m/%d %H:%M:%S,123 - ",
        "%Y-%m-%dT%H:%M:%SZ ",
        "%Y-%m-%d,%H:%M:%S ",
    ],
)
def test_every_day_of_years(form):
    seconds = [BEGIN + 86_399 * n for n in range(1500)]
    lines = [stamped(form, second).encode() + b"iteration 1" for second in seconds]
    np.testing.assert_array_equal(found(lines), seconds)


def test_stamps_at_other_places():
    lines = [
        b"2026-01-01 00:00:01 iteration 1",
        b"[rank3]: 2026-01-01 00:00:02 INFO - iteration 2",
        b"iteration 3",
        b"2026-01-01 00:00:04 iteration 4",
        b"the stamp of 2025 " + b"x" * 200 + b" 2026-01-01 at 00:00:05 iteration 5",
    ]
    np.testing.assert_array_equal(found(lines) - BEGIN, [1, 2, np.nan, 4, np.nan])


@pytest.mark.parametrize("prefix", [b"", b"I0105 10:00:00.1 1 solver.cpp:2] ", b"2026-01-01 "])
def test_lines_without_time_stamps_have_no_clock(prefix):
    assert found([prefix + b"iteration 1"] * 20) is None
