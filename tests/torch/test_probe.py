"""The probe names the module and the operation of each planted fault, and changes nothing."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import stabdiag.torch as sd
from stabdiag.torch.__main__ import main
from tests.torch.runs import batches, mlp, read, recorder


class Net(nn.Module):
    """A network whose middle does what a test plants there."""

    def __init__(self, middle, *, width=16):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(16, width)
        self.middle = middle
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.middle(self.first(x)))


class Do(nn.Module):
    """A module that applies a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class BadFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient / (gradient - gradient)


class Masked(nn.Module):
    def forward(self, x):
        scores = x[:, :, None] @ x[:, None, :]
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool), float("-inf"))
        return (scores.softmax(-1) @ x[:, :, None])[..., 0]


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 16)

    def forward(self, x):
        return x + self.table(torch.full((len(x),), 9))


def cross_entropy(model, batch):
    return functional.cross_entropy(model(batch[0]).float(), batch[1])


def over_empty_mask(model, batch):
    loss = functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
    mask = torch.zeros_like(loss)
    return (loss * mask).sum() / mask.sum()


def in_fp16(model, batch):
    with torch.autocast("cpu", torch.float16):
        return functional.cross_entropy(model(batch[0]).float(), batch[1])


FAULTS = {
    "log of 0": (Do(lambda x: (x * 0).log()), cross_entropy, "forward", "middle", "aten.log"),
    "0/0": (Do(lambda x: (x * 0) / (x * 0)), cross_entropy, "forward", "middle", "aten.div"),
    "inf mask": (
        Do(lambda x: x + torch.zeros_like(x) * float("inf")),
        cross_entropy,
        "forward",
        "middle",
        "aten.mul",
    ),
    "sqrt at 0 in backward": (
        Do(lambda x: (x * 0).sqrt() + x),
        cross_entropy,
        "backward",
        "middle",
        "SqrtBackward0",
    ),
    "bad custom function": (
        Do(BadFunction.apply),
        cross_entropy,
        "backward",
        "middle",
        "BadFunctionBackward",
    ),
    "embedding out of range": (
        Lookup(),
        cross_entropy,
        "forward",
        "middle.table",
        "aten.embedding",
    ),
    "empty mask": (nn.Identity(), over_empty_mask, "loss", "", "aten.div"),
    "softmax of masked rows": (Masked(), cross_entropy, "forward", "middle", "aten._softmax"),
}


WRAPPERS = {
    "plain": lambda model: model,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "ddp": nn.parallel.DistributedDataParallel,
}


@pytest.fixture(params=WRAPPERS)
def wrap(request, tmp_path):
    """Return a function that wraps a model: not at all, compiled, or in DDP."""
    if request.param != "ddp":
        yield WRAPPERS[request.param]
        return
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield WRAPPERS["ddp"]
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_probe_names_module_and_operation(fault, wrap, capsys):
    middle, loss, phase, module, operation = FAULTS[fault]
    model = wrap(Net(copy.deepcopy(middle)))
    result = sd.probe(model, next(batches(1)), loss)
    assert (result.phase, result.module, result.operation.split(".Tensor")[0]) == (
        phase,
        module,
        operation,
    )
    assert result.reproduced == 3
    assert operation in capsys.readouterr().out


def test_overflow_in_fp16_works_in_fp32(wrap, capsys):
    model = Net(nn.Sequential(nn.Linear(16, 16), Do(lambda x: x * 3e4), nn.Linear(16, 16)))
    with torch.no_grad():
        model.middle[2].weight.fill_(100.0)
    result = sd.probe(wrap(model), next(batches(1)), in_fp16)
    assert (result.phase, result.module) == ("forward", "middle.1") or result.module == "middle.2"
    assert result.in_fp32 is True
    printed = capsys.readouterr().out
    assert "works in fp32: an overflow, not a structural bug" in printed
    assert "of 65504" in printed


