"""Train the runs of the cure benchmark: benchmarks/cure/train.py [--seeds 0 1] [--out FOLDER].

With ``--traps``, runs are added that are healthy although their loss does not fall.

Writes ``logs.parquet``, a row for each step of each run, and ``runs.json``: for each run what was
done to it, its manifest, and the evaluation loss that it ended with. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from failures import cases
from pyarrow import parquet
from settings import HEALTHY, Settings
from trainer import train
from traps import TRAPS

DATA = Path(__file__).parent / "data"
TWINS = 6  # healthy runs of each task, whose spread says what a cure has to reach
SEEDS = 4  # of each trap
COLUMNS = (
    *("step", "epoch", "loss", "lr", "grad_norm", "weight_norm", "loss_scale", "eval_loss"),
    *("batch_id", "loss_d", "loss_g", "recon_loss", "kl_loss", "beta", "policy_loss"),
    *("reward_mean", "entropy"),
)


def main() -> None:
    """Train everything and pack it."""
    parser = argparse.ArgumentParser(description="Train the runs of the cure benchmark.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--sizes", type=int, default=9, help="of each kind of failure, at most")
    parser.add_argument("--twins", type=int, default=TWINS, help="healthy runs of each task")
    parser.add_argument("--traps", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    runs = [
        (case.key, case.settings, case.failure.family)
        for case in cases(tuple(options.seeds))
        if case.size in case.failure.sizes[: options.sizes]
    ]
    first = min(options.seeds)
    runs += [
        (f"healthy/{task}/{seed}", replace(HEALTHY[task], seed=seed), "")
        for task in HEALTHY
        for seed in range(first, first + options.twins)
    ]
    with ProcessPoolExecutor(
        options.jobs, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        done = list(pool.map(one_run, runs))
        traps = [(kind, seed) for kind in TRAPS for seed in range(first, first + SEEDS)]
        done += pool.map(one_trap, traps if options.traps else [])
    options.out.mkdir(parents=True, exist_ok=True)
    table = pa.concat_tables([table for _, table in done])
    parquet.write_table(table, options.out / "logs.parquet", compression="zstd")
    records = [about for about, _ in done]
    lines = ",\n".join(map(json.dumps, records))
    (options.out / "runs.json").write_text(f"[\n{lines}\n]\n")
    print(f"{len(records)} runs, {table.num_rows} rows")


def one_run(run: tuple[str, Settings, str]) -> tuple[dict[str, Any], pa.Table]:
    """Train a run; return its record and its log."""
    key, settings, family = run
    result = train(settings)
    about = {
        "run": key,
        "family": family,
        "task": settings.task,
        "steps": settings.steps,
        "eval_loss": result.eval_loss,
        "manifest": settings.manifest(),
    }
    print(f"{key:50} {result.eval_loss:.4g}", flush=True)
    return about, packed(key, result.rows)


def one_trap(trap: tuple[str, int]) -> tuple[dict[str, Any], pa.Table]:
    """Train a run that is healthy by design."""
    kind, seed = trap
    rows = TRAPS[kind](seed)
    key = f"trap/{kind}/{seed}"
    about = {"run": key, "family": "", "task": kind, "steps": len(rows), "manifest": {}}
    return about, packed(key, rows)


def packed(key: str, rows: list[dict[str, float]]) -> pa.Table:
    """Return the log of a run as a table; values that were not logged are null."""
    columns = {
        name: pa.array([rounded(row.get(name)) for row in rows], pa.float64()) for name in COLUMNS
    }
    return pa.table({"run": [key] * len(rows), **columns})


def rounded(value: float | None) -> float | None:
    """Return a number with six digits: logs hold no more, and pack better."""
    return None if value is None else float(f"{value:.6g}")


if __name__ == "__main__":
    main()
