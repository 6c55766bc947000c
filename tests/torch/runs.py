"""Small training runs, with and without a recorder, and what they wrote."""

import json
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional

import stabdiag.torch as sd


def read(path):
    """Return the header's configuration and the rows of a log."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    errors = [line for line in lines if "recorder_error" in line]
    assert not errors, errors
    return lines[0].get("config"), [line for line in lines if "step" in line]


def column(rows, name):
    """Return the values of a column, of the rows that have it."""
    return [row[name] for row in rows if name in row]


def recorder(model, optimizer, path, *, rows=1, **options):
    """Return a recorder that writes a row every few steps, at any cost."""
    rec = sd.Recorder(model, optimizer, path, **{"every": 2, "budget": 1000.0, **options})
    rec._cost.request("row", rows)
    return rec


def mlp(*, seed=0, width=32, dropout=0.1, norm=False):
    torch.manual_seed(seed)
    layers = [nn.Linear(16, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 4)]
    if norm:
        layers.insert(1, nn.BatchNorm1d(width))
    return nn.Sequential(*layers)


def batches(count, *, size=16, seed=0, classes=4):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(16, classes, generator=generator)
    for _ in range(count):
        x = torch.randn(size, 16, generator=generator)
        yield x, (x @ weights).argmax(-1)


def train(model, path, *, steps=12, optimizer=None, loss_of=None, record=True, **options):
    """Train a classifier in the plainest loop, and return the header and the rows."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = loss_of or (lambda x, y: functional.cross_entropy(model(x), y))
    with recorder(model, optimizer, path, **options) if record else nullcontext() as rec:
        for x, y in rec.batches(batches(steps)) if record else batches(steps):
            loss = loss_of(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if record:
                rec.step(loss)
    return read(path) if record else None
