"""Rows of a sweep that is the same each time: the runs with a high learning rate failed."""

import math
from dataclasses import replace

from stabdiag.model.scan import Row

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def sweep(repeats=1):
    """Return 24 runs per repeat, and two logs that could not be read.

    Eleven of the twelve runs with a rate of 0.003 or more failed, and one of the others.
    """
    runs = [_run(number, place) for place in range(repeats) for number in range(24)]
    return [*runs, *(_unread(number) for number in range(2))]


def _run(number, place):
    rate, seed = RATES[number // 4], number % 4
    fails = (rate >= 3e-3 and number != 13) or number == 2
    name = f"{place}/" * (place > 0) + f"lr-{rate:g}/seed{seed}"
    row = Row(
        path=f"runs/{name}/log.jsonl",
        run=name,
        outcome="healthy",
        severity="ok",
        format="jsonl",
        title="No instability found",
        headline="No instability found",
        action="Nothing needs to be done.",
        losses=1000,
        first_step=0,
        last_step=999,
        loss_first=4.0,
        loss_best=1.25,
        loss_last=1.5 if fails else 1.25,
        curve=tuple(1 + 3 * math.exp(-i / 8) + (fails and i > 20) for i in range(32)),
        dtype="bf16",
        optimizer=("adamw", "lion")[number % 2],
        peak_lr=rate,
        batch_size=float(32 * (1 + seed)),
        seed=seed,
        settings={
            "min_lr": f"{rate / 10:g}",
            "schedule": ("cosine", "linear", "constant")[number % 3],
            "output_dir": f"/data/{name}",
        },
        seconds=0.01,
    )
    if number == 5:
        title = "Loss spiked and recovered"
        return replace(
            row,
            outcome="spike-recovered",
            severity="warning",
            section="§2",
            step=77,
            title=title,
            headline=f"{title}, step 77",
        )
    return _failed(row, number) if fails else row


def _failed(row, number):
    step = 640 if number < 20 else 300 + 10 * number
    nan = number % 4 == 3
    title = "Loss became NaN" if nan else "Loss spiked and stayed up"
    return replace(
        row,
        outcome="nan-bf16" if nan else "spike-persistent",
        severity="error",
        section="§1" if nan else "§2",
        step=step,
        lost_steps=1000 - step,
        errors=1,
        title=title,
        headline=f"{title}, step {step}",
        action_kind="inspect-layers" if nan else "reload-checkpoint",
        action=f"Reload the checkpoint of step {step // 100 * 100}, the last before {step}.",
    )


def _unread(number):
    return Row(
        path=f"runs/broken/{number}.csv",
        run=f"broken/{number}",
        outcome="unread",
        reason=f"line {number + 1}: no usable record",
    )
