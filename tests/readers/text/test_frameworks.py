"""What is peculiar to each framework's log."""

import io

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import detect_format
from stabdiag.readers.source import Stream

OVERFLOW = "[2026-01-05 10:00:00,1] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW!"


def step_line(step, skipped):
    return f"[Rank 0] step={step}, skipped={skipped}, lr=[0.001, 0.001], mom=[(0.9, 0.95)]\n"


class TestDeepSpeed:
    def test_overflows_belong_to_the_steps_before_the_next_report(self, values):
        columns = values(
            "deepspeed",
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. "
            "Reducing hysteresis to 1\n"
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 32768, reducing to 16384\n"
            + step_line(10, 3)
            + f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
            + step_line(20, 4),
        )
        scale = columns["Attempted loss scale"]
        assert [pair for pair in zip(columns["step"], scale, strict=True) if pair[1]] == [
            *((0, 65536), (1, 65536), (2, 32768), (2, 32768), (3, 16384)),
            *((10, 65536), (11, 32768)),
        ]
        assert columns["skipped"].count(None) == 8
        assert [s for s, k in zip(columns["step"], columns["skipped_step"], strict=True) if k] == [
            *(1, 2, 3, 11)
        ]

    def test_loss_scale_is_diagnosed_without_a_loss(self, put):
        lines = []
        for step in range(0, 400, 10):
            old = max(2.0 ** (15 - step // 20), 1)
            lines.append(f"{OVERFLOW} Attempted loss scale: {old:g}, reducing to {old / 2:g}\n")
            lines.append(step_line(step + 10, step // 10 + 1))
        report = stabdiag.diagnose(put("".join(lines)))
        assert report.diagnosis.slug == "loss-scale-collapsed"
        assert "loss" not in report.history.series

    def test_overflows_between_losses_of_the_trainer_without_steps(self, tmp_path):
        path = tmp_path / "run.log"
        lines = [f"{{'loss': {2 - n / 100:.4f}, 'epoch': {n / 25:.2f}}}\n" for n in range(1, 51)]
        lines[20:20] = [
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: {2**n}, "
            f"reducing to {2 ** (n - 1)}\n"
            for n in range(16, 0, -1)
        ]
        path.write_text("".join(lines))
        history = stabdiag.read(path)
        assert history.source.format == "hf-trainer-stdout"
        assert history.counts_records
        assert len(history.series["loss"]) == 50
        scales = set(history.series["loss_scale"].values.tolist())
        assert scales == {2.0**n for n in range(17)}
        assert stabdiag.diagnose(path).diagnosis.slug == "loss-scale-collapsed"


def iteration(step, *, loss="", skipped=0, extra=""):
    return (
        f" iteration {step:8d}/{1000:8d} | learning rate: 1.0E-04 |{loss} loss scale: 64.0 |{extra}"
        f" number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |\n"
    )


def lm(value):
    return f" lm loss: {value:.6E} |"


def yolo_heading(*losses):
    names = "".join(f"{name:>10}" for name in ("Epoch", "gpu_mem", *losses))
    return f"{names}    labels  img_size\n"


def yolo_bar(epoch, *losses, end="\n"):
    cells = "".join(f"{value:10.4g}" for value in losses)
    return f"{epoch:>8}/149     5.05G{cells}        17       640: 50%|█████     | 5/10{end}"


def boxed(*rows, end="\n"):
    """A table of Baselines."""
    rule = "-" * 30 + end
    return rule + "".join(f"| {a:<14} | {b:<9} |{end}" for a, b in rows) + rule


def solver(text):
    return f"I0105 10:00:00.123456 17443 solver.cpp:341] {text}\n"


def inner(loss, updates):
    fields = f'{{"epoch": 1, "loss": "{loss}", "num_updates": "{updates}"}}'
    return f"2026 | INFO | train_inner | {fields}\n"


MARIAN = "Ep. 2.5 : Up. {} : Sen. 10,147 : Cost 9.71{} : Time 5.1s : L.r. 6.25e-06\n"
ROLLOUT = (("rollout/", ""), ("   ep_rew_mean", "21.3"))
RULE = "|---|:--:|\n"
HEADING = "epoch     train_loss  valid_loss  time    \n"
FASTAI = HEADING + "0         2.5         1.5         00:00\n" * 2
WIDE = "0         17775.174805 2.963346    00:00   \n"
NEMO = "Epoch 0: 1%|▏ | {n}/1000 [00:01<09:00, loss={mean}, v_num=3, {own}global_step={n}.0]\n"
TRAINER = "  Num Epochs = 3\n  Total optimization steps = {}\n"
ENDS = (
    "  Num examples = 4,000\n"
    + TRAINER.format(600)
    + "  {}\n"
    + ("{{'loss': '2.5', 'epoch': '0.04'}}\n{{'loss': '2.4', 'epoch': '2.4'}}\n")
)
# The format, what is printed, and columns that are read from it.
PRINTED = {
    "an overflow that every rank counts from zero": (
        "deepspeed",
        "Grad overflow on iteration 4\n" * 2
        + "Overflow detected. Skipping step. Attempted loss scale: 64, reducing to 32.0\n"
        + "Grad overflow on iteration 4\n"
        + step_line(10, 1),
        {"step": [4, 5, 10], "Attempted loss scale": [64, 32, None]},
    ),
    "a loss below the steps of DeepSpeed": (
        "deepspeed",
        f"{step_line(10, 1)}INFO - [Rank 0] Loss: 9.5\n{step_line(20, 1)}",
        {"step": [10, 10, 20], "loss": [None, 9.5, None]},
    ),
    "DeepSpeed-Chat": (
        "deepspeed",
        f"{step_line(10, 0)}Epoch: 0, Step: 10, Rank: 0, loss = 8\n{step_line(20, 0)}",
        {"step": [10, 10, 20], "loss": [None, 8, None]},
    ),
    "a field that was cut": (
        "megatron",
        iteration(1, loss=lm(3.0))
        + " iteration        2/    1000 | learning rate: 1.0E-04 | lm loss: 7.07[Rank 3] (\n",
        {"lm loss": [3.0, None], "learning rate": [1e-4, 1e-4]},
    ),
    "the first Megatron, without colons": (
        "megatron",
        " iteration       1/    9 | learning rate 1.0E-04 | lm loss 2.1E+00 | skipped 0 |\n",
        {"lm loss": [2.1], "learning rate": [1e-4]},
    ),
    "a rank of Megatron whose loss is NaN": (
        "megatron",
        " iteration       1/    9 | lm loss: 2.5 | grad norm: 0.5 |\n"
        "AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3\n",
        {"lm loss": [2.5, np.nan]},
    ),
    "the summary of the Trainer": (
        "hf-trainer-stdout",
        "{'loss': 2.5, 'epoch': 0.5}\n{'train_runtime': 9.0, 'train_loss': 7.0, 'epoch': 1.0}\n",
        {"loss": [2.5], "train_loss": None},
    ),
    "steps from the epoch": (
        "hf-trainer-stdout",
        TRAINER.format("3,000") + "{'loss': 2.5, 'epoch': 0.5}\n{'loss': 2.4, 'epoch': 1.0}\n",
        {"global_step": [500, 1000]},
    ),
    "a run that ends within an epoch": (
        "hf-trainer-stdout",
        ENDS.format("Num update steps per epoch = 250"),
        {"global_step": [10, 600]},
    ),
    "the same by the size of a batch": (
        "hf-trainer-stdout",
        ENDS.format("Total train batch size (w. parallel, distributed & accumulation) = 16"),
        {"global_step": [10, 600]},
    ),
    "fairseq": (
        "text",
        inner(4.5, 100)
        + "2026 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient,"
        " setting loss scale to: 64.0\n"
        + inner(4.25, 200)
        + inner(4.0, 300)
        + '2026 | INFO | valid | {"valid_loss": "4.75", "valid_num_updates": "200"}\n'
        "2026 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 4.5 | ppl 22.6 |"
        " num_updates 300\n"
        "2026 | INFO | train | epoch 001 | loss 4.5 | num_updates 300 | lr 1e-05 | gnorm 0.5\n",
        {
            "step": [100, 101, 200, 300, 200, 300, 300],
            "loss": [4.5, None, 4.25, 4, None, None, None],
            "loss_scale": [None, 64, None, None, None, None, None],
            "val loss": [None, None, None, None, None, 4.5, None],
            "train_loss": [None, None, None, None, None, None, 4.5],
        },
    ),
    "older fairseq": (
        "text",
        "".join(
            f"| epoch 00{n} | loss 3.{n} | ppl 4.61 | num_updates 9{n} | loss_scale 0.5\n"
            f"| epoch 00{n} | valid on 'valid' subset | loss 9.{n} | ppl 2.0 | num_updates 9{n}\n"
            for n in (1, 2, 3)
        ),
        {
            "loss": [3.1, None, 3.2, None, 3.3, None],
            "val loss": [None, 9.1, None, 9.2, None, 9.3],
        },
    ),
    "what others add to nanoGPT": (
        "text",
        "iter 10: loss 3.2100, gnorm inf, time 120.50ms, mfu 30.10%\n"
        "iter 20: loss 3.1100, time 120.50ms, mfu 30.10%, lr 6.0e-04\n"
        "step 30: train loss 3.2, val loss 3.3\n"
        "iter 30: loss 3.0100, time 120.50ms, mfu 30.10%, lr 6.0e-04\n"
        "step 40: train loss 3.1, val loss 3.2\n"
        "iter 40: loss 2.9100, time 120.50ms, mfu 30.10%, lr 6.0e-04\n",
        {
            "step": [10, 20, 30, 30, 40, 40],
            "loss": [3.21, 3.11, None, 3.01, None, 2.91],
            "val loss": [None, None, 3.3, None, 3.2, None],
            "gnorm": [float("inf"), *[None] * 5],
            "time (ms)": [120.5, 120.5, None, 120.5, None, 120.5],
            "mfu": [30.1, 30.1, None, 30.1, None, 30.1],
            "lr": [None, 6e-4, None, 6e-4, None, 6e-4],
        },
    ),
    "modded-nanogpt, and a plain loss": (
        "text",
        "step:1/9 train_loss:10.8 train_time:1ms step_avg:nanms\n"
        "step:2/9 [warmup] loss:3.1 t:20ms avg:155.3ms\n"
        "step:3/9 [warmup] loss:3 t:20ms\n"
        "step:9/9 val_loss:2.9\n",
        {
            "step": [1, 2, 3, 9],
            "train_loss": [10.8, None, None, None],
            "loss": [None, 3.1, 3, None],
            "val_loss": [None, None, None, 2.9],
        },
    ),
    "tests of Caffe": (
        "caffe",
        solver("Iteration 0, Testing net (#0)")
        + solver("    Test net output #1: loss = 7.02 (* 1 = 7.02 loss)")
        + solver("Iteration 0 (5.2 iter/s, 3.8s/20 iters), loss = 7.5")
        + solver("Iteration 0, lr = 0.01")
        + solver("Iteration 20, loss = 6.5"),
        {"Iteration": [0, 20], "loss": [7.5, 6.5], "lr": [0.01, None], "test loss": [7.02, None]},
    ),
    "the letters of YOLACT": (
        "text",
        "[  1]    1440 || B: 5.495 | C: 3.668 | M: 6.919 | S: 1.564 | T: nan || ETA: 1 day ||\n",
        {"step": [1440], "loss_M": [6.919], "loss": [np.nan]},
    ),
    "thousands of torchtitan": (
        "text",
        "[titan] 2026 - root - INFO - step: 10  loss:  3.5  tps: 1,234,567  mfu: 31.20%\n"
        "[titan] 2026 - root - INFO - validate step: 10  loss:  3.75  tps: 7,012\n"
        "[titan] 2026 - root - INFO - step: 20  loss:  3.25  tps: 1,234,567  mfu: 31.20%\n",
        {"tps": [1234567, None, 1234567], "val loss": [None, 3.75, None]},
    ),
    "MLPerf with line numbers": (
        "mllog",
        ':::MLLOG {"key": "opt_base_learning_rate", "value": 0.1, "metadata": {"lineno": 3}}\n'
        ':::MLLOG {"key": "tracked_stats", "value": {"loss": 2.5, "throughput": 10.0},'
        ' "metadata": {"step": 50}}\n'
        ':::MLLOG {"key": "eval_accuracy", "value": 0.5, "metadata": {"step": 50}}\n'
        ":::MLLOG {broken\n:::MLLOG []\n",
        {
            "step": [50],
            "loss": [2.5],
            "throughput": [10.0],
            "eval_accuracy": [0.5],
            "opt_base_learning_rate": None,
        },
    ),
    "evaluations of Composer": (
        "composer",
        "[batch=1/9]:\n\t Train loss/train/total: 3.5\n[Eval batch=1/2] Eval on eval data\n"
        "[Eval batch=2/2] Eval on eval data:\n\t Eval metrics/eval/CrossEntropy: 3.75\n"
        "[batch=2/9]:\n\t Train loss/train/total: 3.25\n",
        {"step": [1, 2], "Eval metrics/eval/CrossEntropy": [3.75, None]},
    ),
    "a pasted log of Composer": (
        "composer",
        "[batch=1/9]:  \n    Train loss/train/total: 3.5\n    Eval loss: 3.75\n[batch=2/9]:\n",
        {"step": [1, 2], "loss/train/total": [3.5, None], "Eval loss": [3.75, None]},
    ),
    "a total of YOLO, and capitals": (
        "yolo",
        yolo_heading("GIoU", "obj", "total") + yolo_bar(2, 4.5, 0.5, float("nan")),
        {"GIoU_loss": [4.5], "total_loss": [np.nan]},
    ),
    "two headings of YOLO": (
        "yolo",
        yolo_heading("loss") + yolo_bar(0, 2.5) + yolo_heading("box", "cls") + yolo_bar(1, 3, 4),
        {"loss": [2.5, None], "box_loss": [None, 3]},
    ),
    "sections of Baselines": (
        "baselines",
        boxed(*ROLLOUT)
        + "Eval num_timesteps=10\n"
        + boxed(*ROLLOUT, ("train/", ""), ("   loss", "1.5e-05"), ("   value_loss", "nan")),
        {"rollout/ep_rew_mean": [21.3, 21.3], "train/loss": [None, 1.5e-05]},
    ),
    "Baselines without sections, on Windows": (
        "baselines",
        boxed(("loss", "2.5"), ("step", "1.53e+05"), end="\r\n") * 2,
        {"step": [153000] * 2, "loss": [2.5] * 2},
    ),
    "Spinning Up": (
        "baselines",
        boxed(("         Epoch", "3"), ("  AverageEpRet", "36.5"), ("         LossV", "155")),
        {"Epoch": [3], "AverageEpRet": [36.5], "LossV": [155]},
    ),
    "Baselines without its head": (
        "baselines",
        "|    loss | 9.5 |\n|    n_updates | 5 |\n"
        + "-" * 30
        + "\n"
        + boxed(("train/", ""), ("   loss", "2.5"), ("   n_updates", "10")),
        {"train/loss": [2.5], "train/n_updates": [10]},
    ),
    "pix2pix, parentheses": (
        "text",
        "(epoch: 1, iters: 100, time: 0.5) G_GAN: 1.5 D_real: 0.5 \n"
        "(epoch: 1, iters: 200, time: 0.5, data: 0.25) , G_GAN: nan, D_real: 0.25\n",
        {
            "step": [100, 200],
            "data": [None, 0.25],
            "loss_D_real": [0.5, 0.25],
            "loss_G_GAN": [1.5, np.nan],
        },
    ),
    "Marian in its versions": (
        "text",
        "".join(map(MARIAN.format, (1, 2, 3), ("", " * 1,234 @ 3,412 after 1,234", " (1.5)"))),
        {"step": [1, 2, 3], "epoch": [2] * 3, "loss": [9.71] * 3, "lr": [6.25e-06] * 3},
    ),
    "a quote of Darknet": (
        "text",
        "".join(f"> {n}: 2.5, 2.5 avg, 0.1 rate, 0.2 seconds, 1 images\n" for n in range(3)),
        {"loss": [2.5] * 3},
    ),
    "the largest table of Markdown with a loss": (
        "printed-table",
        f"# Title\n\n| Epoch | Loss |\n{RULE}"
        + "| 1 | 9.5 |\n" * 3
        + "\n\nsteps | train loss\n-- | --\n"
        + "".join(f"{n} | {n}.5\n" for n in range(9))
        + f"\n\n| name | value |\n{RULE}"
        + "| a | 1 |\n" * 20,
        {"steps": list(range(9)), "train loss": [n + 0.5 for n in range(9)], "Loss": None},
    ),
    "a number wider than its column": (
        "printed-table",
        FASTAI + WIDE,
        {"train_loss": [2.5, 2.5, 17775.174805], "valid_loss": [1.5, 1.5, 2.963346]},
    ),
    "a heading that is printed again": (
        "printed-table",
        f"{FASTAI}Better model found at epoch 0\n{FASTAI}",
        {"epoch": [0] * 4},
    ),
    "an index without a name": (
        "printed-table",
        "   epoch   loss\n" + "0      1  2.500\n1      2  2.125\n" * 2,
        {"epoch": [1, 2] * 2, "loss": [2.5, 2.125] * 2},
    ),
    "a cell that is blank": (
        "printed-table",
        "epoch  val_loss   loss\n" + "    1     2.250  2.500\n    2            2.125\n" * 2,
        {"epoch": [1, 2] * 2, "val_loss": [2.25, None] * 2, "loss": [2.5, 2.125] * 2},
    ),
    "a name with a percent sign": (
        "printed-table",
        "Itn.  NER Loss  UAS     Tag %\n" + "1     9.000     0.5     99.000\n" * 3,
        {"NER Loss": [9] * 3, "Tag %": [99] * 3},
    ),
    "MMSR, the predecessor of BasicSR": (
        "text",
        "".join(
            f"21-05-24 02:11:29.657 - INFO: <epoch: 30, iter:   2,{n}00, lr:1.000e-04> "
            "l_g_pix: 2.5e-01 l_d_real: 3.5e-04 D_real: -8.4e+00 \n"
            for n in range(3)
        ),
        {"step": [2000, 2100, 2200], "lr": [1e-4] * 3, "loss_g_pix": [0.25] * 3},
    ),
    "NeMo with its own loss and a mean": (
        "text",
        "".join(NEMO.format(n=n, mean="nan", own="reduced_train_loss=3.91, ") for n in range(5)),
        {"reduced_train_loss": [3.91] * 5, "loss": None},
    ),
    "NeMo with a mean only": (
        "text",
        "".join(NEMO.format(n=n, mean="2.5", own="") for n in range(5)),
        {"loss": [2.5] * 5},
    ),
}


@pytest.mark.parametrize(("format", "text", "columns"), PRINTED.values(), ids=PRINTED)
def test_printed_columns(values, format, text, columns):
    actual = values(format, text)
    for name, expected in columns.items():
        if expected is None:
            assert name not in actual
        else:  # as text: NaN must equal NaN
            assert repr(actual[name]) == repr(
                [value if value is None else float(value) for value in expected]
            )


def test_composer_restarts_the_batch_count_every_epoch(put):
    text = "".join(
        f"[epoch={epoch}][batch={batch}/50]:\n\t Train loss/train/total: {9 - epoch}.5\n"
        for epoch in (1, 2, 3)
        for batch in range(10, 51, 10)
    )
    loss = stabdiag.read(put(text)).series["loss"]
    assert loss.steps.tolist() == list(range(10, 151, 10))
    assert loss.values.tolist() == [8.5] * 5 + [7.5] * 5 + [6.5] * 5


class TestMegatron:
    def test_a_skipped_interval_is_not_a_nan(self, put):
        lines = [iteration(10 * n, loss=lm(3 - n / 100)) for n in range(1, 41)]
        lines[9] = iteration(100, skipped=10)
        lines[19] = iteration(200, loss=lm(0.0), skipped=10)
        lines[24:29] = [iteration(10 * n, skipped=10) for n in range(25, 30)]
        loss = stabdiag.read(put("".join(lines))).series["loss"]
        assert np.isfinite(loss.values).all()
        assert not set(loss.steps.tolist()) & {100, 200, 250, 260, 270, 280, 290}

    def test_an_interval_skipped_in_part_has_a_loss_or_a_nan(self, put):
        lines = [
            iteration(10 * n, loss=lm(3 - n / 100), extra=" grad norm: 1.000 |")
            for n in range(1, 41)
        ]
        lines[30:] = [
            iteration(10 * n, skipped=3, extra=" grad norm: nan |") for n in range(31, 41)
        ]
        report = stabdiag.diagnose(put("".join(lines)))
        assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-fp16-overflow", 310)

    @pytest.mark.parametrize("sign", ["grad norm: nan", "number of nan iterations:  10"])
    def test_a_loss_that_is_left_out_all_along_was_nan(self, put, sign):
        path = put("".join(iteration(n, extra=f"{sign} |") for n in (10, 20, 30)))
        loss = stabdiag.read(path).series["loss"]
        assert (loss.steps.tolist(), np.isnan(loss.values).all()) == ([10, 20, 30], True)
        assert "3 losses count as NaN" in stabdiag.read(path).events[0].message
        assert stabdiag.diagnose(path).diagnosis.slug.startswith("nan-")

    @pytest.mark.parametrize(("skipped", "sign"), [(10, "grad norm: nan"), (0, "grad norm: 0.5")])
    def test_a_loss_that_is_left_out_for_another_reason_was_not(self, put, skipped, sign):
        lines = (iteration(n, skipped=skipped, extra=f"{sign} |") for n in (10, 20, 30))
        assert "loss" not in stabdiag.read(put("".join(lines))).series

    def test_evaluations_and_arguments(self, read):
        columns = read(
            "megatron",
            "  fp16 ............................................ True\n"
            "  lr .............................................. 0.0003\n"
            "  tokenizer_type .................................. GPT2BPETokenizer\n"
            + iteration(1, loss=lm(3.0))
            + "  fp16 ............................................ False\n"
            " validation loss at iteration 1 | lm loss value: 3.5E+00 | lm loss PPL: 3.3E+01 | \n"
            " validation loss at the end of training for test data | lm loss value: 9.0E+00 | \n",
        )
        assert columns.config == {"fp16": True, "lr": 0.0003, "tokenizer_type": "GPT2BPETokenizer"}
        assert columns.load("lm loss value").values.tolist() == [3.5]

    def test_the_scale_of_deepspeed_precedes_a_placeholder(self, put):
        lines = []
        for n in range(1, 60):
            if n % 10 == 0:
                lines.append(f"{OVERFLOW} Attempted loss scale: 64, reducing to 32\n")
            lines.append(iteration(n, loss=lm(3 - n / 100)).replace("64.0", "-1.0"))
        scale = stabdiag.read(put("".join(lines))).series["loss_scale"]
        assert scale.column == "Attempted loss scale"
        assert scale.steps[:4].tolist() == [9, 10, 19, 20]
        assert scale.values[:4].tolist() == [64, 32, 64, 32]


class TestTrainer:
    @pytest.mark.parametrize(
        "echo", ["INFO - my.callbacks - ", "[INFO|2024-01-01] callbacks:9 >> "]
    )
    def test_logger_messages_are_not_records(self, values, echo):
        text = "".join(
            f"{echo}{{'loss': {n}.5000, 'epoch': 0.{n}}}\n{{'loss': {n}.5, 'epoch': 0.{n}}}\n"
            for n in range(1, 6)
        )
        assert values("hf-trainer-stdout", text)["loss"] == [1.5, 2.5, 3.5, 4.5, 5.5]
        alone = "".join(text.splitlines(keepends=True)[::2])
        assert values("hf-trainer-stdout", alone)["loss"] == [1.5, 2.5, 3.5, 4.5, 5.5]

    def test_a_run_that_begins_beyond_the_epochs_of_the_one_before_is_another(self, put):
        text = "".join(
            f"{{'loss': {4 - n / 100}, 'epoch': {round(every * n, 2)}}}\n"
            for every, count in ((0.005, 12), (0.08, 40))
            for n in range(1, count + 1)
        )
        history = stabdiag.read(put(text))
        assert (history.source.attempts, len(history.series["loss"])) == (2, 40)

    def test_bars_of_other_lengths_do_not_give_the_step(self, values):
        def bar(at, of):
            return f"\r {at:3d}%|███       | {at}/{of} [00:10<00:20,  4.9it/s]"

        text = bar(100, 100) + "\n"  # tokenizing
        for n in range(1, 5):
            text += f"\r      \r{{'loss': {n}.5, 'epoch': 0.{n}}}\n"
            text += bar(10 * n, 50) + bar(10 * n + 3, 50)
        text += (
            bar(3, 8) + f"\r     \r{{'eval_loss': 9.5, 'epoch': 0.4}}\n{bar(8, 8)}{bar(43, 50)}\n"
        )
        columns = values("hf-trainer-stdout", text)
        assert columns["global_step"] == [10, 20, 30, 40, 43]
        assert columns["loss"] == [1.5, 2.5, 3.5, 4.5, None]

    def test_bars_that_are_drawn_too_rarely_do_not_give_the_step(self, put):
        text = "".join(
            f"{{'loss': {9 - n}.5, 'epoch': {n}.25}}\n"
            + (f" 42%|████      | {n * 90}/900 [10:05<30:24,  4.49s/it]\n" if n % 2 else "")
            for n in range(8)
        )
        loss = stabdiag.read(put(text)).series["loss"]
        assert loss.steps.tolist() == list(range(8))
        assert loss.values.tolist() == [9.5 - n for n in range(8)]

    def test_a_missing_bar_is_interpolated(self, values):
        text = "".join(
            f"{{'loss': {n}.5, 'epoch': {n}.25}}\n"
            + (f" 42%|████      | {n * 10}/900 [10:05<30:24,  4.49s/it]\n" if n != 5 else "")
            for n in range(30)
        )
        assert values("hf-trainer-stdout", text)["global_step"][4:8] == [40, 60, 60, 70]

    def test_a_run_after_the_summary_is_a_new_run(self, put):
        def training(first, count, loss):
            return "".join(
                f"{{'loss': {loss - n / 10:.1f}, 'epoch': {first + n / 10:.1f}}}\n"
                for n in range(count)
            )

        summary = "{'train_runtime': 9.0, 'train_loss': 7.0, 'epoch': 2.0}\n"
        begun = training(0.1, 20, 5)
        later = stabdiag.read(put(begun + summary + training(2.5, 4, 5)))
        assert later.series["loss"].values.tolist() == [5.0, 4.9, 4.8, 4.7]
        resumed = stabdiag.read(put(begun + summary + training(2.1, 4, 3)))
        assert len(resumed.series["loss"].values) == 24
        flat = stabdiag.read(put(begun + summary + training(2.12, 4, 5)))
        assert len(flat.series["loss"].values) == 24

    def test_other_bars_do_not_count_as_left_out_if_epochs_give_the_step(self, put):
        text = "  Num Epochs = 2\n  Total optimization steps = 400\n"
        for step in range(10, 401, 10):
            text += f"{{'loss': '{9 - step / 400}', 'epoch': '{step / 200}'}}\n"
            text += self.bar(1, 1) + "\n" if step % 100 == 0 else ""  # a checkpoint is written
        history = stabdiag.read(put(text))
        assert history.series["loss"].steps.tolist() == list(range(10, 401, 10))
        assert not any("too seldom" in event.message for event in history.events)

    @staticmethod
    def bar(at, of):
        return f"\r {at:3d}%|███       | {at}/{of} [00:10<00:20,  4.9it/s]"

    @classmethod
    def trained(cls, upto, of, *, evaluated=0, redrawn=True):
        """A loss every tenth step between bars; after each an evaluation."""
        text = ""
        for step in range(1, upto + 1):
            text += cls.bar(step, of)
            if step % 10 == 0:
                text += f"\r    \n{{'loss': {9 - step / of:.3f}, 'epoch': {step / of:.2f}}}\n"
                text += cls.bar(step, of) if redrawn else ""
                text += "".join(cls.bar(at, 999) for at in range(2, evaluated))
                if evaluated:
                    text += "\n{'eval_loss': 5.0, 'epoch': 0.5}\n" + cls.bar(step, of)
        return text + cls.bar(upto, of) + "\n"

    @pytest.mark.parametrize(
        ("above", "options"),
        [
            ("mapped", {}),
            ("", {"evaluated": 99}),
            ("", {"evaluated": 99, "redrawn": False}),
            ("  Total optimization steps = 200\n", {"evaluated": 99}),
        ],
    )
    def test_the_training_bar_is_the_bar_next_to_the_losses(self, put, above, options):
        if above == "mapped":
            above = "".join(self.bar(at, 52002) for at in range(0, 52002, 50)) + "\n"
        history = stabdiag.read(put(above + self.trained(200, 200, **options)))
        assert history.series["loss"].steps.tolist() == list(range(10, 201, 10))
        assert not any("too seldom" in event.message for event in history.events)

    @pytest.mark.parametrize("first", [(300, 5000), (900, 5000)])
    def test_the_bars_of_runs_that_were_appended_count_to_different_totals(self, put, first):
        history = stabdiag.read(put(self.trained(*first) + self.trained(500, 2000)))
        assert history.source.attempts == 2
        assert history.series["loss"].steps.tolist() == list(range(10, 501, 10))

    def test_an_epoch_that_is_not_a_number(self, put):
        lines = [f"{{'loss': {9 - n}, 'epoch': inf}}\n{self.bar(n, 9)}\n" for n in range(1, 9)]
        assert stabdiag.read(put("".join(lines))).series["loss"].steps.tolist() == list(range(1, 9))


TORCHVISION = "".join(f"Epoch: [0] [{n}/900] lr: 0.1 loss: 2.5 loss_ce: 1\n" for n in (10, 20))
STEPS = "".join(f"INFO - Step: {n}\nINFO - Loss: 2.5\n" for n in (10, 20, 30))
KERAS = "".join(f"{n}/234 [....] - ETA: 3:24 - loss: 44.4110\n" for n in range(1, 8))
DETECTRON2 = "".join(
    f"[01/05 10:00:00 d2.utils.events]: eta: 0:45:00  iter: {n}  total_loss: 1.5  lr: 0.02\n"
    for n in (1999, 2019)
)
UNWELL = "FloatingPointError: Loss became infinite or NaN at iteration=2037!\n"
# What is logged, what is said below it, the steps of the losses, and the last of them.
FAILURE_MESSAGES = [
    (
        "INFO:tensorflow:loss = 1.8717, step = 31601 (182.200 sec)\n",
        "ERROR:tensorflow:Model diverged with loss = NaN.\n"
        "E0105 10:00:00.1 14003 session_run_hooks.py:760] Model diverged with loss = NaN.\n",
        [31601, 31602],
        np.nan,
    ),
    (TORCHVISION, "Loss is nan, stopping training\n" * 2, [10, 20, 21], np.nan),
    (TORCHVISION, "[10:00:00.1] Loss is inf, stopping training\n", [10, 20, 21], np.inf),
    (TORCHVISION, "RuntimeError: Model diverged with loss = NaN.\n", [10, 20, 21], np.nan),
    (
        TORCHVISION,
        "INFO:tensorflow:Error reported to Coordinator: <class 'InvalidArgumentError'>, "
        "LossTensor is inf or nan. : Tensor had NaN values\n",
        [10, 20, 21],
        np.nan,
    ),
    (
        TORCHVISION,
        "ValueError: The loss returned in `training_step` is nan.\n",
        [10, 20, 21],
        np.nan,
    ),
    (
        TORCHVISION,
        "Monitored metric train_loss = nan is not finite. Previous best value was 2.3. "
        "Signaling Trainer to stop.\n",
        [10, 20, 21],
        np.nan,
    ),
    (TORCHVISION, "Monitored metric val_loss = nan is not finite.\n", [10, 20], 2.5),
    # Below a record of two lines: it keeps its loss.
    (
        STEPS,
        "WARNING - WARNING: Loss is NaN or inf tensor(nan, device='cuda:0')\n" * 3,
        [10, 20, 30, 31],
        np.nan,
    ),
    (TORCHVISION, "WARNING: received a nan loss, setting loss to 0\n", [10, 20, 21], np.nan),
    (TORCHVISION, "12:00 | WARNING | iter: non-finite loss\n", [10, 20, 21], np.nan),
    (TORCHVISION, "Loss is not finite. Skip this training step.\n", [10, 20, 21], np.nan),
    (TORCHVISION, "Skip the batch: the loss is NaN, it may be caused by\n", [10, 20, 21], np.nan),
    (TORCHVISION, "WARNING: loss (=nan) is not correct\n", [10, 20, 21], np.nan),
    (
        yolo_heading("box", "total") + yolo_bar(0, 2.5, 2.5),
        "WARNING: non-finite loss, ending training  tensor([nan, nan], device='cuda:0')\n",
        [0, 1],
        np.nan,
    ),
    # Keras counts batches from zero.
    (KERAS, "Batch 7: Invalid loss, terminating training\n", [*range(1, 9)], np.nan),
    (DETECTRON2, UNWELL, [1999, 2019, 2037], np.nan),
    ("loading\n", UNWELL.replace("Loss", "Losses"), [2037], np.nan),
]


@pytest.mark.parametrize(("records", "message", "steps", "last"), FAILURE_MESSAGES)
def test_a_failure_message_is_the_last_loss(put, records, message, steps, last):
    loss = stabdiag.read(put(records + message)).series["loss"]
    assert loss.steps.tolist() == steps
    assert np.isfinite(loss.values[:-1]).all()
    np.testing.assert_array_equal(loss.values[-1], last)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("baselines", boxed(("batch_size", "32"), ("learning_rate", "0.1"))),
        ("printed-table", f"# T\n| Epoch | Loss |\n{RULE}| 1 | 2.5 |\n"),
        ("printed-table", f"# T\n| Epoch | Acc |\n{RULE}" + "| 1 | 2.5 |\n" * 9),
        ("printed-table", "the loss\n--------\n"),
        ("printed-table", FASTAI),
        ("printed-table", "model  loss  acc\n" + "resnet  2.5  0.5\n" * 9),
        ("printed-table", "epoch  acc\n" + "1  2.5\n" * 9),
        ("printed-table", "epoch  loss\n" + "1  none\n" * 9),
        ("printed-table", "epoch loss\n" + "1 2.5\n" * 9),
    ],
)
def test_other_logs_are_not_detected(format, text):
    assert not reader(format).sniff(text.encode(), is_complete=True)


def test_prefixed_logs_are_detected():
    text = "> INFO: src/caffe/solver.cpp : line 218 : Iteration 5 (0.1 iter/s), loss = nan\n"
    assert reader("caffe").sniff(text.encode(), is_complete=True)


def by_epochs(steps, total, *, epochs=1, digits=2, every=0, late=0):
    """A log of the Trainer with epochs only, and an evaluation after every `every` steps."""
    text = f"  Num Epochs = {epochs}\n  Total optimization steps = {total:,}\n"
    for step in steps:
        epoch = round(step / total * epochs, digits)
        text += f"{{'loss': {9 - step / total}, 'epoch': {epoch}}}\n"
        if every and step % every == 0:
            epoch = round((step + late) / total * epochs, digits)
            text += f"{{'eval_loss': 3.0, 'epoch': {epoch}}}\n"
    return text


@pytest.mark.parametrize("first", [[], [1]])
@pytest.mark.parametrize("stride", [1, 10, 25])
def test_epochs_that_records_share(put, stride, first):
    steps = [*(first if stride > 1 else []), *range(stride, 10_001, stride)]
    history = stabdiag.read(put(by_epochs(steps, 10_000, epochs=2, every=1000)))
    assert history.series["loss"].steps.tolist() == steps
    assert history.series["eval_loss"].steps.tolist() == list(range(1000, 10_001, 1000))
    assert any("steps are estimated from epochs" in event.message for event in history.events)


def test_rounded_epochs_that_no_records_share(put):
    steps = list(range(10, 371, 10))
    history = stabdiag.read(put(by_epochs(steps, 370, every=100, late=5)))
    assert history.series["loss"].steps.tolist() == steps
    # Evaluations get their step from their own epoch, within its rounding.
    evaluated = history.series["eval_loss"].steps
    assert np.abs(evaluated - [105, 205, 305]).max() <= 2


@pytest.mark.parametrize(
    ("steps", "digits", "off"),
    [([*range(33, 600, 10)], 9, 0), ([*range(10, 3000, 10), *range(3000, 10_000, 37)], 2, 60)],
    ids=["in full", "shared, at no stride"],
)
def test_steps_from_rounded_epochs(put, steps, digits, off):
    actual = stabdiag.read(put(by_epochs(steps, 10_000, digits=digits))).series["loss"].steps
    assert len(actual) == len(steps)
    assert np.abs(actual - steps).max() <= off


@pytest.mark.parametrize("name", ["megatron", "caffe", "text", "mllog"])
def test_a_format_that_is_forced_on_another_log_says_so(name):
    with pytest.raises(stabdiag.errors.LogError, match=r"run\.log: no record could be read"):
        reader(name).read(Stream("run.log", io.BytesIO(b"hello\nworld\n")))


def test_the_last_state_of_each_epoch_counts(put):
    path = put(
        "".join(
            yolo_heading("box", "obj", "cls")
            + yolo_bar(epoch, 0.5, 0.5, 0.5, end="\r")
            + yolo_bar(epoch, 0.25, 0.5 - epoch / 8, 0.0)
            + "     all   657   2287   1.52e-05\n"
            for epoch in range(4)
        )
    )
    history = stabdiag.read(path)
    assert history.source.format == "yolo"
    assert history.series["loss"].steps.tolist() == [0, 1, 2, 3]
    assert history.series["loss"].values.tolist() == [0.75 - n / 8 for n in range(4)]


@pytest.mark.parametrize("noise", ["", "x" * 5000 + "\n", "ok\n" * 40_000])
def test_blocks_are_cut_between_tables(values, noise):
    text = "".join(
        boxed(("loss", f"{n}"), ("total_timesteps", f"{n}")) + noise * (n < 20) for n in range(2000)
    )
    columns = values("baselines", text)
    assert columns["loss"] == columns["total_timesteps"] == list(range(2000))


class TestOverflowMessages:
    def test_overflows_are_read_next_to_any_loss(self, tmp_path):
        apex = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}\n"
        path = tmp_path / "run.log"
        # Two ranks say the same.
        text = "step 10 loss 2.5\n" + apex.format(scale=512.0) * 2 + apex.format(scale=256.0)
        path.write_text(text + "step 20 loss 2.4\nstep 30 loss 2.3\n")
        history = stabdiag.read(path)
        assert history.series["loss_scale"].values.tolist() == [512, 256]
        assert history.series["skipped"].steps.tolist() == [11, 12]
        path.write_text("".join(apex.format(scale=2.0**n) for n in (9, 8, 7)))
        history = stabdiag.read(path)
        assert history.source.format == "alarms"
        assert history.series["loss_scale"].values.tolist() == [512, 256, 128]
        deepspeed = "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32\n"
        path.write_text("step 10 loss 2.5\nstep 20 loss 2.4\n" + deepspeed)
        assert stabdiag.read(path).series["loss_scale"].values.tolist() == [64, 32]
        path.write_text(deepspeed.replace("OVERFLOW! Rank 0", "[Rank 0] Overflow detected."))
        assert stabdiag.read(path).series["loss_scale"].values.tolist() == [64]

    def test_a_scale_of_0_is_said_once_for_each_overflow(self, put):
        apex = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.0\n"
        for text in (apex * 60, "".join(f"step {n} loss: 7.{n}\n{apex}" for n in range(10, 50))):
            diagnosis = stabdiag.diagnose(put(text)).diagnosis
            assert diagnosis.slug == "loss-scale-collapsed"
            assert "below 1 throughout, 0 at the lowest" in diagnosis.summary

    def test_a_step_that_a_hand_written_loop_skips_is_an_overflow(self, put):
        skipped = "  Non-finite grad norm, skipping step (consecutive: 1)\n"
        lines = [f"[step {n}] loss={4 - n / 100} scale=2.0e+03\n" for n in range(0, 100, 10)]
        history = stabdiag.read(put("".join(lines[:8]) + skipped * 2 + "".join(lines[8:])))
        assert history.series["skipped"].steps.tolist() == [71, 72]
        assert np.isinf(history.series["grad_norm"].values).all()

    def test_the_time_of_a_step_of_espnet_is_not_that_of_waiting_for_data(self, put):
        line = "1epoch:train:{n}-{n}batch: iter_time=0.1, loss=2.5, train_time=1.5\n"
        history = stabdiag.read(put("".join(line.format(n=n) for n in range(1, 5))))
        assert history.series["step_time"].values.tolist() == [1.5] * 4

    def test_a_gradient_of_espnet_that_is_nan_is_a_skipped_step(self, put):
        path = put(
            "(trainer:636) INFO: 1epoch:train:1-50batch: iter_time=0.1, loss_ctc=1.5, loss=65.129\n"
            + "(trainer:581) WARNING: The grad norm is nan. Skipping updating the model.\n" * 3
        )
        history = stabdiag.read(path)
        assert history.series["loss"].steps.tolist() == [50]
        assert history.series["grad_norm"].steps.tolist() == [51, 52, 53]
        assert history.series["skipped"].values.tolist() == [1, 1, 1]


def test_a_row_of_another_length_is_a_bad_line(read):
    table = "| Epoch | Loss |\n" + RULE + "| 1 | 2.5 |\n" * 3 + "| 4 | 2.5 | x |\n"
    columns = read("printed-table", f"title\n\n{table}")
    assert columns.rows == 3
    assert [(line.line, line.reason) for line in columns.bad_lines] == [(8, "3 cells instead of 2")]


def test_colors_of_the_best_value(values):
    """As skorch prints them; without colors, blanks separate the cells of this table."""
    text = "  epoch    train_loss     dur\n-------  ------------  ------\n" + "".join(
        f"     {n:2d}        \x1b[36m{2.5 - n / 100:.4f}\x1b[0m  0.0367\n" for n in range(10)
    )
    text += "     10        2.6000  0.0367\n"
    assert detect_format(text.encode(), is_complete=True) == "printed-table"
    columns = values("printed-table", text)
    assert columns["train_loss"] == [round(2.5 - n / 100, 4) for n in range(10)] + [2.6]


def test_spacy(put):
    text = (
        "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE\n"
        "---  ------  ------------  --------  ------  ------\n"
        "  0       0          0.00     45.00    0.00    0.00\n"
        "  0     200         45.61   2320.93   10.00    0.10\n"
        "  1     400        100.84   1215.25   20.00    0.20\n"
        "  2     600        190.84    915.25   30.00    0.30\n"
    )
    loss = stabdiag.read(put(text)).series["loss"]
    # The first row is of one batch, the others are sums, and a tok2vec has no loss of its own.
    assert loss.column == "LOSS NER"
    assert loss.steps.tolist() == [200, 400, 600]
    assert loss.values.tolist() == [2320.93, 1215.25, 915.25]


def test_a_message_about_a_loss_replaces_the_printed_value(put):
    lines = [f"[{n}/900] loss: {2.5 if n < 4 else 0}\n" for n in range(1, 6)]
    lines[3:3] = ["WARNING: received an inf loss, setting loss to 0\n"]
    loss = stabdiag.read(put("".join(lines))).series["loss"]
    assert loss.steps.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(loss.values, [2.5, 2.5, 2.5, np.nan, 0.0])


@pytest.mark.parametrize(
    "text",
    [
        'if np.isnan(loss):\n    logging.error("Model diverged with loss = NaN.")\n',
        "If you see Model diverged with loss = NaN, lower the learning rate.\n",
        "The run says Loss is nan, stopping training, and ends.\n",
        'print(f"Loss is {loss}, stopping training")\n',
        "It said: Loss became infinite or NaN at iteration=2137! What now?\n",
        "Skip the batch if the loss is NaN, it may be caused by fp16.\n",
        "It may end with a nan loss.\n",
        "print('Batch %d: Invalid loss, terminating training' % batch)\n",
    ],
)
def test_text_about_failures_is_not_a_failure(tmp_path, text):
    (tmp_path / "notes.txt").write_text(text * 3)
    with pytest.raises(NoUsableRecord):
        stabdiag.read(tmp_path / "notes.txt")


def test_the_first_releases_of_fairseq_are_read_by_names_and_values(put):
    lines = "".join(
        f"| epoch 001  {n * 1000} / 8223 loss={4 - n / 10} (4.5), wps=962, gnorm=2.14\n"
        for n in range(1, 9)
    )
    history = stabdiag.read(
        put(f"{lines}| epoch 001 | valid on 'valid' subset | valid loss 1.94\n")
    )
    assert history.source.format == "text"
    assert history.series["loss"].steps.tolist() == list(range(1000, 9000, 1000))


class TestCounted:
    """The HF Trainer without bars: steps are counted, and are in the manifest's intervals."""

    @staticmethod
    def log(put, epochs, *, evaluated=(), losses=None):
        text = " 50%|█████     | 2/4 [00:02<00:02,  1.0s/it]\r100%|██████████| 4/4 [00:05<00:00]\n"
        for n, epoch in enumerate(epochs):
            loss = 4 - 2 * epoch if losses is None else losses[n]
            text += f"{{'loss': {loss}, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n"
            if epoch in evaluated:
                text += f"{{'eval_loss': 3.0, 'epoch': {epoch}}}\n"
        return put(text)

    def test_evaluations_and_bars_of_the_model_count_for_nothing(self, put):
        path = self.log(put, [n / 100 for n in range(1, 41)], evaluated={0.1, 0.2})
        history = stabdiag.read(path)
        assert history.series["loss"].steps.tolist() == list(range(40))
        assert history.series["eval_loss"].steps.tolist() == [9, 19]
        assert not any("too seldom" in event.message for event in history.events)

    def test_the_manifest_gives_the_logging_interval(self, put):
        epochs = [n / 100 for n in range(1, 41)]
        losses = [2.0] * 30 + ["nan"] * 10
        path = self.log(put, epochs, losses=losses)
        report = stabdiag.diagnose(path, manifest={"logging_steps": 10, "save_steps": 100})
        assert report.diagnosis.step == 310
        assert "the checkpoint of step 300," in report.diagnosis.first_action

    def test_a_fraction_of_the_run_is_not_a_number_of_steps(self, put):
        path = self.log(put, [n / 100 for n in range(1, 41)])
        history = stabdiag.diagnose(path, manifest={"logging_steps": 0.05}).history
        assert history.series["loss"].steps.tolist() == list(range(40))

    def test_a_resume_goes_back_to_its_checkpoint(self, put):
        epochs = [n / 100 for n in (*range(1, 31), *range(21, 61))]
        path = self.log(put, epochs)
        report = stabdiag.diagnose(path, manifest={"logging_steps": 10})
        assert report.history.series["loss"].steps.tolist() == list(range(10, 601, 10))
        assert any("from step 300 to 210" in event.message for event in report.history.events)

    def test_runs_that_were_appended(self, put):
        epochs = [n / 100 for n in (*range(1, 31), *range(1, 41))]
        history = stabdiag.read(self.log(put, epochs))
        assert history.source.attempts == 2
        assert history.series["loss"].steps.tolist() == list(range(40))


@pytest.mark.parametrize("epoch", ["", ", 'epoch': nan", ", 'epoch': inf"])
def test_losses_without_an_epoch_next_to_an_evaluation_with_one(epoch):
    header = "  Total optimization steps = 100\n  Num Epochs = 3\n"
    losses = "".join(f"{{'loss': 2.{n}{epoch}}}\n" for n in (5, 4, 3))
    data = f"{header}{losses}{{'eval_loss': 2.1, 'epoch': 1.0}}\n".encode()
    columns = reader("hf-trainer-stdout").read(Stream("run.log", io.BytesIO(data)))
    assert columns.load("loss").values[:3].tolist() == [2.5, 2.4, 2.3]


def test_the_title_of_a_framed_table_is_not_a_header():
    frame = "-" * 38
    rows = "| rollout/    |         |\n|    ep_rew_mean | 20.5 |\n|    n_updates | {n} |\n"
    rows += "| train/ |  |\n|    loss | 5.{n} |\n|    value_loss | 55.3 |\n"
    text = "".join(f"{frame}\n{rows.format(n=n)}{frame}\n" for n in range(1, 30))
    assert detect_format(text.encode(), is_complete=True) == "baselines"
