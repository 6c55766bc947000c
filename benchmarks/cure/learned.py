"""Train a learner on everyday failures: python benchmarks/cure/learned.py.

Trees learn to tell broken runs from healthy ones by some 240 numbers of each log. They see what no
rule may see: runs of this very trainer, with their labels, and an alarm that is set on the logs
that are scored. Needs scikit-learn; a minute.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from failures import cases
from first_actions import DATA, good_end, healthy_rows, rows_of, seeds_of, spread
from numpy.typing import NDArray
from seen import shows
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import GroupKFold
from written import AS_PEOPLE_DO, WAYS, bare, intervals

Row = dict[str, float]

PARTS = (DATA, DATA / "fresh", DATA / "second")
COLUMNS = ("loss", "lr", "grad_norm", "eval_loss", "weight_norm", "loss_scale")
SETTINGS = ("peak_lr", "weight_decay", "grad_clip", "warmup_steps", "batch_size", "num_classes")
# The series of each form of log, in the order of AS_PEOPLE_DO.
LOGGED_SERIES = (
    *(("loss", "lr", "grad_norm", "eval_loss"), ("loss", "eval_loss"), ("loss", "lr")),
    *(("loss", "lr"), ("loss", "lr", "eval_loss"), ("loss", "lr", "eval_loss")),
)
LAGS = (1, 2, 4, 8, 16, 32, 64, 128)
TENTHS = 10
ABSENT = -20.0  # far below any logarithm of a logged number
FALSE_POSITIVE_RATE = 0.03
FOLDS = 6


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of the benchmark; ``number`` is its case, or None if it is healthy."""

    key: str
    task: str
    kind: str
    number: int | None
    rows: list[Row]
    manifest: dict[str, Any]
    is_trap: bool


def main() -> None:
    """Score what is learned, with the runs that are healthy by design and without them."""
    every = [run for folder in PARTS for run in runs_of(folder)]
    for name, runs in {
        "all runs": every,
        "without traps": [run for run in every if not run.is_trap],
    }.items():
        for way, people in zip(WAYS, (False, True), strict=True):
            print(f"{name}, {way}")
            score_all([(run, row) for run in runs for row in features(run, people)])


def score_all(table: Sequence[tuple[Run, list[float]]]) -> None:
    """Print how many broken logs are flagged by a classifier trained on others."""
    runs, x = [run for run, _ in table], np.array([row for _, row in table])
    broken = np.array([run.number is not None for run in runs])
    print(f"  {broken.sum()} broken logs, {(~broken).sum()} healthy ones")
    for name, groups in {
        "other runs": [run.key for run in runs],
        "other kinds": [run.kind for run in runs],
        "other tasks": [run.task for run in runs],
    }.items():
        results = [
            f"{learner.__name__} {flagged(scores(learner, x, broken, groups), broken):.0%}"
            for learner in (RandomForestClassifier, ExtraTreesClassifier)
        ]
        print(f"  learned on {name}: {', '.join(results)}", flush=True)


def runs_of(folder: Path) -> Iterator[Run]:
    """Yield the broken runs of a part that show it, and its healthy ones."""
    about = {run["run"]: run for run in json.loads((folder / "runs.json").read_text())}
    logs, twins = rows_of(folder / "logs.parquet"), spread(about.values())
    numbers = {case.key: number for number, case in enumerate(cases(seeds_of(about)))}
    for key, run in about.items():
        kind, healthy = key.partition("/")[0], key.startswith(("healthy/", "trap/"))
        if not healthy and run["eval_loss"] <= good_end(twins[run["task"]]):
            continue
        if healthy or shows(logs[key], healthy_rows(logs, run["task"])):
            yield Run(
                key=f"{folder.name}/{key}",
                task=run["task"],
                kind=f"{folder.name}/{key}" if healthy else kind,
                number=None if healthy else numbers[key],
                rows=logs[key],
                manifest=run["manifest"],
                is_trap=kind == "trap",
            )


def features(run: Run, people: bool) -> Iterator[list[float]]:
    """Yield the numbers of a log, or of each form in a real log."""
    if not people:
        settings = [float(run.manifest.get(name, ABSENT)) for name in SETTINGS]
        named = [run.manifest.get("optimizer") == "sgd", "16" in run.manifest.get("dtype", "")]
        yield [*column_numbers(run.rows, COLUMNS), *settings, *map(float, named)]
        return
    forms = range(len(AS_PEOPLE_DO)) if run.number is None else [run.number % len(AS_PEOPLE_DO)]
    for form in forms:
        rows = run.rows if AS_PEOPLE_DO[form] is bare else strided(run.rows)
        yield [*column_numbers(rows, LOGGED_SERIES[form]), float(form)]


def strided(rows: Sequence[Row]) -> list[Row]:
    """Return every few rows, with the evaluations in between."""
    parts = intervals(rows)
    eval_losses = [[row["eval_loss"] for row in part if "eval_loss" in row] for part in parts]
    return [
        part[-1] | ({"eval_loss": losses[-1]} if losses else {})
        for part, losses in zip(parts, eval_losses, strict=True)
    ]


def column_numbers(rows: Sequence[Row], columns: Sequence[str]) -> list[float]:
    """Return the course of each column, its noise and how it repeats; ABSENT where it is not."""
    numbers = [float(len(rows))]
    for name in COLUMNS:
        x = np.array([row[name] for row in rows if name in row and name in columns])
        finite = x[np.isfinite(x)]
        numbers += [float(len(x) - len(finite)), *course(finite)]
    return numbers


def course(x: NDArray[np.float64]) -> list[float]:
    """Return 10 levels, 10 changes since the first, 6 extremes, 3 noises and 8 correlations."""
    if len(x) < TENTHS:
        return [ABSENT] * (2 * TENTHS + 6 + 3 + len(LAGS))
    log = np.log10(np.maximum(np.abs(x), 1e-12))
    levels = np.array([np.median(part) for part in np.array_split(log, TENTHS)])
    residual = x - np.convolve(x, np.ones(9) / 9, "same")
    power = float(residual @ residual) + 1e-30
    return [
        *levels,
        *(levels - levels[0]),
        *(log[0], log.min(), log.max(), levels[-1] - log.min(), log.max() - levels[0]),
        log.argmin() / len(log),
        *(float(np.diff(part).std()) for part in np.array_split(log, 3)),
        *(
            float(residual[:-lag] @ residual[lag:]) / power if lag < len(x) // 2 else 0.0
            for lag in LAGS
        ),
    ]


def scores(
    learner: Any, x: NDArray[np.float64], broken: NDArray[np.bool_], groups: Sequence[str]
) -> NDArray[np.float64]:
    """Return the score of each log from trees trained without its group."""
    score = np.zeros(len(x))
    folds = GroupKFold(min(FOLDS, len(set(groups))))
    for train_rows, test_rows in folds.split(x, broken, groups):
        trees = learner(300, class_weight="balanced", random_state=0)
        score[test_rows] = trees.fit(x[train_rows], broken[train_rows]).predict_proba(x[test_rows])[
            :, 1
        ]
    return score


def flagged(score: NDArray[np.float64], broken: NDArray[np.bool_]) -> float:
    """Return the share of broken logs above the score that few healthy ones exceed."""
    bar = np.quantile(score[~broken], 1 - FALSE_POSITIVE_RATE, method="lower")
    return float((score[broken] > bar).mean())


if __name__ == "__main__":
    main()
