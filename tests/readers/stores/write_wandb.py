"""Log an offline run with W&B: python write_wandb.py FOLDER."""

from __future__ import annotations

import math
import sys

import wandb

ODD = {7: math.nan, 8: math.inf, 9: -math.inf}

run = wandb.init(
    mode="offline",
    dir=sys.argv[1],
    project="test",
    config={"lr": 3e-4, "precision": "bf16", "optimizer": {"name": "adamw", "weight_decay": 0.1}},
    settings=wandb.Settings(x_disable_stats=True),
)
for step in range(20):
    record = {"train/loss": ODD.get(step, 2 + 1 / (step + 1)), "train": {"lr": step / 1000}}
    if step % 5 == 4:
        record |= {"eval": {"loss": 3.0, "text": "abc"}, "weights": wandb.Histogram([1, 2, 3])}
    run.log(record, step=10 * step)
    if step == 12:
        sys.stdout.write("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
run.finish(exit_code=3)
