"""Record the diagnoses of many runs, and compare the records of two versions of the program.

python benchmarks/snapshot.py write before.jsonl              fixtures and corpus
python benchmarks/snapshot.py write before.jsonl FOLDER...    also every file in these folders
python benchmarks/snapshot.py compare before.jsonl after.jsonl

A snapshot contains the findings, the actions with their values (setting, from, to, step,
checkpoint), and the answers with their branches and measured numbers. A comparison prints each run
that differs in a field of both snapshots, and exits with code 1 if any does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

# Use the program in this repository, not an installed one.
sys.path.insert(0, str(Path(__file__).parents[1]))

import stabdiag
from stabdiag.errors import StabdiagError
from stabdiag.model.manifest import parse_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.findings import Action
    from stabdiag.model.report import Report

HERE = Path(__file__).parent
ROOT = HERE.parent
CORPUS = HERE / "accuracy" / "data"
FORMATS = ("", ".jsonl", ".csv", ".parquet")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("output", type=Path)
    writing.add_argument("folders", type=Path, nargs="*")
    writing.add_argument("--no-corpus", action="store_true")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        sys.exit(compare(options.before, options.after))
    write(options.output, options.folders, with_corpus=not options.no_corpus)


def write(output: Path, folders: list[Path], *, with_corpus: bool) -> None:
    """Diagnose all runs and write one line per run, sorted by name."""
    logs = [*sorted(ROOT.glob("fixtures/runs/*/log.[!r]*")), *_files(folders)]
    parts = [path.parent for path in sorted(CORPUS.rglob("labels.json"))] if with_corpus else []
    with ProcessPoolExecutor() as pool:
        records = [*pool.map(_diagnose_log, logs, chunksize=4)]
        for part_records in pool.map(_diagnose_part, parts):
            records += part_records
    records.sort(key=lambda record: str(record["run"]))
    output.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def compare(before: Path, after: Path) -> int:
    """Print the differences, with a count for each kind of change."""
    old, new = _read(before), _read(after)
    for run in old.keys() & new.keys():
        # An unreadable run is a difference; a missing field is not.
        if "unread" not in old[run] and "unread" not in new[run]:
            both = old[run].keys() & new[run].keys()
            old[run], new[run] = (
                {key: records[run][key] for key in both} for records in (old, new)
            )
    changed = [run for run in old if run in new and old[run] != new[run]]
    ways = Counter(_way(old[run], new[run]) for run in changed)
    for way, count in ways.most_common():
        print(f"{count:5}  {way}")
    for run in changed:
        print(f"\n{run}")
        for key in {**old[run], **new[run]}:
            was, now = old[run].get(key), new[run].get(key)
            if was != now:
                print(f"  {key}\n    - {was}\n    + {now}")
    for name, only in (("before", old.keys() - new.keys()), ("after", new.keys() - old.keys())):
        if only:
            print(f"\nonly {name}: {', '.join(sorted(only))}")
    print(f"\n{len(changed)} of {len(old)} runs differ")
    return 1 if changed or old.keys() != new.keys() else 0


def _way(old: dict[str, Any], new: dict[str, Any]) -> str:
    if (before := _headline(old)) != (after := _headline(new)):
        return f"{before} → {after}"
    return "the same diagnosis, another " + " and ".join(
        key for key in {**old, **new} if old.get(key) != new.get(key)
    )


def _headline(record: dict[str, Any]) -> str:
    return f"{record.get('slug', 'unread')} ({record.get('severity', '')})"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line.pop("run"): line for line in lines}


def _files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _diagnose_log(path: Path) -> dict[str, Any]:
    name = f"{path.parent.name}/{path.name}"
    try:
        return _record(name, stabdiag.diagnose(path))
    except StabdiagError as error:
        return {"run": name, "unread": str(error).replace(str(path.parent), "")}


def _diagnose_part(folder: Path) -> list[dict[str, Any]]:
    sys.path.insert(0, str(HERE / "accuracy"))
    import corpus

    records = []
    with TemporaryDirectory() as temporary:
        for number, (run, table) in enumerate(corpus.load(folder)):
            # The answer does not depend on the format, so each run goes through one of them.
            source = _source(table, Path(temporary) / "log", FORMATS[number % len(FORMATS)])
            report = stabdiag.diagnose(source, manifest=parse_manifest(run.manifest))
            records.append(_record(f"corpus/{folder.name}/{run.run_id}", report))
    return records


def _source(table: pa.Table, stem: Path, suffix: str) -> pa.Table | Path:
    """Write a log in a format and return its path; "" returns the table itself."""
    if not suffix:
        return table
    path = stem.with_suffix(suffix)
    # The decimal digits of a float32 would be read as another float64.
    fields = [
        field.with_type(pa.float64()) if pa.types.is_float32(field.type) else field
        for field in table.schema
    ]
    exact = table.cast(pa.schema(fields))
    if suffix == ".csv":
        pacsv.write_csv(exact, path)
    elif suffix == ".parquet":
        pq.write_table(exact, path)
    else:
        rows = (
            {name: value for name, value in row.items() if value is not None}
            for row in exact.to_pylist()
        )
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def _record(name: str, report: Report) -> dict[str, Any]:
    finding = report.diagnosis
    return {
        "run": name,
        "slug": finding.slug,
        "severity": finding.severity.value,
        "step": finding.step,
        "actions": [action.kind for action in finding.actions],
        "findings": [f"{f.slug} ({f.severity.value}) {f.step}" for f in report.findings],
        "values": [_values(action) for finding in report.findings for action in finding.actions],
        "answers": {
            answer.question: f"{answer.verdict}:{answer.branch or ''}"
            for answer in report.tree.answers
        },
        "measured": {
            f"{source}.{name}": _rounded(value)
            for source, measured in (
                *((answer.question, answer.measured) for answer in report.tree.answers),
                *((finding.slug, finding.evidence) for finding in report.findings),
            )
            for name, value in measured.items()
        },
    }


def _values(action: Action) -> dict[str, Any]:
    values = {
        "setting": action.setting,
        "from": _rounded(action.from_),
        "to": _rounded(action.to),
        "step": action.step,
        "checkpoint": action.checkpoint,
    }
    return {name: value for name, value in values.items() if value is not None}


def _rounded(value: object) -> object:
    """Return a number with nine digits: the last ones differ between processors."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
