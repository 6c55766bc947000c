"""Each check of ``sanity``: where it is planted, where it is not, and what is restored."""

import copy
import json

import pytest
import torch
from torch import nn
from torch.nn import functional

import stabdiag.torch as sd
from tests.torch.runs import batches, mlp


def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])


def states(model=None, loss_fn=loss, batch=None, optimizer=None, lr=1e-3):
    model = model or mlp(norm=True)
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr)
    batch = batch or next(batches(1, size=32))
    result = sd.sanity(model, loss_fn, batch, optimizer, path=None, quiet=True)
    return {check.slug: (check.state.value, check.detail) for check in result.checks}


def test_a_sound_model_passes_every_check(tmp_path, capsys):
    model = mlp(norm=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    path = tmp_path / "sanity.json"
    result = sd.sanity(model, loss, next(batches(1, size=32)), optimizer, path=path)
    assert [check.state.value for check in result.checks] == ["passed"] * 10
    assert result.ok
    written = json.loads(path.read_text())
    assert [check["slug"] for check in written["checks"]][-1] == "lr-range"
    assert len(written["lr_range"]) > 10
    assert "loss by learning rate" in capsys.readouterr().out


def test_parameters_outside_the_optimizer():
    model = mlp()
    assert states(model, optimizer=torch.optim.SGD(model[0].parameters(), 0.1))[
        "optimizer-covers"
    ] == ("failed", "2 are in no optimizer: 3.weight, 3.bias")


def test_parameters_without_a_gradient():
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.head(self.body(x).detach())

    assert states(Detached())["gradients-flow"][0] == "failed"


def test_parameters_that_a_step_does_not_move():
    model = mlp()
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[3].parameters()}]
    results = states(model, optimizer=torch.optim.SGD(groups, 0.1))
    assert results["parameters-move"] == ("failed", "2 of 4 stay as they were: 0.weight, 0.bias")


@pytest.mark.parametrize(("gain", "state"), [(1.0, "passed"), (50.0, "failed")])
def test_the_first_loss_is_compared_with_chance(gain, state):
    model = mlp()
    with torch.no_grad():
        model[3].weight.mul_(gain)
    assert states(model)["initial-loss"][0] == state


def test_a_softmax_before_the_loss():
    results = states(loss_fn=lambda m, b: functional.cross_entropy(m(b[0]).softmax(-1), b[1]))
    assert results["loss-gets-logits"][0] == "failed"


def test_other_layers_that_depend_on_the_mode_are_found():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(x) * (3 if self.training else 1)

    assert states(Noisy())["modes-agree"][0] == "failed"
    assert states()["modes-agree"][0] == "passed"


def test_examples_that_see_each_other():
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(x - x.mean(0))

    assert states(Mixing())["samples-independent"][0] == "failed"
    assert states()["samples-independent"][0] == "passed"


def test_a_batch_that_cannot_be_memorized():
    class Blind(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(x * 0)

    assert states(Blind())["overfit-one-batch"][0] == "failed"


def test_a_model_that_sees_its_targets():
    class Leaky(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(20, 4)

        def forward(self, x, y):
            return self.head(torch.cat([x, 20 * functional.one_hot(y, 4)], 1))

    results = states(Leaky(), lambda m, b: functional.cross_entropy(m(*b), b[1]))
    assert results["targets-unseen"][0] == "failed"
    assert states()["targets-unseen"][0] == "passed"


@pytest.mark.parametrize(("lr", "state"), [(1e-2, "passed"), (1e-9, "failed")])
def test_the_configured_rate_is_compared_with_the_range_test(lr, state):
    assert states(lr=lr)["lr-range"][0] == state


def test_a_check_that_cannot_be_made_is_unknown():
    def only_once(model, batch):
        raise RuntimeError("this loss needs a server")

    results = states(loss_fn=only_once)
    assert results["initial-loss"] == ("unknown", "RuntimeError: this loss needs a server")
    assert results["optimizer-covers"][0] == "passed"


def test_everything_is_restored():
    model = mlp(norm=True)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = next(batches(1))
    loss(model, batch).backward()
    optimizer.step()
    model.eval()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict())), torch.get_rng_state()
    gradient = model[0].weight.grad.clone()
    sd.sanity(model, loss, batch, optimizer, path=None, quiet=True)
    weights, state = before[0]
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    for key, values in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, state["state"][key][name]) for name, value in values.items())
    assert torch.equal(before[1], torch.get_rng_state())
    assert torch.equal(gradient, model[0].weight.grad)
    assert not model.training
