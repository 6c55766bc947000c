"""Count how often a watch would have ended a run for an error that the finished log does not have.

python benchmarks/watch_replay.py                    the fixtures, 4 records at a time
python benchmarks/watch_replay.py --corpus 4         every fourth run of the corpus, in 40 parts
python benchmarks/watch_replay.py --logs FOLDER      every log in a folder, in 16 torn blocks

A run is replayed part by part, as a watch sees it, until an error is certain or the run is over. In
a folder, each file is its own log, and is rewritten in blocks of random sizes that end in mid-line.
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
class Replay:
    """The result of replaying a run: its final errors, and the finding that stopped it early."""

    name: str
    errors: frozenset[str]
    ended_by: str | None
    after: int


def replay_run(name: str, log: LoadedLog, every: int) -> Replay:
    """Replay a run, ``every`` records at a time."""
    rows = log.columns.rows
    final = _report(log, rows)
    for after in range(every, rows, every):
        try:
            kind = _certain_kind(_report(log, after))
        except LogError:
            continue
        if kind is not None:
            return Replay(name=name, errors=_errors(final), ended_by=kind, after=after)
    return Replay(name=name, errors=_errors(final), ended_by=None, after=rows)


def replay_file(log: Path, folder: Path, random: Random) -> Replay:
    """Replay a log file by writing it to another folder in incomplete blocks."""
    data, copy = log.read_bytes(), folder / log.name
    cuts = sorted(random.sample(range(1, len(data)), BLOCKS - 1))
    final = diagnose(log)
    source = open_source([str(copy)], ReadRequest(format=None, is_required=every_column))
    with closing(source), copy.open("wb", buffering=0) as file:
        for begin, end in pairwise([0, *cuts, len(data)]):
            file.write(data[begin:end])
            source.look()
            try:
                partial_log = source.read(is_complete=False)
                history = build_history(partial_log.columns, Limits())
                report = diagnose(history, manifest=partial_log.manifest)
            except LogError:
                continue
            after, kind = report.history.source.records, _certain_kind(report)
            if kind is not None:
                return Replay(name=log.name, errors=_errors(final), ended_by=kind, after=after)
    after = final.history.source.records
    return Replay(name=log.name, errors=_errors(final), ended_by=None, after=after)


def _errors(final: Report) -> frozenset[str]:
    return frozenset(
        _kind(finding) for finding in final.findings if finding.severity is Severity.ERROR
    )


def _certain_kind(report: Report) -> str | None:
    """Return the kind of the certain error that would stop the run."""
    if all(finding.severity is not Severity.ERROR for finding in report.findings):
        return None
    finding = certain(report, Severity.ERROR)
    return None if finding is None else _kind(finding)


def _kind(finding: Finding) -> str:
    return finding.section if finding.section.startswith("§") else finding.slug


def _report(log: LoadedLog, rows: int) -> Report:
    history = build_history(truncate(log.columns, rows), Limits())
    return diagnose(history, manifest=log.manifest)


def truncate(columns: Columns, rows: int) -> Columns:
    """Return the first ``rows`` records of a log."""

    def load(name: str) -> Column:
        column = columns.load(name)
        parts: dict[str, Any] = {
            part: getattr(column, part)[:rows] for part in ("values", "present", "null")
        }
        return replace(column, **parts)

    return replace(columns, rows=rows, load=load, converted=None)


def fixtures() -> Iterator[Replay]:
    """Replay the fixtures."""
    for folder in sorted(RUNS.iterdir()):
        (log,) = folder.glob("log.[!r]*")
        yield replay_run(folder.name, read_source([log]), 4)


def corpus(every: int) -> Iterator[Replay]:
    """Replay every n-th run of the corpus."""
    sys.path.insert(0, str(HERE / "accuracy"))
    from corpus import load

    for number, (run, table) in enumerate(load()):
        if number % every == 0:
            columns = from_object(table)
            log = LoadedLog(columns=columns, manifest=parse_manifest(run.manifest))
            yield replay_run(run.run_id, log, max(columns.rows // PARTS, 1))


def logs(folder: Path) -> Iterator[Replay]:
    """Replay each readable log in a folder."""
    random = Random(20261123)
    for log in sorted(path for path in folder.iterdir() if path.is_file()):
        with tempfile.TemporaryDirectory() as name:
            try:
                yield replay_file(log, Path(name), random)
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
    healthy = [run for run in runs if not run.errors]
    broken = [run for run in runs if run.errors]
    early = [run for run in broken if run.ended_by in run.errors]
    other = [run for run in broken if run.ended_by not in {*run.errors, None}]
    print(f"{len(healthy)} runs without an error in the end")
    for run in healthy:
        if run.ended_by is not None:
            print(f"    {run.name} stopped for {run.ended_by} after {run.after} records")
    print(f"{len(broken)} runs with one: {len(early)} stopped for it before their end")
    for run in other:
        print(f"    {run.name} stopped for {run.ended_by} after {run.after} records")


if __name__ == "__main__":
    main()
