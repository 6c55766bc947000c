"""The fuzzing script runs, and detects a faulty reader."""

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
    assert [outcome["target"] for outcome in outcomes] == ["megatron", "packed"]
    for outcome in outcomes:
        assert outcome["inputs"] == outcome["read"] + outcome["refused"] > 0
        assert outcome["findings"] == {}


def breaks(reader, stream):
    raise ZeroDivisionError


def forgets(reader, stream):
    """Drop the last complete line together with the truncated one."""
    data = stream.read_all()
    end = data.rfind(b"\n") + 1
    kept = data if end == len(data) else data[: data.rfind(b"\n", 0, end - 1) + 1]
    return READ(reader, Stream(stream.name, io.BytesIO(kept)))


@pytest.mark.parametrize(
    ("fault", "message"), [(breaks, "ZeroDivisionError in "), (forgets, "Lost in fuzz_targets.py")]
)
def test_a_fault_is_reported(monkeypatch, tmp_path, fault, message):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import fuzz

    monkeypatch.setattr(TextReader, "read", fault)
    outcome = fuzz.fuzz("megatron", minutes=0.01, seed=1, keep=tmp_path)
    assert any(place.startswith(message) for place in outcome.findings)
    assert len(list(tmp_path.iterdir())) == len(outcome.findings)
