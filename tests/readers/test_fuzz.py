"""The script that gives readers damaged logs: it runs, and it finds what is to be found."""

import io
import json

import pytest

from stabdiag.readers.reader import TextReader
from stabdiag.readers.source import Stream
from tests.conftest import ROOT, python

READ = TextReader.read


def test_a_run_is_recorded(tmp_path):
    file = tmp_path / "record.json"
    options = ("--minutes", 0.005, "--target", "megatron", "--target", "packed", "--keep", tmp_path)
    python("benchmarks/fuzz.py", "--record", file, *options, cwd=ROOT, check=True)
    outcomes = json.loads(file.read_text())
    assert [one["target"] for one in outcomes] == ["megatron", "packed"]
    for one in outcomes:
        assert one["inputs"] == one["read"] + one["refused"] > 0
        assert one["findings"] == {}


def breaks(one, stream):
    raise ZeroDivisionError


def forgets(one, stream):
    """Drop the last whole line with the one that is torn."""
    data = stream.read_all()
    whole = data.rfind(b"\n") + 1
    kept = data if whole == len(data) else data[: data.rfind(b"\n", 0, whole - 1) + 1]
    return READ(one, Stream(stream.name, io.BytesIO(kept)))


@pytest.mark.parametrize(
    ("fault", "told"), [(breaks, "ZeroDivisionError in "), (forgets, "Lost in fuzz_targets.py")]
)
def test_a_fault_is_found(monkeypatch, tmp_path, fault, told):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import fuzz

    monkeypatch.setattr(TextReader, "read", fault)
    outcome = fuzz.fuzz("megatron", minutes=0.01, seed=1, keep=tmp_path)
    assert any(place.startswith(told) for place in outcome.findings)
    assert len(list(tmp_path.iterdir())) == len(outcome.findings)
