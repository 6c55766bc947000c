"""Frameworks, loss scalers, accumulation, compilation, processes: each leaves a log that reads."""

import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

import stabdiag.torch as sd
from stabdiag.torch import patches
from stabdiag.torch.loader import WatchedLoader
from tests.torch.runs import batches, column, mlp, read, recorder, train

HAS_ANALYSIS = importlib.util.find_spec("numpy") and importlib.util.find_spec("tsdownsample")


def diagnosed(path):
    """Return the report on a log, by the command line, without an option."""
    command = [sys.executable, "-m", "stabdiag", "diagnose", str(path), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def check(path, steps):
    """Check that a log has a row for each step, and is diagnosed without flags."""
    config, rows = read(path)
    losses = [row for row in rows if "loss" in row]
    assert [row["step"] for row in losses] == [*range(1, steps + 1)]
    assert column(rows, "grad_norm")
    assert any(name.startswith("grad_norm/") for row in rows for name in row)
    if HAS_ANALYSIS:
        report = diagnosed(path)
        assert not [finding for finding in report["findings"] if finding["severity"] == "error"]
        assert report["history"]["manifest"]["dtype"] if "manifest" in report["history"] else True
    return config, rows


@pytest.mark.parametrize("compiled", [False, True])
def test_the_hugging_face_callback_logs_each_step(compiled, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    text = torch.arange(4000) % 50
    data = [{"input_ids": text[i : i + 16], "labels": text[i : i + 16]} for i in range(400)]
    config = transformers.GPT2Config(
        vocab_size=50,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=16,
        bos_token_id=0,
        eos_token_id=0,
    )
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        max_steps=24,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        warmup_steps=5,
        eval_strategy="steps",
        eval_steps=12,
        save_steps=12,
        use_cpu=True,
        report_to="none",
        torch_compile=compiled,
        torch_compile_backend="eager" if compiled else None,
        disable_tqdm=True,
    )
    path = tmp_path / "run.jsonl"
    trainer = transformers.Trainer(
        transformers.GPT2LMHeadModel(config),
        arguments,
        train_dataset=data,
        eval_dataset=data[:8],
        callbacks=[sd.HFCallback(path, budget=1000.0)],
    )
    trainer.train()
    config, rows = check(path, 24)
    assert (config["optimizer"], config["total_steps"], config["warmup_steps"]) == ("AdamW", 24, 5)
    assert (config["vocab_size"], config["checkpoint_every"], config["grad_clip"]) == (50, 12, 1.0)
    assert len(column(rows, "eval_loss")) == 2
    assert {*column(rows, "recorder/evaluated_in_training_mode")} == {0}
    assert len({*column(rows, "batch_id")}) > 20
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert not logged or column(rows, "loss")[0] == pytest.approx(3.9, abs=0.3)
    assert not patches._listeners


@pytest.mark.parametrize("kind", [torch.utils.data.DataLoader, type("Own", (list,), {})])
def test_a_watched_loader_reports_its_batches_alone(kind):
    seen = []
    observer = SimpleNamespace(see_batch=lambda batch, seconds: seen.append(batch))
    loader, other = kind([1, 2, 3]), kind([4])
    before = kind.__iter__
    watched = WatchedLoader(loader, observer)
    assert [*map(int, loader)] == [1, 2, 3]
    assert [*map(int, other)] == [4]
    assert [*map(int, seen)] == [1, 2, 3]
    watched.close()
    assert kind.__iter__ is before
    assert [*map(int, loader)] == [1, 2, 3]
    assert len(seen) == 3


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_lightning_callback_logs_each_step(precision, tmp_path):
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = mlp(norm=True)

        def training_step(self, batch, index):
            return functional.cross_entropy(self.net(batch[0]).float(), batch[1])

        def validation_step(self, batch, index):
            self.log("val_loss", functional.cross_entropy(self.net(batch[0]).float(), batch[1]))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    path = tmp_path / "run.jsonl"
    trainer = lightning.Trainer(
        max_steps=24,
        val_check_interval=12,
        check_val_every_n_epoch=None,
        accumulate_grad_batches=2,
        gradient_clip_val=0.5,
        precision=precision,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[sd.LightningCallback(path, budget=1000.0)],
    )
    loader = torch.utils.data.DataLoader([(x, y) for x, y in batches(48)], batch_size=None)
    trainer.fit(Model(), loader, loader)
    config, rows = check(path, 24)
    assert (config["optimizer"], config["grad_clip"]) == ("AdamW", 0.5)
    assert config["dtype"] == ("bf16" if precision == "bf16-mixed" else "fp32")
    assert {*column(rows, "recorder/evaluated_in_training_mode")} == {0}
    assert {*column(rows, "recorder/stale_gradients")} == {0}
    assert column(rows, "batch_id")
    assert column(rows, "loss")[0] == pytest.approx(1.4, abs=0.3)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_recorder_works_with_accelerate(accumulate, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    plain = mlp()
    optimizer = torch.optim.AdamW(plain.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(
        [(x, y) for x, y in batches(24 * accumulate)], batch_size=None
    )
    model, optimizer, loader = accelerator.prepare(plain, optimizer, loader)
    path = tmp_path / "run.jsonl"
    rec = recorder(model, optimizer, path, accelerator=accelerator)
    for x, y in rec.batches(loader):
        with accelerator.accumulate(model):
            loss = functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        rec.step(loss)
    rec.close()
    _, rows = check(path, 24)
    assert column(rows, "recorder/gradient_multiple") == pytest.approx([1.0] * 24, rel=1e-4)


@pytest.mark.parametrize("fused", [False, True])
def test_a_loss_scaler_that_skips(fused, tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    path = tmp_path / "run.jsonl"
    with recorder(model, optimizer, path) as rec:
        for step, (x, y) in enumerate(rec.batches(batches(24)), start=1):
            loss = functional.cross_entropy(model(x), y)
            if step == 10:
                loss = loss * torch.tensor(float("inf"))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            rec.step(loss)
    _, rows = read(path)
    assert [row["step"] for row in rows] == [*range(1, 25)]
    assert [row["step"] for row in rows if row.get("skipped")] == [10]
    assert column(rows, "loss_scale")[:11] == [2.0**10] * 10 + [2.0**9]
    # The norms belong to the unscaled loss.
    assert max(row["grad_norm"] for row in rows[:9]) < 20


@pytest.mark.parametrize("every", [1, 8])
def test_a_compiled_model_is_not_compiled_again(every, tmp_path):
    counts = []

    def backend(graph, inputs):
        counts.append(1)
        return graph.forward

    plain = mlp(dropout=0.0)
    model = torch.compile(plain, backend=backend)
    train(model, tmp_path / "run.jsonl", steps=24, rows=every)
    if every == 1:
        check(tmp_path / "run.jsonl", 24)
    assert len(counts) == 1


@pytest.mark.parametrize("fused", [False, True])
def test_a_loss_scaler_that_skips_between_rows(fused, tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    losses = []
    with recorder(model, optimizer, path, rows=8) as rec:
        for step, (x, y) in enumerate(rec.batches(batches(24)), start=1):
            loss = functional.cross_entropy(model(x), y)
            losses.append(loss.item())
            if step in (10, 13):
                loss = loss * torch.tensor(float("inf"))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            rec.step(loss)
    _, rows = read(path)
    assert [row["step"] for row in rows] == [1, 2, 3, 8, 16, 24]
    assert column(rows, "loss_scale")[-2:] == [2.0**8] * 2
    expected = [losses[row["step"] - 1] for row in rows]
    assert column(rows, "loss") == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of PyTorch itself
def test_a_compiled_optimizer_step(tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with recorder(model, optimizer, path) as rec:
        step = torch.compile(optimizer.step, backend="eager")
        for x, y in batches(12):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            step()
            rec.step(loss)
    _, rows = read(path)
    assert len(column(rows, "loss")) == 12
    assert column(rows, "skipped") == [0] * 12


def test_a_loss_that_is_reported_before_the_step(tmp_path):
    model, path = mlp(), tmp_path / "run.jsonl"
    optimizer = torch.optim.AdamW(model.parameters())
    reported = []
    with recorder(model, optimizer, path) as rec:
        for x, y in batches(24):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            rec.step(loss)
            reported.append(loss.item())
            optimizer.step()
    _, rows = check(path, 24)
    assert column(rows, "loss") == pytest.approx(reported, rel=1e-6)


def test_two_recorders_of_one_run(tmp_path):
    torch.manual_seed(0)
    models = [nn.Linear(16, 4), nn.Linear(16, 4)]
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    optimizers = [torch.optim.AdamW(model.parameters()) for model in models]
    recorders = [recorder(*each) for each in zip(models, optimizers, paths, strict=True)]
    for x, y in batches(24):
        for model, optimizer, rec in zip(models, optimizers, recorders, strict=True):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    for rec, path in zip(recorders, paths, strict=True):
        rec.close()
        check(path, 24)


def test_a_step_that_is_not_finite_can_be_skipped_without_a_scaler(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with recorder(model, optimizer, tmp_path / "run.jsonl", on_nonfinite="skip") as rec:
        for step, (x, y) in enumerate(rec.batches(batches(10)), start=1):
            loss = functional.cross_entropy(model(x), y)
            if step == 5:
                loss = loss * float("nan")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    _, rows = read(tmp_path / "run.jsonl")
    assert [row["step"] for row in rows if row["skipped"]] == [5]


def test_a_run_can_be_stopped(tmp_path):
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    steps = 0
    with recorder(model, optimizer, tmp_path / "run.jsonl", on_nonfinite="stop") as rec:
        for x, y in rec.batches(batches(10)):
            steps += 1
            loss = functional.cross_entropy(model(x), y) * (float("nan") if steps == 4 else 1)
            loss.backward()
            optimizer.step()
            rec.step(loss)
    assert steps == 4


RANKS = """
import os, sys, torch, pathlib
import torch.distributed as dist
from torch import nn
from torch.nn import functional
sys.path.insert(0, {root!r})
from tests.torch.runs import *
rank, sharded, folder = int(sys.argv[1]), sys.argv[2] == "fsdp", pathlib.Path(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{{folder}}/store", rank=rank, world_size=2)
model = mlp(dropout=0.0)
if sharded:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(model, mesh=mesh)
else:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
with recorder(model, optimizer, folder / "run.jsonl") as rec:
    for x, y in rec.batches(batches(12)):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rec.step(loss)
dist.barrier()
dist.destroy_process_group()
# The threads of gloo sometimes abort an interpreter that ends as usual.
os._exit(0)
"""


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_each_of_two_processes_writes_its_log(kind, tmp_path):
    root = str(__import__("pathlib").Path(__file__).parents[2])
    code = RANKS.format(root=root)
    processes = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, str(rank), kind, tmp_path])
        for rank in range(2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    _, first = read(tmp_path / "run.jsonl")
    _, second = read(tmp_path / "run.rank1.jsonl")
    assert len(first) == len(second) == 12
    model = mlp(dropout=0.0)
    _, alone = train(
        model, tmp_path / "alone.jsonl", optimizer=torch.optim.AdamW(model.parameters(), 1e-3)
    )
    rows = sd.merge_ranks([tmp_path / "run.jsonl", tmp_path / "run.rank1.jsonl"])
    for name in ("grad_norm/0", "grad_norm/3", "weight_norm/0", "grad_norm"):
        norms = column(first if kind == "ddp" else rows, name)
        assert norms == pytest.approx(column(alone, name), rel=1e-6), name
    if HAS_ANALYSIS:
        report = diagnosed(tmp_path / "run.jsonl")
        slugs = {finding["slug"] for finding in report["findings"]}
        # Both processes of this job draw the same batches.
        assert ("ranks-share-batches" in slugs) is (kind == "ddp")
        assert "ranks-differ" not in slugs
