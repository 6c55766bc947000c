"""The faults of a run. Each fault takes a strike (when, how hard) and reaches into the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from recipes import faults as known
from recipes.tasks import Batch
from recipes.tasks import Task as Source
from recipes.trainer import Faults, Trainer
from torch import Tensor

from training.tasks import Spec


@dataclass(frozen=True)
class Strike:
    """The step, severity (0 to 1) and run of a fault; `dice` is a number below 1."""

    at: int
    hard: float
    dice: float
    spec: Spec
    optimizer: str
    lr: float

    def between(self, least: float, highest: float) -> float:
        """A size that grows geometrically with the severity."""
        return float(least * (highest / least) ** self.hard)

    @property
    def regression(self) -> bool:
        """Whether targets are numbers."""
        return self.spec.kind == "regression" or self.spec.variant == "adding"


@dataclass(frozen=True)
class Done:
    """A fault, ready: what reaches into the loop, what it changes in the configuration."""

    faults: Faults
    size: float
    shows_at: int
    config: dict[str, object] = field(default_factory=dict)


def spoilt(strike: Strike, steps: int, size: float, weight: float | None) -> known.OnBatch:
    """Random targets in all rows, for some steps."""

    def change(step: int, batch: Batch, task: Source) -> Batch:
        if not strike.at <= step < strike.at + steps:
            return batch
        worse: Batch = task.spoil(batch, 1.0, size)  # type: ignore[attr-defined]
        rows = None if weight is None else torch.full((len(batch.inputs),), weight)
        return replace(worse, weight=rows)

    return change


def outlier(strike: Strike) -> Done:
    """One batch of garbage; its rows count far more than others do, or its targets are far off."""
    size = strike.between(3, 150)
    change = (
        spoilt(strike, 1, size * strike.spec.unit, None)
        if strike.regression
        else spoilt(strike, 1, 0.0, size)
    )
    return Done(Faults(batch=change), size, strike.at)


def labels(strike: Strike) -> Done:
    """A few batches with wrong targets."""
    steps = 1 + int(4 * strike.hard)
    size = strike.between(1.5, 6) * strike.spec.unit
    return Done(Faults(batch=spoilt(strike, steps, size, None)), steps, strike.at)


def jump(strike: Strike) -> Done:
    """The learning rate is too high for 1 to 3 steps."""
    factor, steps = strike.between(12, 300), 1 + int(3 * strike.dice)
    rate = known.rate_times(factor, strike.at, strike.at + steps)
    return Done(Faults(lr=rate), factor, strike.at)


def long_jump(strike: Strike) -> Done:
    """The learning rate is too high for 5 to 15 steps."""
    factor, steps = strike.between(5, 60), 5 + int(11 * strike.dice)
    rate = known.rate_times(factor, strike.at, strike.at + steps)
    return Done(Faults(lr=rate), factor, strike.at)


def stays(strike: Strike) -> Done:
    """The learning rate is too high from a step on."""
    factor = strike.between(12, 300)
    return Done(Faults(lr=known.rate_times(factor, strike.at, 10**9)), factor, strike.at)


def stuck(strike: Strike) -> Done:
    """The loader hands out one batch many times, then continues."""
    steps = int(strike.between(15, 90))
    change = known.stuck(strike.at, strike.at + steps)
    return Done(Faults(batch=change), steps, strike.at + steps)


def stale(strike: Strike) -> Done:
    """The loader repeats a batch number and its targets with fresh inputs."""
    steps = 2 + int(6 * strike.hard)
    change = known.stuck(strike.at, strike.at + steps, stale_targets=True)
    return Done(Faults(batch=change), steps, strike.at + 1)


def part(strike: Strike) -> str:
    """The layer that is hit."""
    return ("emb", "mlp", "head")[int(3 * strike.dice)]


def noise(strike: Strike) -> Done:
    """Noise on the weights of one layer, as by flipped bits."""
    size = strike.between(0.3, 6)
    tamper = known.at(strike.at, known.noise_on(part(strike), size))
    return Done(Faults(tamper=tamper), size, strike.at)


def lost(strike: Strike) -> Done:
    """One layer, or all, are reinitialized, as if a checkpoint lacked them."""
    mark = part(strike) if strike.hard < 0.7 else ""
    return Done(Faults(tamper=known.at(strike.at, known.lost(mark))), 1 + (mark == ""), strike.at)


def moments(strike: Strike) -> Done:
    """Adam's second moments are scaled down towards zero while the first ones stay."""
    factor = strike.between(1e-1, 1e-7)

    def action(trainer: Trainer) -> None:
        for state in trainer.optimizer.state.values():
            state["exp_avg_sq"].mul_(factor)

    return Done(Faults(tamper=known.at(strike.at, action)), 1 / factor, strike.at)


