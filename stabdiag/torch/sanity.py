"""Checks of a model and its loss before the run, on one batch; everything is restored."""

from __future__ import annotations

import copy
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from stabdiag.torch.batches import inputs_and_targets
from stabdiag.torch.graph import inspect_loss
from stabdiag.torch.isolated import is_finite, isolated, map_tensors
from stabdiag.torch.lr_range import steepest_rate
from stabdiag.torch.optimizers import Optimizers, optimized_ids
from stabdiag.torch.parameters import describe_missing
from stabdiag.torch.sanity_result import CheckState, SanityCheck, SanityResult
from stabdiag.torch.sanity_tools import (
    batch_size,
    disable_dropout,
    entropy_of_classes,
    name_some,
    output_tensors,
)

LossFunction = Callable[[nn.Module, Any], torch.Tensor]

# A gradient has to reach a parameter in one of these seeds: layers may be dropped at random.
_SEEDS = (0, 1, 2)

# The first loss of a classifier is within these factors of log K.
_AT_CHANCE = (0.8, 1.25)

# Losses and outputs that should be equal differ by rounding.
_LOSS_TOLERANCE = 1e-4

# A batch is memorized if its loss falls to this fraction in this many steps, at one of the rates.
_MEMORIZED, _STEPS, _RATES = 0.1, 200, (1e-3, 1e-2, 1e-4)

# Freshly shuffled targets cannot be learned in this many steps, unless the model sees them.
_SHUFFLED_STEPS, _LEARNED = 60, 0.9

# The range test: this many steps from the lowest to the highest rate.
_RANGE_STEPS, _LOWEST_RATE, _HIGHEST_RATE = 60, 1e-6, 10.0

# The range test has gone too far where the loss is this many times its best.
_TOO_FAR = 3.0


def sanity(
    model: nn.Module,
    loss_fn: LossFunction,
    batch: Any,
    optimizer: Any,
    *,
    path: str | os.PathLike[str] | None = "sanity.json",
    quiet: bool = False,
) -> SanityResult:
    """Check a model before the run; print a table, and write ``sanity.json``.

    Args:
        model: the model as training begins.
        loss_fn: called as ``loss_fn(model, batch)``; returns the loss.
        batch: one batch of the training data.
        optimizer: the optimizer that will train it.
        path: where the result goes; None writes no file.
        quiet: print nothing.
    """
    trial = _SanityTrial(model, loss_fn, batch, optimizer)
    checks = []
    for check in _SANITY_CHECKS:
        try:
            checks.append(check(trial))
        except Exception as error:  # noqa: BLE001 - one check that cannot be made leaves the others
            slug, title = _RESULT_TITLES[check]
            detail = f"{type(error).__name__}: {error}"
            checks.append(
                SanityCheck(slug=slug, title=title, state=CheckState.UNKNOWN, detail=detail)
            )
    result = SanityResult(checks=tuple(checks), rates=trial.rates, losses=trial.losses)
    if path is not None:
        text = json.dumps(result.to_dict(), indent=2, allow_nan=False, default=str)
        Path(path).write_text(text + "\n", encoding="utf-8")
    if not quiet:
        sys.stdout.write(f"{result}\n")
    return result


class _SanityTrial:
    """What the checks share. Each trains on copies only."""

    def __init__(self, model: nn.Module, loss_fn: Any, batch: Any, optimizer: Any) -> None:
        self.model, self.loss_fn, self.batch, self.optimizer = model, loss_fn, batch, optimizer
        self.settings: dict[str, Any] = {}
        self.rates: tuple[float, ...] = ()
        self.losses: tuple[float, ...] = ()

    def loss(self, model: nn.Module, batch: Any = None) -> torch.Tensor:
        loss: torch.Tensor = self.loss_fn(model, self.batch if batch is None else batch)
        return loss.mean() if loss.ndim else loss

    def train(
        self, rates: Iterator[float], batch_of: Callable[[int], Any] | None = None
    ) -> tuple[list[float], list[float]]:
        """Train a copy by Adam, a step for each rate; return the rates and losses."""
        used: list[float] = []
        losses: list[float] = []
        with isolated(self.model) as inner, torch.enable_grad():
            twin = copy.deepcopy(inner).train()
            disable_dropout(twin)
            parameters = [p for p in twin.parameters() if p.requires_grad]
            optimizer = torch.optim.Adam(parameters)
            for step, rate in enumerate(rates):
                loss = self.loss(twin, batch_of(step) if batch_of else None)
                used.append(rate)
                losses.append(float(loss.detach()))
                if (
                    not math.isfinite(losses[-1])
                    or losses[-1] > _TOO_FAR * max(losses[0], 1.0) * 10
                ):
                    break
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return used, losses


def _covers(trial: _SanityTrial) -> tuple[CheckState, str]:
    """The optimizer has every trainable parameter."""
    optimizers = Optimizers(trial.optimizer)
    missing = describe_missing(trial.model, optimized_ids(optimizers.given))
    if missing:
        return CheckState.FAILED, f"{len(missing)} are in no optimizer: {name_some(missing)}"
    count = sum(p.requires_grad for p in trial.model.parameters())
    return CheckState.PASSED, f"all {count} trainable parameters"


