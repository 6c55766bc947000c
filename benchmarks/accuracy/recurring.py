"""Measure how many recurring spikes are found, and how often noise alone gives an alert.

python benchmarks/accuracy/recurring.py [--seeds N] [--noise NAME...] [--gradients] [--missed]

Each log is a falling loss with one kind of noise and a known number of spikes: a single high loss,
or one that decays over eight steps. Logs without spikes have only noise, or hard batches of all
heights in a fraction of their steps, which should not give an alert. A log counts as found if a
spike leaf or ``frequent-spikes`` is reported as a warning or worse. The seeds are fixed: two
versions of the program see the same logs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

# The measured program is the one that contains this file, not the installed one.
sys.path.insert(0, str(Path(__file__).parents[2]))

import stabdiag

Floats: TypeAlias = npt.NDArray[np.float64]

STEPS = 2_000
SIGMA = 0.02  # of the noise, in units of the loss
FIRST_SPIKE = 200  # the loss has made two thirds of its way by then
MIN_DISTANCE = 40  # between two spikes
DECAY_STEPS = 8
COUNTS = (1, 2, 3, 4, 6, 10)
HEIGHTS = (15, 50)  # in standard deviations
SHAPES = ("single", "decaying")
ALERT_SEVERITIES = ("warning", "error")
GRADIENT_FACTOR = 50.0
QUIET_STEPS = 10_000  # of a log with noise alone
HARD_SHARES = (0.0, 0.005, 0.01, 0.02, 0.03)  # of the steps of a log without spikes
HARD_HEIGHT = 8.0  # the mean of the exponential heights of hard batches, in standard deviations


def _gaussian(random: np.random.Generator, count: int) -> Floats:
    return random.normal(size=count)


def _ar1(random: np.random.Generator, count: int) -> Floats:
    """Return autocorrelated noise: x[t] = 0.7 x[t - 1] + e[t]."""
    shocks, values = random.normal(size=count), np.empty(count)
    last = 0.0
    for at, shock in enumerate(shocks):
        last = 0.7 * last + shock
        values[at] = last
    values *= np.sqrt(1 - 0.7**2)
    return values


def _student(random: np.random.Generator, count: int) -> Floats:
    """Return Student's t with 5 degrees of freedom, scaled to a deviation of 1."""
    values: Floats = random.standard_t(5, size=count) / np.sqrt(5 / 3)
    return values


def _lognormal(random: np.random.Generator, count: int) -> Floats:
    """Return lognormal noise with a shape of 0.5, scaled to mean 0 and a deviation of 1."""
    mean = np.exp(0.125)
    values: Floats = random.lognormal(sigma=0.5, size=count) - mean
    values /= mean * np.sqrt(np.expm1(0.25))
    return values


NOISES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "gaussian": _gaussian,
    "ar1": _ar1,
    "t5": _student,
    "lognormal": _lognormal,
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One synthetic log: what it contains."""

    noise: str
    seed: int
    count: int = 0
    height: int = 0
    shape: str = "single"
    has_gradients: bool = False
    steps: int = STEPS
    hard_share: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The finding on a trial."""

    trial: Trial
    slug: str
    severity: str
    is_found: bool


def log_of(trial: Trial) -> dict[str, Floats]:
    """Return the columns of a trial."""
    # The same seed gives the same noise and positions for every count and height.
    random = np.random.default_rng([list(NOISES).index(trial.noise), trial.seed])
    steps = np.arange(trial.steps)
    loss = 2.0 + 1.5 * np.exp(-steps / 200)
    loss += SIGMA * NOISES[trial.noise](random, trial.steps)
    norm = np.exp(0.2 * random.normal(size=trial.steps))
    hard = random.random(trial.steps) < trial.hard_share
    loss[hard] += SIGMA * random.exponential(HARD_HEIGHT, size=int(hard.sum()))
    for at in _positions(random, trial):
        width = DECAY_STEPS if trial.shape == "decaying" else 1
        loss[at : at + width] += SIGMA * trial.height * (1 - np.arange(width) / width)
        norm[at] *= GRADIENT_FACTOR
    columns = {"step": steps.astype(float), "loss": loss}
    return columns | {"grad_norm": norm} if trial.has_gradients else columns


