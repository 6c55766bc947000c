"""What the recorder costs: training with and without it in turn, on one CPU core.

python benchmarks/recorder_cost.py              a transformer, a small CNN, a small MLP
python benchmarks/recorder_cost.py --pairs 3    fewer repeats

Each pair trains two copies of a model on the same batches, a block of steps each in turn. Times are
CPU times: other work on the machine does not count. The figure is the median of the
ratios of neighboring blocks.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from stabdiag.torch import Recorder

Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


class Transformer(nn.Module):
    """A causal transformer of 3.7 million weights on tokens."""

    def __init__(self, width: int = 256, layers: int = 4, tokens: int = 1024) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        hidden: torch.Tensor = self.head(self.body(self.embedding(x), mask=mask, is_causal=True))
        return hidden


def convolutional() -> nn.Module:
    """A small CNN with batch norm."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def dense() -> nn.Module:
    """A small MLP, whose steps take about a millisecond."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def batch_of(task: str, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch for a task."""
    if task == "transformer":
        x = torch.randint(0, 1024, (8, 129), device=device)
        return x[:, :-1], x[:, 1:]
    shape = (32, 3, 32, 32) if task == "cnn" else (64, 64)
    return torch.randn(shape, device=device), torch.randint(0, 10, (shape[0],), device=device)


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of a batch."""
    logits = model(x)
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "transformer": (Transformer, 10),
    "cnn": (convolutional, 40),
    "mlp": (dense, 400),
}


def run_block(model: nn.Module, optimizer: torch.optim.Optimizer, task: str, steps: int,
              recorder: Recorder | None) -> float:  # fmt: skip
    """Train a block of steps; return the seconds."""
    batches = [batch_of(task) for _ in range(steps)]
    start = time.process_time()
    for x, y in recorder.batches(batches) if recorder else batches:
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if recorder:
            recorder.step(loss)
    return time.process_time() - start


def measure(task: str, pairs: int) -> tuple[float, float, float, int, int]:
    """Return a step in seconds, the overhead, the recorder's own figure, and its cadences."""
    make, steps = MODELS[task]
    torch.manual_seed(0)
    plain = make()
    recorded = copy.deepcopy(plain)
    optimizers = [torch.optim.AdamW(model.parameters(), 1e-4) for model in (plain, recorded)]
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(recorded, optimizers[1], Path(folder, "run.jsonl"))
        for _ in range(3):  # until the cadence has settled
            run_block(plain, optimizers[0], task, steps, None)
            run_block(recorded, optimizers[1], task, steps, recorder)
        ratios, seconds = [], []
        for _ in range(pairs):
            without = run_block(plain, optimizers[0], task, steps, None)
            with_it = run_block(recorded, optimizers[1], task, steps, recorder)
            ratios.append(with_it / without)
            seconds.append(without / steps)
        own, cost = recorder.cost, recorder.cadence
        recorder.close()
    return statistics.median(seconds), statistics.median(ratios) - 1, own, *cost


def main() -> None:
    """Measure each task, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15, help="pairs of blocks")
    parser.add_argument("--tasks", nargs="*", default=[*MODELS], choices=[*MODELS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | step | overhead | by its own count | a row every | layers every |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for task in options.tasks:
        step, overhead, own, row, layers = measure(task, options.pairs)
        print(
            f"| {task} | {1e3 * step:.2f} ms | {overhead:.1%} | {own:.1%} | {row} | {layers} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
