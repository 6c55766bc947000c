"""When a step was trained."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stabdiag.history import History, Series, Source
from stabdiag.postmortem.clock import Clock, clock_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BEGAN = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


def clock(values: Sequence[float], steps: Sequence[int] | None = None) -> Clock | None:
    at = np.arange(len(values)) if steps is None else np.array(steps)
    series = Series(role="clock", column="t", steps=at, values=np.array(values, dtype=float))
    source = Source(name="run.jsonl", format="jsonl", records=len(values))
    return clock_of(History(series={"clock": series}, source=source))


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in another zone."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    if before is None:
        monkeypatch.delenv("TZ")
    else:
        monkeypatch.setenv("TZ", before)
    time.tzset()


@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9])
@pytest.mark.usefixtures("_elsewhere")
def test_time_stamps_are_utc_in_any_unit_and_zone(unit: float) -> None:
    found = clock([(BEGAN + 60 * n) * unit for n in range(5)])
    assert found is not None
    assert found.heading == "Time (UTC)"
    assert found.at(2) == "2023-11-14 22:15:20"
    assert found.between(0, 4) == pytest.approx(240)


def test_seconds_since_the_start_are_told_as_such() -> None:
    found = clock([5.0, 3605.0, 7325.0])
    assert found is not None
    assert found.heading == "Time since the log began"
    assert [found.at(step) for step in range(3)] == ["0:00:00", "1:00:00", "2:02:00"]


def test_a_step_between_two_time_stamps_is_about_there() -> None:
    found = clock([BEGAN, BEGAN + 100], steps=[0, 100])
    assert found is not None
    assert found.at(50) == "about 2023-11-14 22:14:10"
    assert found.at(101) == ""


def test_a_process_that_starts_again_is_counted_on() -> None:
    found = clock([0.0, 10.0, 20.0, 1.0, 11.0])
    assert found is not None
    assert found.between(0, 4) == 30.0


def test_outside_of_the_log_nothing_is_known() -> None:
    found = clock([BEGAN, BEGAN + 10], steps=[100, 110])
    assert found is not None
    assert found.between(0, 50) is None
    assert found.between(0, 110) == 10.0


@pytest.mark.parametrize("values", [[], [BEGAN], [float("nan"), BEGAN]])
def test_one_time_stamp_is_no_clock(values: list[float]) -> None:
    assert clock(values) is None
