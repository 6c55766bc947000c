"""Count how often a watch would have ended a run for an error that the finished log does not have.

python benchmarks/watch_replay.py                    the fixtures, told 4 records at a time
python benchmarks/watch_replay.py --corpus 4         every fourth run of the corpus, in 40 parts
python benchmarks/watch_replay.py --logs FOLDER      every log in a folder, in 16 torn blocks

A run is told part by part, as a watch sees it, until an error is certain or the run is over. Of a
folder each file is a log of its own, and is written again in blocks of random sizes that end in
mid-line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from stabdiag.api import diagnose
from stabdiag.assemble import build_history
from stabdiag.errors import LogError
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import parse_manifest
from stabdiag.readers import from_object
from stabdiag.readers.columns import every_column
from stabdiag.sources import LoadedLog, ReadRequest, read_source
from stabdiag.watch import open_source
from stabdiag.watch.certain import certain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.findings import Finding
    from stabdiag.model.report import Report
    from stabdiag.readers import Column, Columns

HERE = Path(__file__).parent
RUNS = HERE.parent / "fixtures" / "runs"
PARTS = 40
BLOCKS = 16


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a watch would have made of a run: its errors in the end, and what ended it before."""

    name: str
    errors: frozenset[str]
    ended_by: str | None
    after: int


def told(name: str, log: LoadedLog, every: int) -> Told:
    """Tell of a run, so many records at a time."""
    rows = log.columns.rows
    final = _report(log, rows)
    for after in range(every, rows, every):
        try:
            found = _sure(_report(log, after))
        except LogError:
            continue
        if found is not None:
            return Told(name=name, errors=_errors(final), ended_by=found, after=after)
    return Told(name=name, errors=_errors(final), ended_by=None, after=rows)


def replayed(log: Path, folder: Path, random: Random) -> Told:
    """Tell of a log that is written again in another folder, in torn blocks."""
    data, copy = log.read_bytes(), folder / log.name
    cuts = sorted(random.sample(range(1, len(data)), BLOCKS - 1))
    final = diagnose(log)
    source = open_source([str(copy)], ReadRequest(format=None, wanted=every_column))
    with closing(source), copy.open("wb", buffering=0) as file:
        for begin, end in pairwise([0, *cuts, len(data)]):
            file.write(data[begin:end])
            source.look()
            try:
                held = source.read(is_complete=False)
                history = build_history(held.columns, Limits())
                report = diagnose(history, manifest=held.manifest)
            except LogError:
                continue
            after, found = report.history.source.records, _sure(report)
            if found is not None:
                return Told(name=log.name, errors=_errors(final), ended_by=found, after=after)
    after = final.history.source.records
    return Told(name=log.name, errors=_errors(final), ended_by=None, after=after)


def _errors(final: Report) -> frozenset[str]:
    return frozenset(_kind(one) for one in final.findings if one.severity is Severity.ERROR)


def _sure(report: Report) -> str | None:
    """Return what a watch would end the run for."""
    if all(one.severity is not Severity.ERROR for one in report.findings):
        return None
    found = certain(report, Severity.ERROR)
    return None if found is None else _kind(found)


def _kind(finding: Finding) -> str:
    return finding.section if finding.section.startswith("§") else finding.slug


def _report(log: LoadedLog, rows: int) -> Report:
    history = build_history(first(log.columns, rows), Limits())
    return diagnose(history, manifest=log.manifest)


def first(columns: Columns, rows: int) -> Columns:
    """Return what a log held when it had so many records."""

    def load(name: str) -> Column:
        one = columns.load(name)
        parts: dict[str, Any] = {
            part: getattr(one, part)[:rows] for part in ("values", "present", "null")
        }
        return replace(one, **parts)

    return replace(columns, rows=rows, load=load, converted=None)


def fixtures() -> Iterator[Told]:
    """Tell of the fixtures."""
    for folder in sorted(RUNS.iterdir()):
        (log,) = folder.glob("log.*")
        yield told(folder.name, read_source([log]), 4)


def corpus(every: int) -> Iterator[Told]:
    """Tell of each so many-th run of the corpus."""
    sys.path.insert(0, str(HERE / "accuracy"))
    from corpus import load

    for number, (run, table) in enumerate(load()):
        if number % every == 0:
            columns = from_object(table)
            log = LoadedLog(columns=columns, manifest=parse_manifest(run.manifest))
            yield told(run.run_id, log, max(columns.rows // PARTS, 1))


def logs(folder: Path) -> Iterator[Told]:
    """Tell of each log in a folder, but for those that cannot be read."""
    random = Random(20261123)
    for log in sorted(path for path in folder.iterdir() if path.is_file()):
        with tempfile.TemporaryDirectory() as name:
            try:
                yield replayed(log, Path(name), random)
            except LogError as error:
                print(f"left out: {error}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=int, metavar="N", help="every N-th run of the corpus")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="the logs in a folder")
    arguments = parser.parse_args()
    if arguments.logs:
        runs = list(logs(arguments.logs))
    else:
        runs = list(corpus(arguments.corpus) if arguments.corpus else fixtures())
    well = [run for run in runs if not run.errors]
    broken = [run for run in runs if run.errors]
    early = [run for run in broken if run.ended_by in run.errors]
    other = [run for run in broken if run.ended_by not in {*run.errors, None}]
    print(f"{len(well)} runs without an error in the end")
    for run in well:
        if run.ended_by is not None:
            print(f"    {run.name} ended for {run.ended_by} after {run.after} records")
    print(f"{len(broken)} runs with one: {len(early)} ended for it before their end")
    for run in other:
        print(f"    {run.name} ended for {run.ended_by} after {run.after} records")


if __name__ == "__main__":
    main()
