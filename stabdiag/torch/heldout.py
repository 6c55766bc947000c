"""What a held-out batch shows: activations, and the loss of an average of the last weights."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from stabdiag.torch.attention import AttentionLogits
from stabdiag.torch.isolated import isolated, map_tensors, named_tensors, unwrap
from stabdiag.torch.layers import MAX_LAYERS

# The batch is measured in this many parts, whose differences give a standard error.
_BATCH_PARTS = 8

# The average of the weights remembers about this many of its updates.
_MEMORY = 20

# An average of fewer weights says little.
_MIN_UPDATES = 10

# An activation beyond this fraction of its bound is saturated.
_SATURATED = 0.99

_BOUNDED = {"aten.tanh": (-1.0, 1.0), "aten.sigmoid": (0.0, 1.0), "aten.hardtanh": (-1.0, 1.0)}
_RECTIFIED = ("aten.relu",)


class HeldoutBatch:
    """Measures a batch that is never trained on, in evaluation mode and without a gradient.

    Args:
        model: the model that is trained.
        batch: the held-out batch.
        loss: a function of model and batch that returns the loss of each example, or their mean.
    """

    def __init__(
        self, model: nn.Module, batch: Any, loss: Callable[[nn.Module, Any], torch.Tensor]
    ) -> None:
        self._batch, self._loss = batch, loss
        with isolated(model) as inner:
            self._average = copy.deepcopy(inner).eval().requires_grad_(False)
        self._updates = 0

    def update_average(self, model: nn.Module) -> None:
        """Move the average of the weights towards the current ones."""
        self._updates += 1
        weight = 1 / min(self._updates, _MEMORY)
        inner = unwrap(model)
        with torch.no_grad():
            pairs = [
                (averaged, current.detach())
                for averaged, current in zip(
                    self._average.parameters(), inner.parameters(), strict=True
                )
                if current.is_floating_point()
            ]
            torch._foreach_lerp_(
                [averaged for averaged, _ in pairs], [new for _, new in pairs], weight
            )
            buffers = zip(self._average.buffers(), inner.buffers(), strict=True)
            for averaged, current in buffers:
                averaged.copy_(current)

    def measure(self, model: nn.Module, trained: Any) -> dict[str, float]:
        """Return the columns; ``trained`` is the last batch that was trained on, or None."""
        columns: dict[str, float] = {}
        with isolated(model) as inner, torch.no_grad():
            inner.eval()
            activations = _Activations()
            attention = AttentionLogits(lambda: activations.module)
            with activations.of(inner), attention.watch():
                now = self._losses(inner, self._batch)
            columns.update(activations.columns())
            columns.update(attention.columns())
            columns["recorder/held_loss"] = float(now.mean())
            if self._updates >= _MIN_UPDATES:
                before = float(now.mean())
                gains = (now - self._losses(self._average, self._batch)) / before
                columns["recorder/average_gain"] = float(gains.mean())
                columns["recorder/average_gain_error"] = _standard_error(gains)
            if trained is not None:
                losses = self._losses(inner, trained)
                error = math.hypot(_standard_error(losses), _standard_error(now))
                if error > 0:
                    excess = float(losses.mean() - now.mean()) / error
                    columns["recorder/training_excess"] = excess
        return columns

    def _losses(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the losses of the examples of a batch, or of its parts."""
        parts = [self._loss(model, part).detach().float() for part in split(batch, _BATCH_PARTS)]
        return torch.cat([part.reshape(-1) for part in parts]).double().cpu()


def split(batch: Any, count: int) -> Iterator[Any]:
    """Yield parts of a batch along its first dimension, as many as it has examples at most."""
    sizes = [len(tensor) for _, tensor in named_tensors(batch) if tensor.ndim]
    size = max({*sizes}, key=sizes.count) if sizes else 0
    if size < 2:
        yield batch
        return
    bounds = [size * part // min(count, size) for part in range(min(count, size) + 1)]
    for low, high in itertools.pairwise(bounds):

        def cut(tensor: torch.Tensor, low: int = low, high: int = high) -> torch.Tensor:
            return tensor[low:high] if tensor.ndim and len(tensor) == size else tensor

        yield map_tensors(batch, cut)


def _standard_error(values: torch.Tensor) -> float:
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else math.inf


class _Activations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Collects sizes of the layers' outputs, saturated activations and units that are always 0."""

    def __init__(self) -> None:
        super().__init__()
        self._stack: list[str] = []
        self._squares: dict[str, tuple[float, int]] = {}
        self._saturated: dict[str, tuple[float, int]] = {}
        self._alive: dict[str, torch.Tensor] = {}
        self._calls: dict[str, int] = {}

    @contextmanager
    def of(self, model: nn.Module) -> Iterator[None]:
        """Follow the forward passes of a model."""
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._enter(name)))
            handles.append(module.register_forward_hook(self._leave(name, module)))
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            if not name:
                self._calls = {}
            self._stack.append(name)

        return hook

    def _leave(self, name: str, module: nn.Module) -> Callable[..., None]:
        has_weights = any(True for _ in module.parameters(recurse=False))

        def hook(_: nn.Module, inputs: Any, output: Any) -> None:
            self._stack.pop()
            if has_weights and isinstance(output, torch.Tensor) and output.is_floating_point():
                square, count = self._squares.get(name, (0.0, 0))
                mean = float(output.detach().float().pow(2).mean())
                self._squares[name] = (square + mean, count + 1)

        return hook

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func).removesuffix(".default").rstrip("_")
        if isinstance(result, torch.Tensor) and result.ndim > 1:
            if name in _BOUNDED:
                low, high = _BOUNDED[name]
                margin = (1 - _SATURATED) * (high - low) / 2
                share = float(((result < low + margin) | (result > high - margin)).float().mean())
                total, count = self._saturated.get(self._place(name), (0.0, 0))
                self._saturated[self._last] = (total + share, count + 1)
            elif name in _RECTIFIED:
                # A unit is a channel of a convolution, or the last dimension.
                unit = 1 if result.ndim == 4 else result.ndim - 1
                dims = [dim for dim in range(result.ndim) if dim != unit]
                alive = (result > 0).sum(dims) > 0
                place = self._place(name)
                earlier = self._alive.get(place)
                self._alive[place] = alive if earlier is None else earlier | alive
        return result

    @property
    def module(self) -> str:
        """The name of the module that runs."""
        return (self._stack[-1] if self._stack else "") or "all"

    def _place(self, name: str) -> str:
        """Return the name of an activation: its module's, and a number where that has several."""
        here = self._stack[-1] if self._stack else ""
        base = here or name.removeprefix("aten.")
        self._calls[base] = self._calls.get(base, 0) + 1
        number = self._calls[base]
        self._last = base if number == 1 else f"{base}.{number}"
        return self._last

    def columns(self) -> dict[str, float]:
        """Return the columns, of the first layers only if there are more than a log can hold."""
        result: dict[str, float] = {}
        for place, (square, count) in [*self._squares.items()][:MAX_LAYERS]:
            result[f"activation_norm/{place or 'all'}"] = math.sqrt(square / count)
        for place, (total, count) in [*self._saturated.items()][:MAX_LAYERS]:
            result[f"saturated_fraction/{place}"] = total / count
        for place, alive in [*self._alive.items()][:MAX_LAYERS]:
            result[f"dead_fraction/{place}"] = float((~alive).float().mean())
        return result
