"""The tasks. A batch is a function of its number alone, so that a run can be forked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from recipes.tasks import Batch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from training.flavours import FLAVOURS
from training.networks import Convolutional, Dense, Recurrent

Floats = npt.NDArray[np.float64]
Drawn = tuple[npt.NDArray[Any], npt.NDArray[Any]]


@dataclass(frozen=True)
class Spec:
    """The task, its variant and its length."""

    kind: str
    flavour: str = "plain"
    rows: int = 16
    steps: int = 1000
    width: int = 24
    norm: bool = True
    activation: str = "leaky"
    variant: str = ""
    unit: float = 1.0


def mean_by_row(each: Tensor, batch: Batch) -> Tensor:
    """The mean of each target's loss; rows count by their weight."""
    if batch.weight is None:
        return each.mean()
    return (each.reshape(len(batch.weight), -1) * batch.weight[:, None]).mean()


class Task:
    """A source of batches, drawn afresh, or from a fixed set that comes again each epoch."""

    classes: int | None = 10
    per_epoch: ClassVar[int] = 50

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec = spec
        self.seed = seed
        self.truth = np.random.default_rng((seed, 77))
        self.prepare()

    def prepare(self) -> None:
        """Draw what stays the same through the run."""

    def draw(self, random: np.random.Generator, difficulty: float) -> Drawn:
        """Inputs and targets of one batch."""
        raise NotImplementedError

    def model(self) -> nn.Module:
        """The network that belongs to the task."""
        raise NotImplementedError

    def batch(self, number: int) -> Batch:
        """The batch of this number."""
        spec = self.spec
        number = number % self.per_epoch if spec.flavour == "epochs" else number
        difficulty = FLAVOURS[spec.flavour](number, self.seed, spec.steps)
        inputs, targets = self.draw(np.random.default_rng((self.seed, number)), difficulty)
        target_tensor = torch.from_numpy(targets)
        target_tensor = (
            target_tensor.float() if target_tensor.is_floating_point() else target_tensor
        )
        return Batch(number, torch.from_numpy(inputs).float(), target_tensor)

    def heldout_batch(self) -> Batch:
        """A batch that training does not see."""
        return self.batch(10**8)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy in fp32."""
        logits = output.float().flatten(0, -2)
        each = F.cross_entropy(logits, batch.targets.flatten(), reduction="none")
        return mean_by_row(each, batch)

    def spoil(self, batch: Batch, share: float, size: float) -> Batch:
        """Put random targets in place of a share of the right ones; `size` is for regressions."""
        random = torch.Generator().manual_seed(31 * batch.number + 5)
        hit = torch.rand(batch.targets.shape, generator=random) < share
        other = torch.randint(0, self.classes or 2, batch.targets.shape, generator=random)
        return replace(batch, targets=torch.where(hit, other, batch.targets))


class Mixture(Task):
    """Tell ten overlapping Gaussians apart, or what a random teacher calls its inputs."""

    def prepare(self) -> None:
        self.centres = self.truth.normal(size=(10, 16))
        self.teacher = self.truth.normal(size=(16, 10))

    def draw(self, random: np.random.Generator, difficulty: float) -> Drawn:
        rows = self.spec.rows
        if self.spec.variant == "teacher":
            inputs = random.normal(size=(rows, 16))
            noise = random.gumbel(size=(rows, 10)) * (0.5 + 1.5 * difficulty)
            return inputs, (np.tanh(inputs) @ self.teacher + noise).argmax(-1)
        targets = random.integers(0, 10, rows)
        noise = random.normal(size=(rows, 16)) * (0.9 + 1.2 * difficulty)
        return self.centres[targets] + noise, targets

    def model(self) -> nn.Module:
        spec = self.spec
        return Dense(16, spec.width, 10, norm=spec.norm, kind=spec.activation)


class Images(Task):
    """Images of 8 x 8: a smooth pattern, shifted, under noise; or stripes of some direction."""

    classes = 6

    def prepare(self) -> None:
        rough = self.truth.normal(size=(6, 12, 12))
        shifts = [(i, j) for i in (0, 1, 2) for j in (0, 1, 2)]
        self.patterns = np.sum([np.roll(rough, shift, (1, 2)) for shift in shifts], 0)

    def draw(self, random: np.random.Generator, difficulty: float) -> Drawn:
        rows = self.spec.rows
        targets = random.integers(0, 6, rows)
        noise = random.normal(size=(rows, 8, 8)) * (1.2 + 2.5 * difficulty)
        if self.spec.variant == "stripes":
            angle = np.pi * targets / 6
            y, x = np.mgrid[:8, :8]
            along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
            return np.sin(along * 1.7 + random.uniform(0, 6.28, (rows, 1, 1))) + noise, targets
        at = random.integers(0, 5, (rows, 2))
        cut = [
            self.patterns[t][i : i + 8, j : j + 8] for t, (i, j) in zip(targets, at, strict=True)
        ]
        return np.stack(cut) / 2 + noise, targets

    def model(self) -> nn.Module:
        return Convolutional(6, 6, self.spec.activation)


class Sequence(Task):
    """The next symbol of a Markov chain; or the sum of two marked numbers."""

    classes: int | None = 12
    length = 10

    def prepare(self) -> None:
        self.chain = self.truth.dirichlet(np.full(12, 0.25), 12).cumsum(-1)
        if self.spec.variant == "adding":
            self.classes = None

    def draw(self, random: np.random.Generator, difficulty: float) -> Drawn:
        rows, length = self.spec.rows, self.length
        if self.spec.variant == "adding":
            values = random.uniform(-1, 1, (rows, length)) * (1 + difficulty)
            marks = np.argsort(random.random((rows, length)), -1) < 2
            return np.stack([values, marks], -1), (values * marks).sum(-1)
        symbols = np.empty((rows, length + 1), np.int64)
        symbols[:, 0] = random.integers(0, 12, rows)
        chances = random.random((rows, length))
        for i in range(length):
            advanced = self.chain[symbols[:, i]] < chances[:, i, None]
            symbols[:, i + 1] = advanced.sum(-1).clip(0, 11)
        stray = random.random(symbols.shape) < 0.6 * min(1.0, difficulty)
        symbols = np.where(stray, random.integers(0, 12, symbols.shape), symbols)
        return np.eye(12)[symbols[:, :-1]], symbols[:, 1:]

    def model(self) -> nn.Module:
        adding = self.spec.variant == "adding"
        return Recurrent(2 if adding else 12, self.spec.width, 1 if adding else 12, last=adding)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        if self.classes is not None:
            return super().loss(output, batch)
        return mean_by_row(F.mse_loss(output.float(), batch.targets, reduction="none"), batch)

    def spoil(self, batch: Batch, share: float, size: float) -> Batch:
        return super().spoil(batch, share, size) if self.classes else shifted(batch, share, size)


class Regression(Task):
    """A smooth function of 8 inputs under noise: Gaussian, Student's t, or log-normal."""

    classes = None

    def prepare(self) -> None:
        self.weights = self.truth.normal(size=(8, 4))

    def draw(self, random: np.random.Generator, difficulty: float) -> Drawn:
        rows, variant = self.spec.rows, self.spec.variant
        inputs = random.normal(size=(rows, 8))
        if variant.startswith("t"):
            noise = random.standard_t(float(variant[1:]), rows)
        elif variant == "lognormal":
            noise = random.lognormal(0, 1, rows) - 1.65
        else:
            noise = random.normal(size=rows)
        clean = np.tanh(inputs @ self.weights).sum(-1)
        return inputs, (clean + noise * 0.3 * (1 + 3 * difficulty)) * self.spec.unit

    def model(self) -> nn.Module:
        spec = self.spec
        return Dense(8, spec.width, 1, norm=spec.norm, kind=spec.activation)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return mean_by_row(F.mse_loss(output.float(), batch.targets, reduction="none"), batch)

    def spoil(self, batch: Batch, share: float, size: float) -> Batch:
        return shifted(batch, share, size)


def shifted(batch: Batch, share: float, size: float) -> Batch:
    """A share of a regression's targets is off, by a normal deviate times `size`."""
    random = torch.Generator().manual_seed(31 * batch.number + 5)
    hit = torch.rand(batch.targets.shape, generator=random) < share
    off = size * torch.randn(batch.targets.shape, generator=random)
    return replace(batch, targets=batch.targets + torch.where(hit, off, torch.zeros(())))
