"""The runs that the benchmark compares: small trained runs, and reruns of public logs."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

# Measure the program next to these files, not an installed one.
sys.path.insert(0, str(Path(__file__).parents[1] / "cure"))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import written
from pyarrow import parquet

import stabdiag
from stabdiag.baseline.profile import run_profile
from stabdiag.model.history import History
from stabdiag.model.profile import RunProfile

CURE: Final = Path(__file__).parents[1] / "cure" / "data"

# The first part was trained with other seeds than the others.
PARTS: Final = (".", "fresh", "second", "third", "fourth")

# No rule or constant was chosen on this part, except for the end of a run.
FRESH: Final = "fourth"

ALL_COLUMNS: Final = "all columns"
ALERT_SEVERITIES: Final = ("error", "warning")

# A rerun failed if its validation error ends this many times as high as the median of its group.
FAILED: Final = 1.1

# The validation metric of a workload, and how its value becomes an error.
_METRICS: Final[dict[str, tuple[str, Callable[[float], float]]]] = {
    "criteo1tb": ("validation/loss", lambda value: value),
    "fastmri": ("validation/ssim", lambda value: 1 - value),
    "imagenet": ("validation/accuracy", lambda value: 1 - value),
    "librispeech": ("validation/wer", lambda value: value),
    "ogbg": ("validation/mean_average_precision", lambda value: 1 - value),
    "wmt": ("validation/bleu", lambda value: 100 - value),
}


@dataclass(frozen=True, kw_only=True)
class Log:
    """A run in one form of log; ``alarm`` is set if it is flagged without a baseline."""

    profile: RunProfile
    history: History
    alarm: bool


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained run: its task, whether it is broken, and its logs by form."""

    part: str
    name: str
    task: str
    number: int
    is_broken: bool
    logs: dict[str, Log]

    def log(self, way: str) -> Log:
        """Return the log with all columns, or else the log in the form of this run."""
        return self.logs[way if way in self.logs else form_of(self.number)]


FORMS: Final = tuple(write.__name__ for write in written.AS_PEOPLE_DO)


def form_of(number: int) -> str:
    """Return the log form of a run; the forms rotate."""
    return FORMS[number % len(FORMS)]


def cure_runs(parts: Sequence[str] = PARTS, jobs: int = 2) -> list[Run]:
    """Return the broken and the healthy runs of the cure benchmark in all forms of their logs.

    A broken run that ends within the spread of its healthy twins did no harm, and is left out.

    Args:
        parts: folders in ``CURE``, or paths of folders that ``cure/train.py`` wrote.
        jobs: the number of processes.
    """
    selected = []
    for part in parts:
        about = json.loads((CURE / part / "runs.json").read_text())
        rows = _rows_by_run(CURE / part / "logs.parquet")
        good_ends = _good_ends(about)
        for run in about:
            is_healthy = run["run"].startswith("healthy/")
            is_harmless = run.get("eval_loss", np.nan) <= good_ends.get(run["task"], np.inf)
            if is_healthy or not (run["run"].startswith("trap/") or is_harmless):
                selected.append((part, run, rows[run["run"]], not is_healthy))
    with ProcessPoolExecutor(jobs) as pool:
        return [*pool.map(_read, selected, count(), chunksize=8)]


def _rows_by_run(path: Path) -> dict[str, list[dict[str, float]]]:
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for row in parquet.read_table(path).to_pylist():
        rows[row.pop("run")].append({k: value for k, value in row.items() if value is not None})
    return rows


def _good_ends(about: list[dict[str, Any]]) -> dict[str, float]:
    """Return the highest final evaluation loss of a healthy run of each task."""
    ends: dict[str, list[float]] = defaultdict(list)
    for run in about:
        if run["run"].startswith("healthy/"):
            ends[run["task"]].append(run["eval_loss"])
    return {task: max(losses) + 0.5 * np.ptp(losses) for task, losses in ends.items()}


def _read(selected: tuple[str, dict[str, Any], list[dict[str, float]], bool], number: int) -> Run:
    part, about, rows, is_broken = selected
    logs = {}
    for way in (ALL_COLUMNS, *FORMS):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if way == ALL_COLUMNS:
                path = written.wished(rows, folder, about["manifest"])
            else:
                path = written.AS_PEOPLE_DO[FORMS.index(way)](rows, folder, about["steps"])
            report = stabdiag.diagnose(path)
        named = f"{part}/{about['run']}"
        profile = run_profile(report.history, report.manifest, name=named, key=f"{named}/{way}")
        alarm = report.diagnosis.severity.value in ALERT_SEVERITIES
        logs[way] = Log(profile=profile, history=report.history, alarm=alarm)
    return Run(
        part=part,
        name=about["run"],
        task=about["task"],
        number=number,
        is_broken=is_broken,
        logs=logs,
    )


@dataclass(frozen=True, kw_only=True)
class Group:
    """Reruns of a public log with identical settings, and whether each failed."""

    workload: str
    profiles: list[RunProfile]
    failed: list[bool]


def reruns(folder: Path) -> Iterator[Group]:
    """Yield groups of AlgoPerf reruns.

    The files are called ``<submission>__study_<n>__<workload>__trial_<n>__measurements.csv``.
    """
    groups: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*__measurements.csv")):
        submission, _, workload, trial, _ = path.name.split("__")
        groups[submission, workload, trial].append(path)
    for (_, workload, _), paths in sorted(groups.items()):
        errors = np.array([_error(path, workload) for path in paths])
        profiles = []
        for path in paths:
            history = stabdiag.read(path)
            profiles.append(run_profile(history, stabdiag.Manifest(), name=path.name))
        failed = (errors > FAILED * np.median(errors)).tolist()
        yield Group(workload=workload, profiles=profiles, failed=failed)


def _error(path: Path, workload: str) -> float:
    """Return the least validation error of a run."""
    column, error = next(v for key, v in _METRICS.items() if workload.startswith(key))
    with path.open(newline="") as file:
        return min(error(float(row[column])) for row in csv.DictReader(file) if row.get(column))
