"""Every format is told from every other: the samples against all recognisers.

``samples/<format>/`` holds small logs in the shape in which frameworks write them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stabdiag.errors import LogError
from stabdiag.readers import read_columns
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.encoding import decoded
from stabdiag.readers.reader import Turn
from stabdiag.readers.registry import READERS
from stabdiag.readers.sniff import recognised
from stabdiag.readers.source import open_stream

SAMPLES = Path(__file__).parent / "samples"
FILES = sorted(path for path in SAMPLES.glob("*/*") if path.is_file())
IDS = [f"{path.parent.name}/{path.name}" for path in FILES]


@pytest.fixture(params=FILES, ids=IDS)
def sample(request: pytest.FixtureRequest) -> Path:
    return request.param


def head(path: Path) -> tuple[bytes, bool]:
    with open_stream(path) as stream:
        return decoded(unpacked(stream)).head()


def test_the_right_format_is_recognised(sample):
    start, whole = head(sample)
    assert recognised(start, whole=whole) == sample.parent.name


def test_no_other_format_claims_it(sample):
    start, whole = head(sample)
    claims = [
        one.name
        for one in READERS
        if one.turn is not Turn.LAST and one.recognises(start, whole=whole)
    ]
    assert claims in ([sample.parent.name], [])


def test_it_is_read(sample):
    columns = read_columns(sample)
    assert columns.format == sample.parent.name
    assert columns.rows > 0
    for name in columns.names:
        assert len(columns.load(name).values) == columns.rows


LOADED = """
import sys
from stabdiag.readers import read_columns
read_columns(sys.argv[1])
print(*(name for name in sys.modules if name.startswith("stabdiag.readers.")))
"""


@pytest.mark.parametrize("name", ["jsonl/plain.jsonl", "csv/plain.csv"])
def test_a_quick_format_does_without_the_modules_of_the_others(name):
    command = [sys.executable, "-c", LOADED, str(SAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    quick = {"stabdiag.readers.parquet", "stabdiag.readers.json.lines", "stabdiag.readers.csv.log"}
    others = {one.module for one in READERS} - quick
    assert not others & set(done.stdout.split())


def test_names_are_used_once():
    names = [one.name for one in READERS]
    assert len(set(names)) == len(names)


def test_a_format_that_is_forced_is_used(tmp_path):
    log = tmp_path / "run.txt"
    log.write_text("step,loss\n1,2.5\n2,2.4\n", encoding="utf-8")
    assert read_columns(log, format="csv").format == "csv"
    with pytest.raises(LogError, match="no record could be read"):
        read_columns(log, format="jsonl")
    with pytest.raises(LogError, match="unknown format 'cvs'; did you mean csv"):
        read_columns(log, format="cvs")
