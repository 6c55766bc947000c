"""What the graph of a loss shows of the code that computed it.

Only the names, the shapes and the dtypes of its nodes are read: these outlive the backward pass,
cost nothing, and never unpack a saved tensor (which activation checkpointing would compute again).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

# More nodes than this are not visited: a graph over the whole history of a run is never complete.
_MAX_GRAPH_NODES = 20_000

# Nodes that change the shape or the dtype of values, or pick some of them.
_KEEPS_VALUES = frozenset(
    f"{name}Backward{number}"
    for number in (0, 1)
    for name in (
        *("Alias", "Clone", "Contiguous", "Expand", "Flatten", "Gather", "Index", "IndexSelect"),
        *("Narrow", "Permute", "Reshape", "ReshapeAlias", "Select", "Slice", "Squeeze", "T"),
        *("ToCopy", "Transpose", "UnsafeView", "Unsqueeze", "View"),
    )
)
_SOFTMAX_NODES = frozenset({"SoftmaxBackward0", "SafeSoftmaxBackward0"})
_SIGMOID = frozenset({"SigmoidBackward0"})
_LOG_NODES = frozenset({"LogBackward0", "Log2Backward0", "Log10Backward0"})
_NLL = frozenset({"NllLossBackward0", "NllLoss2DBackward0", "NllLossNdBackward0"})
_BCE_WITH_LOGITS = frozenset({"BinaryCrossEntropyWithLogitsBackward0"})
_POINTWISE = frozenset({"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"})
_BATCH_NORM_NODES = frozenset(
    {
        "NativeBatchNormBackward0",
        "CudnnBatchNormBackward0",
        "BatchNormWithUpdateBackward0",
        "MiopenBatchNormBackward0",
    }
)
_PRODUCTS = frozenset(
    {
        "AddmmBackward0",
        "MmBackward0",
        "BmmBackward0",
        "BaddbmmBackward0",
        "ConvolutionBackward0",
        "LinearBackward0",
    }
)
_SCALE_NODES = frozenset({"MulBackward0", "DivBackward0"})

# A constant factor, a loss scale and a number of accumulated batches are this many products.
_MAX_SCALES = 4


def inspect_loss(root: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the facts of the graph below a loss's node by name, and the settings that it shows.

    A fact is left out if the graph has nothing that it could be about: a compiled loss is one node.
    """
    facts: dict[str, float] = {}
    dtypes: Counter[str] = Counter()
    settings: dict[str, Any] = {}
    fewest, fewest_examples, opaque = math.inf, math.inf, False
    for node in walk(root):
        name = node.name()
        opaque = opaque or name.startswith("Compiled")
        for fact, holds in _facts_of_node(node, name):
            facts[fact] = max(facts.get(fact, 0.0), float(holds))
        if name == "LogSoftmaxBackward0" and (shape := _shape(node)):
            settings.setdefault("vocab_size", shape[_dim(node, len(shape))])
        elif name in _BATCH_NORM_NODES and getattr(node, "_saved_training", True):
            shape = _shape(node)
            if len(shape) > 1:
                fewest = min(fewest, math.prod(shape) / max(shape[1], 1))
                fewest_examples = min(fewest_examples, shape[0])
        elif name in _PRODUCTS:
            dtypes[str(_dtype(node)).removeprefix("torch.")] += 1
    if not opaque:
        facts.setdefault("log_of_softmax", 0.0)
    if math.isfinite(fewest):
        facts |= {"batch_norm_values": fewest, "batch_norm_examples": fewest_examples}
    if dtypes:
        settings["dtype"] = min(dtypes, key=lambda dtype: ("16" not in dtype, -dtypes[dtype]))
    return facts, settings


def _facts_of_node(node: Any, name: str) -> Iterator[tuple[str, bool]]:
    """Yield the facts about the input of a node that is part of a loss."""
    if name == "LogSoftmaxBackward0" or name in _BCE_WITH_LOGITS:
        before = _source(node)
        sigmoids = frozenset() if name == "LogSoftmaxBackward0" else _SIGMOID
        yield "softmax_twice", before in sigmoids | _SOFTMAX_NODES
        yield "relu_logits", before == "ReluBackward0"
    elif name in _NLL:
        yield "softmax_twice", _source(node) in _SOFTMAX_NODES
    elif name in _LOG_NODES:
        yield "log_of_softmax", _source(node) in _SOFTMAX_NODES | _SIGMOID
    elif name in _POINTWISE:
        yield "broadcast_loss", _is_broadcast(node)


def walk(root: Any) -> Iterator[Any]:
    """Yield each node of the graph below a node once, the node itself first."""
    stack: list[Any] = [root]
    seen: set[Any] = set()
    while stack and len(seen) < _MAX_GRAPH_NODES:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        stack += [following for following, _ in node.next_functions]


def is_scaled(root: Any, node: Any) -> bool:
    """Return True if a root of a backward pass is a node, or that node times a few factors."""
    for _ in range(_MAX_SCALES + 1):
        if root is node:
            return True
        if root is None or root.name() not in _SCALE_NODES:
            return False
        root = next((following for following, _ in root.next_functions if following), None)
    return False


def ends_in_product(loss: torch.Tensor) -> bool:
    """Return True if the last operation of a loss is a product or a quotient."""
    return loss.grad_fn is not None and loss.grad_fn.name() in _SCALE_NODES


def _source(node: Any) -> str:
    """Return the name of the node that a node's first input comes from, past shapes and dtypes."""
    while node.next_functions:
        node = node.next_functions[0][0]
        if node is None:
            return ""
        if node.name() not in _KEEPS_VALUES:
            return str(node.name())
    return ""


def _is_broadcast(node: Any) -> bool:
    """Return True if one input of a pointwise loss was repeated along the batch: (B, 1) and (B,).

    The loss then compares every prediction with every target.
    """
    for following, _ in node.next_functions:
        if following is None or following.name() != "ExpandBackward0":
            continue
        shape, before = _shape(following), getattr(following, "_saved_self_sym_sizes", None)
        if before is not None and len(shape) == 2 and shape[0] == shape[1] > 1:
            return tuple(before) in {(shape[0], 1), (shape[0],)}
    return False


def _metadata(node: Any) -> Any:
    return next(iter(getattr(node, "_input_metadata", ())), None)


def _shape(node: Any) -> tuple[int, ...]:
    """Return the shape of what a node's operation computed; () if it is not known."""
    metadata = _metadata(node)
    return () if metadata is None else tuple(int(size) for size in metadata.shape)


def _dtype(node: Any) -> Any:
    return getattr(_metadata(node), "dtype", None)


def _dim(node: Any, count: int) -> int:
    """Return the dimension that a softmax sums over; autograd stores a negative one unsigned."""
    dim = int(getattr(node, "_saved_dim", -1))
    return dim if 0 <= dim < count else count - 1 if dim >= 2**63 or dim == -1 else dim % count
