"""The third way of logging: the runs of the cure benchmark, written by the recorder.

python benchmarks/cure/recorded.py --seeds 60         train, diagnose and score; needs PyTorch

A run counts as flagged and named as in ``first_actions.py``. Its first action counts if it leads to
the fault.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from cures import changed_by
from failures import cases
from first_actions import NAMED
from seen import shows
from settings import HEALTHY, Settings
from tasks import per_example
from torch import Tensor, nn
from trainer import Trainer

import stabdiag
from stabdiag.torch import Recorder

ALARMS = ("error", "warning")
TWINS = 6


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
            held=heldout_batch,
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


def train(settings: Settings, path: Path) -> list[dict[str, float]]:
    """Train a run with a recorder; return the rows of the usual log."""
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    trainer = RecordedTrainer(settings, path)
    trainer.run(None)
    trainer.recorder.close()
    return trainer.rows


def diagnosed(job: tuple[str, Settings]) -> dict[str, object]:
    """Train a run, and return its diagnosis."""
    key, settings = job
    case = next((case for case in cases((settings.seed,)) if case.key == key), None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        rows = train(settings, path)
        report = stabdiag.diagnose(str(path))
    flagged = report.diagnosis.severity in ALARMS
    actions = report.to_dict()["findings"][0]["actions"]
    kinds = {kind for action in actions[:3] for kind in (action["kind"], *action.get("also", ()))}
    named = first = False
    if case is not None and flagged:
        named = bool(kinds & set(NAMED[case.failure.family]))
        first = changed_by(actions[0], case, case.settings) == case.twin
    slugs = [f"{finding.slug}:{finding.severity.value}" for finding in report.findings]
    return {"run": key, "task": settings.task, "rows": rows, "slugs": slugs,
            "flagged": flagged, "named": named, "first": first}  # fmt: skip


def main() -> None:
    """Train, diagnose and score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--sizes", type=int, default=9, help="of each kind of failure, at most")
    parser.add_argument("--twins", type=int, default=TWINS, help="healthy runs of each task")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    first = min(options.seeds)
    healthy = [
        (f"healthy/{task}/{seed}", replace(settings, seed=seed))
        for task, settings in HEALTHY.items()
        for seed in range(first, first + options.twins)
    ]
    broken = [
        (case.key, case.settings)
        for case in cases(tuple(options.seeds))
        if case.size in case.failure.sizes[: options.sizes]
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        results = []
        for result in pool.map(diagnosed, healthy + broken):
            results.append(result)
            print(result["run"], result["flagged"], *result["slugs"][:3], flush=True)
    report(results[: len(healthy)], results[len(healthy) :])


def report(healthy: Sequence[dict], broken: Sequence[dict]) -> None:
    """Print the shares of the runs that show their failure."""
    twins = {task: [run["rows"] for run in healthy if run["task"] == task] for task in HEALTHY}
    seen = [run for run in broken if shows(run["rows"], twins[run["task"]])]
    alarms = sum(run["flagged"] for run in healthy)
    print(f"healthy: {alarms} of {len(healthy)} with an alarm")
    for name, runs in (("all broken runs", broken), ("runs that show it", seen)):
        shares = " ".join(
            f"{measure} {sum(run[measure] for run in runs) / max(len(runs), 1):.0%}"
            for measure in ("flagged", "named", "first")
        )
        print(f"{len(runs)} {name}: {shares}")


if __name__ == "__main__":
    main()
