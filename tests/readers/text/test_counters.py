"""Steps in logs of trainers without a grammar of their own."""

import json

import numpy as np
import pytest

import stabdiag
from stabdiag import read
from stabdiag.readers.text.lines.counters import line_counters

N, PER_EPOCH = 120, 60


def loss_at(n):
    return 2 + 2 * 0.98**n


def at(n):
    """Return the fields of a template: counters from 0 and 1, of the run and of an epoch."""
    return {
        "n": n,
        "n1": n + 1,
        "step": n * 1000,
        "of": N,
        "epoch": n // PER_EPOCH,
        "epoch1": n // PER_EPOCH + 1,
        "batch": n % PER_EPOCH * 10,
        "batch1": n % PER_EPOCH * 10 + 10,
        "percent": n % PER_EPOCH * 100 // PER_EPOCH,
        "loss": loss_at(n),
        "val": loss_at(n) + 0.1,
        "lr": 1e-4 * (1 - n / 500),
        "lr_1000": 0.1 * (1 - n / 500),
        "grad": 0.5 + n % 7 / 10,
    }


# Per record one or more lines, the first and last step, and the other roles.
TEMPLATES = {
    "PyTorch's MNIST": (
        "Train Epoch: {epoch1} [{batch}/600 ({percent}%)]\tLoss: {loss:.6f}\n",
        (0, 1190),
        {"epoch"},
    ),
    "PyTorch's ImageNet": (
        "Epoch: [{epoch}][{batch:4d}/600]\tTime  0.51 ( 0.61)\tLoss {loss:.4e} ({loss:.4e})\t"
        "Acc@1   1.56 (  1.10)\n",
        (0, 1190),
        {"epoch", "step_time", "accuracy"},
    ),
    "PyTorch's CIFAR": ("[{epoch1}, {batch1:5d}] loss: {loss:.3f}\n", (10, 1200), {"epoch"}),
    "ESPnet": (
        "[host:0/1] 2026-01-02 03:04:05,123 (trainer:737) INFO: {epoch1}epoch:train:"
        "{batch}-{batch1}batch: iter_time=0.012, loss_ctc=1.5, acc=0.5, loss={loss:.3f}, "
        "grad_norm={grad:.3f}, clip=100.000, loss_scale=1.000e+00, optim0_lr0={lr:.3e}\n",
        (10, 1200),
        {"accuracy", "clock", "epoch", "grad_norm", "loss_scale", "lr", "step_time"},
    ),
    "PyTorch's DCGAN": (
        "[{epoch}/5][{batch}/600]\tLoss_D: {loss:.4f}\tLoss_G: 2.1\tD(x): 0.5\tD(G(z)): 0.4 / 0.3"
        "\n",
        (0, 1190),
        {"epoch"},
    ),
    "thousands": ("Step {step:,}/1,190 | loss={loss:.4f} | lr={lr:.2e}\n", (0, 119_000), {"lr"}),
    "PyTorch's quick start": ("loss: {loss:>7f}  [{batch:>5d}/  600]\n", (0, 1190), set()),
    "timm": (
        "Train: {epoch} [{batch:4d}/600 ({percent:3d}%)]  Loss: {loss:#.4g} ({loss:#.3g})  "
        "Time: 0.512s,  850.10/s  (0.512s,  850.10/s)  LR: {lr:.3e}  Data: 0.010 (0.012)\n",
        (0, 1190),
        {"epoch", "lr", "step_time"},
    ),
    "DINO": (
        "Epoch: [{epoch}/100]  [{batch:4d}/600]  eta: 0:12:34  loss: {loss:.6f} ({loss:.6f})  "
        "lr: {lr:.6f} ({lr:.6f})  time: 0.51  data: 0.0001  max mem: 15700\n",
        (0, 1190),
        {"epoch", "lr", "step_time", "memory"},
    ),
    "OpenCLIP": (
        "2026-01-02,03:04:05 | INFO | Train Epoch: {epoch} [{batch:>9d}/600 ({percent}%)] "
        "Data (t): 0.012 Batch (t): 0.512, 500.1/s LR: {lr:5f} Logit Scale: 14.286 "
        "Loss: {loss:.5g} ({loss:.5g})\n",
        (0, 1190),
        {"clock", "epoch", "lr"},
    ),
    "MMEngine": (
        "2026/01/02 03:04:05 - mmengine - INFO - Epoch(train)  [{epoch1}][{batch1:4d}/600]  "
        "lr: {lr:.4e}  eta: 1 day, 2:03:04  time: 0.5123  data_time: 0.0101  memory: 3000  "
        "loss: {loss:.4f}  loss_cls: 1.2\n",
        (10, 1200),
        {"clock", "epoch", "lr", "step_time", "data_time", "memory"},
    ),
    "MMEngine by iterations": (
        "01/02 03:04:05 - mmengine - INFO - Iter(train) [{n1:6d}/160000]  lr: {lr:.4e}  "
        "eta: 12:03:04  time: 0.2571  loss: {loss:.4f}\n",
        (1, 120),
        {"lr", "step_time"},
    ),
    "MMCV": (
        "2026-01-02 03:04:05,123 - mmdet - INFO - Epoch [{epoch1}][{batch1}/600]\tlr: {lr:.3e}, "
        "eta: 12:03:04, time: 0.257, loss_cls: 1.1, loss: {loss:.4f}, grad_norm: {grad}\n",
        (10, 1200),
        {"clock", "epoch", "lr", "grad_norm", "step_time"},
    ),
    "tqdm": (
        "Epoch {epoch1}:  {percent}%|▏    | {batch1}/600 [00:10<05:00,  1.00it/s, "
        "loss={loss:.3g}]\r",
        (10, 1200),
        {"epoch"},
    ),
    "diffusers": (
        "Steps:   3%|▏    | {n1}/120 [00:10<05:00,  1.00s/it, lr=1e-5, step_loss={loss:.3g}]\r",
        (1, 120),
        {"lr"},
    ),
    "torchtune": (
        "1|{n1}|Loss: {loss}:   3%|▏   | {n1}/120 [00:10<05:00,  1.00it/s]\r",
        (1, 120),
        set(),
    ),
    "Levanter": (
        "Progress on:train {n1}.0it/120.0it rate:1.2it/s remaining:04:00 elapsed:00:05 "
        "postfix:loss={loss:.3f}\r",
        (1, 120),
        set(),
    ),
    "Keras, three lines an epoch": (
        "Epoch {n1}/120\n"
        "\x1b[1m600/600\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m5s\x1b[0m 3ms/step - "
        "accuracy: 0.91 - loss: {loss:.4f} - val_accuracy: 0.85 - val_loss: {val:.4f}\n",
        (1, 120),
        {"accuracy", "eval_accuracy", "eval_loss"},
    ),
    "losses on two lines": (
        "Epoch: {n1:02} | Epoch Time: 0m 12s\n\tTrain Loss: {loss:.3f} | Train PPL: 12.345\n"
        "\t Val. Loss: {val:.3f} |  Val. PPL: 13.4\n",
        (1, 120),
        {"eval_loss", "score/PPL", "score/val PPL"},
    ),
    "nnU-Net": (
        "2026-01-02 03:04:05.123: \n2026-01-02 03:04:05.123: Epoch {n} \n"
        "2026-01-02 03:04:05.123: Current learning rate: {lr:.5f} \n"
        "2026-01-02 03:05:05.123: train_loss {loss:.4f} \n"
        "2026-01-02 03:05:05.123: val_loss {val:.4f} \n"
        "2026-01-02 03:05:06.123: Epoch time: 60.12 s \n",
        (0, 119),
        {"clock", "eval_loss", "lr"},
    ),
    "TensorFlow's object detection": (
        "INFO:tensorflow:Step {n1} per-step time 0.512s\n"
        "INFO:tensorflow:{{'Loss/localization_loss': 0.5,\n 'Loss/total_loss': {loss},\n"
        " 'learning_rate': {lr}}}\n",
        (1, 120),
        {"lr", "step_time"},
    ),
    "fms-fsdp": (
        "step: {n1}\nloss: {loss}\nLR: {lr}\ntokens seen: 8192\ngradient norm: {grad}\n"
        "reserved memory: 40123456\ncurrent step time: 1.2\n",
        (1, 120),
        {"grad_norm", "lr"},
    ),
    "the splits in brackets of ESPnet": (
        "[host:0/1] 2026-01-02 03:04:05,123 (trainer:343) INFO: {n1}epoch results: [train] "
        "iter_time=0.012, loss_ctc=1.5, loss={loss}, grad_norm={grad}, optim0_lr0={lr:.3e}, "
        "train_time=1.5, time=1 minute and 2.1 seconds, total_count=600, [valid] loss_ctc=2.5, "
        "loss={val:.3f}, time=12.5 seconds, total_count=10, [att_plot] time=9.7 seconds\n",
        (1, 120),
        {"clock", "eval_loss", "grad_norm", "lr", "step_time"},
    ),
    "a word before each split": (
        "Epoch {n1}/120 | Train: loss {loss:.4f} acc 0.5 | Val: loss {val:.4f} acc 0.4\n",
        (1, 120),
        {"accuracy", "eval_accuracy", "eval_loss"},
    ),
    "InternLM": (
        "2026-01-02 03:04:05,123\tINFO train.py:317 in record_current_batch_training_metrics -- "
        "tflops=180.1 step={n} loss={loss} tgs (tokens/gpu/second)=4078.1 lr={lr} "
        "loss_scale=65536.0 grad_norm={{'0_default': {grad}, '1_fp32': 0.0}} micro_num=4\n",
        (0, 119),
        {"clock", "grad_norm", "loss_scale", "lr"},
    ),
    "LitGPT": (
        "Epoch 1 | iter {batch1} step {n1} | loss train: {loss:.3f}, val: n/a | "
        "iter time: 312.45 ms (step) remaining time: 0 days, 1:02:03\n",
        (1, 120),
        {"epoch", "step_time"},
    ),
    "two losses by one name": (
        "Epoch {n1} train/val loss: {loss:.4f} / {val:.4f} lr: {lr}\n",
        (1, 120),
        {"eval_loss", "lr"},
    ),
    "two losses by one name, in brackets": (
        "Epoch {n1}, loss (train/val): {loss:.4f}/{val:.4f}\n",
        (1, 120),
        {"eval_loss"},
    ),
    "both losses on a line": (
        "Epoch [{n1}/120] Training Loss: {loss:.4f} Validation Loss: {val:.4f} LR: 0.001\n",
        (1, 120),
        {"eval_loss", "lr"},
    ),
    "MindSpore": ("epoch: {epoch1} step: {batch1}, loss is {loss}\n", (10, 1200), {"epoch"}),
    "MindFormers": (
        "2026-01-02 03:04:05,123 - mindformers[callback.py:529] - INFO - "
        "{{ Epoch:[{epoch1:3d}/ 10], step:[{batch1:5d}/  600], loss: {loss:5.3f}, "
        "per_step_time: 512ms, lr: {lr}, "
        "overflow cond: False, loss_scale: 65536.0, global_norm: [{grad:.6f}]\n",
        (10, 1200),
        {"clock", "epoch", "lr", "loss_scale", "grad_norm", "step_time"},
    ),
    "PaddleClas": (
        "[2026/01/02 03:04:05] ppcls INFO: [Train][Epoch {epoch1}/120][Iter: {batch}/600]"
        "lr(LinearWarmup): {lr:.8f}, top1: 0.1, CELoss: {loss:.5f}, loss: {loss:.5f}, ips: 250.1\n",
        (0, 1190),
        {"accuracy", "clock", "epoch", "lr"},
    ),
    "a size that is called step, too": (
        "[step={n1}] loss={loss} step=0.0000 x=1\n",
        (1, 120),
        set(),
    ),
    "Flux shows numbers of 32 bits": ("(epoch = {n1}, loss = {loss:.5f}f0)\n", (1, 120), set()),
    "Flux under @info": (
        "┌ Info: Training\n│   epoch = {n1}\n│   loss = {loss:.5f}f0\n└   η = 0.01\n",
        (1, 120),
        set(),
    ),
    "Flax": ("Step... ({n1} | Loss: {loss}, Learning Rate: {lr})\n", (1, 120), {"lr"}),
    "clu": (
        "I0102 03:04:05.123456 140000 logging_writer.py:48] [{n1}] learning_rate={lr}, "
        "loss={loss}\n",
        (1, 120),
        {"lr"},
    ),
    "a rank in brackets": (
        "I0102 03:04:05.123456 trainer.py:48] [3] step: {n1} loss={loss}\n",
        (1, 120),
        set(),
    ),
    "a TPU trainer": (
        "completed step: {n}, seconds: 1.150, TFLOP/s/device: 470.000, total_weights: 65536, "
        "loss: {loss:.3f}\n",
        (0, 119),
        set(),
    ),
    "verl": (
        "\x1b[36m(TaskRunner pid=42)\x1b[0m step:{n1} - actor/pg_loss:np.float64({loss}) - "
        "actor/grad_norm:np.float64({grad}) - actor/lr:1e-06 - response_length/mean:30.0\n",
        (1, 120),
        {"grad_norm", "lr"},
    ),
    "verl's SFT": (
        "step:{n1} - train/loss:{loss:.3f} - train/lr(1e-3):{lr_1000}\n",
        (1, 120),
        {"lr"},
    ),
    "tensors": (
        "epoch {epoch1} iter {n} loss: tensor({loss:.4f}, device='cuda:0', grad_fn=<Mean>)\n",
        (0, 119),
        {"epoch"},
    ),
    "ms-swift": (
        "{{'loss': {loss}, 'grad_norm': {grad}, 'learning_rate': {lr}, 'epoch': 0.5, "
        "'global_step/max_steps': '{n1}/120', 'percentage': '3.00%', 'elapsed_time': '5s'}}\n",
        (1, 120),
        {"grad_norm", "lr", "epoch"},
    ),
    "EasyLM": (
        "\n{{'gradient_norm': {grad},\n 'learning_rate': {lr},\n 'loss': {loss},\n"
        " 'param_norm': 700.5,\n 'step': {n}}}\n\n",
        (0, 119),
        {"grad_norm", "lr", "weight_norm"},
    ),
}


