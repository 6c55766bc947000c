"""Training does not notice the recorder."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import _global_optimizer_post_hooks

import stabdiag.torch as sd
from stabdiag.torch import patches
from tests.torch.runs import batches, column, mlp, read, recorder, train

STEPS = 50


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.body(x.unflatten(-1, (1, 4, 4))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.LSTM(4, 16, batch_first=True, num_layers=2, dropout=0.2)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.body(x.unflatten(-1, (4, 4)))[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.body(self.embed(x.unflatten(-1, (4, 4)))).mean(1))


def classify(model, path, *, autocast=None, resume=False, heldout=False, rows=1):
    """Train a classifier and return its state; with a path, with a recorder."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options = {"rows": rows}
    if heldout:
        options |= {
            "heldout": next(batches(1, size=32, seed=5)),
            "loss": lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
            "probe_every": 4,
        }
    rec = recorder(model, optimizer, path, every=3, **options) if path else None
    for step, (x, y) in enumerate(rec.batches(batches(STEPS)) if rec else batches(STEPS)):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast is not None):
            loss = functional.cross_entropy(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rec:
            rec.step(loss)
        if resume and step == STEPS // 2:
            saved = optimizer.state_dict()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            optimizer.load_state_dict(saved)
            if rec:
                rec.close()
                rec = recorder(model, optimizer, path, every=3)
        if step % 20 == 19:
            model.eval()
            with torch.no_grad():
                eval_loss = functional.cross_entropy(model(x).float(), y)
            model.train()
            if rec:
                rec.evaluated(eval_loss)
    if rec:
        rec.close()
    return state_of(model, optimizer)


def gan(_, path):
    """Train a generator and a discriminator, each by an optimizer of its own."""
    torch.manual_seed(0)
    generator, judge = nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1))
    generator_optimizer = torch.optim.Adam(generator.parameters(), 1e-3)
    optimizer = torch.optim.Adam(judge.parameters(), 1e-3)
    both = nn.ModuleList([generator, judge])
    rec = recorder(both, [generator_optimizer, optimizer], path, every=3) if path else None
    for x, _ in batches(STEPS):
        fake = generator(torch.randn(16, 8))
        optimizer.zero_grad()
        real = judge(x)
        loss = functional.softplus(-real).mean() + functional.softplus(judge(fake.detach())).mean()
        loss.backward()
        optimizer.step()
        generator_optimizer.zero_grad()
        loss = functional.softplus(-judge(fake)).mean()
        loss.backward()
        generator_optimizer.step()
        if rec:
            rec.step(loss)
    if rec:
        rec.close()
    return state_of(both, generator_optimizer, optimizer)


def state_of(model, *optimizers):
    """Return every tensor of a run, and the state of the random numbers."""
    tensors = [value.clone() for value in model.state_dict().values()]
    for optimizer in optimizers:
        for state in optimizer.state_dict()["state"].values():
            tensors += [value.clone() for value in state.values()]
    return [*tensors, torch.get_rng_state()]


TASKS = {
    "mlp": (mlp, classify, {}),
    "cnn": (Conv, classify, {}),
    "transformer-amp": (Attention, classify, {"autocast": "bf16"}),
    "rnn": (Recurrent, classify, {}),
    "gan": (lambda: None, gan, {}),
    "resumed": (mlp, classify, {"resume": True}),
    "mlp-held": (lambda: mlp(norm=True), classify, {"heldout": True}),
    "cnn-held": (Conv, classify, {"heldout": True}),
    "mlp-few-rows": (mlp, classify, {"rows": 8}),
    "transformer-few-rows": (Attention, classify, {"rows": 16, "autocast": "bf16"}),
    "cnn-few-rows": (Conv, classify, {"rows": 8, "heldout": True}),
}