def _positions(random: np.random.Generator, trial: Trial) -> list[int]:
    slots = np.arange(FIRST_SPIKE, trial.steps - 2 * MIN_DISTANCE, 2 * MIN_DISTANCE)
    offsets = random.integers(0, MIN_DISTANCE, size=len(slots))
    return [int(at) for at in (slots + offsets)[random.permutation(len(slots))[: trial.count]]]


def outcome_of(trial: Trial) -> Outcome:
    """Diagnose a trial."""
    report = stabdiag.diagnose(log_of(trial))
    alerts = [finding for finding in report.findings if finding.severity.value in ALERT_SEVERITIES]
    spikes = [
        alert
        for alert in alerts
        if alert.slug.startswith("spike") or alert.slug == "frequent-spikes"
    ]
    return Outcome(
        trial=trial,
        slug=report.diagnosis.slug,
        severity=report.diagnosis.severity.value,
        # With noise alone, every alert is false.
        is_found=bool(spikes if trial.count else alerts),
    )


def trials(noises: Sequence[str], seeds: int, *, has_gradients: bool) -> Iterator[Trial]:
    """Yield all trials."""
    for noise, seed in product(noises, range(seeds)):
        for share in HARD_SHARES:
            yield Trial(
                noise=noise,
                seed=seed,
                steps=QUIET_STEPS,
                has_gradients=has_gradients,
                hard_share=share,
            )
        for count, height, shape in product(COUNTS, HEIGHTS, SHAPES):
            yield Trial(
                noise=noise,
                seed=seed,
                count=count,
                height=height,
                shape=shape,
                has_gradients=has_gradients,
            )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--noise", nargs="*", default=[*NOISES], choices=[*NOISES])
    parser.add_argument("--gradients", action="store_true", help="log a gradient norm as well")
    parser.add_argument("--missed", action="store_true", help="list the logs that are not found")
    options = parser.parse_args()
    every = [*trials(options.noise, options.seeds, has_gradients=options.gradients)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        outcomes = [*pool.map(outcome_of, every, chunksize=20)]
    print_table(outcomes)
    if options.missed:
        for outcome in outcomes:
            if outcome.is_found != bool(outcome.trial.count):
                print(outcome)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print the share found for each kind of spike, and the false alarms of noise alone."""
    cells: dict[tuple[str, int, str, int], list[bool]] = defaultdict(list)
    for outcome in outcomes:
        trial = outcome.trial
        if trial.count:
            cells[trial.noise, trial.height, trial.shape, trial.count].append(outcome.is_found)
    print(f"{'spikes found, %':28}" + "".join(f"{count:>6}" for count in COUNTS))
    noises = list(dict.fromkeys(outcome.trial.noise for outcome in outcomes))
    for noise, height, shape in product(noises, HEIGHTS, SHAPES):
        shares = [100 * np.mean(cells[noise, height, shape, count]) for count in COUNTS]
        name = f"{noise} {height}σ {shape}"
        print(f"{name:28}" + "".join(f"{share:6.0f}" for share in shares))
    print("false alarms per 10,000 steps without spikes")
    for hard in HARD_SHARES:
        quiet = [
            outcome
            for outcome in outcomes
            if not outcome.trial.count and outcome.trial.hard_share == hard
        ]
        false = sum(outcome.is_found for outcome in quiet)
        rate = 1e4 * false / max(1, sum(outcome.trial.steps for outcome in quiet))
        name = f"{hard:.1%} hard batches" if hard else "noise alone"
        print(f"{name:28}{rate:6.3f}  ({false} of {len(quiet)} logs)")


if __name__ == "__main__":
    main()