@pytest.mark.parametrize(("template", "ends", "roles"), TEMPLATES.values(), ids=TEMPLATES)
def test_the_step_is_found(put, template, ends, roles):
    history = read(put("".join(template.format(**at(n)) for n in range(N)), "train.log"))
    loss = history.series["loss"]
    assert (len(loss), int(loss.steps[0]), int(loss.steps[-1])) == (N, *ends)
    assert history.source.attempts == 1
    np.testing.assert_allclose(loss.values, [loss_at(n) for n in range(N)], rtol=0, atol=6e-3)
    training = {role for role in history.series if not role.startswith("other_loss/")}
    assert training == {"loss", *roles}
    if "lr(1e-3)" in template:
        rates = [at(n)["lr"] for n in range(N)]
        np.testing.assert_allclose(history.series["lr"].values, rates)


def test_epochs_above_show_that_a_bar_restarts(put):
    lines = []
    for epoch in range(1, 41):
        lines.append(f"Epoch {epoch}/40\n")
        bars = (
            f"{n}/600 [==>...] - ETA: 1s - loss: {loss_at(epoch):.4f}" for n in range(100, 601, 100)
        )
        lines.append("\r".join(bars) + f" - val_loss: {loss_at(epoch):.4f}\n")
    history = read(put("".join(lines), "train.log"))
    assert history.series["loss"].steps.tolist() == list(range(100, 600 * 40 + 1, 100))
    assert len(history.series["eval_loss"]) == 40
    assert history.series["epoch"].values[[0, 5, 6]].tolist() == [1, 1, 2]


