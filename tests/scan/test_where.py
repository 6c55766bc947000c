"""Conditions on rows."""

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.scan.overview import where
from stabdiag.scan.rows import StoredRows
from tests.scan.made import sweep


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("severity=error", 12),
        ("severity!=error", 14),
        ("outcome=nan-*", 3),
        ("outcome!=nan-*", 23),
        ("run=lr-0.0?/seed1", 2),
        (" peak_lr >= 0.003 ", 12),
        ("peak_lr<0.003", 12),
        ("peak_lr=1e-3", 4),
        ("lost_steps>400", 4),
        ("schedule=cosine", 8),
        ("schedule=cos", 0),
        ("min_lr<=0.0001", 12),
        ("min_lr=1e-4", 4),
        ("output_dir=/data/lr-1e-05*", 0),
        ("output_dir=*seed_", 0),
        ("reason=line 1: no usable record", 1),
    ],
)
def test_the_rows_for_which_it_holds(condition, count):
    assert len(where(StoredRows.of(sweep()), condition)) == count


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("severity", "expected NAME=VALUE"),
        ("=3", "expected NAME=VALUE"),
        ("peaklr=3", "did you mean peak_lr?"),
        ("curve=3", "no run has a field or setting of this name"),
        ("schedule>cosine", "needs a number"),
        ("schedule>3", "needs numbers"),
        ("peak_lr>high", "needs a number"),
    ],
)
def test_an_invalid_condition_is_reported_in_one_line(condition, expected):
    with pytest.raises(StabdiagError, match="--where") as error:
        where(StoredRows.of(sweep()), condition)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
