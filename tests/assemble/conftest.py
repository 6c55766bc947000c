"""Convert the records of a test to the columns that a reader returns."""

from typing import Any

import numpy as np
import pytest

from stabdiag.assemble import build_history
from stabdiag.model.limits import Limits
from stabdiag.readers.columns import BadLine, Column, Columns

Record = dict[str, Any]


def column_of(records, name, *, blank):
    values = [record.get(name) for record in records]
    words = sorted({value for value in values if isinstance(value, str)})
    present = np.array([value is not None for value in values])
    return Column(
        values=np.array(
            [
                words.index(value) if isinstance(value, str) else np.nan if value is None else value
                for value in values
            ],
            dtype=np.float64,
        ),
        present=present,
        null=np.array([name in record or blank for record in records]) & ~present,
        is_text=bool(words),
        words=tuple(words),
    )


def columns_of(records, format="jsonl", bad=0):
    """Write records; a missing key is absent in JSON lines and blank in a table."""
    names = tuple(dict.fromkeys(name for record in records for name in record))
    return Columns(
        source=f"run.{format}",
        format=format,
        names=names,
        rows=len(records),
        load=lambda name: column_of(records, name, blank=format == "csv"),
        bad_lines=tuple(BadLine(line=3 + i, reason="not JSON") for i in range(min(bad, 5))),
        bad_count=bad,
        distinguishes_null=format != "csv",
    )


def messages(history, kind):
    """Return the messages of the events of this kind."""
    return [event.message for event in history.events if event.kind is kind]


@pytest.fixture
def build():
    """Return a function that builds a history from records."""

    def build_(records, format="jsonl", bad=0, **options):
        return build_history(columns_of(records, format, bad), Limits(), **options)

    return build_


@pytest.fixture
def rows():
    """Return a function that makes n calm records: step, loss, lr, grad_norm."""

    def rows_(n=30, start=0, stride=1, **columns):
        return [
            {
                "step": start + stride * i,
                "loss": round(4.0 - i / n, 6),
                "lr": 1e-3,
                "grad_norm": 1.0 + i % 3 / 10,
                **columns,
            }
            for i in range(n)
        ]

    return rows_
