"""The first line of each segment: the run's configuration, in the form of a manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from stabdiag.torch.optimizers import Optimizers
from stabdiag.torch.parameters import Parameters
from stabdiag.torch.processes import world_size

# The version of the format: rows under these names, with this meaning.
VERSION = 1

_DTYPE_SHORT_NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
_BATCH_NORM = nn.modules.batchnorm._BatchNorm


def segment_header(
    model: nn.Module,
    optimizers: Optimizers,
    parameters: Parameters,
    *,
    segment: int,
    rank: int,
    settings: Mapping[str, Any],
    has_heldout_batch: bool,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the header of a segment."""
    weights = Counter[str]()
    for p in parameters.named.values():
        weights[str(p.dtype).removeprefix("torch.")] += p.numel()
    stored = max(weights, key=lambda dtype: weights[dtype]) if weights else "float32"
    computed = settings.get("dtype") or stored
    kinds = Counter(type(module).__name__ for module in model.modules())
    config = {
        **optimizers.settings(),
        "dtype": _DTYPE_SHORT_NAMES.get(computed, computed),
        **{name: value for name, value in settings.items() if name != "dtype"},
        "seed": settings.get("seed", torch.initial_seed() % 2**53),
        "recorder": {
            "version": VERSION,
            "segment": segment,
            "torch": torch.__version__,
            "process": rank,
            "world_size": world_size(),
            "stored_as": stored,
            "values": parameters.count,
            "trainable_values": parameters.trainable_count,
            "layers": len(parameters.layers),
            "batch_norms": sum(isinstance(m, _BATCH_NORM) for m in model.modules()),
            "relus": kinds["ReLU"],
            "dropouts": kinds["Dropout"],
            "compiled": hasattr(model, "_orig_mod"),
            "sharded": parameters.is_sharded,
            "held_batch": has_heldout_batch,
            **(files or {}),
        },
    }
    return {"config": {name: value for name, value in config.items() if value is not None}}
