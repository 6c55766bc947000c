"""Runs of a sweep against those with the same settings, and the profiles of a store."""

import json

import jsonschema
import pytest

import stabdiag
from stabdiag.formats.json import schema
from stabdiag.sources.profiles import read_store
from tests.baseline.made import good_runs, run, write

SETTINGS = {"dtype": "fp32", "peak_lr": 0.1}


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Four good runs and a worse one, and three runs of another setting that all end high."""
    monkeypatch.chdir(tmp_path)
    for seed in range(4):
        write(tmp_path / "sweep" / f"good{seed}", run(seed), {**SETTINGS, "seed": seed})
    write(tmp_path / "sweep" / "bad", run(50, end=0.7), {**SETTINGS, "seed": 50})
    for seed in range(60, 63):
        other = {**SETTINGS, "peak_lr": 0.2, "seed": seed}
        write(tmp_path / "sweep" / f"other{seed}", run(seed, end=0.7), other)
    return tmp_path / "sweep"


def test_a_run_that_is_worse_than_its_peers_is_listed(sweep):
    peers = stabdiag.scan("sweep", peers=True).peers
    assert (peers.runs, peers.compared) == (8, 8)
    (worse,) = peers.worse
    assert (worse.run, worse.outcome, worse.peers) == ("bad", "healthy", 4)
    assert worse.summary.startswith("The run is worse than its 4 healthy peers from step ")


def test_without_the_option_nothing_is_compared(sweep):
    assert stabdiag.scan("sweep").peers is None


def test_runs_without_two_healthy_peers_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(2):
        write(tmp_path / "sweep" / f"run{seed}", run(seed), SETTINGS)
    write(tmp_path / "sweep" / "alone", run(5), {**SETTINGS, "peak_lr": 0.2})
    peers = stabdiag.scan("sweep", peers=True).peers
    assert (peers.runs, peers.compared) == (3, 0)


def test_runs_whose_settings_are_unknown_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good_runs(tmp_path / "sweep", 4)
    assert stabdiag.scan("sweep", peers=True).peers.compared == 0


def test_every_format_lists_them(sweep, monkeypatch, capsys):
    from stabdiag.cli import main

    for name in ("terminal", "markdown", "html", "json"):
        monkeypatch.setattr("sys.argv", ["stabdiag", "scan", "sweep", "--peers", "--format", name])
        assert int(main()) == 0
        out = capsys.readouterr().out
        assert "worse than its 4 healthy peers" in " ".join(out.split())
        if name == "json":
            jsonschema.validate(json.loads(out), json.loads(schema("scan")))


def test_a_store_serves_as_a_baseline_without_its_logs(sweep):
    stabdiag.scan("sweep", store="rows")
    bad = sweep / "bad" / "log.jsonl"
    columns = run(50, end=0.7)
    for path in sweep.glob("*/log.jsonl"):
        if path != bad:
            path.unlink()
    kept = {"baseline": "rows", "where": ["peak_lr=0.1", "outcome=healthy"]}
    report = stabdiag.diagnose(str(bad), **kept)
    assert report.diagnosis.slug == "worse-than-baseline"
    assert sorted(report.baseline.references) == [f"good{seed}" for seed in range(4)]
    report = stabdiag.diagnose(columns, **kept)  # a copy of a run looks like another run
    assert len(report.baseline.references) + len(report.baseline.left_out) == 5


def test_a_second_scan_keeps_the_latest_profile_of_a_run(sweep):
    stabdiag.scan("sweep", store="rows")
    write(sweep / "good0", run(0, steps=800), {**SETTINGS, "seed": 0})
    stabdiag.scan("sweep", store="rows")
    last = {profile.name: profile.last_step for profile in read_store(sweep.parent / "rows")}
    assert last["good0"] == 800
    assert last["good1"] == 400
    assert len(last) == 8
