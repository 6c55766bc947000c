"""Measure the cost of the recorder: train with and without it in turn, on one CPU core.

python benchmarks/recorder_cost.py              a transformer, a small CNN, a small MLP
python benchmarks/recorder_cost.py --turns 8    fewer repeats

Three processes train the same model on the same batches, a block of steps each in random order,
one of them with a recorder. Times are CPU times, so that other work on the machine counts as little
as it can. The figure is the median of the ratios of a block to the mean of both others, with its
standard error; as a control, the ratio of the two processes without a recorder.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from stabdiag.torch import Recorder, cost

# A run of hours is measured, not the first second that the budget leaves out.
cost._FREE_SECONDS = 0.0

# Blocks until the cadence has settled.
WARM_UP = 3

# The standard deviation of normal noise by its median deviation, and the error of a median by that
# of a mean.
NORMAL, MEDIAN_ERROR = 1.4826, 1.2533


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
    "mlp": (dense, 1500),
}


def train_blocks(task: str, pipe: Connection, *, records: bool) -> None:
    """Train a block of steps whenever the pipe asks for it; send the seconds of each."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make, steps = MODELS[task]
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        recorder = Recorder(model, optimizer, path) if records else None
        while pipe.recv():
            batches = [batch_of(task) for _ in range(steps)]
            start = time.thread_time()
            for x, y in recorder.batches(batches) if recorder else batches:
                loss = loss_of(model, x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if recorder:
                    recorder.step(loss)
            pipe.send(time.thread_time() - start)
        if recorder:
            pipe.send((recorder.cost, *recorder.cadence))
            recorder.close()


def measure(task: str, blocks: int) -> str:
    """Return a row of the table."""
    steps = MODELS[task][1]
    context = get_context("spawn")
    ends, processes = [], []
    for records in (False, False, True):
        end, other = context.Pipe()
        process = context.Process(
            target=train_blocks, args=(task, other), kwargs={"records": records}
        )
        process.start()
        ends.append(end)
        processes.append(process)
    seconds = []
    for block in range(blocks + WARM_UP):
        times = [0.0, 0.0, 0.0]
        for which in random.sample(range(3), 3):
            ends[which].send(True)
            times[which] = ends[which].recv()
        if block >= WARM_UP:
            seconds.append(times)
    for end in ends:
        end.send(False)
    own, row, layers = ends[2].recv()
    for process in processes:
        process.join()
    overhead = estimate([2 * recorded / (a + b) - 1 for a, b, recorded in seconds])
    control = estimate([b / a - 1 for a, b, _ in seconds])
    step = 1e3 * statistics.median(plain for plain, *_ in seconds) / steps
    return f"| {task} | {step:.2f} ms | {overhead} | {control} | {own:.1%} | {row} | {layers} |"


def estimate(ratios: list[float]) -> str:
    """Return the median of some ratios with its standard error."""
    middle = statistics.median(ratios)
    spread = statistics.median(abs(ratio - middle) for ratio in ratios)
    error = NORMAL * MEDIAN_ERROR * spread / math.sqrt(len(ratios))
    return f"{middle:.1%} ± {error:.1%}"


def main() -> None:
    """Measure each task, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=15, help="blocks of each process")
    parser.add_argument("--tasks", nargs="*", default=[*MODELS], choices=[*MODELS])
    options = parser.parse_args()
    print("| task | step | overhead | control | by its own count | a row every | layers every |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for task in options.tasks:
        print(measure(task, options.turns), flush=True)


if __name__ == "__main__":
    main()
