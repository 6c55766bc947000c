"""Skip steps whose gradients are not finite, without waiting for the device."""

from __future__ import annotations

from typing import Any

import torch

from stabdiag.torch.parameters import Parameters, local


class StepSkipper:
    """Lets a fused optimizer skip a step, as a loss scaler does."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._optimizer: Any = None

    def before_step(self, optimizer: Any) -> None:
        """Make the optimizer skip the step if a gradient is not finite."""
        if not getattr(optimizer, "_step_supports_amp_scaling", False):
            return
        if getattr(optimizer, "found_inf", None) is None:
            bad = [
                (~torch.isfinite(local(p.grad))).any()
                for p in self._parameters.named.values()
                if p.grad is not None
            ]
            optimizer.found_inf = torch.stack(bad).any().float()
            self._optimizer = optimizer

    def after_step(self) -> None:
        """Restore the optimizer."""
        if self._optimizer is not None:
            del self._optimizer.found_inf
            self._optimizer = None
