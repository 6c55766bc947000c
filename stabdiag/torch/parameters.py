"""What is true of a model's parameters: which are trained, and which still are as they began."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from stabdiag.torch.layers import fold_names, plain_name
from stabdiag.torch.processes import world_size

# This many values of a parameter represent all, at equal distances.
SAMPLE_SIZE = 4096

# Smaller matrices do not show whether their rows were drawn at random.
_MIN_MATRIX_ROWS = 16

# The norms of random rows differ by chance, up to this factor; the norms of trained rows
# differ several times as much.
_DISPERSION = 1.6

# The largest singular value of a random matrix of m by n values is σ(√m + √n) (Marchenko and Pastur
# 1967); training adds larger ones. A small matrix may exceed it by a few per cent.
_EDGE = 1.05
_ITERATIONS = 12

# Weights are drawn from a uniform or a normal distribution. Each has its kurtosis, and the kurtosis
# of n values its standard error: this over √n. Trained weights come from between, and beyond.
_UNIFORM_KURTOSIS, _UNIFORM_ERROR = 1.8, 1.15
_NORMAL_KURTOSIS, _NORMAL_ERROR = 3.0, 4.9
_MAX_ERRORS = 4.0

# Fewer values than this may look normal once they are trained.
_MIN_NORMAL_VALUES = 4096


class Parameters:
    """The parameters of a model by layer, and what they were when the recorder was made."""

    def __init__(self, model: nn.Module, pattern: str | None = None) -> None:
        named = {name: p for name, p in model.named_parameters() if p.numel()}
        layers = fold_names([*named], pattern)
        self.named = {name: p for name, p in named.items() if name in layers}
        self.layer = layers
        self.layers = [*dict.fromkeys(layers[name] for name in self.named)]
        self.ids = {id(p) for p in model.parameters()}
        self.is_sharded = any(hasattr(p, "to_local") for p in named.values())
        # Other processes have the same weights.
        self.has_replicas = not self.is_sharded and world_size() > 1
        embeddings = {
            id(p)
            for module in model.modules()
            if isinstance(module, nn.Embedding | nn.EmbeddingBag)
            for p in module.parameters(recurse=False)
        }
        self._matrices = {
            name: p
            for name, p in self.named.items()
            if p.ndim > 1 and p.is_floating_point() and not self.is_sharded
        }
        with torch.no_grad():
            self._random = {
                name: sample(p).clone() for name, p in self._matrices.items() if looks_random(p)
            }
            self.initial_std = dict(self._initial_std(embeddings))
        self.never_had_gradient = {*self.named}

    def _initial_std(self, embeddings: set[int]) -> Iterator[tuple[str, float]]:
        """Yield the standard deviation of each layer's most unusual matrix, times √fan-in.

        An embedding has no fan-in: its rows are picked, not summed.
        """
        worst: dict[str, float] = {}
        for name, p in self._matrices.items():
            if not len(p) or p[0].numel() < _MIN_MATRIX_ROWS:
                continue
            std = float(p.detach().float().std())
            if not math.isfinite(std) or std == 0:
                continue
            value = std if id(p) in embeddings else std * math.sqrt(p[0].numel())
            layer = self.layer[name]
            if abs(math.log(value)) > abs(math.log(worst.get(layer, 1.0))) or layer not in worst:
                worst[layer] = value
        yield from worst.items()

    def initial_columns(self) -> dict[str, float]:
        """Return the initial size of the weights of each layer, and the most unusual one."""
        prefix, sizes = "recorder/initial_std", self.initial_std
        if not sizes:
            return {}
        worst = max(sizes.values(), key=lambda size: abs(math.log(size)))
        return {prefix: worst, **{f"{prefix}/{layer}": size for layer, size in sizes.items()}}

    def note_gradients(self) -> None:
        """Strike the parameters that have a gradient from those that never had one."""
        if self.never_had_gradient:
            self.never_had_gradient = {
                name for name in self.never_had_gradient if self.named[name].grad is None
            }

    def changes(self) -> tuple[list[str], torch.Tensor]:
        """Return the matrices that looked random, and whether each has changed since, on a device.

        Nothing waits for the device here: the numbers are read together with the step's.
        """
        names = [*self._random]
        flags = [(sample(self.named[name]) != self._random[name]).any().float() for name in names]
        device = flags[0].device if flags else torch.device("cpu")
        return names, torch.stack([f.to(device) for f in flags]) if flags else torch.zeros(0)

    def facts(self, optimized: set[int], numbers: Mapping[Any, float]) -> dict[str, float]:
        """Return the number of untrained values, in total and by layer, for each reason.

        Args:
            optimized: the ids of the parameters that an optimizer has.
            numbers: what was measured of the last step.
        """
        trainable = {name for name, p in self.named.items() if p.requires_grad}
        missing = {name for name in trainable if id(self.named[name]) not in optimized}
        no_gradient = {name for name in trainable - missing if name in self.never_had_gradient}
        still = {name for name in self._random if numbers.get(("differs", name)) == 0}
        frozen = {name for name in still if not self.named[name].requires_grad}
        unmoved = {
            name
            for name in still & trainable - missing - no_gradient
            if ("changed", name) in numbers
        }
        result: dict[str, float] = {}
        for fact, names in (
            ("not_in_optimizer", missing),
            ("no_gradient", no_gradient),
            ("frozen_random", frozen),
            ("unmoved_random", unmoved),
        ):
            result[fact] = float(sum(self.named[name].numel() for name in names))
            for name in sorted(names):
                key = f"{fact}/{self.layer[name]}"
                result[key] = result.get(key, 0.0) + self.named[name].numel()
        return result

    @property
    def count(self) -> int:
        """The number of values of all parameters."""
        return sum(p.numel() for p in self.named.values())

    @property
    def trainable_count(self) -> int:
        """The number of values that may be trained."""
        return sum(p.numel() for p in self.named.values() if p.requires_grad)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this process's part of a tensor."""
    shard: Any = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return shard


