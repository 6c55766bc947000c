"""Measure how often settings shared by failed runs are found, and the rate of false positives.

    python benchmarks/scan_common.py [--sweeps 200]

The rows are simulated: settings of a sweep, some of them correlated, and outcomes that depend on
one setting or on none.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.scan import Row
from stabdiag.scan.common import find_common
from stabdiag.scan.rows import StoredRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.scan import Common

    Sweep = list[dict[str, str | float]]

ERRORS = ("spike-persistent", "nan-fp32", "divergence-unexplained")


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A deciding setting: the runs inside its range, and the failure rates inside and outside."""

    setting: str
    runs: int
    inside: int
    fail: tuple[float, float]


PLANTED = (
    Planted(setting="peak_lr", runs=100, inside=20, fail=(0.8, 0.05)),
    Planted(setting="peak_lr", runs=60, inside=15, fail=(0.8, 0.1)),
    Planted(setting="peak_lr", runs=30, inside=10, fail=(0.9, 0.05)),
    Planted(setting="optimizer", runs=100, inside=0, fail=(0.6, 0.05)),
    Planted(setting="warmup", runs=100, inside=30, fail=(0.6, 0.05)),
    Planted(setting="peak_lr", runs=1000, inside=100, fail=(0.3, 0.05)),
)


def sweep(rng: np.random.Generator, runs: int) -> Sweep:
    """Return the settings of a sweep: random, chosen from a list, or derived from others."""
    settings: Sweep = []
    for i in range(runs):
        lr = float(10 ** rng.uniform(-4.5, -1.5))
        batch = int(2 ** rng.integers(4, 9))
        depth = int(rng.choice([6, 12, 24]))
        settings.append(
            {
                "peak_lr": lr,
                "batch_size": batch,
                "optimizer": str(rng.choice(["adamw", "sgd", "lion", "adafactor"])),
                "dtype": str(rng.choice(["bf16", "fp32", "fp16"], p=[0.6, 0.3, 0.1])),
                "seed": int(rng.integers(0, 5)),
                "warmup": int(rng.choice([100, 500, 1000, 2000])),
                "weight_decay": float(rng.choice([0.0, 0.01, 0.1])),
                "dropout": round(float(rng.uniform(0, 0.3)), 3),
                "depth": depth,
                "width": depth * 64,  # the same setting under another name
                "tokens": batch * 1024 * int(rng.choice([1, 2])),
                "scheduler.min_lr": lr / float(rng.choice([10, 20])),
                "host": f"node-{rng.integers(0, 12)}",
                "output_dir": f"runs/{i}",
            }
        )
    return settings


def rows(rng: np.random.Generator, settings: Sweep, chance: np.ndarray) -> Iterator[Row]:
    """Yield a row for each run, which fails with its chance."""
    failed = rng.random(len(settings)) < chance
    kinds = rng.choice(ERRORS, len(settings), p=[0.7, 0.2, 0.1])
    for i, (values, fails, kind) in enumerate(zip(settings, failed, kinds, strict=True)):
        others = {k: str(v) for k, v in values.items() if k not in TYPED}
        yield Row(
            path=f"runs/{i}/log.jsonl",
            run=str(i),
            outcome=str(kind) if fails else "healthy",
            severity="error" if fails else "ok",
            settings=others,
            **{name: values[name] for name in TYPED},  # type: ignore[arg-type]
        )


TYPED = ("peak_lr", "batch_size", "optimizer", "dtype", "seed")


def planted(rng: np.random.Generator, case: Planted) -> tuple[Common, ...]:
    """Return the statements on a sweep with one decisive setting."""
    settings = sweep(rng, case.runs)
    values = np.array([run[case.setting] for run in settings])
    if case.setting == "optimizer":
        inside = values == "sgd"
    else:
        order = np.sort(values)
        low = case.setting == "warmup"
        inside = values <= order[case.inside - 1] if low else values >= order[-case.inside]
    return find_common(StoredRows.of(rows(rng, settings, np.where(inside, *case.fail))))[0]


def nothing(rng: np.random.Generator) -> tuple[Common, ...]:
    """Return the statements on a sweep without a decisive setting."""
    runs = int(rng.choice([12, 30, 60, 100, 300]))
    chance = np.full(runs, rng.choice([0.1, 0.25, 0.5, 0.8]))
    return find_common(StoredRows.of(rows(rng, sweep(rng, runs), chance)))[0]


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweeps", type=int, default=200, help="number of sweeps of each kind")
    sweeps = parser.parse_args().sweeps
    print("| deciding setting | runs | fail inside, outside | named | another one, too |")
    print("|---|---|---|---|---|")
    for case in PLANTED:
        rng = np.random.default_rng(1)
        results = [planted(rng, case) for _ in range(sweeps)]
        named = sum(case.setting in stated_settings(result) for result in results)
        several = sum(len(result) > 1 for result in results)
        inside, outside = (f"{share:.0%}" for share in case.fail)
        shares = f"{named / sweeps:.1%} | {several / sweeps:.1%}"
        print(f"| `{case.setting}` | {case.runs} | {inside}, {outside} | {shares} |")
    rng = np.random.default_rng(2)
    named = sum(bool(nothing(rng)) for _ in range(sweeps))
    print(f"| none | 12 to 300 | | | {named / sweeps:.1%} |")


def stated_settings(statements: tuple[Common, ...]) -> set[str]:
    """Return the settings that the statements name."""
    return {split.setting for s in statements for split in (s.split, *s.along)}


if __name__ == "__main__":
    main()
