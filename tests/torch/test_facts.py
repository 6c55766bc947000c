"""Facts of graph, optimizer and modes: each where it is planted, and not in its neighbors."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize  # noqa: F401 - imported so that hooks meet it

import stabdiag.torch as sd
from stabdiag.torch.parameters import looks_random
from tests.torch.runs import batches, column, mlp, read, recorder, train


def fact(rows, name):
    """Return the last value of a fact."""
    return column(rows, f"recorder/{name}")[-1]


# The loss.


def losses(kind, model):
    return {
        "cross-entropy": lambda x, y: functional.cross_entropy(model(x), y),
        "softmax-twice": lambda x, y: functional.cross_entropy(model(x).softmax(-1), y),
        "softmax-twice-reshaped": lambda x, y: functional.cross_entropy(
            model(x).softmax(-1).view(4, 4, 4).flatten(0, 1).float(), y
        ),
        "nll-of-softmax": lambda x, y: functional.nll_loss(model(x).softmax(-1), y),
        "sigmoid-twice": lambda x, y: functional.binary_cross_entropy_with_logits(
            model(x).sigmoid(), functional.one_hot(y, 4).float()
        ),
        "log-of-softmax": lambda x, y: (
            -torch.log(model(x).softmax(-1)).gather(1, y[:, None]).mean()
        ),
        "log-of-picked": lambda x, y: (
            -torch.log(model(x).softmax(-1).gather(1, y[:, None]).squeeze(1)).mean()
        ),
        "log-of-softmax-and-epsilon": lambda x, y: (
            -torch.log(model(x).softmax(-1).gather(1, y[:, None]) + 1e-8).mean()
        ),
        "relu-logits": lambda x, y: functional.cross_entropy(model(x).relu(), y),
        "broadcast": lambda x, y: functional.mse_loss(model(x)[:, :1], y.float()),
        "broadcast-targets": lambda x, y: functional.mse_loss(model(x)[:, 0], y.float()[:, None]),
        "mse": lambda x, y: functional.mse_loss(model(x)[:, 0], y.float()),
        "mse-of-classes": lambda x, y: functional.mse_loss(
            model(x), functional.one_hot(y, 4).float()
        ),
        "distillation": lambda x, y: functional.kl_div(
            model(x).log_softmax(-1), torch.full((16, 4), 0.25), reduction="batchmean"
        ),
    }[kind]


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("cross-entropy", {"softmax_twice": 0, "log_of_softmax": 0, "relu_logits": 0}),
        ("softmax-twice", {"softmax_twice": 1}),
        ("softmax-twice-reshaped", {"softmax_twice": 1}),
        ("nll-of-softmax", {"softmax_twice": 1}),
        ("sigmoid-twice", {"softmax_twice": 1}),
        ("log-of-softmax", {"log_of_softmax": 1}),
        ("log-of-picked", {"log_of_softmax": 1}),
        ("log-of-softmax-and-epsilon", {"log_of_softmax": 0}),
        ("relu-logits", {"relu_logits": 1, "softmax_twice": 0}),
        ("broadcast", {"broadcast_loss": 1}),
        ("broadcast-targets", {"broadcast_loss": 1}),
        ("mse", {"broadcast_loss": 0, "log_of_softmax": 0}),
        ("mse-of-classes", {"broadcast_loss": 0}),
        ("distillation", {"softmax_twice": 0}),
    ],
)
def test_the_graph_shows_what_the_loss_computes(kind, holds, tmp_path):
    model = mlp()
    _, rows = train(model, tmp_path / "run.jsonl", steps=4, loss_of=losses(kind, model))
    assert {name: fact(rows, name) for name in holds} == holds


def test_the_softmax_of_attention_is_not_a_second_one(tmp_path):
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)

        def forward(self, x):
            x = x.unflatten(-1, (4, 4))
            return self.head((x @ x.mT).softmax(-1) @ x).mean(1)

    _, rows = train(Attends(), tmp_path / "run.jsonl", steps=3)
    assert fact(rows, "softmax_twice") == 0


def test_the_graph_gives_classes_and_dtype(tmp_path):
    model = mlp()

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return functional.cross_entropy(model(x).float(), y)

    config, _ = train(model, tmp_path / "run.jsonl", steps=3, loss_of=loss_of)
    assert (config["vocab_size"], config["dtype"]) == (4, "bf16")
    assert config["recorder"]["stored_as"] == "float32"


@pytest.mark.parametrize(("size", "values"), [(16, 16), (2, 2)])
def test_a_batch_norm_says_over_how_many_values(size, values, tmp_path):
    model = mlp(norm=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    path = tmp_path / "run.jsonl"
    with recorder(model, optimizer, path) as rec:
        for x, y in batches(4, size=size):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    _, rows = read(path)
    assert fact(rows, "batch_norm_values") == values
    assert fact(rows, "batch_norm_examples") == size


# The gradients.


def loop(path, model, optimizer, *, zero=True, accumulate=1, divide=True, factor=1.0, steps=10):
    """Train with gradient accumulation; report each micro-batch."""
    with recorder(model, optimizer, path) as rec:
        for step, (x, y) in enumerate(batches(steps * accumulate), start=1):
            loss = functional.cross_entropy(model(x), y)
            (factor * loss / accumulate if divide and accumulate > 1 else factor * loss).backward()
            if step % accumulate == 0:
                optimizer.step()
                if zero:
                    optimizer.zero_grad(set_to_none=zero != "in-place")
            rec.step(loss)
    _, rows = read(path)
    assert len(rows) == steps
    return rows


@pytest.mark.parametrize(
    ("options", "stale"),
    [
        ({}, 0),
        ({"zero": "in-place"}, 0),
        ({"accumulate": 4}, 0),
        ({"accumulate": 4, "zero": "in-place"}, 0),
        ({"zero": False}, 1),
        ({"zero": False, "accumulate": 4}, 1),
    ],
)
@pytest.mark.parametrize("foreach", [True, False])
def test_gradients_that_are_not_zeroed(options, stale, foreach, tmp_path):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, foreach=foreach)
    rows = loop(tmp_path / "run.jsonl", model, optimizer, **options)
    assert column(rows, "recorder/stale_gradients")[1:] == [stale] * 9


@pytest.mark.parametrize("zeroes", [False, True])
def test_stale_gradients_are_seen_in_few_rows(zeroes, tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with recorder(model, optimizer, path, rows=8) as rec:
        for x, y in batches(40):
            if zeroes:
                optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            rec.step(loss)
    _, rows = read(path)
    assert column(rows, "recorder/stale_gradients")[1:] == [float(not zeroes)] * 7


def test_gradients_that_another_loss_left_are_zeroed_in_time(tmp_path):
    # As in DCGAN: the generator's loss reaches the discriminator, which zeroes before its own.
    torch.manual_seed(0)
    generator, judge = nn.Linear(8, 16), nn.Linear(16, 1)
    generator_optimizer = torch.optim.Adam(generator.parameters(), 1e-3)
    optimizer = torch.optim.Adam(judge.parameters(), 1e-3)
    path = tmp_path / "run.jsonl"
    with recorder(judge, optimizer, path) as rec:
        for x, _ in batches(10):
            fake = generator(torch.randn(16, 8))
            optimizer.zero_grad()
            loss = functional.softplus(-judge(x)).mean()
            loss.backward()
            functional.softplus(judge(fake.detach())).mean().backward()
            optimizer.step()
            generator_optimizer.zero_grad()
            functional.softplus(-judge(fake)).mean().backward()
            generator_optimizer.step()
            rec.step(loss)
    _, rows = read(path)
    assert column(rows, "recorder/stale_gradients")[1:] == [0] * 9


@pytest.mark.parametrize(
    ("options", "multiple"),
    [
        ({}, 1),
        ({"accumulate": 4}, 1),
        ({"accumulate": 4, "divide": False}, 4),
        ({"factor": 16.0}, 16),
    ],
)
def test_gradients_of_a_multiple_of_the_loss(options, multiple, tmp_path):
    model = mlp(dropout=0.0)
    rows = loop(tmp_path / "run.jsonl", model, torch.optim.SGD(model.parameters(), 1e-3), **options)
    assert column(rows, "recorder/gradient_multiple") == pytest.approx([multiple] * 10, rel=1e-5)
    assert {row["recorder/micro_steps"] for row in rows} == {options.get("accumulate", 1)}


def test_a_loss_that_was_divided_before_it_is_reported_hides_the_multiple(tmp_path):
    model = mlp()
    _, rows = train(
        model,
        tmp_path / "run.jsonl",
        loss_of=lambda x, y: functional.cross_entropy(model(x), y) / 4,
    )
    assert not column(rows, "recorder/gradient_multiple")


def test_a_scaled_loss_is_not_a_multiple(tmp_path):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    path = tmp_path / "run.jsonl"
    with recorder(model, optimizer, path) as rec:
        for x, y in batches(6):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            rec.step(loss)
    _, rows = read(path)
    assert column(rows, "loss_scale") == [1024.0] * 6
    assert column(rows, "recorder/gradient_multiple") == pytest.approx([1.0] * 6)


# The parameters.


class Pretrained(nn.Module):
    """A body that was trained before, and a new head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 4)
        optimizer = torch.optim.Adam(self.parameters(), 1e-2)
        for x, y in batches(400, seed=9):
            optimizer.zero_grad()
            functional.cross_entropy(self(x), y).backward()
            optimizer.step()
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.body(x))


