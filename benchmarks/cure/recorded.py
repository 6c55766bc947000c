"""The third way of logging: the runs of the cure benchmark, written by the recorder.

python benchmarks/cure/recorded.py train --seeds 71 --out FILE    train, diagnose and cure (PyTorch)
python benchmarks/cure/recorded.py score FILE                     print the row of the table

A run counts as flagged and named as in ``first_actions.py``. It is cured if the evaluation loss
ends within the spread of the twins once the first action is carried out. ``train`` adds a line for
each run to FILE, healthy runs first, and skips those that it has.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

# Measure the program in this repository, not an installed one.
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from cures import apply
from failures import Case, cases
from first_actions import NAMED, good_end
from retraining import planned_end
from seen import SERIES, shows
from settings import HEALTHY, Settings
from tasks import per_example
from torch import Tensor, nn
from trainer import Result, Trainer
from traps import TRAPS

import stabdiag
from stabdiag.torch import Recorder

ALARMS = ("error", "warning")
TWINS = 6  # healthy runs of each task
TRAP_SEEDS = 2


class RecordedTrainer(Trainer):
    """The trainer of the benchmark, with a recorder."""

    def __init__(self, settings: Settings, path: Path) -> None:
        super().__init__(settings)
        heldout_batch = (self.data.eval_x[:256], self.data.eval_y[:256])
        self.recorder = Recorder(
            self.model,
            self.optimizer,
            path,
            budget=1e9,
            probe_every=50,
            heldout=heldout_batch,
            loss=self.heldout_loss,
        )
        self.recorder.configure(
            total_steps=settings.steps,
            warmup_steps=settings.warmup,
            grad_clip=settings.clip,
            batch_size=settings.batch,
        )

    def heldout_loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss of each example of a batch."""
        kept, self.model = self.model, model
        try:
            losses = per_example(self.settings.task, self.forward(batch[0]), batch[1])
        finally:
            self.model = kept
        return losses.flatten(1).mean(1) if losses.ndim > 1 else losses

    def batch(self, step: int) -> tuple[Tensor, Tensor, int]:
        """Return the next batch, once it is measured."""
        x, y, number = super().batch(step)
        self.recorder.see_batch((x, y))
        return x, y, number

    def loss(self, x: Tensor, y: Tensor, step: int) -> Tensor:
        """Return the loss, and keep it for the recorder."""
        self.last = super().loss(x, y, step)
        return self.last

    def evaluate(self) -> float:
        """Return the evaluation loss, once it is recorded."""
        value = super().evaluate()
        self.recorder.evaluated(value)
        return value

    def step(self, step: int) -> float:
        """Take a step, and record it."""
        scale = self.scale
        loss = super().step(step)
        if self.settings.scaler != "none":
            self.recorder.log(loss_scale=scale)
        self.recorder.step(self.last, step=step)
        return loss


def train(settings: Settings, path: Path) -> Result:
    """Train a run with a recorder."""
    torch.manual_seed(settings.seed)
    trainer = RecordedTrainer(settings, path)
    result = trainer.run(None)
    trainer.recorder.close()
    return result


def diagnose(path: Path) -> stabdiag.Report:
    """Return the report on a log without its times, which other work on the machine decides."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{name: row[name] for name in row if not name.endswith("_time")} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    return stabdiag.diagnose(str(path))


def healthy_run(task: str, seed: int) -> dict[str, Any]:
    """Return the diagnosis of a healthy twin."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        result = train(replace(HEALTHY[task], seed=seed), path)
        report = diagnose(path)
    return {"task": task, **record_of(result, report)}


def trap_run(kind: str, seed: int) -> dict[str, Any]:
    """Return the diagnosis of a run that is healthy by design."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        recorders = []

        def start(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> Recorder:
            recorders.append(Recorder(model, optimizers, path, budget=1e9))
            return recorders[0]

        TRAPS[kind](seed, start)
        recorders[0].close()
        report = diagnose(path)
    return {"task": kind, **findings_of(report)}


def broken_run(case: Case) -> dict[str, Any]:
    """Return the diagnosis of a broken run, and the end of the run by its first action."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        result = train(case.settings, path)
        report = diagnose(path)
    record = {"task": case.task, **record_of(result, report)}
    actions = report.to_dict()["findings"][0]["actions"]
    if record["flagged"]:
        kinds = {
            kind for action in actions[:3] for kind in (action["kind"], *action.get("also", ()))
        }
        record["named"] = bool(kinds & NAMED[case.failure.family])
        plan = apply(actions[0], case)
        record["end"] = None if plan is None else planned_end(plan)
    return record


