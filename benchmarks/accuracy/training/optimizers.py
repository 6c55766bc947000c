"""Optimizers by name: AdamW, SGD with momentum, Lion and Adafactor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    """The sign of a blend of gradient and momentum (Chen et al. 2023), with decoupled decay."""

    def __init__(self, parameters: list[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"]
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                blend = momentum.lerp(weight.grad, 0.1)
                weight.add_(blend.sign_(), alpha=-group["lr"])
                momentum.lerp_(weight.grad, 0.01)


def make(name: str, parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """The optimizer of this name; the decay is set by the trainer."""
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9)
    if name == "lion":
        return Lion(parameters, lr)
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=lr, weight_decay=0.0)
    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.99), foreach=True)
