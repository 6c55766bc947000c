"""The tasks of the cure benchmark: data made from a seed, and small networks that learn them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from settings import CLASSES, Settings
from torch import Tensor, nn

CONTEXT = 24


@dataclass(frozen=True)
class Data:
    """Examples to train on and to evaluate on: inputs and targets, the first axis the example."""

    x: Tensor
    y: Tensor
    eval_x: Tensor
    eval_y: Tensor


def make_data(settings: Settings) -> Data:
    """Return the data of a task; the same for runs of every seed, so that twins can be compared."""
    random = np.random.default_rng(1)
    count = 4096 + 512
    x, y = MAKERS[settings.task](random, count)
    kept = settings.examples
    return Data(x=x[:kept], y=y[:kept], eval_x=x[-512:], eval_y=y[-512:])


def make_chars(random: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Text of 60 invented words, their frequencies as Zipf's; the target is the next character."""
    words = [
        "".join(chr(97 + c) for c in random.integers(0, 26, size=n))
        for n in random.integers(3, 8, 60)
    ]
    chance = 1 / np.arange(1, 61)
    text = " ".join(random.choice(words, p=chance / chance.sum(), size=count * 6))
    codes = np.array([26 if sign == " " else ord(sign) - 97 for sign in text])
    starts = random.integers(0, len(codes) - CONTEXT - 1, size=count)
    rows = torch.tensor(np.stack([codes[at : at + CONTEXT + 1] for at in starts]))
    return rows[:, :-1], rows[:, 1:]


def make_images(random: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Noisy stripes of 12 by 12 in four directions."""
    y = random.integers(0, 4, size=count)
    phase, angle = random.uniform(0, 6.28, count), y * np.pi / 4
    across, down = np.meshgrid(np.arange(12), np.arange(12))
    wave = np.sin(
        across * np.cos(angle)[:, None, None]
        + down * np.sin(angle)[:, None, None]
        + phase[:, None, None]
    )
    x = wave + random.normal(0, 1.5, size=(count, 12, 12))
    return torch.tensor(x[:, None], dtype=torch.float32), torch.tensor(y)


def make_blobs(random: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Ten overlapping Gaussians in 20 dimensions."""
    centres = random.normal(0, 1, size=(10, 20))
    y = random.integers(0, 10, size=count)
    x = centres[y] + random.normal(0, 1.0, size=(count, 20))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def make_regression(random: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    """A smooth function of 10 inputs, with noise."""
    x = random.normal(0, 1, size=(count, 10))
    first, second = random.normal(0, 0.5, size=(10, 16)), random.normal(0, 0.5, size=16)
    y = np.tanh(x @ first) @ second + random.normal(0, 0.1, size=count)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def make_sequence(random: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Symbols; the target is the symbol of three positions before, which a state has to keep."""
    x = random.integers(0, 8, size=(count, CONTEXT))
    return torch.tensor(x), torch.tensor(np.roll(x, 3, axis=1))


MAKERS = {
    "chars": make_chars,
    "images": make_images,
    "blobs": make_blobs,
    "regression": make_regression,
    "sequence": make_sequence,
}


class Attention(nn.Module):
    """A character model: one block of causal attention."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(27, width)
        self.place = nn.Parameter(torch.randn(CONTEXT, width) * 0.1)
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.hidden = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.head = nn.Linear(width, 27)
        self.mask = torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1) if causal else None

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of shape (batch, position, sign)."""
        h = self.embedding(x) + self.place
        n = self.norm(h)
        mask = None if self.mask is None else self.mask.to(n.dtype)
        h = h + self.attention(n, n, n, attn_mask=mask, need_weights=False)[0]
        return self.head(h + self.hidden(self.norm2(h)))


class Recurrent(nn.Module):
    """A gated recurrent net over symbols."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, width)
        self.hidden = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of shape (batch, position, symbol)."""
        return self.head(self.hidden(self.embedding(x))[0])


def make_model(settings: Settings) -> nn.Module:
    """Return the network of a task; its last layer is called ``head``."""
    width, task = settings.width, settings.task
    if task == "chars":
        return Attention(width, causal=settings.fault("no-mask") is None)
    if task == "sequence":
        return Recurrent(width)
    drop = settings.fault("eval-in-train-mode") is not None
    extra = [nn.Dropout(0.5)] if drop else []
    if task == "images":
        layers = [
            *(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(width, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(), *extra),
        ]
        return headed(layers, 9 * width, 4)
    inputs, outputs = (20, 10) if task == "blobs" else (10, 1)
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), *extra]
    return headed(layers, width, outputs)


def headed(layers: list[nn.Module], width: int, outputs: int) -> nn.Module:
    """Return the layers with a linear head."""
    model = nn.Sequential(*layers)
    model.add_module("head", nn.Linear(width, outputs))
    return model


def per_example(task: str, out: Tensor, y: Tensor) -> Tensor:
    """Return the loss of each example (and position), in nats or as a squared error."""
    if task == "regression":
        return (out.squeeze(-1) - y) ** 2
    return nn.functional.cross_entropy(out.flatten(0, -2), y.flatten(), reduction="none")


def classes(task: str) -> int | None:
    """Return the number of classes of a task, None for a regression."""
    return CLASSES.get(task)