class Random(Pretrained):
    def __init__(self):
        super().__init__()
        for layer in self.body:
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()


class LowRank(nn.Module):
    """A frozen layer that was trained, and an adapter next to it."""

    def __init__(self):
        super().__init__()
        self.base = Pretrained().requires_grad_(False)
        self.down = nn.Linear(16, 4, bias=False)
        self.up = nn.Linear(4, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def test_a_frozen_layer_that_was_never_trained(tmp_path):
    model = Random()
    model.body.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters())
    _, rows = train(model, tmp_path / "run.jsonl", optimizer=optimizer)
    assert fact(rows, "frozen_random") == 16 * 64 + 64 * 64
    assert fact(rows, "frozen_random/body.0") == 16 * 64
    assert fact(rows, "not_in_optimizer") == 0


@pytest.mark.parametrize("make", [Pretrained, LowRank])
def test_a_frozen_layer_that_was_trained_before_is_fine(make, tmp_path):
    model = make()
    if make is Pretrained:
        model.body.requires_grad_(False)
    trainable = [p for p in model.parameters() if p.requires_grad]
    _, rows = train(model, tmp_path / "run.jsonl", optimizer=torch.optim.AdamW(trainable))
    names = ("frozen_random", "not_in_optimizer", "no_gradient", "unmoved_random")
    assert {name: fact(rows, name) for name in names} == dict.fromkeys(names, 0)


