"""Messages about failures below the records of a log."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord
from tests.readers.text.printed import yolo_bar, yolo_heading

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


@pytest.mark.parametrize(
    "line",
    [
        "Skipped 0 batches with non-finite loss",
        "0 batches had a NaN loss",
        "no step had a nan loss",
        "Will abort if loss is nan.",
        "gradient clipping: inf norm",
    ],
)
def test_a_count_of_no_failures_is_none(put, line):
    lines = [f"[{n}/60] loss: {3 - n / 40:.4f}\n" for n in range(60)]
    loss = stabdiag.read(put("".join([*lines, f"{line}\n"]))).series["loss"]
    assert len(loss) == 60
    assert np.isfinite(loss.values).all()


@pytest.mark.parametrize(
    "line",
    [
        "trainer: cost became NaN, quit",
        "gradients are inf after 20 attempts, stop",
        "Loss overflowed the range of float16. Stopping.",
        "Encountered Inf in the loss tensor.",
        "ERROR - NaN loss at iteration 61 (lr=0.001)",
        "WARN step 61: nan loss, grad_norm 0.3, lr 0.1",
        "optimizer step skipped: gradients contain inf (100 times in a row), aborting",
        "la perte est nan, arrêt de l'apprentissage",
        "loss が nan になったため終了します",
        "Потери стали nan, обучение остановлено",
    ],
)
def test_other_words_for_a_failure_are_the_last_loss(put, line):
    lines = [f"[{n}/60] loss: {3 - n / 40:.4f}\n" for n in range(60)]
    loss = stabdiag.read(put("".join([*lines, f"{line}\n"]))).series["loss"]
    assert not np.isfinite(loss.values[-1])


@pytest.mark.parametrize("label", ["[rank%d]: ", "%d: ", "[Rank %d] "])
@pytest.mark.parametrize("failed", [0, 1])
def test_a_rank_whose_values_have_their_own_lines_fails_alone(put, label, failed):
    lines = [
        f"{label % rank}step: {n}\n"
        f"{label % rank}loss: {'nan' if n >= 30 and rank == failed else 3 - n / 40}\n"
        f"{label % rank}lr: 0.001\n"
        for n in range(60)
        for rank in (0, 1)
    ]
    loss = stabdiag.read(put("".join(lines))).series["loss"]
    assert loss.steps.tolist() == list(range(60))
    assert np.isfinite(loss.values[:30]).all()
    assert not np.isfinite(loss.values[30:]).any()


def test_every_rank_of_the_fused_optimizer_reports_an_overflow(tmp_path):
    path = tmp_path / "train.log"
    line = "[fused_optimizer.py:316:_update_scale] Reducing dynamic loss scale from {} to {}\n"
    timer = "[timer.py:166:stop] 0/{}, SamplesPerSec=28.75\n"
    path.write_text(
        "".join(2 * line.format(scale, scale // 2) + 5 * timer.format(scale) for scale in (8, 4, 2))
        + line.format(1, 1)
        + "[Rank 0] Overflow detected. Skipping step. Attempted loss scale: 1, reducing to 1\n"
    )
    series = stabdiag.diagnose(path).history.series
    assert series["loss_scale"].values.tolist()[:3] == [4, 2, 1]
    path.write_text("".join(2 * line.format(1, 1) + timer.format(n) for n in range(3)))
    assert stabdiag.diagnose(path).diagnosis.slug == "loss-scale-collapsed"


@pytest.mark.parametrize(
    ("line", "is_lost"),
    [
        ("optimizer produced NaNs, dying", True),
        ("The optimizer returned nan parameters. Exiting.", True),
        ("the network predicted nan for all inputs", True),
        ("gradients have nan, bailing out", True),
        ("optimizer: adam, max_patience: inf", False),
        ("The optimizer would have produced nan without clipping", False),
        ("replaced nan values in 3 columns of the data", False),
    ],
)
def test_an_optimizer_or_a_network_that_returned_nan(tmp_path, line, is_lost):
    path = tmp_path / "train.log"
    path.write_text("".join(f"epoch {n} loss {3 - n / 20}\n" for n in range(24)) + f"{line}\n")
    slug = stabdiag.diagnose(path).diagnosis.slug
    assert slug == ("nan-dtype-unknown" if is_lost else "healthy")
