"""The probe: which module and which operation made the first NaN or infinite value of a step."""

from __future__ import annotations

import copy
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stabdiag.torch.graph import walk
from stabdiag.torch.isolated import is_finite, isolated, map_tensors, named_tensors, unwrap

LossFunction = Callable[[nn.Module, Any], torch.Tensor]

# The largest number of fp16.
_FP16_MAX = 65504.0

# The number of modules before the failure that are shown with their largest activation.
_MAX_SHOWN_MODULES = 10

# A failure that depends on random numbers does not come each time.
_REPEATS = 3

# Operations that write what they are given: an infinite mask is meant.
_WRITES = ("fill", "full", "where", "masked", "scalar_tensor", "empty", "copy", "lift", "detach")


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """Where a step failed.

    ``phase`` is ``batch``, ``parameters``, ``forward``, ``loss``, ``backward``, ``optimizer``, or
    ``none`` where the step is finite. ``module`` is its name in the model, ``operation`` an aten
    operation or a node of the graph. ``reproduced`` counts the repeats that failed at the same
    place. ``headroom`` has the largest activation of each of the last modules, in the order of
    their calls; ``in_fp32`` says whether the step is finite in full precision.
    """

    phase: str
    module: str = ""
    operation: str = ""
    detail: str = ""
    reproduced: int = 0
    headroom: tuple[tuple[str, float], ...] = ()
    in_fp32: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether the step is finite."""
        return self.phase == "none"

    def __str__(self) -> str:
        return "\n".join(_describe(self))


@dataclass(kw_only=True)
class _Watch:
    """What is seen of one step: the modules that run, and the first operation that fails."""

    stack: list[str] = field(default_factory=list)
    first_nan: tuple[str, str] | None = None
    first_inf: tuple[str, str] | None = None
    last: tuple[str, str] = ("", "")
    sizes: deque[tuple[str, float]] = field(
        default_factory=lambda: deque(maxlen=_MAX_SHOWN_MODULES)
    )
    owners: dict[Any, str] = field(default_factory=dict)

    @property
    def here(self) -> str:
        return self.stack[-1] if self.stack else ""

    @property
    def first(self) -> tuple[str, str] | None:
        """The first operation that made a value that is not finite."""
        return self.first_inf or self.first_nan


class _Operations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Watches each aten operation for values that it was the first to make."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func).removesuffix(".default")
        self.watch.last = (self.watch.here, name)
        before = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        had_nan = any(_has_nan(tensor) for tensor in before)
        had_inf = not had_nan and any(not is_finite(tensor) for tensor in before)
        result = func(*args, **kwargs)
        if had_nan or any(word in name for word in _WRITES):
            return result
        after = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if self.watch.first_nan is None and any(_has_nan(tensor) for tensor in after):
            self.watch.first_nan = (self.watch.here, name)
        elif self.watch.first is None and not had_inf and not all(map(is_finite, after)):
            self.watch.first_inf = (self.watch.here, name)
        return result


def probe(
    model: nn.Module,
    batch: Any,
    loss_fn: LossFunction | Callable[..., torch.Tensor],
    optimizer: Any = None,
    *,
    quiet: bool = False,
) -> ProbeResult:
    """Find what makes a step non-finite, and print it; the model stays as it is.

    Args:
        model: the model, with the weights from before the step that failed.
        batch: the batch of that step.
        loss_fn: called as ``loss_fn(model, batch)``; returns the loss.
        optimizer: tried on a copy, if everything else is finite.
        quiet: print nothing.
    """
    result = _check_inputs(model, batch)
    if result is None:
        results = [_probe_once(model, batch, loss_fn) for _ in range(_REPEATS)]
        places = Counter((r.phase, r.module, r.operation) for r in results if not r.ok)
        worst = next((r for r in results if not r.ok), results[0])
        place = (worst.phase, worst.module, worst.operation)
        result = replace(worst, reproduced=places.get(place, 0))
        if result.ok and optimizer is not None:
            result = _try_optimizer(model, batch, loss_fn, optimizer)
        elif not result.ok and _uses_16_bits(model, result):
            result = replace(result, in_fp32=_is_finite_in_fp32(model, batch, loss_fn))
    if not quiet:
        import sys

        sys.stdout.write(f"{result}\n")
    return result


def _check_inputs(model: nn.Module, batch: Any) -> ProbeResult | None:
    for name, tensor in named_tensors(batch):
        if not is_finite(tensor):
            count = int((~torch.isfinite(tensor)).sum())
            detail = f"{count} of {tensor.numel()} values are NaN or infinite"
            return ProbeResult(phase="batch", module=name, detail=detail)
    inner = unwrap(model)
    for name, tensor in (*inner.named_parameters(), *inner.named_buffers()):
        if not is_finite(tensor) and not _is_mask(tensor):
            count = int((~torch.isfinite(tensor.detach())).sum())
            detail = f"{count} of {tensor.numel()} values are NaN or infinite"
            return ProbeResult(phase="parameters", module=name, detail=detail)
    return None


def _is_mask(tensor: torch.Tensor) -> bool:
    """Return True for a buffer of zeros and −inf, as attention adds it."""
    return isinstance(tensor, nn.Parameter) is False and bool(
        ((tensor == 0) | (tensor == -math.inf)).all()
    )


def _probe_once(model: nn.Module, batch: Any, loss_fn: Any) -> ProbeResult:
    watch = _Watch()
    with isolated(model) as inner, _followed(inner, watch), torch.enable_grad():
        try:
            with _Operations(watch):
                loss = loss_fn(inner, batch)
                loss = loss.mean() if loss.ndim else loss
        except Exception as error:  # noqa: BLE001 - the error is the finding
            module, operation = watch.last
            detail = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            phase = "forward" if module else "loss"
            return ProbeResult(phase=phase, module=module, operation=operation, detail=detail)
        sizes = tuple(watch.sizes)
        if not is_finite(loss):
            module, operation = watch.first or ("", "")
            phase = "forward" if module else "loss"
            return ProbeResult(phase=phase, module=module, operation=operation, headroom=sizes)
        return _probe_backward(inner, loss, watch, sizes)


def _probe_backward(
    model: nn.Module, loss: torch.Tensor, watch: _Watch, sizes: tuple[tuple[str, float], ...]
) -> ProbeResult:
    if loss.grad_fn is None:
        return ProbeResult(phase="none", detail="the loss does not depend on the parameters")
    bad_nodes: list[tuple[str, str]] = []

    def make_hook(node: Any) -> Callable[..., None]:
        def hook(inputs: Any, outputs: Any) -> None:
            received = [g for g in outputs if isinstance(g, torch.Tensor)]
            sent = [g for g in inputs if isinstance(g, torch.Tensor)]
            if not bad_nodes and all(map(is_finite, received)) and not all(map(is_finite, sent)):
                bad_nodes.append((watch.owners.get(node, ""), str(node.name())))

        return hook

    handles = [node.register_hook(make_hook(node)) for node in walk(loss.grad_fn)]
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    try:
        gradients = torch.autograd.grad(loss, [p for _, p in parameters], allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    bad = [
        name
        for (name, _), gradient in zip(parameters, gradients, strict=True)
        if gradient is not None and not is_finite(gradient)
    ]
    if not bad:
        return ProbeResult(phase="none", headroom=sizes)
    module, operation = bad_nodes[0] if bad_nodes else (bad[0].rpartition(".")[0], "")
    detail = f"the gradients of {len(bad)} parameters are not finite, {bad[0]} among them"
    return ProbeResult(
        phase="backward", module=module, operation=operation, detail=detail, headroom=sizes
    )


def _try_optimizer(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> ProbeResult:
    """Take the step on a copy of model and optimizer."""
    with isolated(model) as inner:
        twin, stepper = copy.deepcopy((inner, optimizer))
        stepper.zero_grad()
        loss = loss_fn(twin, batch)
        (loss.mean() if loss.ndim else loss).backward()
        stepper.step()
    for name, p in twin.named_parameters():
        if not is_finite(p):
            group = next(
                group for group in stepper.param_groups if any(p is q for q in group["params"])
            )
            settings = ", ".join(
                f"{key} {group[key]:g}"
                for key in ("lr", "eps", "weight_decay")
                if isinstance(group.get(key), int | float)
            )
            detail = f"the step makes it NaN or infinite ({settings})"
            operation = f"{type(optimizer).__name__}.step"
            return ProbeResult(
                phase="optimizer", module=name, operation=operation, detail=detail, reproduced=1
            )
    return ProbeResult(phase="none")


@contextmanager
def _followed(model: nn.Module, watch: _Watch) -> Iterator[None]:
    """Follow which module runs, how large its outputs are, and which nodes it makes."""

    def enter(name: str) -> Callable[..., None]:
        return lambda *_: watch.stack.append(name)

    def leave(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            watch.stack.pop()
            for leaf in tree_leaves(output):
                if not isinstance(leaf, torch.Tensor):
                    continue
                if leaf.is_floating_point() and leaf.numel():
                    size = float(leaf.detach().abs().max())
                    watch.sizes.append((name, size))
                if leaf.grad_fn is not None:
                    _own(leaf.grad_fn, name, watch.owners, tree_leaves(inputs))

        return hook

    handles = []
    root = type(model).__name__
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(enter(name or root)))
        handles.append(module.register_forward_hook(leave(name or root), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _own(node: Any, name: str, owners: dict[Any, str], inputs: list[Any]) -> None:
    """Note that a module made the nodes between its inputs and its output."""
    ends = {leaf.grad_fn for leaf in inputs if isinstance(leaf, torch.Tensor)}
    stack = [node]
    while stack:
        current = stack.pop()
        if current is None or current in owners or current in ends:
            continue
        owners[current] = name
        stack += [following for following, _ in current.next_functions]


def _uses_16_bits(model: nn.Module, result: ProbeResult) -> bool:
    halves = (torch.float16, torch.bfloat16)
    stored = any(p.dtype in halves for p in model.parameters())
    return stored or any(size > _FP16_MAX / 16 for _, size in result.headroom)


def _is_finite_in_fp32(model: nn.Module, batch: Any, loss_fn: Any) -> bool | None:
    """Return True if the step is finite in full precision, without autocast."""
    try:
        with isolated(model) as inner, _without_autocast():
            twin = copy.deepcopy(inner).float()
            widened = map_tensors(batch, lambda t: t.float() if t.is_floating_point() else t)
            return _probe_once(twin, widened, loss_fn).ok
    except Exception:  # noqa: BLE001 - code that names a dtype cannot be run in another
        return None


@contextmanager
def _without_autocast() -> Iterator[None]:
    """Make each autocast of the code compute in full precision."""
    original = torch.autocast.__init__

    def disabled(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "enabled": False})

    torch.autocast.__init__ = disabled
    try:
        yield
    finally:
        torch.autocast.__init__ = original


def _has_nan(tensor: torch.Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return bool(torch.isnan(tensor).any())


_PHASE_NAMES = {
    "batch": "The batch is not finite: {module} ({detail}).",
    "parameters": "The weights are not finite: {module} ({detail}). Load a checkpoint from before.",
    "forward": "The forward pass fails in module {module}, at {operation}.",
    "loss": "The loss fails on finite outputs of the model, at {operation}.",
    "backward": "The backward pass fails in module {module}, at {operation}: {detail}.",
    "optimizer": "The optimizer fails at {module}, in {operation}: {detail}.",
    "none": "The step is finite: nothing failed.",
}


def _describe(result: ProbeResult) -> Iterator[str]:
    values = {
        "module": result.module or "(none)",
        "operation": result.operation or "an unknown operation",
        "detail": result.detail,
    }
    yield _PHASE_NAMES[result.phase].format(**values)
    if result.phase in ("forward", "loss") and result.detail:
        yield f"  {result.detail}"
    if 0 < result.reproduced < _REPEATS and result.phase != "optimizer":
        yield f"  It came in {result.reproduced} of {_REPEATS} repeats: random numbers matter."
    if result.in_fp32 is not None:
        words = "works in fp32: an overflow, not a structural bug"
        yield f"  The step {words if result.in_fp32 else 'fails in fp32 as well'}."
        for name, size in result.headroom:
            yield f"  {name:40} {size:12.4g}  {size / _FP16_MAX:8.1%} of {_FP16_MAX:g}"