@pytest.mark.parametrize("task", TASKS)
def test_training_is_identical_to_the_last_bit(task, tmp_path):
    make, run, options = TASKS[task]
    states = []
    for path in (None, tmp_path / "run.jsonl"):
        torch.manual_seed(1)
        states.append(run(make(), path, **options))
    assert len(states[0]) == len(states[1])
    assert all(torch.equal(first, second) for first, second in zip(*states, strict=True))
    _, rows = read(tmp_path / "run.jsonl")
    steps = [row["step"] for row in rows if "loss" in row]
    every = options.get("rows", 1)
    assert steps == [n for n in range(1, STEPS + 1) if n <= 3 or n % every == 0]


@pytest.mark.parametrize("reports_first", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_few_rows_have_their_own_steps_and_losses(reports_first, micro_batches, tmp_path):
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    with recorder(model, optimizer, path, rows=8) as rec:
        for number, (x, y) in enumerate(batches(40 * micro_batches), start=1):
            loss = functional.cross_entropy(model(x), y) / micro_batches
            loss.backward()
            losses.append(loss.item())
            is_last = number % micro_batches == 0
            if reports_first:
                rec.step(loss)
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
            if not reports_first:
                rec.step(loss)
    _, rows = read(path)
    assert [row["step"] for row in rows] == [1, 2, 3, 8, 16, 24, 32, 40]
    for row in rows:
        own = losses[(row["step"] - 1) * micro_batches : row["step"] * micro_batches]
        assert row["loss"] == pytest.approx(sum(own) / micro_batches)
        assert row["recorder/micro_steps"] == micro_batches


def test_the_time_of_a_step_does_not_depend_on_the_cadence(tmp_path):
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    with recorder(model, optimizer, path, rows=8) as rec:
        for step, (x, y) in enumerate(batches(40), start=1):
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            # Something that takes long, such as an evaluation, belongs to its own step.
            time.sleep(0.5 if step % 8 == 4 else 0.02)
            rec.step(loss)
    _, rows = read(path)
    times = [row["step_time"] for row in rows if "step_time" in row]
    assert all(0.02 <= seconds < 0.3 for seconds in times)


def test_nothing_but_the_count_of_steps_is_hooked_between_rows(tmp_path):
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    hooked = []
    with recorder(model, optimizer, path, rows=8) as rec:
        for x, y in batches(24):
            hooked.append(any(p._backward_hooks for p in model.parameters()))
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    assert [step for step, is_hooked in enumerate(hooked, start=1) if is_hooked] == [
        1, 2, 3, 7, 8, 15, 16, 23, 24,
    ]  # fmt: skip


def is_hooked():
    """Whether PyTorch reports a backward pass, or a step of an optimizer."""
    is_wrapped = hasattr(torch.autograd.backward, "is_stabdiag_wrapper")
    hooks = _global_optimizer_post_hooks
    assert is_wrapped == bool(hooks)
    return is_wrapped


@pytest.mark.parametrize(
    ("micro_batches", "reports_first", "sleeps"),
    [(1, False, True), (3, False, True), (1, True, False)],
)
def test_nothing_is_hooked_between_rows_of_a_steady_loop(
    micro_batches, reports_first, sleeps, tmp_path
):
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    hooked, step = [], 1
    with recorder(model, optimizer, path, rows=16) as rec:
        loader = rec.batches(batches(64 * micro_batches))
        for number, (x, y) in enumerate(loader, start=1):
            hooked += [step] if is_hooked() else []
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            if reports_first:
                rec.step(loss)
            if number % micro_batches == 0:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
            if not reports_first:
                rec.step(loss)
            if number % (10 * micro_batches) == 0:
                rec.evaluated(1.0)
        assert _global_optimizer_post_hooks
    assert not is_hooked()
    _, rows = read(path)
    assert column([row for row in rows if "eval_loss" in row], "step") == [10, 20, 30, 40, 50, 60]
    for row in rows:
        if "loss" in row:
            assert row["recorder/optimizer_steps"] == row["step"] - 1
            assert row["recorder/micro_steps"] == micro_batches
    # Four steps show the rhythm; the two steps before each row are followed, and the one after it.
    followed = {1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64}
    assert set(hooked) == (followed if sleeps else set(range(1, 65)))


def test_a_loop_whose_rhythm_changes_is_followed_again(tmp_path):
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    with recorder(model, optimizer, path, rows=16) as rec:
        for step in range(1, 101):
            micro_batches = 1 if step < 20 else 4
            for number, (x, y) in enumerate(batches(micro_batches, seed=step), start=1):
                loss = functional.cross_entropy(model(x), y)
                loss.backward()
                if number == micro_batches:
                    optimizer.step()
                    optimizer.zero_grad()
                rec.step(loss)
    _, rows = read(path)
    assert len(rows) >= 7
    assert all(row["recorder/optimizer_steps"] == row["step"] - 1 for row in rows)


def test_a_loop_that_numbers_its_steps_sleeps_until_the_next_row(tmp_path):
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    hooked = []
    with recorder(model, optimizer, path, rows=16) as rec:
        # The loop counts from 1 again in its second epoch.
        for step, (x, y) in zip([*range(1, 41)] * 2, batches(80), strict=True):
            hooked.append(is_hooked())
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss, step=step)
    _, rows = read(path)
    assert sum(hooked) < 40
    assert column(rows, "step")[3:5] == [16, 32]
    assert column(rows, "step")[-2:] == [16, 32]


