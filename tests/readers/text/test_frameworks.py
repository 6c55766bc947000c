"""What is peculiar to each framework's log."""

import io

import numpy as np
import pytest

import stabdiag
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import detect_format
from stabdiag.readers.source import Stream
from tests.readers.text.printed import (
    FASTAI,
    RULE,
    boxed,
    iteration,
    lm,
    step_line,
    yolo_bar,
    yolo_heading,
)


def solver(text):
    return f"I0105 10:00:00.123456 17443 solver.cpp:341] {text}\n"


def inner(loss, updates):
    fields = f'{{"epoch": 1, "loss": "{loss}", "num_updates": "{updates}"}}'
    return f"2026 | INFO | train_inner | {fields}\n"


MARIAN = "Ep. 2.5 : Up. {} : Sen. 10,147 : Cost 9.71{} : Time 5.1s : L.r. 6.25e-06\n"
ROLLOUT = (("rollout/", ""), ("   ep_rew_mean", "21.3"))
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
def test_printed_columns_are_read(values, format, text, columns):
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


def test_tables_of_spacy_are_read(put):
    text = (
        "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE\n"
        "---  ------  ------------  --------  ------  ------\n"
        "  0       0          0.00     45.00    0.00    0.00\n"
        "  0     200         45.61   2320.93   10.00    0.10\n"
        "  1     400        100.84   1215.25   20.00    0.20\n"
        "  2     600        190.84    915.25   30.00    0.30\n"
    )
    loss = stabdiag.read(put(text)).series["loss"]
    # The first row describes one batch, the others are sums, and a tok2vec has no own loss.
    assert loss.column == "LOSS NER"
    assert loss.steps.tolist() == [200, 400, 600]
    assert loss.values.tolist() == [2320.93, 1215.25, 915.25]


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


def test_the_title_of_a_framed_table_is_not_a_header():
    frame = "-" * 38
    rows = "| rollout/    |         |\n|    ep_rew_mean | 20.5 |\n|    n_updates | {n} |\n"
    rows += "| train/ |  |\n|    loss | 5.{n} |\n|    value_loss | 55.3 |\n"
    text = "".join(f"{frame}\n{rows.format(n=n)}{frame}\n" for n in range(1, 30))
    assert detect_format(text.encode(), is_complete=True) == "baselines"


def test_the_scores_below_a_bar_of_yolo_belong_to_its_epoch(put):
    def evaluation(names, *values):
        cells = "".join(f"{value:>11}" for value in values)
        return (
            f"                 Class     Images  Instances      {names}: 100%|███| 2/2\n"
            f"                   all         16         64{cells}\n"
        )

    box, mask = "Box(P          R      mAP50  mAP50-95)", "Mask(P          R      mAP50  mAP50-95)"
    text = "".join(
        yolo_heading("box_loss", "cls_loss")
        + yolo_bar(epoch, 0.5, 0.5)
        + evaluation(f"{box}      {mask}", *(n * epoch / 100 for n in range(8)))
        for epoch in range(5)
    )
    best = evaluation(box, 0.9, 0.9, 0.9, 0.9)
    history = stabdiag.read(put(f"{text}5 epochs completed.\nValidating best.pt...\n{best}"))
    assert history.series["score/mAP50"].values.tolist() == [0.0, 0.02, 0.04, 0.06, 0.08]
    assert history.series["score/mask mAP50-95"].values.tolist() == [0.0, 0.07, 0.14, 0.21, 0.28]
    assert history.series["score/recall"].steps.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("Average global foreground Dice: [0.{n}5]", [0.15, 0.25, 0.35]),
        ("Average global foreground Dice: [0.8, 0.{n}5]", None),
        ("Yayy! New best EMA pseudo Dice: 0.{n}5", None),
    ],
)
def test_scores_below_a_heading_belong_to_its_epoch(put, written, values):
    text = "".join(
        f"2022-02-11 09:32:44.2070: \nepoch:  {n}\n2022-02-11 09:34:49.6255: train loss : -0.{n}8\n"
        f"2022-02-11 09:34:59.6888: {written.format(n=n)}\n2022-02-11 09:35:00.8571: lr: 0.0099\n"
        for n in range(1, 4)
    )
    scores = {
        name: series.values.tolist()
        for name, series in stabdiag.read(put(text)).series.items()
        if name.startswith("score/")
    }
    assert [*scores.values()] == ([] if values is None else [values])


@pytest.mark.parametrize(
    "form", ["loss:{loss}, global_step:{n}", "epoch 0 step {n} train_loss = {loss}"]
)
def test_a_loss_that_a_program_prints_next_to_deepspeed_is_read(tmp_path, form):
    path = tmp_path / "train.log"
    steps = range(10, 200, 10)
    path.write_text(
        "".join(f"{step_line(n, 2)}{form.format(n=n, loss=3 - n / 100)}\n" for n in steps)
    )
    loss = stabdiag.diagnose(path).history.series["loss"]
    assert loss.steps.tolist() == [*steps]
    assert loss.values.tolist() == pytest.approx([3 - n / 100 for n in steps])
