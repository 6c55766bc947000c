"""The fixtures' training loop with more optimizers and schedules, and forks of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from recipes.schedules import SCHEDULES
from recipes.trainer import Config, Faults, Row, Trainer

from training import optimizers
from training.kinds import KINDS
from training.tasks import Spec


def wsd(step: int, warmup: int, total: int) -> float:
    """Linear warm-up, flat, and linearly down over the last fifth."""
    rise = min(1.0, (step + 1) / max(1, warmup))
    return rise * min(1.0, max(0.0, (total - step) / max(1, total // 5)))


SCHEDULES["wsd"] = wsd


class Loop(Trainer):
    """A trainer that can stop where another run is to part from it."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        optimizer = optimizers.make(
            self.config.optimizer, list(self.weights.values()), self.config.peak_lr
        )
        for group in optimizer.param_groups:
            group["weight_decay"] = self.config.decay
        return optimizer

    def run_until_broken(self, last: int, extra_steps: int) -> None:
        """Train to `last`, or for `extra_steps` steps after the loss first was not finite."""
        while self.step < last:
            self.run(self.step + 1)
            loss = self.rows[-1]["loss"]
            if loss is not None and not math.isfinite(loss):
                last = min(last, self.step + extra_steps)
                extra_steps = last


@dataclass
class Base:
    """A run without a fault, in full, and its state at the steps where others part from it."""

    config: Config
    spec: Spec
    seed: int
    rows: list[Row] = field(default_factory=list)
    states: dict[int, bytes] = field(default_factory=dict)


def make_loop(config: Config, spec: Spec, seed: int, faults: Faults) -> Loop:
    """A loop at step 0."""
    return Loop(config, KINDS[spec.kind](spec, seed), faults, seed)


def train_base(config: Config, spec: Spec, seed: int, marks: list[int], faults: Faults) -> Base:
    """Train a run and keep its state at each mark."""
    loop = make_loop(config, spec, seed, faults)
    base = Base(config, spec, seed)
    for mark in sorted(set(marks)):
        loop.run(mark)
        base.states[mark] = loop.checkpoint()
    base.rows = loop.run(config.last)
    return base


def train_fork(base: Base, at: int, faults: Faults, last: int, extra_steps: int) -> list[Row]:
    """Train what becomes of a run if faults strike from step `at` on; all rows, from step 0."""
    loop = make_loop(base.config, base.spec, base.seed, faults)
    loop.restore(base.states[at])
    loop.rows = list(base.rows[:at])
    torch.manual_seed(base.seed * 1009 + at)
    loop.run_until_broken(last, extra_steps)
    return loop.rows