@pytest.mark.parametrize("evaluates_in_training_mode", [False, True])
def test_an_evaluation_between_rows_sees_the_modes(evaluates_in_training_mode, tmp_path):
    path, model = tmp_path / "run.jsonl", mlp(norm=True)
    optimizer = torch.optim.AdamW(model.parameters())
    with recorder(model, optimizer, path, rows=16) as rec:
        for step, (x, y) in enumerate(batches(40), start=1):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
            if step % 10 == 0:
                model.train(evaluates_in_training_mode)
                with torch.no_grad():
                    rec.evaluated(functional.cross_entropy(model(x), y))
                model.train()
    _, rows = read(path)
    names = "recorder/evaluated_in_training_mode"
    modes = [row[names] for row in rows if names in row]
    assert len(modes) == 4
    assert all(modes) if evaluates_in_training_mode else not any(modes)


def test_pytorch_is_as_it_was_after_the_last_recorder(tmp_path):
    before = (torch.autograd.backward, nn.Module.train, nn.utils.clip_grad_norm_)
    model = mlp()
    with sd.Recorder(model, torch.optim.SGD(model.parameters(), 0.1), tmp_path / "a.jsonl"):
        assert torch.autograd.backward is not before[0]
    assert (torch.autograd.backward, nn.Module.train, nn.utils.clip_grad_norm_) == before
    assert not patches._listeners
    assert not model[0].bias._backward_hooks