def decay(strike: Strike, rate: float) -> Done:
    """A weight decay that changes the weights by `rate` a step."""
    value = rate / strike.lr / (10 if strike.optimizer == "sgd" else 1)
    return Done(Faults(tamper=known.decay_from(strike.at, value)), abs(rate), strike.at)


def growing(strike: Strike) -> Done:
    """The weight decay has the wrong sign from a step on."""
    return decay(strike, -strike.between(0.0015, 0.012))


def shrinking(strike: Strike) -> Done:
    """The weight decay is far too high from a step on."""
    return decay(strike, strike.between(0.004, 0.02))


def share_at(step: int, strike: Strike, worst: float) -> float:
    """A share that grows from the strike to the end of the run."""
    return worst * max(0.0, (step - strike.at) / max(1, strike.spec.steps - strike.at))


def rot(strike: Strike) -> Done:
    """A growing fraction of the targets is wrong."""
    worst = strike.between(0.08, 0.8)
    size = 2.0 * strike.spec.unit

    def change(step: int, batch: Batch, task: Source) -> Batch:
        share = share_at(step, strike, worst)
        if share <= 0:
            return batch
        worse: Batch = task.spoil(batch, share, size)  # type: ignore[attr-defined]
        return worse

    return Done(Faults(batch=change), worst, strike.at)


def harder(strike: Strike) -> Done:
    """The inputs carry more and more noise; in text, more and more bytes are random."""
    worst = strike.between(0.15, 1.0)

    def change(step: int, batch: Batch, task: Source) -> Batch:
        share = share_at(step, strike, worst)
        if share <= 0:
            return batch
        random = known.draw(batch)
        if not batch.inputs.is_floating_point():
            hit = torch.rand(batch.inputs.shape, generator=random) < share
            fresh = known.noise_like(batch.inputs, random)
            return replace(batch, inputs=torch.where(hit, fresh, batch.inputs))
        noise = torch.randn(batch.inputs.shape, generator=random) * share * 2.5
        return replace(batch, inputs=batch.inputs + noise)

    return Done(Faults(batch=change), worst, strike.at)


def endless(strike: Strike) -> Done:
    """The warm-up never ends."""
    factor = strike.between(0.4, 5)
    config = {"schedule": "endless_warmup", "peak_lr": strike.lr * factor}
    return Done(Faults(), factor, 0, config)


def inverse(strike: Strike) -> Done:
    """The cosine goes up instead of down."""
    factor = strike.between(3, 25)
    config = {"schedule": "inverse_cosine", "peak_lr": strike.lr * factor}
    return Done(Faults(), factor, 0, config)


def mean_by_weight(step: int, output: Tensor, batch: Batch, trainer: Trainer) -> Tensor:
    """The mean over rows that count: 0/0 where none does."""
    rows = torch.ones(len(batch.inputs)) if batch.weight is None else batch.weight
    loss = trainer.task.loss(output, replace(batch, weight=rows))
    return loss * len(rows) / rows.sum()


Maker = Callable[[Strike], Done]
SPIKES: dict[str, Maker] = {
    "outlier": outlier,
    "labels": labels,
    "jump": jump,
    "long-jump": long_jump,
    "stuck": stuck,
    "stale": stale,
    "noise": noise,
    "lost": lost,
    "moments": moments,
    "stays": stays,
}
CLIMBS: dict[str, Maker] = {
    "growing": growing,
    "shrinking": shrinking,
    "rot": rot,
    "harder": harder,
    "endless": endless,
    "inverse": inverse,
}
