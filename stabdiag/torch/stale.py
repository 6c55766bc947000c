"""Whether a step used gradients that were left from the step before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class StaleGradients:
    """Follows the gradient of the smallest trainable parameter through accumulation.

    PyTorch counts the changes of each tensor on the host. A gradient that is unchanged since the
    last step when the next one is added to it was not set to zero.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        usable = [p for p in parameters if p.requires_grad and p.is_leaf and p.numel()]
        usable = [p for p in usable if not hasattr(p, "to_local")]
        self._handles: list[Any] = []
        self._parameter = min(usable, key=lambda p: p.numel(), default=None)
        self._stale = False
        self._after_step: tuple[int, int] | None = None
        self._after_backward: tuple[int, int] | None = None
        self._ran = False

    def attach(self) -> None:
        """Follow the gradient from here on."""
        self._after_step = self._after_backward = None
        self._stale = self._ran = False
        if self._parameter is not None and not self._handles:
            self._handles = [
                self._parameter.register_hook(self._before_accumulation),
                self._parameter.register_post_accumulate_grad_hook(self._after_accumulation),
            ]

    @property
    def has_gradient(self) -> bool:
        """Whether the followed parameter has a gradient at the moment."""
        return self._parameter is not None and self._parameter.grad is not None

    def _state(self) -> tuple[int, int] | None:
        gradient = None if self._parameter is None else self._parameter.grad
        return None if gradient is None else (id(gradient), gradient._version)

    def _before_accumulation(self, _: torch.Tensor) -> None:
        self._ran = True
        state = self._state()
        if state is None:
            self._stale = False
        elif state == self._after_step:
            self._stale = True
        elif state != self._after_backward:
            # Something was done to it since: it was zeroed, as before a second backward pass.
            self._stale = False

    def _after_accumulation(self, _: torch.Tensor) -> None:
        self._after_step = None
        self._after_backward = self._state()

    def on_step(self) -> float | None:
        """Return 1.0 if the step used an old gradient, 0.0 if not, None if that is not known."""
        self._after_step = self._state()
        self._after_backward = None
        result = float(self._stale) if self._ran else None
        self._ran = False
        return result

    def detach(self) -> None:
        """Remove the hooks: they take some microseconds in each backward pass."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
