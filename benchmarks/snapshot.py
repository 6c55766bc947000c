"""Write down what is said of many runs, and tell what a change of the program made of it.

python benchmarks/snapshot.py write before.jsonl              fixtures and corpus
python benchmarks/snapshot.py write before.jsonl FOLDER...    every file of these folders, too
python benchmarks/snapshot.py compare before.jsonl after.jsonl

A snapshot holds the findings, the actions with their values (setting, from, to, step, checkpoint),
and the answers with their branches and measured numbers. A comparison prints each run that differs
in what both snapshots hold, and ends with exit code 1 if any does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What is measured is the program beside this file, whichever is installed.
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
    """Diagnose everything and write one line a run, sorted by name."""
    logs = [*sorted(ROOT.glob("fixtures/runs/*/log.*")), *_files(folders)]
    parts = [path.parent for path in sorted(CORPUS.rglob("labels.json"))] if with_corpus else []
    with ProcessPoolExecutor() as pool:
        said = [*pool.map(_of_log, logs, chunksize=4)]
        for more in pool.map(_of_part, parts):
            said += more
    said.sort(key=lambda one: str(one["run"]))
    output.write_text("".join(f"{json.dumps(one)}\n" for one in said), encoding="utf-8")


def compare(before: Path, after: Path) -> int:
    """Print what differs, the runs that changed in the same way together."""
    old, new = _read(before), _read(after)
    for run in old.keys() & new.keys():
        # A run that one version could not read is a difference; a field that one lacks is not.
        if "unread" not in old[run] and "unread" not in new[run]:
            both = old[run].keys() & new[run].keys()
            old[run], new[run] = ({key: said[run][key] for key in both} for said in (old, new))
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
    if (one := _headline(old)) != (other := _headline(new)):
        return f"{one} → {other}"
    return "the same diagnosis, another " + " and ".join(
        key for key in {**old, **new} if old.get(key) != new.get(key)
    )


def _headline(said: dict[str, Any]) -> str:
    return f"{said.get('slug', 'unread')} ({said.get('severity', '')})"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line.pop("run"): line for line in lines}


def _files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _of_log(path: Path) -> dict[str, Any]:
    name = f"{path.parent.name}/{path.name}"
    try:
        return _said(name, stabdiag.diagnose(path))
    except StabdiagError as error:
        return {"run": name, "unread": str(error).replace(str(path.parent), "")}


def _of_part(folder: Path) -> list[dict[str, Any]]:
    sys.path.insert(0, str(HERE / "accuracy"))
    import corpus

    said = []
    for run, table in corpus.load(folder):
        report = stabdiag.diagnose(table, manifest=parse_manifest(run.manifest))
        said.append(_said(f"corpus/{folder.name}/{run.run_id}", report))
    return said


def _said(name: str, report: Report) -> dict[str, Any]:
    found = report.diagnosis
    return {
        "run": name,
        "slug": found.slug,
        "severity": found.severity.value,
        "step": found.step,
        "actions": [action.kind for action in found.actions],
        "findings": [f"{one.slug} ({one.severity.value}) {one.step}" for one in report.findings],
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
