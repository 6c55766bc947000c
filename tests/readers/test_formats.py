"""Every sample is detected as its own format by all sniffers.

``samples/<format>/`` contains small logs as frameworks write them.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from stabdiag import diagnose, read
from stabdiag.readers.reader import SniffPriority
from stabdiag.readers.registry import READERS
from stabdiag.readers.sniff import detect_format
from stabdiag.readers.source import open_stream
from stabdiag.readers.unwrapping.compressed import decoded, unpacked
from tests.conftest import RUNS, diagnosed, python
from tests.readers.conftest import read_columns

SAMPLES = Path(__file__).parent / "samples"
FILES = sorted(path for path in SAMPLES.glob("*/*") if path.is_file())
IDS = [f"{path.parent.name}/{path.name}" for path in FILES]


@pytest.fixture(params=FILES, ids=IDS)
def sample(request):
    return request.param


def head(path):
    with open_stream(path) as stream:
        return decoded(unpacked(stream)).head()


def test_every_sample_is_read_as_its_format_and_no_other_claims_it(sample):
    start, is_complete = head(sample)
    assert detect_format(start, is_complete=is_complete) == sample.parent.name
    claims = [
        reader.name
        for reader in READERS
        if reader.priority is not SniffPriority.LAST
        and reader.sniff(start, is_complete=is_complete)
    ]
    assert claims in ([sample.parent.name], [])
    columns = read_columns(sample)
    assert columns.format == sample.parent.name
    assert columns.rows > 0
    for name in columns.names:
        assert len(columns.load(name).values) == columns.rows


LOADED = """
import sys
from stabdiag.readers import read_stream
from stabdiag.readers.source import open_stream
read_stream(open_stream(sys.argv[1]))
print(*(name for name in sys.modules if name.startswith("stabdiag.readers.")))
"""


@pytest.mark.parametrize("name", ["jsonl/plain.jsonl", "csv/plain.csv"])
def test_a_quick_format_does_not_import_the_other_readers(name):
    done = python("-c", LOADED, SAMPLES / name, check=True)
    quick = {
        "stabdiag.readers.stores.parquet",
        "stabdiag.readers.json.lines",
        "stabdiag.readers.csv.log",
    }
    others = {reader.module for reader in READERS} - quick | {"stabdiag.readers.text.log"}
    assert not others & set(done.stdout.split())


def test_format_names_are_unique():
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)


# A table cannot contain the recorder's header.
LOGS = sorted(
    log
    for log in RUNS.glob("*/log.[!r]*")
    if log.suffix != ".txt" and "recorded" not in log.parent.name
)

# pandas writes NaN as a blank. A blank without an earlier value proves nothing, so the report names
# the remaining outcome and its step.
LOST = {
    "loss-scale-collapsed-targets": ("loss-scale-collapsed", 1),
    "symptom-eval-nonfinite": ("healthy", None),
    "symptom-other-loss-nonfinite": ("healthy", None),
}


def log_cells(log):
    """Return the columns of a log; a missing key is a blank, as in any table."""
    columns, cells = read_columns(log), {}
    for name in columns.names:
        column = columns.load(name)
        values = column.values.tolist()
        if column.is_text:
            words = column.words
            values = [words[int(code)] if code < len(words) else str(code) for code in values]
        pairs = zip(values, column.present.tolist(), strict=True)
        cells[name] = [value if present else None for value, present in pairs]
    return cells


def records_of(cells):
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def without_null(record):
    return {name: value for name, value in record.items() if value is not None}


def write_json_lines(cells, to):
    lines = (json.dumps(without_null(record)) + "\n" for record in records_of(cells))
    to.write_text("".join(lines), encoding="utf-8")


def write_json(cells, to):
    to.write_text(json.dumps(records_of(cells)), encoding="utf-8")


def write_csv(cells, to):
    with to.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if to.suffix == ".tsv" else ",")
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))


def write_parquet(cells, to):
    parquet.write_table(pa.table(cells), to)


def write_with_pandas(cells, to):
    pd.DataFrame(cells).to_parquet(to)


FORMS = {
    "lines.jsonl": write_json_lines,
    "list.json": write_json,
    "table.csv": write_csv,
    "table.tsv": write_csv,
    "pyarrow.parquet": write_parquet,
    "pandas.parquet": write_with_pandas,
}


def is_same(first, other):
    """Return True if two histories lead to the same diagnosis."""
    if first.series.keys() != other.series.keys() or repr(first.config) != repr(other.config):
        return False
    for role, left in first.series.items():
        right = other.series[role]
        values = np.array_equal(left.values, right.values, equal_nan=True)
        if not values or not np.array_equal(left.steps, right.steps) or left.words != right.words:
            return False
    events = [[(event.kind, event.step) for event in each.events] for each in (first, other)]
    return events[0] == events[1] and (first.unit, first.loss_kind) == (other.unit, other.loss_kind)


def summary_of(report):
    diagnosis = report.diagnosis
    return diagnosis.slug, diagnosis.severity, diagnosis.step, report.tree.outcome.slug


@pytest.mark.parametrize("log", LOGS, ids=[log.parent.name for log in LOGS])
def test_the_same_numbers_have_one_meaning_in_each_format(log, tmp_path):
    given = log.parent / "manifest.json"
    manifest = given if given.exists() else None
    cells, run = log_cells(log), log.parent.name
    report = diagnosed(run)
    history = report.history
    # Alternate between two similar formats.
    for form in [*FORMS][LOGS.index(log) % 2 :: 2]:
        to = tmp_path / form
        FORMS[form](cells, to)
        if is_same(history, read(to)):
            continue
        summary = summary_of(diagnose(to, manifest=manifest))
        if form == "pandas.parquet" and run in LOST:
            assert (summary[0], summary[2]) == LOST[run]
        else:
            assert summary == summary_of(report), form
