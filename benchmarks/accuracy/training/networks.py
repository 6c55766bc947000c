"""Three small networks, in addition to the byte-level transformer of the fixtures.

Their layers are called `emb`, `mlp` and `head`, which is what the groups of weight norms go by.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


def activate(x: Tensor, kind: str) -> Tensor:
    """The non-linearity: `relu2` is unbounded in the square, and what fp16 overflows on."""
    return F.relu(x).square() if kind == "relu2" else F.leaky_relu(x, 0.1)


class Dense(nn.Module):
    """Two hidden layers; one output is a regression."""

    def __init__(self, inputs: int, width: int, outputs: int, *, norm: bool, kind: str) -> None:
        super().__init__()
        self.emb = nn.Linear(inputs, width, bias=False)
        self.mlp = nn.Linear(width, width, bias=False)
        self.mlp_ln = nn.LayerNorm(width, bias=False) if norm else nn.Identity()
        self.head = nn.Linear(width, outputs, bias=False)
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        hidden = activate(self.emb(x), self.kind)
        hidden = activate(self.mlp_ln(self.mlp(hidden)), self.kind)
        out: Tensor = self.head(hidden)
        return out.squeeze(-1)


class Convolutional(nn.Module):
    """Two convolutions, the mean over the image, one linear layer."""

    def __init__(self, width: int, outputs: int, kind: str) -> None:
        super().__init__()
        self.emb = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.mlp = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)
        self.head = nn.Linear(2 * width * 16, outputs, bias=False)
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        hidden = activate(self.emb(x[:, None]), self.kind)
        hidden = activate(self.mlp(hidden), self.kind)
        out: Tensor = self.head(hidden.flatten(1))
        return out


class Recurrent(nn.Module):
    """A minimal gated unit over a short sequence; an output for each element, or for the last."""

    def __init__(self, inputs: int, width: int, outputs: int, *, last: bool) -> None:
        super().__init__()
        self.emb = nn.Linear(inputs, 2 * width, bias=False)
        self.mlp = nn.Linear(width, 2 * width, bias=False)
        self.head = nn.Linear(width, outputs, bias=False)
        self.width = width
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        drive = self.emb(x)
        state = torch.zeros(len(x), self.width, dtype=drive.dtype)
        states = []
        for moment in range(x.shape[1]):
            gate, new = (drive[:, moment] + self.mlp(state)).chunk(2, -1)
            state = torch.lerp(state, new.tanh(), gate.sigmoid())
            states.append(state)
        out: Tensor = self.head(state if self.last else torch.stack(states, 1))
        return out.squeeze(-1)
