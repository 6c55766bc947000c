"""The losses of a step: as they were reported, and as the backward passes began."""

from __future__ import annotations

from typing import Any

import torch

from stabdiag.torch.graph import ends_in_product, inspect_loss, is_scaled
from stabdiag.torch.vector import Vector, as_vector

# Gradients of more micro-batches than this are not followed one by one.
_MAX_ROOTS = 256


class StepLosses:
    """Collects the losses and the backward roots of the micro-batches of one step.

    A loss is None if its step has no row. ``facts`` and ``settings`` are what the graph shows.
    """

    def __init__(self) -> None:
        self._values: list[torch.Tensor | float | None] = []
        self._roots: list[tuple[torch.Tensor, Any]] = []
        self.facts: dict[str, float] = {}
        self.settings: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add_roots(self, roots: Any) -> None:
        """Keep the roots of a backward pass until the loss is reported."""
        if isinstance(roots, torch.Tensor):
            roots = (roots,)
        for root in roots:
            if root.numel() == 1 and len(self._roots) < _MAX_ROOTS:
                self._roots.append((root.detach(), root.grad_fn))

    def skip(self) -> None:
        """Count a loss in a step without a row."""
        self._values.append(None)

    def clear(self) -> None:
        """Forget the losses of a step that has no row."""
        self._values.clear()
        if self._roots or self.facts:
            self._roots, self.facts, self.settings = [], {}, {}

    def add(self, loss: Any, vector: Vector, *, inspects_graph: bool) -> None:
        """Take a loss, and add to the vector what its backward pass began with."""
        if not isinstance(loss, torch.Tensor):
            self._values.append(float(loss))
            return
        if loss.grad_fn is not None:
            if inspects_graph:
                self._inspect(loss.grad_fn)
            self._compare_roots(loss, vector)
        self._values.append(loss.detach())

    def add_sum_of_roots(self, scale: torch.Tensor | None, *, inspects_graph: bool) -> None:
        """Take the sum of the backward roots, without the loss scale, as the loss."""
        if not self._roots:
            self._values.append(None)
            return
        nodes = [node for _, node in self._roots if node is not None]
        if nodes and inspects_graph:
            self._inspect(nodes[-1])
        total = torch.stack([root.reshape(()).float() for root, _ in self._roots]).sum()
        self._values.append(total if scale is None else total / scale.to(total.device))

    def add_mean(self, row: dict[str, Any], vector: Vector) -> None:
        """Add the mean of the losses to the vector, or to the row if they are numbers."""
        tensors = [value for value in self._values if isinstance(value, torch.Tensor)]
        numbers = [value for value in self._values if isinstance(value, float)]
        if tensors:
            vector.add(["loss"], as_vector(torch.stack([t.float() for t in tensors]).mean()))
        elif numbers:
            row["loss"] = sum(numbers) / len(numbers)

    def _inspect(self, node: Any) -> None:
        facts, settings = inspect_loss(node)
        self.facts.update({f"recorder/{name}": value for name, value in facts.items()})
        self.settings.update(settings)

    def _compare_roots(self, loss: torch.Tensor, vector: Vector) -> None:
        """Add the loss and the backward root that is a multiple of it, to compare them later."""
        for root, node in self._roots:
            if node is None or not is_scaled(node, loss.grad_fn):
                continue
            # A loss that was divided before it was reported hides the factor.
            if node is not loss.grad_fn or not ends_in_product(loss):
                count = len(self._values)
                vector.add([("root", count)], as_vector(root))
                vector.add([("loss", count)], as_vector(loss))
            return


def gradient_multiple(numbers: dict[Any, float], scale: float) -> float | None:
    """Return the ratio of the gradients to the gradients of the reported loss, if known."""
    multiple = 0.0
    for key, root in numbers.items():
        if isinstance(key, tuple) and key[0] == "root":
            loss = numbers["loss", key[1]]
            if not loss or loss != loss:
                return None
            multiple += root / loss / scale
    return multiple or None