@pytest.mark.parametrize(
    "method",
    [
        "recorder.Recorder._take_loss",
        "step_record.StepMeasurement",
        "rows.RowWriter._write_step",
        "losses.StepLosses._inspect",
    ],
)
def test_an_error_switches_the_recorder_off(method, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("a defect")

    monkeypatch.setattr(f"stabdiag.torch.{method}", fail)
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    rec = recorder(model, optimizer, path)
    for x, y in rec.batches(batches(5)):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        rec.step(loss)
        rec.evaluated(loss)
    rec.close()
    errors = [line for line in path.read_text().splitlines() if "recorder_error" in line]
    assert [json.loads(line) for line in errors] == [{"recorder_error": "RuntimeError: a defect"}]
    assert "training goes on" in capsys.readouterr().err
    assert not patches._listeners


def test_a_folder_that_cannot_be_written_costs_the_log_alone(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    rec = train_on(blocked / "run.jsonl")
    assert rec.should_stop is False
    assert "training goes on" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_the_log_alone(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    path.symlink_to("/dev/full")
    train_on(path)
    assert "No space left" in capsys.readouterr().err


def test_a_closed_file_costs_the_log_alone(tmp_path, capsys):
    train_on(tmp_path / "run.jsonl", spoil=lambda rec: rec._file.close())
    assert "training goes on" in capsys.readouterr().err


def train_on(path, spoil=None):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    rec = recorder(model, optimizer, path)
    for step, (x, y) in enumerate(rec.batches(batches(5))):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        rec.step(loss)
        if spoil and step == 2:
            spoil(rec)
    assert step == 4
    rec.close()
    return rec


ENDLESS = """
import torch, itertools
from tests.torch.runs import *
model = mlp()
optimizer = torch.optim.AdamW(model.parameters())
rec = recorder(model, optimizer, __import__("pathlib").Path(r"{path}"))
for step in itertools.count(1):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    rec.step(loss)
    print(step, flush=True)
"""


def test_a_killed_run_loses_at_most_the_last_row(tmp_path):
    path = tmp_path / "run.jsonl"
    code = ENDLESS.format(path=path)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        while int(process.stdout.readline()) < 20:
            pass
        process.send_signal(signal.SIGKILL)
        done = [*process.stdout]
    printed = int(done[-1]) if done else 20
    _, rows = read(path)
    assert [row["step"] for row in rows] == [*range(1, rows[-1]["step"] + 1)]
    assert rows[-1]["step"] >= printed - 1


def test_a_torn_line_is_ended_before_the_next_segment(tmp_path):
    path = tmp_path / "run.jsonl"
    model = mlp()
    train(model, path, steps=4)
    with path.open("a") as file:
        file.write('{"step": 5, "lo')
    train_on(path)
    lines = path.read_text().splitlines()
    assert lines[4] == '{"step": 5, "lo'
    assert json.loads(lines[5])["config"]["recorder"]["segment"] == 2
    assert len(lines) == 4 + 1 + 5


def test_a_short_run_gets_all_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("stabdiag.torch.cost._FREE_SECONDS", 60.0)  # a loaded machine is slow
    path, model = tmp_path / "run.jsonl", mlp()
    train(model, path, steps=100, budget=0.001)
    _, rows = read(path)
    assert len(rows) == 100


def test_the_cadence_widens_until_the_cost_is_within_the_budget(tmp_path, monkeypatch):
    monkeypatch.setattr("stabdiag.torch.cost._FREE_SECONDS", 0.0)
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    rec = sd.Recorder(model, optimizer, path, budget=0.01)
    for x, y in batches(400):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rec.step(loss)
    rec.close()
    _, rows = read(path)
    assert len(rows) < 200


def test_the_cadence_stays_where_steps_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr("stabdiag.torch.cost._FREE_SECONDS", 0.0)
    path, model = tmp_path / "run.jsonl", mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    rec = sd.Recorder(model, optimizer, path, budget=0.2)
    for x, y in batches(60):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
        rec.step(loss)
    rec.close()
    _, rows = read(path)
    assert len(rows) == 60


def test_an_optimizer_in_the_backward_pass_is_refused(tmp_path, capsys):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    before = model[0].weight.detach().clone()
    rec = recorder(model, [*optimizers.values()], path)
    for x, y in rec.batches(batches(3)):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        rec.step(loss)
    rec.close()
    assert not torch.equal(model[0].weight, before)
    (line,) = path.read_text().splitlines()
    assert "inside the backward pass" in json.loads(line)["recorder_error"]
    assert "training goes on" in capsys.readouterr().err


def test_the_optimizer_of_deepspeed_is_refused(tmp_path, capsys):
    kind = type("DeepSpeedZeroOptimizer", (torch.optim.SGD,), {"__module__": "deepspeed.runtime"})
    model, path = mlp(), tmp_path / "run.jsonl"
    rec = recorder(model, kind(model.parameters(), 0.1), path)
    rec.step(torch.tensor(1.0))
    rec.close()
    assert "DeepSpeed" in json.loads(path.read_text())["recorder_error"]
    assert "DeepSpeed" in capsys.readouterr().err


def test_a_closure_may_run_the_backward_pass_in_the_step(tmp_path):
    model, path = mlp(dropout=0.0), tmp_path / "run.jsonl"
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with recorder(model, optimizer, path) as rec:
        for x, y in batches(5):

            def closure(x=x, y=y):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(x), y)
                loss.backward()
                return loss

            rec.step(optimizer.step(closure))
    _, rows = read(path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
