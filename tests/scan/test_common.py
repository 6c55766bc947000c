"""Settings that failed runs share are found, without false positives."""

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from stabdiag.model.scan import Row
from stabdiag.scan.common import find_common
from stabdiag.scan.rows import StoredRows, row_table
from tests.conftest import ROOT
from tests.scan.made import sweep


def contrasts_in(rows):
    return find_common(StoredRows.of(rows))[0]


def runs(failed, **settings):
    """Return runs with settings by name, each of as many values."""
    columns = [list(map(str, values)) for values in settings.values()]
    return [
        Row(
            path=f"{i}.csv",
            run=str(i),
            outcome="nan-fp32" if fails else "healthy",
            severity="error" if fails else "ok",
            settings=dict(zip(settings, (column[i] for column in columns), strict=True)),
        )
        for i, fails in enumerate(failed)
    ]


@pytest.mark.parametrize("low", [True, False])
def test_the_failing_side_is_reported(low):
    warmup = [100 * (i % 10) for i in range(60)]
    (contrast,) = contrasts_in(runs([(w < 300) == low for w in warmup], warmup=warmup))
    assert (contrast.split.relation, contrast.split.value) == (("<" if low else "≥"), 300)
    assert contrast.split.inside[0] == contrast.split.inside[1]
    assert contrast.split.outside[0] == 0


def test_a_value_of_several_and_a_value_that_alone_is_well():
    names = [("a", "b", "c", "d")[i % 4] for i in range(60)]
    (contrast,) = contrasts_in(runs([name == "b" for name in names], host=names))
    assert (contrast.split.relation, contrast.split.value) == ("=", "b")
    (contrast,) = contrasts_in(runs([name != "b" for name in names], host=names))
    assert (contrast.split.relation, contrast.split.value) == ("≠", "b")
    assert (contrast.split.inside, contrast.split.outside) == ((45, 45), (0, 15))


def test_the_failing_value_of_two_is_reported():
    names = [("no", "yes")[i % 3 == 0] for i in range(60)]
    for value in ("no", "yes"):
        (contrast,) = contrasts_in(runs([name == value for name in names], fused=names))
        assert (contrast.split.relation, contrast.split.value) == ("=", value)
        assert contrast.split.outside[0] == 0


def test_a_seed_is_a_name_and_no_amount():
    seeds = [i % 10 for i in range(100)]
    (contrast,) = contrasts_in(runs([seed == 4 for seed in seeds], **{"data.seed": seeds}))
    assert (contrast.split.relation, contrast.split.value) == ("=", "4")


def test_unique_names_are_not_a_setting():
    names = [f"run-{i * 7 % 40}x" for i in range(40)]
    assert contrasts_in(runs([i < 10 for i in range(40)], name=names)) == ()


def test_two_relevant_settings_are_reported_separately():
    rate = [i % 8 for i in range(320)]
    host = [f"n{i // 8 % 10}" for i in range(320)]
    failed = [r == 7 or h == "n3" for r, h in zip(rate, host, strict=True)]
    results = {
        contrast.split.setting for contrast in contrasts_in(runs(failed, rate=rate, host=host))
    }
    assert results == {"rate", "host"}


def test_a_dependent_setting_is_not_reported_separately():
    rate = [i % 10 for i in range(200)]
    warmup = [r + (i // 10) % 3 for i, r in enumerate(rate)]
    (contrast,) = contrasts_in(runs([r >= 8 for r in rate], warmup=warmup, rate=rate))
    assert contrast.split.setting == "rate"
    assert [split.setting for split in contrast.along] == ["warmup"]


def test_a_frequent_failure_does_not_make_another_rare():
    rate = [i % 10 for i in range(200)]
    rows = [
        replace(row, outcome="spike-persistent", severity="error") if not r and i % 3 else row
        for i, (row, r) in enumerate(
            zip(runs([r >= 3 for r in rate], rate=rate), rate, strict=True)
        )
    ]
    results = {(contrast.outcome, contrast.split.relation) for contrast in contrasts_in(rows)}
    assert ("nan-fp32", "≥") in results or ("error", "≥") in results
    assert len({contrast.outcome for contrast in contrasts_in(rows)}) == len(contrasts_in(rows))


def test_small_significant_differences_are_not_reported():
    rng = np.random.default_rng(4)
    rate = np.arange(6000) % 2
    failed = rng.random(6000) < np.where(rate, 0.25, 0.2)
    assert contrasts_in(runs(failed.tolist(), rate=rate.tolist())) == ()


def test_runs_without_a_setting_are_not_counted():
    rows = runs([i % 2 == 0 for i in range(60)], rate=[i % 2 for i in range(60)])
    rows = [replace(row, settings={}) if i >= 40 else row for i, row in enumerate(rows)]
    (contrast,) = contrasts_in(rows)
    assert (contrast.split.inside, contrast.split.outside) == ((20, 20), (0, 20))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "fewer than three runs failed"),
        (runs([True, True, False, False], rate=[1, 1, 2, 2]), "fewer than three runs failed"),
        (runs([True] * 20, rate=range(20)), "all runs failed alike"),
        (runs([True] * 5 + [False] * 5), "no known setting differs"),
        (runs([True] * 5 + [False] * 5, rate=[1] * 10), "no known setting differs"),
        ([row for row in sweep() if row.severity is None], "fewer than three runs failed"),
    ],
)
def test_why_nothing_was_compared(rows, why):
    common, compared = find_common(StoredRows.of(rows))
    assert common == ()
    assert compared.why == why


def test_settings_that_most_runs_report_are_compared(monkeypatch):
    monkeypatch.setattr("stabdiag.scan.common._MAX_SETTINGS", 2)
    rows = runs(
        [i % 2 == 0 for i in range(60)], **{f"same{i}": [0] * 60 for i in range(9)}, rate=range(60)
    )
    rare = replace(rows[0], settings={f"rare{i}": "1" for i in range(9)})
    with_setting = [
        replace(row, settings={**row.settings, "fused": str(i % 2)}) for i, row in enumerate(rows)
    ]
    common, compared = find_common(StoredRows.of([*[rare] * 3, *with_setting]))
    assert compared.settings == 2
    assert [contrast.split.setting for contrast in common] == ["fused"]


def test_the_order_of_the_rows_is_nothing():
    rows = sweep()
    first = contrasts_in(rows)
    random.Random(1).shuffle(rows)
    assert contrasts_in(rows) == first


def test_rows_of_a_part_of_a_table_keep_their_settings():
    table = row_table([*runs([False] * 30, rate=[0] * 30), *sweep()])
    assert find_common(StoredRows.of(table.slice(30)))[0] == contrasts_in(sweep())


@pytest.fixture(scope="module")
def simulated():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import scan_common
    finally:
        sys.path.pop(0)
    return scan_common


def test_planted_settings_are_found_without_false_positives(simulated):
    planted = simulated.PLANTED[0]
    rng = np.random.default_rng(11)
    results = [simulated.planted(rng, planted) for _ in range(10)]
    named = [simulated.stated_settings(common) for common in results]
    assert sum(planted.setting in names for names in named) >= 9
    assert sum(len(common) > 1 for common in results) <= 1
    assert sum(bool(simulated.nothing(rng)) for _ in range(10)) <= 1
