"""Helpers of the sanity checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def disable_dropout(model: nn.Module) -> None:
    """Set each probability of dropout to 0."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            # Recurrent layers and attention drop by a number of their own.
            module.dropout = 0.0


def output_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a model's output, the logits first."""
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(value)
    named = [value[key] for key in ("logits",) if isinstance(value, dict) and key in value]
    return (leaf for leaf in (*named, *leaves) if isinstance(leaf, torch.Tensor))


def batch_size(batch: Any) -> int | None:
    """Return the most common first dimension of a batch, None if it has no tensors."""
    sizes = [len(tensor) for tensor in output_tensors(batch) if tensor.ndim]
    return max({*sizes}, key=sizes.count) if sizes else None


def name_some(names: list[str]) -> str:
    """Return the first three names, and the number of the others."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def entropy_of_classes(targets: torch.Tensor) -> float | None:
    """Return the entropy of the classes of a batch."""
    if targets.ndim != 1 or targets.is_floating_point():
        return None
    counts = torch.unique(targets, return_counts=True)[1].double()
    fractions = counts / counts.sum()
    return float(-(fractions * fractions.log()).sum())
