"""Named numbers that are still on their devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Vector:
    """Named numbers of one step: read together, and a step later on a GPU."""

    def __init__(self) -> None:
        self._parts: list[tuple[Sequence[Any], torch.Tensor]] = []
        self._ready: Any = None

    def add(self, names: Sequence[Any], values: torch.Tensor) -> None:
        """Add values of shape (n,) under n names."""
        self._parts.append((names, values.detach()))

    def send(self) -> None:
        """Begin to copy the numbers on a GPU, without waiting for it."""
        parts: list[tuple[Sequence[Any], torch.Tensor]] = []
        for names, values in self._parts:
            if values.is_cuda:
                copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
                copy.copy_(values, non_blocking=True)
                self._ready = torch.cuda.Event()
                self._ready.record()
                parts.append((names, copy))
            else:
                parts.append((names, values))
        self._parts = parts

    @property
    def is_ready(self) -> bool:
        """Whether the numbers can be read without waiting."""
        return self._ready is None or bool(self._ready.query())

    @property
    def is_on_host(self) -> bool:
        """Whether no number is on a GPU."""
        return all(values.device.type == "cpu" for _, values in self._parts)

    def read(self) -> dict[Any, float]:
        """Return the numbers by name."""
        return {
            name: value
            for names, values in self._parts
            for name, value in zip(names, values.tolist(), strict=True)
        }


def as_vector(value: Any) -> torch.Tensor:
    """Return one number as a vector of shape (1,), on its device."""
    if not isinstance(value, torch.Tensor):
        return torch.tensor([float(value)])
    value = value.detach()
    if hasattr(value, "full_tensor"):
        value = value.to_local()
    return value.reshape(-1)[:1].float()


def as_number(value: Any) -> float:
    """Return a number on the host; waits if it is on a GPU."""
    return float(value.detach()) if isinstance(value, torch.Tensor) else float(value)