def record_of(result: Result, report: stabdiag.Report) -> dict[str, Any]:
    """Return the part of a run that scoring needs."""
    rows = [{name: row[name] for name in SERIES if name in row} for row in result.rows]
    return {"eval_loss": result.eval_loss, **findings_of(report), "rows": rows}


def findings_of(report: stabdiag.Report) -> dict[str, Any]:
    """Return the findings of a run, and True if it is flagged."""
    slugs = [f"{finding.slug}:{finding.severity.value}" for finding in report.findings]
    return {"flagged": report.diagnosis.severity in ALARMS, "slugs": slugs}


def jobs_of(seeds: list[int], sizes: int, twins: int) -> dict[str, Any]:
    """Return a function for each run, by its key: healthy runs first, broken ones shuffled."""
    first = min(seeds)
    jobs: dict[str, Any] = {
        f"healthy/{task}/{seed}": lambda task=task, seed=seed: healthy_run(task, seed)
        for seed in range(first, first + twins)
        for task in HEALTHY
    }
    jobs |= {
        f"trap/{kind}/{seed}": lambda kind=kind, seed=seed: trap_run(kind, seed)
        for kind in TRAPS
        for seed in range(first, first + TRAP_SEEDS)
    }
    broken = [case for case in cases(tuple(seeds)) if case.size in case.failure.sizes[:sizes]]
    random.Random(first).shuffle(broken)
    return jobs | {case.key: lambda case=case: broken_run(case) for case in broken}


def train_all(options: argparse.Namespace) -> None:
    """Train the runs that the file does not have."""
    torch.set_num_threads(1)
    done = {record["run"] for record in records_in(options.out)}
    jobs = jobs_of(options.seeds, options.sizes, options.twins)
    for key, job in jobs.items():
        if key not in done:
            record = {"run": key, **job()}
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(key, record["flagged"], *record["slugs"][:3], flush=True)


def records_in(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, none if the file does not exist."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def score(options: argparse.Namespace) -> None:
    """Print the row of the table, and the alarms of healthy runs."""
    records = records_in(options.file)
    groups: dict[str, list[dict[str, Any]]] = {"healthy": [], "trap": [], "broken": []}
    for record in records:
        group = record["run"].partition("/")[0]
        groups[group if group in groups else "broken"].append(record)
    twins: dict[str, list[dict[str, Any]]] = {task: [] for task in HEALTHY}
    for record in groups["healthy"]:
        twins[record["task"]].append(record)
    limits = {
        task: good_end((min(ends), max(ends)))
        for task, runs in twins.items()
        if (ends := [run["eval_loss"] for run in runs])
    }
    harmed = [run for run in groups["broken"] if not run["eval_loss"] <= limits[run["task"]]]
    seen = [
        run for run in harmed if shows(run["rows"], [twin["rows"] for twin in twins[run["task"]]])
    ]
    for run in seen:
        end = run.get("end")
        run["cured"] = end is not None and not math.isnan(end) and end <= limits[run["task"]]
        run.setdefault("named", False)
        if options.runs:
            marks = " ".join(name for name in ("flagged", "named", "cured") if run[name])
            print(f"{run['run']:40} {marks:22} {' '.join(run['slugs'][:3])}")
    for name in ("healthy", "trap"):
        alarms = [run for run in groups[name] if run["flagged"]]
        print(f"{name}: {len(alarms)} of {len(groups[name])} with an alarm")
        for run in alarms:
            print(" ", run["run"], *run["slugs"][:3])
    shares = [
        f"{sum(run[name] for run in seen) / max(len(seen), 1):.0%}".replace("%", " %")
        for name in ("flagged", "named", "cured")
    ]
    print(f"{len(groups['broken'])} broken runs, {len(harmed)} harmed, {len(seen)} show it")
    print(f"| {len(seen)} runs of the recorded part | {' | '.join(shares)} | | |")


def main() -> None:
    """Train or score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("train", help="train, diagnose, and train again by the advice")
    command.add_argument("--seeds", type=int, nargs="+", required=True)
    command.add_argument("--sizes", type=int, default=9, help="of each kind of failure, at most")
    command.add_argument("--twins", type=int, default=TWINS, help="healthy runs of each task")
    command.add_argument("--out", type=Path, required=True)
    command.set_defaults(run=train_all)
    command = commands.add_parser("score", help="print the row of the table")
    command.add_argument("file", type=Path)
    command.add_argument("--runs", action="store_true", help="print a line for each run")
    command.set_defaults(run=score)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
