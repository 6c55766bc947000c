"""Runs that differ only in their seed, and ways to change them."""

import json

import numpy as np

STEPS = 400


def curve(seed, *, steps=STEPS, end=0.5, start=3.0, noise=0.02):
    """Return a loss that falls from ``start`` to ``end`` as a power of the step."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, steps + 1)
    delay = 1 + 0.03 * rng.standard_normal()
    level = end * (1 + 0.005 * rng.standard_normal())
    loss = level + (start - level) / (1 + (step / (20 * delay)) ** 1.2)
    return loss * np.exp(noise * rng.standard_normal(steps))


def run(seed, *, worse=1.0, since=1, until=None, **options):
    """Return the columns of a run whose losses are ``worse`` times as high from a step on."""
    loss = curve(seed, **options)
    step = np.arange(1, len(loss) + 1)
    high = (step >= since) & (step < (until or len(loss) + 1))
    loss = np.where(high, worse * loss, loss)
    rng = np.random.default_rng(seed + 1000)
    heldout = 1.1 * loss * np.exp(0.002 * rng.standard_normal(len(loss)))
    eval_loss = np.where(step % 10 == 0, heldout, np.nan)
    grad_norm = np.exp(0.05 * rng.standard_normal(len(loss)))
    return {"step": step, "loss": loss, "eval_loss": eval_loss, "grad_norm": grad_norm}


def write(folder, columns, manifest=None):
    """Write a run as JSON lines in a folder of its own, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(columns)
    rows = zip(*(np.asarray(columns[name]).tolist() for name in names), strict=True)
    lines = []
    for row in rows:
        record = dict(zip(names, row, strict=True))
        if np.isnan(record.get("eval_loss", 0.0)):
            del record["eval_loss"]
        lines.append(json.dumps(record))
    path = folder / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return path


def good_runs(folder, number=5, manifest=None, **options):
    """Write some good runs, and return the folder."""
    for seed in range(number):
        write(folder / f"seed{seed}", run(seed, **options), manifest)
    return folder
