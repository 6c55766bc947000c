"""Score first actions: python benchmarks/cure/first_actions.py [--cure] [--data FOLDER].

Without ``--cure`` no PyTorch is needed: it counts which runs are flagged, and whether the family of
their failure is named. With it, each of the first three actions is carried out in the run's
settings, and the run is trained again; it is cured if its evaluation loss ends within the spread of
its healthy twins.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import written
from failures import Case, cases
from pyarrow import parquet
from seen import shows

import stabdiag

DATA = Path(__file__).parent / "data"

# Which kinds of action name a family of failures.
NAMED = {
    "learning rate": {"lower-lr", "raise-lr", "test-lr"},
    "schedule": {"fix-schedule", "add-warmup", "lower-lr"},
    "gradients": {"clip-gradients", "lower-lr", "inspect-data"},
    "weight decay": {"lower-weight-decay", "fix-weight-decay"},
    "model": {"check-model", "change-model", "inspect-layers"},
    "precision": {"dynamic-loss-scale", "change-dtype", "check-precision", "safe-operations"},
    "loss": {"check-loss-function", "safe-operations"},
    "loop": {"check-loss-function", "check-model", "lower-lr"},
    "data": {"inspect-data", "skip-batches", "fix-loader"},
    "labels": {"check-labels", "inspect-data"},
    "order": {"shuffle-data", "fix-loader"},
    "resume": {"restore-state", "fix-schedule"},
    "generalisation": {"regularise", "stop-early", "change-model", "regularise-less"},
    "evaluation": {"check-evaluation", "change-batch"},
}
WAYS = ("as wished", "as people do")
ALARMS = ("error", "warning")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a diagnosis says of one log: its severity, outcome and first three actions."""

    severity: str
    slug: str
    actions: list[dict[str, Any]]


def main() -> None:
    """Score, and print a table."""
    parser = argparse.ArgumentParser(description="Score the first actions.")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--cure", action="store_true", help="train again by the actions")
    parser.add_argument("--runs", action="store_true", help="print a line for each run")
    options = parser.parse_args()
    about = {run["run"]: run for run in json.loads((options.data / "runs.json").read_text())}
    rows = rows_of(options.data / "logs.parquet")
    twins = spread(about.values())
    broken = cases(tuple(options.seeds))
    counts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for way in WAYS:
        for number, case in enumerate(broken):
            if about[case.key]["eval_loss"] <= enough(twins[case.task]):
                continue  # the fault did no harm
            told = diagnosed(rows[case.key], about[case.key], way, number)
            score = scored(case, told, twins[case.task], about[case.key], options.cure)
            score |= {"shown": shows(rows[case.key], healthy_rows(rows, case.task))}
            counts[way].append(score)
            if options.runs:
                print(
                    f"{way:12} {case.key:44} {told.severity:8} {told.slug:32} {score}", flush=True
                )
        quiet = [
            diagnosed(rows[key], run, way, number).severity
            for number, (key, run) in enumerate(about.items())
            if key.startswith("healthy/")
        ]
        table(way, counts[way], quiet)


def rows_of(path: Path) -> dict[str, list[dict[str, float]]]:
    """Return the rows of each run, without what is missing."""
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for row in parquet.read_table(path).to_pylist():
        run = row.pop("run")
        rows[run].append({name: value for name, value in row.items() if value is not None})
    return rows


def healthy_rows(
    rows: dict[str, list[dict[str, float]]], task: str
) -> list[list[dict[str, float]]]:
    """Return the logs of the healthy twins of a task."""
    return [log for key, log in rows.items() if key.startswith(f"healthy/{task}/")]


def spread(runs: Iterator[dict[str, Any]] | Any) -> dict[str, tuple[float, float]]:
    """Return the best and the worst evaluation loss of the healthy runs of each task."""
    ends: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run["run"].startswith("healthy/"):
            ends[run["task"]].append(run["eval_loss"])
    return {task: (min(losses), max(losses)) for task, losses in ends.items()}


def enough(twins: tuple[float, float]) -> float:
    """Return the evaluation loss that a healthy run ends with at most."""
    best, worst = twins
    return worst + 0.5 * (worst - best)


def diagnosed(rows: list[dict[str, float]], about: dict[str, Any], way: str, number: int) -> Told:
    """Return what the program says of a log that is written in one of the two ways."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if way == WAYS[0]:
            path = written.wished(rows, folder, about["manifest"])
        else:
            write = written.AS_PEOPLE_DO[number % len(written.AS_PEOPLE_DO)]
            path = write(rows, folder, about["steps"])
        found = stabdiag.diagnose(path).to_dict()["diagnosis"]
    actions = found["actions"][:3]
    return Told(severity=found["severity"], slug=found["slug"], actions=actions)


def scored(
    case: Case, told: Told, twins: tuple[float, float], about: dict[str, Any], cure: bool
) -> dict[str, Any]:
    """Return whether a run is flagged, its family named and, if asked, whether it is cured."""
    flagged = told.severity in ALARMS
    kinds = {kind for one in told.actions for kind in (one["kind"], *one.get("also", ()))}
    score: dict[str, Any] = {
        "flagged": flagged,
        "named": flagged and bool(kinds & NAMED[case.failure.family]),
    }
    if not cure:
        return score
    ends = [retrained(action, case) for action in told.actions] if flagged else []
    best, worst = twins
    cured = [end is not None and end <= enough(twins) for end in ends]
    was = about["eval_loss"]
    first = ends[0] if ends else None
    worse = first is not None and (
        (math.isnan(first) and not math.isnan(was)) or first > was + (worst - best)
    )
    return score | {"first": any(cured[:1]), "three": any(cured), "worse": worse}


def retrained(action: dict[str, Any], case: Case) -> float | None:
    """Return the evaluation loss of a run after an action, None if it changes nothing."""
    from cures import apply  # with PyTorch
    from trainer import train

    changed = apply(action, case)
    return None if changed is None else train(*changed).eval_loss


def table(way: str, scores: list[dict[str, Any]], quiet: list[str]) -> None:
    """Print the shares of one way of logging."""
    shown = [score for score in scores if score["shown"]]
    print(f"\n{way}: {len(scores)} broken runs, of which {len(shown)} show it in their own log")
    for name in ("flagged", "named", "first", "three", "worse"):
        if name in scores[0]:
            print(f"  {name:8} {np.mean([score[name] for score in shown]):6.1%}")
    alarms = sum(one in ALARMS for one in quiet)
    errors = sum(one == "error" for one in quiet)
    print(f"  healthy  {len(quiet)} runs, {alarms} with an alarm, {errors} of these an error")


if __name__ == "__main__":
    main()