def test_a_nan_weight_is_named(wrap):
    model = mlp()
    with torch.no_grad():
        model[3].weight[1, 2] = float("nan")
    result = sd.probe(wrap(model), next(batches(1)), cross_entropy)
    assert (result.phase, result.module) == ("parameters", "3.weight")
    assert result.detail.startswith("1 of 128 values")


@pytest.mark.parametrize("nested", [False, True])
def test_a_nan_input_is_named(nested, wrap):
    x, y = next(batches(1))
    x[0, 0] = float("nan")
    batch = {"inputs": {"pixels": x}, "labels": y} if nested else (x, y)
    result = sd.probe(wrap(mlp()), batch, cross_entropy)
    assert (result.phase, result.module) == ("batch", "inputs.pixels" if nested else "0")


def test_an_optimizer_without_epsilon_is_named(wrap):
    model = wrap(mlp())
    optimizer = torch.optim.Adam(model.parameters(), eps=0.0)
    result = sd.probe(
        model, (torch.zeros(4, 16), torch.zeros(4, dtype=torch.long)), cross_entropy, optimizer
    )
    assert (result.phase, result.operation) == ("optimizer", "Adam.step")
    assert "eps 0" in result.detail
    assert not optimizer.state


def test_a_finite_step_is_finite(capsys):
    model = mlp(norm=True)
    assert sd.probe(model, next(batches(1)), cross_entropy).ok
    assert "nothing failed" in capsys.readouterr().out


def test_an_attention_mask_of_infinity_is_fine():
    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.full((16, 16), float("-inf")).triu(1))

        def forward(self, x):
            scores = x[:, :, None] @ x[:, None, :] + self.mask
            return (scores.softmax(-1) @ x[:, :, None])[..., 0]

    assert sd.probe(Net(Causal()), next(batches(1)), cross_entropy).ok


def test_a_random_failure_is_said_to_be_one(capsys):
    class Sometimes(nn.Module):
        count = 0

        def forward(self, x):
            Sometimes.count += 1
            return x / 0 if Sometimes.count == 2 else x

    result = sd.probe(Net(Sometimes()), next(batches(1)), cross_entropy)
    assert (result.module, result.reproduced) == ("middle", 1)
    assert "1 of 3 repeats" in capsys.readouterr().out


def test_the_probe_leaves_everything_as_it_was():
    model = mlp(norm=True)
    model[4].bias.grad = torch.ones(4)
    model.eval()
    model[4].train()
    before = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    sd.probe(model, next(batches(1)), cross_entropy)
    after = model.state_dict(), torch.get_rng_state()
    assert all(torch.equal(before[0][name], value) for name, value in after[0].items())
    assert torch.equal(before[1], after[1])
    assert torch.equal(model[4].bias.grad, torch.ones(4))
    assert [module.training for module in model] == [False] * 4 + [True]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


class Breaks(nn.Module):
    """A module that takes the logarithm of 0 from a step on."""

    def __init__(self, step):
        super().__init__()
        self.step, self.calls = step, 0

    def forward(self, x):
        self.calls += self.training
        return (x * 0).log() if self.calls >= self.step else x


def failed(path, *, at=5, loss=cross_entropy, factor=1.0, on_nonfinite="record"):
    """Train a network that fails at a step; return its rows and the saved content."""
    model = Net(Breaks(at))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    options = {"loss": loss, "on_nonfinite": on_nonfinite}
    with recorder(model, optimizer, path, **options) as rec:
        for step, (x, y) in enumerate(rec.batches(batches(8)), start=1):
            value = cross_entropy(model, (x * factor if step == at - 1 else x, y))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            rec.step(value)
    saved = path.with_suffix(".nan.pt")
    return read(path)[1], torch.load(saved, weights_only=False) if saved.exists() else None


