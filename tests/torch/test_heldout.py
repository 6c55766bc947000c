"""The held-out batch: activations, the average of the weights, trained examples that are harder."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch.runs import batches, column, mlp, read, recorder


def cross_entropy(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def train(model, path, *, steps=40, relabel=False, lr=1e-2, **options):
    heldout = next(batches(1, size=256, seed=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr)
    options = {"heldout": heldout, "loss": cross_entropy, "probe_every": 5, "every": 2} | options
    with recorder(model, optimizer, path, **options) as rec:
        data = batches(steps, size=256, seed=0)
        data = ((x, torch.cat([y[128:].roll(1), y[:128]]) if relabel else y) for x, y in data)
        data = ((x.roll(-128, 0), y) if relabel else (x, y) for x, y in data)
        for x, y in rec.batches(data):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    return read(path)


def test_the_header_records_a_missing_heldout_batch(tmp_path):
    config, rows = train(mlp(), tmp_path / "run.jsonl", heldout=None)
    assert config["recorder"]["held_batch"] is False
    assert not column(rows, "recorder/held_loss")
    config, rows = train(mlp(), tmp_path / "other.jsonl")
    assert config["recorder"]["held_batch"] is True
    assert len(column(rows, "recorder/held_loss")) == 9


@pytest.mark.parametrize(("bias", "dead"), [(0.0, False), (-100.0, True)])
def test_units_that_are_zero_for_every_example(bias, dead, tmp_path):
    model = mlp()
    with torch.no_grad():
        model[0].bias.add_(bias)
    _, rows = train(model, tmp_path / "run.jsonl", steps=2, lr=0.0)
    assert (column(rows, "dead_fraction/1")[0] > 0.5) is dead


@pytest.mark.parametrize("functional_form", [False, True])
@pytest.mark.parametrize(("gain", "saturated"), [(1.0, False), (300.0, True)])
def test_activations_at_their_bound(gain, saturated, functional_form, tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act, self.head = nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)

        def forward(self, x):
            x = self.first(x)
            return self.head(torch.tanh(x) if functional_form else self.act(x))

    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        model.first.weight.mul_(gain)
    _, rows = train(model, tmp_path / "run.jsonl", steps=2)
    name = "saturated_fraction/tanh" if functional_form else "saturated_fraction/act"
    assert (column(rows, name)[0] > 0.5) is saturated
    assert column(rows, "activation_norm/first")[0] > 0


def test_wrong_labels_raise_the_training_excess(tmp_path):
    _, rows = train(mlp(), tmp_path / "right.jsonl")
    assert max(column(rows, "recorder/training_excess")) < 4
    _, rows = train(mlp(), tmp_path / "wrong.jsonl", relabel=True)
    assert column(rows, "recorder/training_excess")[-1] > 4


def test_the_average_of_bouncing_weights_is_better(tmp_path):
    model = nn.Linear(16, 4)
    _, rows = train(model, tmp_path / "run.jsonl", steps=120, lr=1.0)
    gain = column(rows, "recorder/average_gain")
    assert len(gain) == len(column(rows, "recorder/average_gain_error"))
    assert max(gain[-4:]) > 0.1


class Attends(nn.Module):
    """Four tokens that attend to each other; ``gain`` is a factor on the queries."""

    def __init__(self, *, gain=1.0, causal=False, masked=False, encoder=False):
        super().__init__()
        torch.manual_seed(0)
        self.gain, self.causal, self.masked = gain, causal, masked
        self.project, self.head = nn.Linear(4, 12), nn.Linear(4, 4)
        self.encoder = None
        if encoder:
            self.encoder = nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)

    def forward(self, x):
        x = x.unflatten(-1, (4, 4))
        if self.encoder is not None:
            return self.head(self.encoder(x)).mean(1)
        query, key, value = self.project(x)[:, None].chunk(3, -1)
        mask = torch.ones(4, 4, dtype=torch.bool).tril() if self.masked else None
        out = functional.scaled_dot_product_attention(
            query * self.gain, key, value, attn_mask=mask, is_causal=self.causal
        )
        return self.head(out[:, 0]).mean(1)


def attention(path, **options):
    """Return the first largest logit and entropy."""
    _, rows = train(Attends(**options), path, steps=2, lr=0.0)
    place = "encoder.self_attn" if options.get("encoder") else "all"
    return (
        column(rows, f"max_attention_logit/{place}")[0],
        column(rows, f"attention_entropy/{place}")[0],
    )


def test_attention_logits_and_entropy(tmp_path):
    highest, entropy = attention(tmp_path / "a.jsonl")
    assert 0 < highest < 20
    assert 0.7 < entropy <= math.log(4)
    larger, collapsed = attention(tmp_path / "b.jsonl", gain=1000.0)
    assert larger == pytest.approx(1000 * highest, rel=1e-3)
    assert collapsed < 0.05


def test_masks_count_in_the_entropy(tmp_path):
    causal = attention(tmp_path / "a.jsonl", causal=True)
    assert attention(tmp_path / "b.jsonl", masked=True) == pytest.approx(causal, rel=1e-6)
    # The first token sees itself alone.
    assert causal[1] < sum(math.log(count) for count in (1, 2, 3, 4)) / 4


def test_the_attention_of_an_encoder_layer_is_measured(tmp_path):
    assert attention(tmp_path / "a.jsonl", encoder=True)[1] > 0
