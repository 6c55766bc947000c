"""One metric file of MLflow's file store."""

from __future__ import annotations

import numpy as np
import pytest

from stabdiag import diagnose
from stabdiag.errors import LogError

NAME = "train_loss"


def test_it_is_named_after_its_file(log):
    columns = log(b"1628697792090 332.6 0\n1628697795789 NaN 1\n1628697795790 -Infinity 2")
    assert columns.format == "mlflow-metric"
    assert columns.names == ("timestamp", "train_loss", "step")
    np.testing.assert_array_equal(columns.load("train_loss").values, [332.6, np.nan, -np.inf])
    assert columns.load("step").values.tolist() == [0, 1, 2]


def test_windows_line_ends_and_lines_that_break_off(log):
    columns = log(b"1628697792090 2.5 0\r\n1628697795789 2.4 1\r\n16286977")
    assert columns.load("train_loss").values.tolist() == [2.5, 2.4]
    assert (columns.bad_count, columns.bad_lines[0].line) == (1, 3)


def test_bytes_that_are_no_text_are_bad_lines(log):
    text = b"1628697792090 2.5 0\n1628697792091 2\xc9 1\n"
    assert log(text, format="mlflow-metric").bad_count == 1


def test_nothing_to_read(log):
    with pytest.raises(LogError, match="expected time, value, step"):
        log("hello\n", format="mlflow-metric")


def test_it_is_diagnosed(put):
    lines = [f"{1628697792000 + n} {'NaN' if n > 50 else 2.5 - n / 100} {n}" for n in range(60)]
    report = diagnose(put("\n".join(lines) + "\n", "train_loss"))
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 51)