def test_the_recorder_probes_a_failed_step_while_its_weights_are_finite(tmp_path):
    rows, saved = failed(tmp_path / "run.jsonl")
    row = rows[4]
    assert row["recorder/failed_phase/forward"] == 1
    assert row["recorder/failed_module/middle"] == 1
    assert row["recorder/failed_operation/aten.log"] == 1
    assert (row["recorder/saved_batches"], row["recorder/saved_weights"]) == (3, 1)
    assert not any(name.startswith("recorder/failed") for name in rows[5])
    assert all(torch.isfinite(value).all() for value in saved["weights"].values())
    assert saved["result"]["operation"] == "aten.log"


def test_without_a_loss_function_the_batches_and_the_weights_are_saved(tmp_path):
    rows, saved = failed(tmp_path / "run.jsonl", loss=None)
    assert not any(name.startswith("recorder/failed") for name in rows[4])
    assert saved["result"] is None
    assert {name for name, _ in Net(nn.Identity()).named_parameters()} == {*saved["weights"]}


def test_nothing_is_kept_if_failures_are_ignored(tmp_path):
    rows, saved = failed(tmp_path / "run.jsonl", on_nonfinite="ignore")
    assert saved is None
    assert "recorder/saved_batches" not in rows[4]
    assert rows[4]["recorder/finite"] == 0


def test_a_loss_function_that_fails_leaves_the_batches(tmp_path):
    def broken(model, batch):
        raise RuntimeError("this loss needs a server")

    rows, saved = failed(tmp_path / "run.jsonl", loss=broken)
    # The probe reports the error of the code as the failure of the step.
    assert saved["step"] == 5
    assert len(rows) == 8


@pytest.mark.parametrize(("factor", "saves"), [(300.0, True), (2.0, False)])
def test_the_batch_of_a_gradient_surge_is_saved(factor, saves, tmp_path):
    path, model = tmp_path / "run.jsonl", nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    with recorder(model, optimizer, path) as rec:
        for step, (x, y) in enumerate(batches(60), start=1):
            batch = (x * factor if step == 50 else x, y)
            rec.see_batch(batch)
            value = cross_entropy(model, batch)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            rec.step(value)
    _, rows = read(path)
    assert [row["step"] for row in rows if "recorder/saved_surge" in row] == [50] * saves
    assert path.with_suffix(".spike.pt").exists() is saves


@pytest.mark.parametrize("fused", [False, True])
def test_a_loss_scaler_in_search_of_its_scale_is_not_a_failure(fused, tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    # As in fp16, a scaled gradient above 65504 is infinite.
    for p in model.parameters():
        p.register_hook(lambda g: torch.where(g.abs() > 100, float("inf"), g))
    with recorder(model, optimizer, path) as rec:
        for x, y in rec.batches(batches(20)):
            value = cross_entropy(model, (x, y))
            optimizer.zero_grad()
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
            rec.step(value)
    _, rows = read(path)
    assert 0 < sum(row["skipped"] for row in rows) < 20
    assert not path.with_suffix(".nan.pt").exists()


def test_a_failed_run_leaves_a_readable_log(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.jsonl"
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    rec = sd.Recorder(model, optimizer, path, budget=1000.0)
    for step, (x, y) in enumerate(rec.batches(batches(8)), start=1):
        if step == 5:
            x.mul_(float("inf"))
        loss = cross_entropy(model, (x, y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rec.step(loss)
    rec.close()
    saved = torch.load(tmp_path / "run.nan.pt", weights_only=False)
    assert [entry["step"] for entry in saved["batches"]][-1] == 5
    assert saved["step"] == 5
    (tmp_path / "made_for_probe.py").write_text(
        "from tests.torch.runs import mlp\n"
        "from torch.nn import functional\n"
        "def loss(model, batch):\n"
        "    return functional.cross_entropy(model(batch[0]), batch[1])\n"
        "def make():\n"
        "    return mlp(), loss\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    code = main(["probe", str(tmp_path / "run.nan.pt"), "--factory", "made_for_probe:make"])
    assert code == 1
    assert "step 5: The batch is not finite: 0" in capsys.readouterr().out
    assert main(["probe", "missing.pt", "--factory", "made_for_probe:make"]) == 2
    assert main(["probe", "missing.pt", "--factory", "made_for_probe"]) == 2