def _gradients(trial: _SanityTrial) -> tuple[CheckState, str]:
    """A gradient reaches every trainable parameter."""
    with isolated(trial.model) as inner, torch.enable_grad():
        named = {name: p for name, p in inner.named_parameters() if p.requires_grad}
        without = {*named}
        for seed in _SEEDS:
            torch.manual_seed(seed)
            gradients = torch.autograd.grad(trial.loss(inner), [*named.values()], allow_unused=True)
            without -= {
                name
                for name, gradient in zip(named, gradients, strict=True)
                if gradient is not None and bool((gradient != 0).any())
            }
    if without:
        return CheckState.FAILED, f"none, or zero, for {len(without)}: {name_some(sorted(without))}"
    return CheckState.PASSED, f"all {len(named)}, in {len(_SEEDS)} seeds"


def _moves(trial: _SanityTrial) -> tuple[CheckState, str]:
    """A step moves every trainable parameter."""
    optimizer = Optimizers(trial.optimizer).main
    with isolated(trial.model) as inner, torch.enable_grad():
        twin, stepper = copy.deepcopy((inner, optimizer))
        before = {name: p.detach().clone() for name, p in twin.named_parameters()}
        tuned = {id(p) for group in stepper.param_groups for p in group["params"]}
        rates = [group["lr"] for group in stepper.param_groups]
        if not any(float(rate) for rate in rates):
            # A warm-up begins at 0: any rate shows whether the parameters are wired.
            for group in stepper.param_groups:
                group["lr"] = 1e-3
        stepper.zero_grad()
        trial.loss(twin).backward()
        stepper.step()
    named = {name: p for name, p in twin.named_parameters() if id(p) in tuned and p.requires_grad}
    still = [name for name, p in named.items() if torch.equal(p.detach(), before[name])]
    broken = [name for name, p in named.items() if not is_finite(p)]
    if broken:
        return CheckState.FAILED, f"the step makes {name_some(broken)} NaN or infinite"
    if still:
        return (
            CheckState.FAILED,
            f"{len(still)} of {len(named)} stay as they were: {name_some(still)}",
        )
    return CheckState.PASSED, f"all {len(named)}"


def _chance(trial: _SanityTrial) -> tuple[CheckState, str]:
    """The first loss equals a guess among the classes."""
    with isolated(trial.model) as inner, torch.enable_grad():
        loss = trial.loss(inner)
        facts, trial.settings = inspect_loss(loss.grad_fn)
        trial.settings["facts"] = facts
        first = float(loss.detach())
    classes = trial.settings.get("vocab_size")
    if classes is None or classes < 2:
        return CheckState.UNKNOWN, f"the loss is {first:.4g}, and no cross-entropy of classes"
    low, high = (factor * math.log(classes) for factor in _AT_CHANCE)
    state = CheckState.PASSED if low <= first <= high else CheckState.FAILED
    return state, f"{first:.4g}; log {classes} = {math.log(classes):.4g}"


def _logits(trial: _SanityTrial) -> tuple[CheckState, str]:
    """The loss gets logits, of the targets' shape."""
    facts = trial.settings.get("facts")
    if facts is None:
        return CheckState.UNKNOWN, "the graph of the loss could not be read"
    wrong = {
        "softmax_twice": "it gets probabilities, and applies softmax again",
        "log_of_softmax": "it takes the logarithm of a softmax in two steps",
        "relu_logits": "its logits pass through a ReLU",
        "broadcast_loss": "it broadcasts (B, 1) and (B,) to (B, B)",
    }
    present = [words for fact, words in wrong.items() if facts.get(fact)]
    if present:
        return CheckState.FAILED, "; ".join(present)
    checked = [fact for fact in wrong if fact in facts]
    return (
        (CheckState.PASSED, "as it should be")
        if checked
        else (CheckState.UNKNOWN, "nothing to go by")
    )


def _modes(trial: _SanityTrial) -> tuple[CheckState, str]:
    """Evaluation differs from training by dropout and batch norm alone."""
    with isolated(trial.model) as inner, torch.no_grad():
        twin = copy.deepcopy(inner)
        evaluated = float(trial.loss(twin.eval()))
        twin.train()
        disable_dropout(twin)
        for module in twin.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        torch.manual_seed(0)
        trained = float(trial.loss(twin))
    if abs(trained - evaluated) <= _LOSS_TOLERANCE * max(abs(evaluated), 1.0):
        return CheckState.PASSED, f"the loss is {evaluated:.4g} in both"
    return CheckState.FAILED, (
        f"{trained:.4g} in training, {evaluated:.4g} in evaluation, without dropout and batch norm"
    )


