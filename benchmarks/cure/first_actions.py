"""Score first actions: python benchmarks/cure/first_actions.py [--cure] [--data FOLDER].

It counts which runs are flagged, whether the family of their failure is named, and whether the
first three actions cure them: each is carried out in the run's settings, and the run is cured if
its evaluation loss then ends within the spread of its healthy twins. The ends of all runs trained
so far are kept next to the logs; with ``--cure``, what is missing is trained (PyTorch).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# Measure the program in this repository, not an installed one.
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from advisers import ADVISERS, ALERT_SEVERITIES, Advised, Log, by_stabdiag, tools_of
from cures import apply
from failures import Case, cases
from pyarrow import parquet
from retraining import Ledger, Plan
from seen import leaving, shows
from settings import HEALTHY
from written import AS_PEOPLE_DO, LOGGED_SERIES, WAYS

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
    "generalization": {"regularize", "stop-early", "change-model", "regularize-less"},
    "evaluation": {"check-evaluation", "change-batch"},
}

Twins = dict[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The advice of one adviser on one log; ``plans`` has None for an action without effect."""

    case: Case
    way: str
    adviser: str
    advised: Advised
    plans: list[Plan | None]
    was: float

    def score(self, twins: Twins, ledger: Ledger) -> dict[str, bool]:
        """Return the scores of a run: flagged, family named, cured."""
        best, worst = twins[self.case.task]
        ends = [None if plan is None else ledger.end(plan) for plan in self.plans]
        cured = [end is not None and end <= good_end(twins[self.case.task]) for end in ends]
        first = ends[0] if ends else None
        worse = first is not None and (
            (math.isnan(first) and not math.isnan(self.was)) or first > self.was + (worst - best)
        )
        flagged = self.advised.severity in ALERT_SEVERITIES
        kinds = {
            kind
            for action in self.advised.actions
            for kind in (action["kind"], *action.get("also", ()))
        }
        named = flagged and bool(kinds & NAMED[self.case.failure.family])
        return {
            "flagged": flagged,
            "named": named,
            "first": any(cured[:1]),
            "three": any(cured),
            "worse": worse,
        }


def main() -> None:
    """Score, and print a table."""
    parser = argparse.ArgumentParser(description="Score the first actions.")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cure", action="store_true", help="train again what is missing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", action="store_true", help="print a line for each run")
    parser.add_argument("--unseen", action="store_true", help="print what unflagged logs show")
    options = parser.parse_args()
    about = {run["run"]: run for run in json.loads((options.data / "runs.json").read_text())}
    logs = rows_of(options.data / "logs.parquet")
    twins, ledger = spread(about.values()), Ledger(options.data / "ends.json")
    # Leave out faults that did no harm, and faults that the log does not show.
    broken = [
        (number, case)
        for number, case in enumerate(cases(seeds_of(about)))
        if case.key in about and not about[case.key]["eval_loss"] <= good_end(twins[case.task])
    ]
    for key, run in about.items():
        if key.startswith("healthy/"):
            twin = replace(HEALTHY[run["task"]], seed=int(key.rpartition("/")[2]))
            ledger.know((twin, None), run["eval_loss"])
    seen = [
        entry for entry in broken if shows(logs[entry[1].key], healthy_rows(logs, entry[1].task))
    ]
    print(f"{len(broken)} broken runs; {len(seen)} show it in their own log")
    if options.unseen:
        unseen(seen, logs, about)
        return
    # The other tools were given every column that they read, and are scored once.
    advisers = {WAYS[0]: {**ADVISERS, **tools_of(options.data)}, WAYS[1]: ADVISERS}
    rows = [
        make_row(case, Log(logs[case.key], about[case.key], way, number), adviser, advise)
        for way in WAYS
        for number, case in seen
        for adviser, advise in advisers[way].items()
    ]
    if options.cure:
        in_turn = sorted(rows, key=lambda row: tuple(advisers[WAYS[0]]).index(row.adviser))
        ledger.train((plan for row in in_turn for plan in row.plans if plan), options.jobs)
    for way in WAYS:
        for adviser in advisers[way]:
            chosen = [row for row in rows if (row.way, row.adviser) == (way, adviser)]
            if options.runs:
                lines(chosen, twins, ledger)
            table(
                f"{way}, {adviser}",
                [row.score(twins, ledger) for row in chosen],
                untrained(chosen, ledger),
            )
        quiet(way, about, logs)