def test_a_bar_of_another_length_is_not_the_training(put):
    lines = []
    for n in range(N):
        lines.append("Epoch: [{epoch}][{batch:3d}/600] Loss {loss:.4f}\n".format(**at(n)))
        if n % PER_EPOCH == PER_EPOCH - 1:
            lines += [f"Test: [{place:3d}/100] Loss 9.0000\n" for place in range(0, 100, 10)]
    loss = read(put("".join(lines), "train.log")).series["loss"]
    assert (len(loss), loss.values.max() < 9) == (N, True)


def test_the_bar_of_an_evaluation_has_the_same_words_and_another_length(put):
    lines = []
    for epoch in range(2):
        lines.append(f"Epoch {epoch + 1}/2\n")
        lines += [
            "step {batch1:3d}/600 - loss: {loss:.4f} - acc: 0.5000 - 12ms/step\n".format(**at(n))
            for n in range(PER_EPOCH * epoch, PER_EPOCH * (epoch + 1))
        ]
        lines.append("Eval begin...\n")
        lines += [f"step {at:2d}/80 - loss: 9.0000 - acc: 0.4 - 8ms/step\n" for at in range(1, 81)]
        lines.append("Eval samples: 3000\n")
    series = read(put("".join(lines), "train.log")).series
    assert series["loss"].steps.tolist() == list(range(10, 1201, 10))
    np.testing.assert_allclose(series["loss"].values, [loss_at(n) for n in range(N)], atol=1e-4)
    assert series["eval_loss"].values.tolist() == [9] * 2


