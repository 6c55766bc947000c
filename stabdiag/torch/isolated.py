"""Run a model for a look, and leave everything as it was."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def isolated(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the model without its wrappers; restore buffers, modes and random numbers after.

    Compiled modules run eagerly, so that hooks on them fire, and nothing compiles again later.
    """
    inner = unwrap(model)
    modes = [(module, module.training) for module in inner.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in inner.buffers()]
    state = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    numpy_state = None if numpy is None else numpy.random.get_state()
    devices = {p.device for p in inner.parameters() if p.is_cuda}
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=sorted({d.index for d in devices})))
            if hasattr(torch.compiler, "set_stance"):
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            yield inner
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)


def unwrap(model: nn.Module) -> nn.Module:
    """Return the model that DDP or torch.compile wraps."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a nested batch with each tensor changed."""
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, change, value)


def named_tensors(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a nested batch with their places: ``labels``, ``0``, ``pixels.1``."""
    from torch.utils._pytree import tree_flatten_with_path

    for path, leaf in tree_flatten_with_path(value)[0]:
        if isinstance(leaf, torch.Tensor):
            keys = (
                getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key in path
            )
            yield ".".join(map(str, keys)) or "the batch", leaf


def is_finite(tensor: torch.Tensor) -> bool:
    """Return True if a tensor has no NaN and no infinite value."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return True
    return bool(torch.isfinite(tensor.detach()).all())