def test_a_trainable_layer_that_no_optimizer_has(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model[3].parameters())
    _, rows = train(model, tmp_path / "run.jsonl", optimizer=optimizer)
    assert fact(rows, "not_in_optimizer") == 16 * 32 + 32
    assert fact(rows, "not_in_optimizer/0") == 16 * 32 + 32


def test_a_head_that_was_replaced_after_the_optimizer_was_made(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    model[3] = nn.Linear(32, 4)
    _, rows = train(model, tmp_path / "run.jsonl", optimizer=optimizer)
    assert fact(rows, "not_in_optimizer/3") == 32 * 4 + 4


def test_layers_that_are_added_to_the_optimizer_later_are_in_it(tmp_path):
    # As when layers are thawed one after the other.
    model, path = mlp(), tmp_path / "run.jsonl"
    model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW(model[3].parameters())
    with recorder(model, optimizer, path) as rec:
        for step, (x, y) in enumerate(batches(12)):
            if step == 5:
                model[0].requires_grad_(True)
                optimizer.add_param_group({"params": model[0].parameters()})
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    _, rows = read(path)
    assert {*column(rows, "recorder/not_in_optimizer")} == {0}
    assert fact(rows, "frozen_random") == 0


def test_a_second_optimizer_has_its_parameters(tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    first = torch.optim.AdamW(model[0].parameters())
    second = torch.optim.SGD(model[3].parameters(), 0.01)
    with recorder(model, first, path) as rec:
        for x, y in batches(8):
            loss = functional.cross_entropy(model(x), y)
            first.zero_grad()
            second.zero_grad()
            loss.backward()
            first.step()
            second.step()
            rec.step(loss)
    _, rows = read(path)
    assert fact(rows, "not_in_optimizer") == 0
    assert [row["step"] for row in rows] == [*range(1, 9)]


class Branches(nn.Module):
    def __init__(self, *, detach=False):
        super().__init__()
        torch.manual_seed(0)
        self.detach = detach
        self.body, self.head = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        hidden = self.body(x).relu()
        return self.head(hidden.detach() if self.detach else hidden)


@pytest.mark.parametrize(("detach", "count"), [(True, 16 * 32 + 32), (False, 0)])
def test_a_branch_that_no_gradient_reaches(detach, count, tmp_path):
    _, rows = train(Branches(detach=detach), tmp_path / "run.jsonl")
    assert fact(rows, "no_gradient") == count


def test_tied_weights_and_idle_rows_are_fine(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(64, 32)
            self.head = nn.Linear(32, 64, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x):
            return self.head(self.embedding(x))

    torch.manual_seed(0)
    model, path = Tied(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with recorder(model, optimizer, path) as rec:
        for _ in range(10):
            x = torch.randint(0, 8, (16,))
            loss = functional.cross_entropy(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    _, rows = read(path)
    names = ("not_in_optimizer", "no_gradient", "frozen_random", "unmoved_random")
    assert {name: fact(rows, name) for name in names} == dict.fromkeys(names, 0)


@pytest.mark.parametrize(("gain", "off"), [(1.0, False), (30.0, True), (0.01, True)])
def test_initial_weights_are_recorded(gain, off, tmp_path):
    model = mlp()
    with torch.no_grad():
        model[0].weight.mul_(gain)
    _, rows = train(model, tmp_path / "run.jsonl", steps=2)
    assert (not 0.1 <= rows[0]["recorder/initial_std/0"] <= 4) is off


# The modes.


def evaluate(path, *, model=None, switch=True, copied=False):
    """Train, and evaluate in the mode that is given; return the fact of each evaluation."""
    model = model or mlp(norm=True)
    optimizer = torch.optim.AdamW(model.parameters())
    average = copy.deepcopy(model).eval() if copied else model
    with recorder(model, optimizer, path) as rec:
        if copied:
            average.eval()
        for step, (x, y) in enumerate(batches(9), start=1):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
            if step % 3 == 0:
                if switch and not copied:
                    model.eval()
                with torch.no_grad():
                    eval_loss = functional.cross_entropy(average(x), y)
                model.train()
                rec.evaluated(eval_loss)
    _, rows = read(path)
    return column(rows, "recorder/evaluated_in_training_mode")


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("order", ["evaluation first", "step first"])
def test_the_order_of_reports_does_not_matter(norm, order, tmp_path):
    model, path = mlp(norm=norm), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters())
    with recorder(model, optimizer, path) as rec:
        for x, y in batches(6):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                eval_loss = functional.cross_entropy(model(x), y)
            model.train()
            if order == "step first":
                rec.step(loss)
            rec.evaluated(eval_loss)
            if order != "step first":
                rec.step(loss)
    _, rows = read(path)
    assert {*column(rows, "recorder/evaluated_in_training_mode")} == {0}


def test_evaluation_in_training_mode(tmp_path):
    assert evaluate(tmp_path / "norm.jsonl", switch=False) == [1, 1, 1]
    assert evaluate(tmp_path / "dropout.jsonl", model=mlp(), switch=False) == [1, 1, 1]


def test_evaluation_in_evaluation_mode(tmp_path):
    assert evaluate(tmp_path / "norm.jsonl") == [0, 0, 0]
    assert evaluate(tmp_path / "dropout.jsonl", model=mlp()) == [0, 0, 0]


def test_evaluation_of_an_average_of_the_weights_is_left_open(tmp_path):
    assert evaluate(tmp_path / "norm.jsonl", copied=True) == []
    assert evaluate(tmp_path / "dropout.jsonl", model=mlp(), copied=True) == []


def test_evaluation_of_a_model_without_such_layers_is_left_open(tmp_path):
    assert evaluate(tmp_path / "run.jsonl", model=mlp(dropout=0.0), switch=False) == []


@pytest.mark.parametrize(("back", "left"), [(True, 0), (False, 1)])
def test_training_in_evaluation_mode(back, left, tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters())
    with recorder(model, optimizer, path) as rec:
        for step, (x, y) in enumerate(batches(10)):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
            if step == 4:
                model.eval()
                rec.evaluated(loss)
                model.train(back)
    _, rows = read(path)
    assert fact(rows, "trained_in_evaluation_mode") == left


# The optimizer.


def test_an_optimizer_that_is_replaced_shows_in_its_steps(tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters())
    with recorder(model, optimizer, path) as rec:
        for step, (x, y) in enumerate(batches(8)):
            if step == 5:
                optimizer = torch.optim.AdamW(model.parameters())
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    _, rows = read(path)
    assert column(rows, "recorder/optimizer_steps") == [0, 1, 2, 3, 4, 0, 1, 2]
    assert [row["step"] for row in rows] == [*range(1, 9)]


def test_a_run_that_resumes_goes_on_counting(tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, path, optimizer=optimizer, steps=5)
    _, rows = train(model, path, optimizer=optimizer, steps=3)
    assert [row["step"] for row in rows] == [*range(1, 9)]


def test_unchanged_weights_in_bf16(tmp_path):
    model = mlp().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-6, weight_decay=0)
    _, rows = train(
        model,
        tmp_path / "run.jsonl",
        optimizer=optimizer,
        loss_of=lambda x, y: functional.cross_entropy(model(x.bfloat16()).float(), y),
    )
    assert fact(rows, "unchanged") > 0.9
    model = mlp()
    _, rows = train(
        model, tmp_path / "other.jsonl", optimizer=torch.optim.AdamW(model.parameters(), 1e-6)
    )
    assert fact(rows, "unchanged") < 0.05


def test_the_recorder_reports_what_it_cost(tmp_path):
    model = mlp()
    rec = sd.Recorder(model, torch.optim.AdamW(model.parameters()), tmp_path / "run.jsonl")
    assert rec.cost == 0
    rec.close()


@pytest.mark.parametrize("rows", [1, 4])
def test_steps_that_the_loop_skips_have_rows(rows, tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    skipped = {5, 6, 12}
    with recorder(model, optimizer, tmp_path / "run.jsonl", rows=rows) as rec:
        losses = []
        for step, (x, y) in enumerate(rec.batches(batches(13)), start=1):
            loss = functional.cross_entropy(model(x), y)
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            if step not in skipped:
                optimizer.step()
            rec.log(number=step)
            rec.step(loss)
    _, written = read(tmp_path / "run.jsonl")
    assert [row["step"] for row in written] == [s for s in range(1, 14) if s < 4 or s % rows == 0]
    for row in written:
        assert row["skipped"] == (row["step"] in skipped)
        assert row["loss"] == pytest.approx(losses[row["step"] - 1], rel=1e-6)
        assert row["number"] == row["step"]
        assert row["recorder/micro_steps"] == 1


def test_a_failed_step_that_the_loop_skips_keeps_its_batch(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with recorder(model, optimizer, tmp_path / "run.jsonl") as rec:
        for step, (x, y) in enumerate(rec.batches(batches(8)), start=1):
            loss = functional.cross_entropy(model(x * math.inf if step == 4 else x), y)
            optimizer.zero_grad()
            loss.backward()
            if math.isfinite(loss.item()):
                optimizer.step()
            rec.step(loss)
    saved = torch.load(tmp_path / "run.nan.pt", weights_only=False)
    assert saved["step"] == 4
    assert [entry["step"] for entry in saved["batches"]] == [3, 4]
    assert saved["weights"] is not None


def test_accumulated_gradients_are_not_skipped_steps(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with recorder(model, optimizer, tmp_path / "run.jsonl") as rec:
        for step, (x, y) in enumerate(rec.batches(batches(12)), start=1):
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            if step % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
            rec.step(loss)
    _, written = read(tmp_path / "run.jsonl")
    assert column(written, "skipped") == [0] * 4
    assert column(written, "recorder/micro_steps") == [3] * 4


def test_a_warm_up_in_the_loop_does_not_hide_the_peak_rate(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loss_of(x, y):
        optimizer.param_groups[0]["lr"] = 1e-4
        return functional.cross_entropy(model(x), y)

    config, rows = train(model, tmp_path / "run.jsonl", optimizer=optimizer, loss_of=loss_of)
    assert config["peak_lr"] == 1e-2
    assert column(rows, "lr") == [1e-4] * len(rows)


def drawn(kind, rows, columns):
    """Return a matrix of independent values."""
    torch.manual_seed(0)
    uniform, normal = torch.rand(rows, columns) - 0.5, torch.randn(rows, columns)
    return {"uniform": uniform, "normal": normal, "between": uniform + 0.2 * normal}[kind]


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "is_random"),
    [
        ("uniform", 48, 20, True),
        ("uniform", 256, 128, True),
        ("normal", 64, 64, True),
        ("normal", 256, 128, True),
        # A small trained matrix may look normal; a sum of a draw and of updates is neither.
        ("normal", 48, 20, False),
        ("between", 48, 20, False),
        ("between", 256, 128, False),
    ],
)
def test_a_matrix_looks_random_if_it_was_drawn(kind, rows, columns, is_random):
    assert looks_random(drawn(kind, rows, columns)) is is_random
