"""A healthy run with torn blocks, or a rotated, truncated or rewritten log, has no findings."""

import json
import os
import runpy
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from stabdiag.errors import LogError
from stabdiag.model.findings import Severity
from stabdiag.readers.columns import every_column
from stabdiag.sources import ReadRequest, read_source
from stabdiag.watch import open_source
from stabdiag.watch.certain import certain
from tests.watch.conftest import diagnose_found

BLOCKS = 12


def appended(log, block):
    with log.open("ab") as file:
        file.write(block)


def rotated(log, block):
    log.replace(log.with_suffix(f".{len(list(log.parent.iterdir()))}"))
    log.write_bytes(block)


def emptied(log, block):
    """Copy a log and empty it, as logrotate's copytruncate does."""
    os.truncate(log, 0)
    appended(log, block)


def rewritten(log, block):
    log.write_bytes(log.read_bytes() + block)


def replaced(log, block):
    full_log = log.read_bytes() + block
    log.unlink()
    log.write_bytes(full_log)


def cut_back(log, block):
    """Cut a log in the middle, and write that part of it again."""
    content = log.read_bytes()
    os.truncate(log, len(content) // 2)
    appended(log, content[len(content) // 2 :] + block)


WAYS = (appended, rotated, emptied, rewritten, replaced, cut_back)


def text_of(lines, format):
    """Return lines of JSON as a log in one of three formats."""
    losses = [json.loads(line)["loss"] for line in lines]
    if format == "csv":
        return "step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate(losses))
    if format == "text":
        return "".join(f"step {step} loss: {loss}\n" for step, loss in enumerate(losses))
    return "".join(lines)


@pytest.mark.parametrize(
    ("way", "format"),
    [*((way, "jsonl") for way in WAYS), (rotated, "text"), (cut_back, "csv")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_it_is_left_alone(way, format, lines, tmp_path):
    data, random = text_of(lines(400), format).encode(), Random(8)
    cuts = sorted(random.sample(range(1, len(data)), BLOCKS - 1))
    # A file that is moved or emptied ends with a line.
    cuts = [data.index(b"\n", cut) + 1 if at % 4 == 2 else cut for at, cut in enumerate(cuts)]
    log = tmp_path / "run.log"
    log.touch()
    request = ReadRequest(format=None, is_required=every_column)
    with closing(open_source([str(log)], request)) as source:
        for at, (begin, end) in enumerate(pairwise([0, *cuts, len(data)])):
            (way if at % 4 == 3 else appended)(log, data[begin:end])
            source.look()
            with suppress(LogError):
                report = diagnose_found(source.read(is_complete=False))
                assert certain(report, Severity.ERROR) is None
        assert report.history.source.records == 400
    assert report.diagnosis.slug == "healthy"


@pytest.mark.parametrize("run", ["healthy-failed-attempt", "symptom-loss-oscillating"])
def test_recovering_fixtures_that_a_watch_stops_are_documented(run):
    """Remove a fixture from the page if a watch does not stop it any more."""
    root = Path(__file__).parents[2]
    assert f"`{run}`" in (root / "docs" / "watch.md").read_text(encoding="utf-8")
    replay = runpy.run_path(str(root / "benchmarks" / "watch_replay.py"))
    (log,) = (root / "fixtures" / "runs" / run).glob("log.[!r]*")
    result = replay["replay_run"](run, read_source([log]), 4)
    assert result.ended_by is not None
    assert not result.errors