def _independent(trial: _SanityTrial) -> tuple[CheckState, str]:
    """The output of an example does not depend on the others."""
    size = batch_size(trial.batch)
    if size is None or size < 2:
        return CheckState.UNKNOWN, "the batch has no first dimension of two or more"
    half = map_tensors(trial.batch, lambda t: t[: size // 2] if t.ndim and len(t) == size else t)
    outputs = []
    with isolated(trial.model) as inner, torch.no_grad():
        twin = copy.deepcopy(inner).eval()
        handle = twin.register_forward_hook(lambda *call: outputs.append(call[2]))
        trial.loss(twin)
        trial.loss(twin, half)
        handle.remove()
    tensors = [tensor for output in outputs for tensor in [*output_tensors(output)][:1]]
    if len(tensors) != 2:
        return CheckState.UNKNOWN, "the model was not called once for a batch"
    full, part = tensors
    if not full.ndim or len(full) != size or len(part) != size // 2:
        return CheckState.UNKNOWN, "the output has no row for each example"
    difference = float((full[: size // 2] - part).abs().max())
    scale = max(float(part.abs().max()), 1.0)
    state = CheckState.PASSED if difference <= 10 * _LOSS_TOLERANCE * scale else CheckState.FAILED
    return state, f"half of the batch alone differs by {difference:.2g}"


def _memorizes(trial: _SanityTrial) -> tuple[CheckState, str]:
    """The model can memorize one batch."""
    best = math.inf
    for rate in _RATES:
        _, losses = trial.train(iter([rate] * _STEPS))
        first, lowest = losses[0], min(losses)
        best = min(best, lowest / first if first > 0 else math.inf)
        if first > 0 and lowest <= _MEMORIZED * first:
            return CheckState.PASSED, f"from {first:.4g} to {lowest:.2g} in {len(losses)} steps"
    if not math.isfinite(best):
        return CheckState.UNKNOWN, "the loss is not above 0"
    return (
        CheckState.FAILED,
        f"{_STEPS} steps leave {best:.0%} of the loss, at any of {len(_RATES)} rates",
    )


def _sees_targets(trial: _SanityTrial) -> tuple[CheckState, str]:
    """Freshly shuffled targets cannot be learned."""
    _, targets = inputs_and_targets(trial.batch)
    size = batch_size(trial.batch)
    if targets is None or size is None or size < 8 or not targets.ndim or len(targets) != size:
        return CheckState.UNKNOWN, "the batch has no targets that could be shuffled"
    random = torch.Generator().manual_seed(0)
    if bool((targets == targets[:1]).all()):
        return CheckState.UNKNOWN, "all targets of the batch are the same"

    def shuffled(_: int) -> Any:
        order = torch.randperm(size, generator=random).to(targets.device)
        return map_tensors(trial.batch, lambda t: t[order] if t is targets else t)

    _, losses = trial.train(iter([1e-2] * _SHUFFLED_STEPS), shuffled)
    chance = entropy_of_classes(targets)
    if chance is None:
        return CheckState.UNKNOWN, "the targets are not classes"
    last = sum(losses[-10:]) / len(losses[-10:])
    state = CheckState.PASSED if last >= _LEARNED * chance else CheckState.FAILED
    return state, f"the loss ends at {last:.4g}; guessing costs {chance:.4g}"


def _range(trial: _SanityTrial) -> tuple[CheckState, str]:
    """The learning rate is of the order that a range test shows."""
    factor = (_HIGHEST_RATE / _LOWEST_RATE) ** (1 / (_RANGE_STEPS - 1))
    rates, losses = trial.train(_LOWEST_RATE * factor**step for step in range(_RANGE_STEPS))
    trial.rates, trial.losses = tuple(rates), tuple(losses)
    order = steepest_rate(rates, losses)
    if order is None:
        return CheckState.UNKNOWN, "the loss falls at no rate"
    configured = Optimizers(trial.optimizer).settings().get("peak_lr")
    adaptive = "adam" in type(Optimizers(trial.optimizer).main).__name__.lower()
    text = f"about {10 ** round(math.log10(order)):.0e} by Adam"
    if not configured or not adaptive:
        return CheckState.UNKNOWN, f"{text}; the configured one is {configured}, not Adam's"
    away = abs(math.log10(configured / order))
    state = CheckState.PASSED if away <= 2 else CheckState.FAILED
    return state, f"{text}; {configured:.2g} is configured"


def _check(
    slug: str, title: str, run: Callable[[_SanityTrial], tuple[CheckState, str]]
) -> Callable[[_SanityTrial], SanityCheck]:
    def check(trial: _SanityTrial) -> SanityCheck:
        state, detail = run(trial)
        return SanityCheck(slug=slug, title=title, state=state, detail=detail)

    _RESULT_TITLES[check] = (slug, title)
    return check


_RESULT_TITLES: dict[Any, tuple[str, str]] = {}
_SANITY_CHECKS = tuple(
    _check(slug, (run.__doc__ or "").rstrip("."), run)
    for slug, run in (
        ("optimizer-covers", _covers),
        ("gradients-flow", _gradients),
        ("parameters-move", _moves),
        ("initial-loss", _chance),
        ("loss-gets-logits", _logits),
        ("modes-agree", _modes),
        ("samples-independent", _independent),
        ("overfit-one-batch", _memorizes),
        ("targets-unseen", _sees_targets),
        ("lr-range", _range),
    )
)
