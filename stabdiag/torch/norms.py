"""Norms of gradients and weights, and what a step changed: read around an optimizer's step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from stabdiag.torch.parameters import Parameters, local, sample
from stabdiag.torch.vector import Vector


def stacked_norms(tensors: Sequence[torch.Tensor]) -> list[tuple[list[int], torch.Tensor]]:
    """Return the norms of tensors, by device and dtype, with their positions.

    Each norm is a sum of squares in float32; norms are added up in float64 by the reader.
    """
    groups: dict[tuple[Any, Any], list[int]] = {}
    for position, tensor in enumerate(tensors):
        groups.setdefault((tensor.device, tensor.dtype), []).append(position)
    result = []
    for positions in groups.values():
        picked = [tensors[position] for position in positions]
        norms = torch._foreach_norm(picked, 2, dtype=torch.float32)
        result.append((positions, torch.stack(norms)))
    return result


# Multiples of the golden ratio, modulo 1, differ from each other.
_GOLDEN = 0.6180339887498949


class StepMeasurement:
    """What one optimizer step did, from a view of gradients and weights before and after it."""

    def __init__(self, parameters: Parameters, *, by_layer: bool) -> None:
        self.by_layer = by_layer
        self._parameters = parameters
        self._names = [name for name, p in parameters.named.items() if p.grad is not None]
        self._weights = [parameters.named[name] for name in self._names]
        self._before: torch.Tensor | None = None

    def before(self, vector: Vector, *, scale: torch.Tensor | None) -> None:
        """Add the norms of the gradients, and copy a sample of the weights.

        ``scale`` is what the gradients are still multiplied with.
        """
        if not self._weights:
            return
        gradients = [local(p.grad.detach()) for p in self._weights if p.grad is not None]
        for positions, norms in stacked_norms(gradients):
            unscaled = norms if scale is None else norms / scale.to(norms.device)
            vector.add([("grad", self._names[position]) for position in positions], unscaled)
        if self.by_layer:
            for positions, norms in stacked_norms([local(p.detach()) for p in self._weights]):
                vector.add([("weight", self._names[position]) for position in positions], norms)
            self._before = self._samples()
            device = self._before.device
            if self._parameters.has_replicas:
                vector.add(["recorder/checksum"], _checksum(self._before))
            self._has_gradient = torch.cat(
                [(sample(p.grad) != 0).to(device) for p in self._weights if p.grad is not None]
            )

    def _samples(self) -> torch.Tensor:
        """Return a copy of the sampled weights, all on the first one's device."""
        device = self._weights[0].device
        return torch.cat([sample(p).to(device, torch.float32) for p in self._weights])

    def after(self, vector: Vector) -> None:
        """Add how far the step moved the weights, and how many of them."""
        if self._before is None:
            return
        sizes = [len(sample(p)) for p in self._weights]
        step = self._samples() - self._before
        changed = step != 0
        # A value whose gradient is zero has no reason to move: an idle row of an embedding.
        unchanged = (~changed & self._has_gradient).float().split(sizes)
        counted = self._has_gradient.float().split(sizes)
        parts = [step.pow(2).split(sizes), self._before.pow(2).split(sizes)]
        parts += [changed.float().split(sizes), unchanged, counted]
        kinds = ("step", "sampled", "changed", "unchanged", "counted")
        for kind, pieces in zip(kinds, parts, strict=True):
            sums = torch.stack([piece.sum() for piece in pieces])
            vector.add([(kind, name) for name in self._names], sums)
        vector.add([("size", name) for name in self._names], torch.tensor(sizes))
        names, differs = self._parameters.changes()
        vector.add([("differs", name) for name in names], differs)


def _checksum(values: torch.Tensor) -> torch.Tensor:
    """Return a number of shape (1,) that is the same for the same values in the same order."""
    weights = torch.arange(1, len(values) + 1, device=values.device, dtype=torch.float64)
    weights = (weights * _GOLDEN).frac() + 0.5
    return (values.double().abs() * weights).sum().reshape(1)


def norm_columns(numbers: dict[Any, float], parameters: Parameters) -> dict[str, float]:
    """Return the columns of a row from the numbers of one step, by layer."""
    sums = _sums_by_layer(numbers, parameters)
    gradients = [numbers[key] ** 2 for key in _keys(numbers, parameters) if key[0] == "grad"]
    columns = {"grad_norm": math.sqrt(sum(gradients))} if gradients else {}
    if not any(kind == "weight" for kind, _ in sums):
        return columns
    for (kind, layer), value in sums.items():
        if kind in ("grad", "weight"):
            columns[f"{kind}_norm/{layer}"] = math.sqrt(value)
        elif kind == "step" and sums["sampled", layer] > 0:
            columns[f"update_ratio/{layer}"] = math.sqrt(value / sums["sampled", layer])
        elif kind == "changed":
            columns[f"moved_fraction/{layer}"] = value / sums["size", layer]
        elif kind == "unchanged" and sums["counted", layer] > 0:
            columns[f"recorder/unchanged/{layer}"] = value / sums["counted", layer]
    unchanged = sum(value for (kind, _), value in sums.items() if kind == "unchanged")
    counted = sum(value for (kind, _), value in sums.items() if kind == "counted")
    if counted:
        columns["recorder/unchanged"] = unchanged / counted
    return columns


def _sums_by_layer(
    numbers: dict[Any, float], parameters: Parameters
) -> dict[tuple[str, str], float]:
    """Return the sum of each kind of number over the parameters of a layer; norms are squared."""
    sums: dict[tuple[str, str], float] = {}
    for kind, name in _keys(numbers, parameters):
        # Update ratios use only matrices: biases and gains begin at 0 or 1.
        is_vector = kind in ("step", "sampled") and parameters.named[name].ndim < 2
        if kind == "differs" or is_vector:
            continue
        layer, value = parameters.layer[name], numbers[kind, name]
        term = value**2 if kind in ("grad", "weight") else value
        sums[kind, layer] = sums.get((kind, layer), 0.0) + term
    return sums


def _keys(numbers: dict[Any, float], parameters: Parameters) -> list[tuple[str, str]]:
    """Return the keys of the numbers of parameters: a kind and a name."""
    return [key for key in numbers if isinstance(key, tuple) and key[1] in parameters.layer]