def test_a_rate_of_which_only_zeros_are_printed_is_not_known(put):
    rates = [f"{2e-4 * n / N:.4f}" for n in range(N)]
    lines = [f"step {n} loss {loss_at(n):.4f} lr {rate}\n" for n, rate in enumerate(rates)]
    lr = read(put("".join(lines), "train.log")).series["lr"]
    assert set(lr.values.tolist()) == {1e-4, 2e-4}
    assert len(lr) == sum(rate != "0.0000" for rate in rates)
    # Python prints a rate that is zero as 0.0.
    frozen = "".join(f"step {n} loss {loss_at(n):.4f} lr 0.0\n" for n in range(N))
    assert read(put(frozen, "frozen.log")).series["lr"].values.tolist() == [0] * N


@pytest.mark.parametrize(("peak", "is_known"), [(2e-3, True), (1e-3, True), (5e-4, False)])
def test_a_rounded_zero_is_far_below_a_higher_rate_before(put, peak, is_known):
    rates = [peak if n < N // 2 else 2e-5 for n in range(N)]
    lines = [f"step {n} loss {loss_at(n):.4f} lr {rate:.4f}\n" for n, rate in enumerate(rates)]
    lr = read(put("".join(lines), "train.log")).series["lr"]
    assert (lr.values[-1], len(lr)) == ((0, N) if is_known else (peak, N // 2))


def test_an_epoch_of_timm_may_have_few_lines(put):
    lines = []
    for epoch in range(12):
        lines += [
            f"Train: {epoch} [{batch:4d}/96 ({batch}%)]  Loss: 2.{90 - epoch} (2.9)\n"
            for batch in (0, 32, 64)
        ]
        lines.append(f"Test: [   0/3]  Time: 0.031 (0.031)  Loss:   2.{90 - epoch} ( 2.900)\n")
    history = read(put("".join(lines), "train.log"))
    steps = [epoch * 96 + batch for epoch in range(12) for batch in (0, 32, 64)]
    assert history.series["loss"].steps.tolist() == steps
    assert history.series["epoch"].values[[0, 3]].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["current_steps", "global_step/max_steps", "training_iteration"])
def test_steps_by_other_names(put, name):
    step_value = (lambda n: f"{n}/600") if "/" in name else int
    rows = ({name: step_value(n * 5), "loss": loss_at(n), "epoch": n / 100} for n in range(N))
    steps = read(put("".join(json.dumps(row) + "\n" for row in rows))).series["loss"].steps
    assert (len(steps), int(steps[-1])) == (N, (N - 1) * 5)


def test_a_table_for_people(put):
    rows = (f"{n:<9d} {loss_at(n):<11.6f} {loss_at(n):<11.6f} 00:12    \n" for n in range(60))
    history = read(put("epoch     train_loss  valid_loss  time    \n" + "".join(rows)))
    assert history.source.format == "csv"
    assert (len(history.series["loss"]), len(history.series["eval_loss"])) == (60, 60)


def test_columns_of_numbers_below_a_comment(put):
    rows = (f"{n:6d} {loss_at(n):.6f} 1e-4\n" for n in range(60))
    loss = read(put("# step loss lr\n" + "".join(rows))).series["loss"]
    assert loss.steps.tolist() == list(range(60))


def test_a_counter_may_be_an_ordinal(put):
    lines = [f"current step: {n}th step\nloss: {3 - 0.1 * n:.2f}\n" for n in range(4, 16)]
    assert read(put("".join(lines))).series["loss"].steps.tolist() == [*range(4, 16)]


@pytest.mark.parametrize(
    ("line", "planned"),
    [
        ("Epoch {n}/100: reward=-3.5, loss={loss}\n", 100),
        ("train step={n}/6000 loss={loss}\n", 6000),
        ("[{n}/60] loss {loss}\n", 60),
        ("epoch {n} loss {loss} 3/4 of the data\n", None),
        ("Epoch {n}/100 loss {loss}\nEpoch {n}/100 loss {loss}\n", 100),
    ],
    ids=["an epoch", "a step", "a position", "of another", "two loggers"],
)
def test_the_total_of_the_counter_is_the_planned_length(put, line, planned):
    text = "".join(line.format(n=n, loss=4 - n / 100) for n in range(1, 41))
    assert read(put(text)).config.get("total_steps") == planned


def test_the_total_of_an_epoch_is_not_the_planned_length(put):
    at = [divmod(n, 600) for n in range(450, 900, 30)]
    text = "".join(f"Epoch: {epoch} [{n}/600 (9%)]\tLoss: 2.{n}\n" for epoch, n in at)
    assert "total_steps" not in read(put(text)).config


def test_a_failure_after_the_last_epoch_is_no_early_stop(put):
    text = "".join(f"Epoch {n}/10: loss={4 - n / 100}\n" for n in range(1, 11))
    failed = 'Traceback (most recent call last):\n  File "t.py", line 4\nIndexError: too many\n'
    report = stabdiag.diagnose(put(text + failed))
    assert [finding.slug for finding in report.findings] == ["stall"]
    assert report.diagnosis.title == "The run ended with an error"


def test_a_perplexity_is_not_compared_with_log_k(put):
    text = "".join(f"[Step {n}] perplexity={4000 * 0.98**n + 30:.1f}\n" for n in range(1, 90))
    report = stabdiag.diagnose(put(text), manifest={"vocab_size": 32000})
    assert report.diagnosis.slug == "healthy"


def test_the_first_and_last_batch_of_an_interval(tmp_path):
    path = tmp_path / "train.log"
    lines = [
        f"INFO:root:Epoch[{epoch}] Batch [{n}-{n + 20}]\tSpeed: 9.5 samples/sec\tloss={loss_at(n)}"
        for epoch in range(3)
        for n in range(0, 400, 20)
    ]
    path.write_text("\n".join(lines) + "\n")
    steps = read(path).series["loss"].steps
    assert steps[:3].tolist() == [20, 40, 60]
    assert len(steps) == 60


@pytest.mark.parametrize(
    ("line", "unit"),
    [
        ("epoch{n} loss={loss:.4f}", "epoch"),
        ("E{n:03d} loss {loss:.4f}", "epoch"),
        ("ep{n}_loss: {loss:.4f}", "epoch"),
        ("[iter{n}] train loss: {loss:.4f}", "step"),
    ],
)
def test_a_counter_without_a_blank_after_its_word(put, line, unit):
    text = "".join(line.format(n=n, loss=4 - n / 10) + "\n" for n in range(1, 31))
    history = read(put(text))
    assert history.unit == unit
    assert history.series["loss"].steps.tolist() == [*range(1, 31)]


def test_the_date_of_an_error_is_not_a_counter(put):
    text = "".join(
        f"E0509 19:45:{n} solver.cpp] step {n} loss {4 - n / 100}\n" for n in range(10, 50)
    )
    assert read(put(text)).series["loss"].steps.tolist() == [*range(10, 50)]


@pytest.mark.parametrize(
    ("above", "planned"),
    [
        ("Epoch 1/10\n", None),
        ("Epoch [1/10]\n", None),
        ("  0%|          | 0/10 [00:00<?, ?epoch/s]\n", None),
        ("Epoch 1/1\n", 171),
        ("", 171),
    ],
)
def test_the_batches_of_one_epoch_are_not_the_planned_steps(tmp_path, above, planned):
    form = "{part}%|#  | {n}/171 [00:{n:02}<01:40, 6.1batch/s, loss={loss:.3f}]\n"
    rows = [form.format(part=n * 100 // 171, n=n, loss=5 - n / 60) for n in range(1, 41)]
    path = tmp_path / "train.log"
    path.write_text(above + "".join(rows))
    assert stabdiag.diagnose(path).manifest.total_steps == planned


@pytest.mark.parametrize("size", [40, 700])
def test_an_epoch_may_be_longer_than_the_sample(tmp_path, size):
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(
            f"Epoch {epoch}/9\n"
            + "".join(f"[{n}/{size}] loss: {8 - epoch - n / size}\n" for n in range(1, size + 1))
            for epoch in range(1, 5)
        )
    )
    history = read(path)
    assert history.series["loss"].steps.tolist() == [*range(1, 4 * size + 1)]
    assert "total_steps" not in history.config


@pytest.mark.parametrize(
    "counters",
    [
        "Epoch ID={} Batch ID={}",
        "epoch_id={}, step_id={}",
        "epoch_idx: {}, iter_idx: {}",
        "EpochID: {}, BatchID: {}",
        "Epoch No. {} Batch No. {}",
        "Epoch number: {}, batch number: {}",
        "Epoch Num: {} Step Num: {}",
        "epoch index {} step index {}",
    ],
)
def test_a_counter_may_be_called_a_number_or_an_index(put, counters):
    lines = [f"{counters.format(0, 50 * n)}, loss={n / 4 + 0.5}\n" for n in range(6)]
    series = stabdiag.read(put("".join(lines))).series["loss"]
    assert series.steps.tolist() == [0, 50, 100, 150, 200, 250]


@pytest.mark.parametrize("setting", ["batch_number_of_workers: 4", "epoch identity 5 of it"])
def test_longer_words_with_the_word_of_a_counter_are_none(setting):
    assert not line_counters(setting.encode())


@pytest.mark.parametrize(("total", "slug"), [(900, "healthy"), (40, "no-progress")])
def test_the_total_of_epochs_above_their_losses_shows_an_early_log(put, total, slug):
    values = "loss: {:.4f} - acc: {:.4f} - val_loss: {:.4f} - val_acc: {:.4f}"
    text = "".join(
        f"Epoch {n}/{total}\n64/64 [==============================] - 1s 15ms/step - "
        + values.format(4.5 - n / 10, n / 50, 4.6 - n / 20, n / 125)
        + "\n"
        for n in range(1, 11)
    )
    assert read(put(text)).config.get("epochs") == total
    assert stabdiag.diagnose(put(text)).diagnosis.slug == slug


def test_the_length_of_an_epoch_is_not_its_number(tmp_path):
    run = "".join(f"step {n}, loss: {2.5 - n / 25}\n" for n in range(40))
    path = tmp_path / "train.log"
    path.write_text(f"{run}loaded 338025 tokens\n1 epoch = 2640 batches\n{run[:100]}\n")
    series = stabdiag.diagnose(path).history.series
    assert "epoch" not in series
    assert series["loss"].values[0] == 2.5


def test_a_pass_of_paddle_is_an_epoch(tmp_path):
    path = tmp_path / "train.log"
    costs = [[0.25, 30.5, 9.5, 19000.5 - n] for n in range(6)]
    path.write_text(
        "".join(
            f"Pass {54 + n}, Batch {batch}, Cost {cost}\n"
            for n, row in enumerate(costs)
            for batch, cost in enumerate(row)
        )
    )
    report = stabdiag.diagnose(path)
    assert len(report.history.series["loss"].values) == 24
    assert report.diagnosis.severity != "error"
