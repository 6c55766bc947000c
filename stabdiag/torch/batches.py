"""Measurements of a batch before it is trained on: labels, inputs, a digest."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

# Keys under which a batch keeps its targets.
_TARGETS = ("labels", "label", "targets", "target", "y")

# No more values of an input than this are read.
_MAX_INPUT_VALUES = 1024

# Labels are compared by a histogram of at most this many classes.
_MAX_CLASSES = 1024

# Digests are written as integers that a float holds exactly.
_MODULUS = 2**48


def inputs_and_targets(batch: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return the first input tensor of a batch and its targets, None where there are none."""
    if isinstance(batch, Mapping):
        targets = next((batch[key] for key in _TARGETS if key in batch), None)
        inputs = next((value for value in iterate_tensors(batch) if value is not targets), None)
        return inputs, targets if isinstance(targets, torch.Tensor) else None
    if isinstance(batch, Sequence) and not isinstance(batch, str) and len(batch) > 1:
        targets = batch[-1]
        inputs = next(iterate_tensors(batch[:-1]), None)
        return inputs, targets if isinstance(targets, torch.Tensor) else None
    return next(iterate_tensors(batch), None), None


def iterate_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a batch, however it is nested."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from iterate_tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from iterate_tensors(item)


class Batches:
    """Compares each batch with the one before it."""

    def __init__(self) -> None:
        self._last_histogram: torch.Tensor | None = None
        self._sum = torch.zeros(0)
        self._count = 0

    def measure(self, batch: Any) -> tuple[dict[str, float], list[tuple[str, torch.Tensor]]]:
        """Return numbers of a batch that are on the host, and others that may be on a GPU."""
        inputs, targets = inputs_and_targets(batch)
        columns: dict[str, float] = {}
        pending: list[tuple[str, torch.Tensor]] = []
        if inputs is not None and inputs.numel():
            part = _part(inputs)
            if inputs.device.type == "cpu":
                columns["batch_id"] = float(_digest(part))
            if inputs.is_floating_point():
                part = part.float()
                pending += [
                    ("recorder/input_std", part.std(correction=0)),
                    ("recorder/input_nonfinite", (~torch.isfinite(inputs.detach())).sum().float()),
                ]
        if targets is not None and targets.numel():
            if targets.is_floating_point():
                part = _part(targets).float()
                pending += [
                    ("recorder/target_mean", part.mean()),
                    ("recorder/target_std", part.std(correction=0)),
                ]
            elif targets.ndim == 1 and targets.device.type == "cpu":
                columns.update(self._label_correlation(targets))
        return columns, pending

    def _label_correlation(self, labels: torch.Tensor) -> dict[str, float]:
        """Return a column with the correlation of the classes of this batch and the last one.

        Each histogram is compared with the mean of all so far: in shuffled data its
        difference from the mean does not depend on the previous batch.
        """
        counts = torch.bincount(labels.detach().clamp(-1, _MAX_CLASSES - 1) + 1)[1:].float()
        if not len(counts):
            return {}
        histogram = counts / counts.sum()
        self._count += 1
        last, self._last_histogram = self._last_histogram, histogram
        size = max(len(histogram), len(self._sum))
        self._sum = _padded(self._sum, size) + _padded(histogram, size)
        if last is None or self._count < 3:
            return {}
        mean = self._sum / self._count
        first, second = _padded(last, size) - mean, _padded(histogram, size) - mean
        norm = float(first.norm() * second.norm())
        return {"recorder/label_correlation": float(first @ second) / norm} if norm > 0 else {}


def _padded(values: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(values, (0, size - len(values)))


def _part(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of at most 1,024 values of a tensor, at equal distances."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(-(-flat.numel() // _MAX_INPUT_VALUES), 1)]


def _digest(values: torch.Tensor) -> int:
    """Return a number that identifies the values of a batch and their order."""
    if values.is_complex():
        values = torch.view_as_real(values)
    flat = values.reshape(-1).double()
    total = float(flat @ _weights(len(flat)))
    if not math.isfinite(total):
        total = float(flat.nan_to_num(0.5, 0.25, -0.25) @ _weights(len(flat)))
    # Nearby sums differ in many bits after the multiplication.
    (bits,) = struct.unpack("<q", struct.pack("<d", total))
    return int(bits * 0x9E3779B97F4A7C15 % 2**64 % _MODULUS)


@cache
def _weights(count: int) -> torch.Tensor:
    """Return irrational weights, which make a sum depend on the order of its terms."""
    return (torch.arange(1, count + 1, dtype=torch.float64) * 0.6180339887498949).frac() + 0.1