def sample(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of at most 4,096 values of a tensor, at equal distances; shape (n,)."""
    flat = local(tensor.detach()).reshape(-1)
    return flat[:: max(-(-flat.numel() // SAMPLE_SIZE), 1)]


def looks_random(weight: torch.Tensor) -> bool:
    """Return True if a matrix looks as if its values were drawn independently of each other.

    Trained matrices have rows and columns of unequal norms and heavy tails. Zeros, and matrices too
    small to tell, do not look random.
    """
    if (
        weight.numel() == 0
        or weight.shape[0] < _MIN_MATRIX_ROWS
        or weight[0].numel() < _MIN_MATRIX_ROWS
    ):
        return False
    values = weight.detach().float().reshape(weight.shape[0], -1)
    centered = values - values.mean()
    variance = float(centered.pow(2).mean())
    if not math.isfinite(variance) or variance == 0:
        return False
    kurtosis = float(centered.pow(4).mean()) / variance**2
    if not _is_drawn(kurtosis, values.numel()):
        return False
    for dim in (0, 1):
        squares = centered.pow(2).mean(dim)
        expected = math.sqrt((kurtosis - 1) / values.shape[dim])
        if float(squares.std()) / variance > _DISPERSION * expected:
            return False
    edge = math.sqrt(variance) * sum(math.sqrt(size) for size in values.shape)
    return _spectral_norm(centered) <= _EDGE * edge


def _is_drawn(kurtosis: float, count: int) -> bool:
    """Return True if values have the kurtosis of a uniform draw, or many of a normal one."""
    errors = _MAX_ERRORS / math.sqrt(count)
    if abs(kurtosis - _UNIFORM_KURTOSIS) <= errors * _UNIFORM_ERROR:
        return True
    is_normal = abs(kurtosis - _NORMAL_KURTOSIS) <= errors * _NORMAL_ERROR
    return count >= _MIN_NORMAL_VALUES and is_normal


def _spectral_norm(matrix: torch.Tensor) -> float:
    """Return a lower bound of the largest singular value of a matrix, by power iteration."""
    count = matrix.shape[1]
    vector = torch.cos(torch.arange(count, device=matrix.device, dtype=matrix.dtype))
    for _ in range(_ITERATIONS):
        vector = matrix.T @ (matrix @ vector)
        vector = vector / vector.norm()
    return float((matrix @ vector).norm())


def describe_missing(model: nn.Module, optimized: set[int]) -> list[str]:
    """Return the plain names of the trainable parameters that no optimizer has."""
    return [
        plain_name(name)
        for name, p in model.named_parameters()
        if p.requires_grad and id(p) not in optimized
    ]
