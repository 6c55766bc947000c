"""Faults of arithmetic: 0/0, log(0), overflow of activations and of gradients, a lost scale."""

from __future__ import annotations

from dataclasses import replace

import torch
from recipes import faults as known
from recipes.tasks import Batch
from recipes.tasks import Task as Source
from recipes.trainer import Faults, Trainer
from torch import Tensor

from training.faults import CLIMBS, SPIKES, Done, Maker, Strike, mean_by_weight, spoilt


def empty(strike: Strike) -> Done:
    """No row of one batch counts: the mean is 0/0."""

    def change(step: int, batch: Batch, task: Source) -> Batch:
        if step != strike.at:
            return batch
        return replace(batch, weight=torch.zeros(len(batch.inputs)))

    return Done(Faults(batch=change, loss=mean_by_weight), 1, strike.at)


def log0(strike: Strike) -> Done:
    """The loss is log(softmax(x)) in two steps; a batch of huge inputs makes a probability 0."""
    scale = strike.between(100, 1e4)

    def naive(step: int, output: Tensor, batch: Batch, trainer: Trainer) -> Tensor:
        chance = output.float().softmax(-1).flatten(0, -2)
        return -chance.gather(1, batch.targets.flatten()[:, None]).log().mean()

    return Done(Faults(batch=scaled(strike, scale), loss=naive), scale, strike.at)


def scaled(strike: Strike, factor: float) -> known.OnBatch:
    """The inputs of one batch are not normalized."""

    def change(step: int, batch: Batch, task: Source) -> Batch:
        return replace(batch, inputs=batch.inputs * factor) if step == strike.at else batch

    return change


def activations(strike: Strike) -> Done:
    """Huge inputs in one batch; in half precision, their activations exceed 65504."""
    scale = strike.between(30, 1e4)
    return Done(Faults(batch=scaled(strike, scale)), scale, strike.at)


def blow_up(strike: Strike) -> Done:
    """From a step on the learning rate is so high that the weights blow up."""
    factor = strike.between(30, 3000)
    return Done(Faults(lr=known.rate_times(factor, strike.at, 10**9)), factor, strike.at)


def spread(step: int, output: Tensor, batch: Batch, trainer: Trainer) -> Tensor:
    """The loss and a term in the spread of a row's features: sqrt has no gradient at zero."""
    weight = trainer.weights["emb.weight"].flatten(1)
    features = batch.inputs.flatten(1)[:, : weight.shape[1]] @ weight.T
    return trainer.task.loss(output, batch) - 1e-4 * features.var(-1).sqrt().mean()


def blanks(strike: Strike, chance: float) -> Done:
    """From a step on, some batches hold a row of zeros, where a term has no gradient."""
    if strike.spec.kind == "text":
        batch = known.blank_rows(chance, strike.at)
        return Done(Faults(batch=batch, loss=known.spread_penalty), chance, strike.at)

    def change(step: int, batch: Batch, task: Source) -> Batch:
        if step < strike.at or torch.rand((), generator=known.draw(batch, 1)) >= chance:
            return batch
        inputs = batch.inputs.clone()
        inputs[0] = 0.0
        return replace(batch, inputs=inputs)

    return Done(Faults(batch=change, loss=spread), chance, strike.at)


def overflow(strike: Strike) -> Done:
    """A few batches of the run, 4 to 12, have no gradient."""
    return blanks(strike, strike.between(4, 12) / max(50, strike.spec.steps - strike.at))


def collapse(strike: Strike) -> Done:
    """Too many batches have no gradient, so the scale keeps falling."""
    return blanks(strike, strike.between(0.12, 1.0))


def static(strike: Strike) -> Done:
    """A loss scale that is fixed, and too high."""
    scale = 2.0 ** round(14 + 10 * strike.hard)
    config: dict[str, object] = {"static_scale": True, "skip_non_finite": True, "scale": scale}
    return Done(Faults(), scale, 0, config)


def unguarded(strike: Strike) -> Done:
    """A fixed loss scale, nothing that skips a bad step, and one batch of large gradients."""
    size = strike.between(30, 3000)
    change = spoilt(strike, 1, size, None if strike.regression else size)
    config: dict[str, object] = {"static_scale": True, "scale": 4096.0}
    return Done(Faults(batch=change), size, strike.at, config)


PRECISION: dict[str, Maker] = {
    "empty": empty,
    "log0": log0,
    "activations": activations,
    "blow-up": blow_up,
    "overflow": overflow,
    "collapse": collapse,
    "static": static,
    "unguarded": unguarded,
}
MAKERS: dict[str, Maker] = {**SPIKES, **CLIMBS, **PRECISION}
WHOLE_RUN = frozenset({"endless", "inverse", "static", "unguarded"})


def join(first: Faults, second: Faults) -> Faults:
    """Both faults in one run."""

    def batch(step: int, given: Batch, task: Source) -> Batch:
        for change in (first.batch, second.batch):
            given = change(step, given, task) if change else given
        return given

    def rate(step: int, value: float) -> float:
        for change in (first.lr, second.lr):
            value = change(step, value) if change else value
        return value

    def tamper(step: int, trainer: Trainer) -> None:
        for action in (first.tamper, second.tamper):
            if action:
                action(step, trainer)

    return Faults(lr=rate, batch=batch, loss=first.loss or second.loss, tamper=tamper)