def make_row(case: Case, log: Log, adviser: str, advise: Callable[[Log], Advised]) -> Row:
    """Return the advice on a log, and the plans that its actions lead to."""
    advised = advise(log)
    flagged = advised.severity in ALERT_SEVERITIES
    return Row(
        case=case,
        way=log.way,
        adviser=adviser,
        advised=advised,
        plans=[apply(action, case) for action in advised.actions] if flagged else [],
        was=log.about["eval_loss"],
    )


def seeds_of(about: dict[str, Any]) -> tuple[int, ...]:
    """Return the seeds of the broken runs."""
    broken = (key for key in about if not key.startswith(("healthy/", "trap/")))
    return tuple(sorted({int(key.rpartition("/")[2]) for key in broken}))


def rows_of(path: Path) -> dict[str, list[dict[str, float]]]:
    """Return the rows of each run, without missing values."""
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


def spread(runs: Iterable[dict[str, Any]]) -> Twins:
    """Return the best and the worst evaluation loss of the healthy runs of each task."""
    ends: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run["run"].startswith("healthy/"):
            ends[run["task"]].append(run["eval_loss"])
    return {task: (min(losses), max(losses)) for task, losses in ends.items()}


def good_end(twins: tuple[float, float]) -> float:
    """Return the highest final evaluation loss of a healthy run."""
    best, worst = twins
    return worst + 0.5 * (worst - best)


def untrained(rows: list[Row], ledger: Ledger) -> int:
    """Return the number of plans that have not been trained."""
    return sum(ledger.end(plan) is None for row in rows for plan in row.plans if plan)


def lines(rows: list[Row], twins: Twins, ledger: Ledger) -> None:
    """Print a line for each run."""
    for row in rows:
        advised, score = row.advised, row.score(twins, ledger)
        marks = " ".join(name if value else "-" * len(name) for name, value in score.items())
        does = ", ".join(map(in_short, advised.actions))
        print(
            f"{row.way:12} {row.case.key:38} {advised.severity:8} {advised.slug:28} {marks}  {does}"
        )


def in_short(action: dict[str, Any]) -> str:
    """Return the kinds of an action, and its value."""
    kinds, to = "+".join((action["kind"], *action.get("also", ()))), action.get("to")
    if to is None:
        return kinds
    return f"{kinds} {action['setting']}={to if isinstance(to, str) else format(to, '.3g')}"


def table(title: str, scores: list[dict[str, bool]], missing: int) -> None:
    """Print the shares of one way of logging and one adviser."""
    shares = "  ".join(
        f"{name} {np.mean([score[name] for score in scores]):6.1%}" for name in scores[0]
    )
    print(f"{title:44} {shares}" + (f"  ({missing} plans not trained)" if missing else ""))


def unseen(cases: list[tuple[int, Case]], logs: dict[str, Any], about: dict[str, Any]) -> None:
    """Print the series that leave the twins' spread in unflagged logs of people, with counts.

    The last column counts the logs that are flagged with all columns.
    """
    counts: dict[tuple[str, ...], list[bool]] = defaultdict(list)
    for number, case in cases:
        logs_by_way = {way: Log(logs[case.key], about[case.key], way, number) for way in WAYS}
        if by_stabdiag(logs_by_way[WAYS[1]]).severity in ALERT_SEVERITIES:
            continue
        logged_series = LOGGED_SERIES[AS_PEOPLE_DO[number % len(AS_PEOPLE_DO)]]
        shown = leaving(logs[case.key], healthy_rows(logs, case.task), logged_series)
        counts[shown].append(by_stabdiag(logs_by_way[WAYS[0]]).severity in ALERT_SEVERITIES)
    for shown, flagged in sorted(counts.items(), key=lambda entry: -len(entry[1])):
        print(f"| {', '.join(shown) or 'nothing'} | {len(flagged)} | {sum(flagged)} |")


def quiet(way: str, about: dict[str, Any], logs: dict[str, Any]) -> None:
    """Print how many of the healthy runs are left alone."""
    forms = range(len(AS_PEOPLE_DO) if way == WAYS[1] else 1)
    severities = [
        ADVISERS["stabdiag"](Log(logs[key], about[key], way, number)).severity
        for key in about
        for number in (forms if key.startswith("healthy/") else forms[:1])
        if key.startswith(("healthy/", "trap/"))
    ]
    healthy = len(severities)
    alerts, errors = (
        sum(severity in ALERT_SEVERITIES for severity in severities),
        sum(severity == "error" for severity in severities),
    )
    print(f"{way}: {healthy} healthy logs, {alerts} with an alert, {errors} of these an error\n")


if __name__ == "__main__":
    main()
