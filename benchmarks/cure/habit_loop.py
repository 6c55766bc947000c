"""A plain training loop with a recorder, whose parts a habit replaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from settings import HEALTHY
from tasks import make_data, make_model
from torch import Tensor, nn
from torch.nn import functional

from stabdiag.torch import Recorder

STEPS: Final = 300
BATCH: Final = 32
WARM_UP: Final = 20
EVALUATIONS: Final = 10


class Loop:
    """A plain training loop; a habit replaces parts of it before it runs."""

    def __init__(self, task: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.settings = replace(HEALTHY[task], seed=seed)
        self.data = make_data(self.settings)
        self.model: nn.Module = make_model(self.settings)
        self.lr, self.steps, self.batch_size, self.micro_batches = self.settings.lr, STEPS, BATCH, 1
        self.clip: float | None = 1.0
        self.optimizers: list[torch.optim.Optimizer] = []
        self.scaler: Any = None
        self.autocast: torch.dtype | None = None
        self.highest_norm = math.inf
        self.evaluated: nn.Module | None = None
        self.rate: Callable[[float], float] = cosine
        self.loss: Callable[[Tensor, Tensor], Tensor] = self.task_loss
        self.before_step: Callable[[int], None] = lambda _step: None
        self.after_step: Callable[[int], None] = lambda _step: None
        self.draw: Callable[[int], tuple[Tensor, Tensor]] = self.random_batch

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are trained."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def random_batch(self, _step: int) -> tuple[Tensor, Tensor]:
        """Return a random batch."""
        rows = torch.randint(len(self.data.x), (self.batch_size,))
        return self.data.x[rows], self.data.y[rows]

    def task_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        return loss_between(self.model(x), y)

    def train(self, steps: int) -> None:
        """Train without a recorder, as a pretrained model was, on other data than the run has."""
        later, half = self.data, len(self.data.x) // 2
        self.data = replace(later, x=later.x[:half], y=later.y[:half])
        optimizer = torch.optim.AdamW(self.parameters(), self.lr)
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            self.task_loss(*self.random_batch(step)).backward()
            optimizer.step()
        self.data = replace(later, x=later.x[half:], y=later.y[half:])

    def run(self, path: Path) -> None:
        """Train with a recorder."""
        if not self.optimizers:
            self.optimizers = [torch.optim.AdamW(self.parameters(), self.lr, weight_decay=0.01)]
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        peaks = [group["lr"] for group in groups]
        heldout = (self.data.eval_x[:256], self.data.eval_y[:256])
        options: dict[str, Any] = {"heldout": heldout, "loss": heldout_loss, "probe_every": 50}
        with Recorder(self.model, self.optimizers, path, budget=1e9, **options) as recorder:
            recorder.configure(total_steps=self.steps, grad_clip=self.clip)
            for step in range(1, self.steps + 1):
                for group, peak in zip(groups, peaks, strict=True):
                    group["lr"] = peak * min(step / WARM_UP, 1.0) * self.rate(step / self.steps)
                self.before_step(step)
                self.step(step, recorder)
                self.after_step(step)
                if step % (self.steps // EVALUATIONS) == 0:
                    recorder.evaluated(self.evaluate())

    def step(self, step: int, recorder: Recorder) -> None:
        """Take a step of all micro-batches."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        for _ in range(self.micro_batches):
            x, y = self.draw(step)
            recorder.see_batch((x, y))
            with torch.autocast("cpu", self.autocast, enabled=self.autocast is not None):
                loss = self.loss(x, y)
            divided = loss / self.micro_batches
            (divided if self.scaler is None else self.scaler.scale(divided)).backward()
        for optimizer in self.optimizers:
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(self.parameters(), self.clip or math.inf)
        if norm <= self.highest_norm or self.scaler is not None:
            for optimizer in self.optimizers:
                optimizer.step() if self.scaler is None else self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()
        recorder.step(loss)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the loss on held-out examples, in evaluation mode."""
        model = self.evaluated or self.model
        model.eval()
        loss = loss_between(model(self.data.eval_x), self.data.eval_y).item()
        model.train()
        return loss


def loss_between(out: Tensor, y: Tensor, **options: Any) -> Tensor:
    """Return the cross-entropy of classes, or the squared error of numbers."""
    if y.is_floating_point():
        return functional.mse_loss(out.squeeze(-1).float(), y)
    return functional.cross_entropy(out.flatten(0, -2).float(), y.flatten(), **options)


def heldout_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the loss of each held-out example."""
    out, y = model(batch[0]), batch[1]
    if y.is_floating_point():
        return (out.squeeze(-1) - y) ** 2
    losses = functional.cross_entropy(out.flatten(0, -2), y.flatten(), reduction="none")
    return losses.view(len(y), -1).mean(1)


def cosine(along: float) -> float:
    """Decay from 1 to 0."""
    return 0.5 + 0.5 * math.cos(math.pi * along)
