"""The optimizers of a run: hooks around their steps, and their settings."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

# Optimizers that keep no state unless they have momentum.
_STATELESS = ("SGD",)


class Optimizers:
    """The optimizers that a recorder was given, the main one first, and others that step.

    An optimizer that takes over the main one's parameters is the main one from then on.
    """

    def __init__(self, optimizer: Any) -> None:
        several = optimizer if isinstance(optimizer, Sequence) else [optimizer]
        self.given = [unwrap(optimizer) for optimizer in several]
        self.main = self.given[0]
        self._seen = list(self.given)
        # A loop may set the rate of each step: only before the first one is it the configured one.
        self._configured_lr = self._largest_group.get("lr")
        # Optimizers that are known not to be the main one.
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def ids(self) -> set[int]:
        """The ids of the main optimizer's parameters."""
        return _ids(self.main)

    @property
    def seen_ids(self) -> set[int]:
        """The ids of the parameters of every optimizer that was given, or has stepped."""
        return set().union(*(_ids(optimizer) for optimizer in self._seen))

    @property
    def are_hooked(self) -> bool:
        """Whether PyTorch reports the steps of all optimizers that were given."""
        return all(isinstance(optimizer, torch.optim.Optimizer) for optimizer in self.given)

    def has(self, optimizer: Any) -> bool:
        """Return True if an optimizer, or what it wraps, is the main one."""
        return unwrap(optimizer) is self.main

    def shares_parameters(self, optimizer: Any) -> bool:
        """Return True if an optimizer steps parameters of the main one."""
        return optimizer is self.main or bool(_ids(optimizer) & self.ids)

    def is_main(self, optimizer: Any, parameters: set[int]) -> bool:
        """Return True if a step of this optimizer is a step of the run."""
        if optimizer is self.main:
            return True
        if optimizer in self._others:
            return False
        ids = _ids(optimizer)
        if optimizer not in self._seen and ids & parameters:
            self._seen.append(optimizer)
            if ids & self.ids and len(self.given) == 1:
                self.main = optimizer
                return True
        self._others.add(optimizer)
        return False

    def hook(self, before: Callable[..., None], after: Callable[..., None]) -> list[Any]:
        """Call ``before`` and ``after`` around each step of every optimizer."""
        return [
            register_optimizer_step_pre_hook(before),
            register_optimizer_step_post_hook(after),
        ]

    @property
    def lr(self) -> float | None:
        """The learning rate of the group with the most values."""
        lr = self._largest_group.get("lr")
        if isinstance(lr, torch.Tensor):
            return float(lr) if lr.device.type == "cpu" else None
        return None if lr is None else float(lr)

    @property
    def steps_done(self) -> int | None:
        """The steps that the optimizer has counted; None if it counts none, or on a GPU."""
        for state in self.main.state.values():
            steps = state.get("step") if isinstance(state, dict) else None
            if isinstance(steps, torch.Tensor):
                return int(steps) if steps.device.type == "cpu" else None
            if isinstance(steps, int | float):
                return int(steps)
            return None
        name = type(self.main).__name__
        return None if name in _STATELESS else 0

    def settings(self) -> dict[str, Any]:
        """Return the optimizer's settings under the names of a manifest."""
        group = self._largest_group
        betas = group.get("betas")
        settings = {
            "optimizer": type(self.main).__name__,
            "peak_lr": group.get("initial_lr", self._configured_lr or group.get("lr")),
            "weight_decay": group.get("weight_decay"),
            "epsilon": group.get("eps"),
            "momentum": group.get("momentum"),
            "betas": None if betas is None else [float(beta) for beta in betas],
            "groups": len(self.main.param_groups),
        }
        return {
            name: float(value) if isinstance(value, torch.Tensor) else value
            for name, value in settings.items()
            if value is not None
        }

    @property
    def _largest_group(self) -> dict[str, Any]:
        groups: list[dict[str, Any]] = self.main.param_groups
        return max(groups, key=lambda group: sum(p.numel() for p in group["params"]))


def unwrap(optimizer: Any) -> Any:
    """Return the optimizer inside a wrapper, such as Accelerate's."""
    while not isinstance(optimizer, torch.optim.Optimizer) and hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    if type(optimizer).__module__.startswith("accelerate") and hasattr(optimizer, "optimizer"):
        return unwrap(optimizer.optimizer)
    return optimizer


def _ids(optimizer: Any) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def optimized_ids(optimizers: Sequence[Any]) -> set[int]:
    """Return the ids of the parameters that some optimizers have."""
    return set().union(*(_ids(optimizer) for optimizer in optimizers))
