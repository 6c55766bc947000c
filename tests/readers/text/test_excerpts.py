"""Excerpts as people paste them: rewards, scores, objectives, single blocks, odd heads."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord
from tests.readers.text.printed import log


@pytest.fixture
def series(put):
    def read(text, name="run.log"):
        return stabdiag.read(put(text, name)).series

    return read


def points(series):
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


KALDI = (
    "LOG (nnet3-train:Print():nnet-training.cc:121) Average objective function for 'output' for"
    " minibatches {}-{} is {} over 12800 frames.\n"
)


@pytest.mark.parametrize(
    ("text", "losses"),
    [
        (
            "".join(
                KALDI.format(n, n + 9, value) for n, value in ((0, -4.1), (10, -3.9), (20, -1e9))
            ),
            [4.1, 3.9, 1e9],
        ),
        (
            "".join(
                f"VLOG[1] (train:Report():net.cc:322) After {n} sequences (1.2Hr): Obj(log[Pzx]) ="
                f" {value}   TokenAcc = 20.1 %\n"
                for n, value in ((1000, -95.5), (2000, -71.5), (3000, "nan"))
            ),
            [95.5, 71.5, np.nan],
        ),
        (
            "".join(
                f"INFO batch {n}, epoch 0/10 global average objf: {value} over 1000 frames\n"
                for n, value in ((0, 1.25), (10, 0.5), (20, "nan"))
            ),
            [1.25, 0.5, np.nan],
        ),
        (
            "".join(f"step {n} elbo: {-1203.5 + n}\n" for n in range(4)),
            [1203.5, 1202.5, 1201.5, 1200.5],
        ),
        (
            "".join(f"iter {n} log-likelihood: {-20.5 + n}\n" for n in range(3)),
            [20.5, 19.5, 18.5],
        ),
        ("".join(f"Losses {{'ner': {9.5 - n}}}\n" for n in range(5)), [9.5, 8.5, 7.5, 6.5, 5.5]),
    ],
)
def test_an_objective_is_a_loss_with_the_sign_of_a_loss(series, text, losses):
    np.testing.assert_array_equal(series(text)["loss"].values, losses)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (
            "[INFO] Walker. Step: {}. Time Elapsed: 4.7 s. Mean Reward: {}. Training.",
            range(5, 45, 5),
        ),
        (
            "[INFO] fit_test: Hopper: Step: {}. Mean Reward: {}. Std of Reward: 0.5.",
            range(5, 45, 5),
        ),
        ("episode: {}/1000, score: {}, e: 1.0", range(5)),
        ("Episode {}\tAverage Score: {}", range(0, 600, 100)),
        ("Game {} | Mean Reward: {} | Explore: 1.00", range(0, 200, 20)),
    ],
)
def test_a_few_rewards_are_a_log(series, line, counts):
    text = "\n".join(line.format(n, 2.5 + n) for n in counts)
    reward = series(text)["reward"]
    assert reward.steps.tolist() == [*counts]
    assert reward.values.tolist() == [2.5 + n for n in counts]


@pytest.mark.parametrize(
    "text", ["the reward is 2.5\n" * 2, "score: 5\n" * 3, "Step 5: reward\n" * 9]
)
def test_words_about_rewards_are_not_a_log(put, text):
    with pytest.raises(LogError):
        stabdiag.read(put(text))


BLOCK = (
    "{rule}\n                Learning iteration {n}/2000\n\n"
    "          Computation: 51000 steps/s (collection: 0.9s)\n"
    "          Value function loss: {loss}\n             Mean reward: 17.30\n"
)


@pytest.mark.parametrize(
    ("losses", "steps"), [(["inf"], [412]), ([2.5, "nan"], [412, 413]), ([2.5, 1.5], [412, 413])]
)
def test_blocks_of_an_iteration_are_records(series, losses, steps):
    text = "".join(
        BLOCK.format(rule="#" * 80, n=412 + n, loss=loss) for n, loss in enumerate(losses)
    )
    loss = series(text)["loss"]
    assert loss.steps.tolist() == steps
    np.testing.assert_array_equal(loss.values, [float(value) for value in losses])


def test_the_rewards_of_a_monitor_are_read(series):
    text = (
        '#{"t_start": 1.5, "env_id": "Walker-v2"}\nr,l,t\n-95.2,150,1.3\n-88.7,71,2.5\n4.5,9,3.5\n'
    )
    assert series(text, "monitor.csv")["reward"].values.tolist() == [-95.2, -88.7, 4.5]


@pytest.mark.parametrize(
    "text",
    [
        "Step Training Loss Validation Loss\n500 1.5 1.75\n1000 0.5 nan\n",
        "epoch train loss valid loss accuracy\n500 1.5 1.75 0.5\n1000 0.5 nan 0.6\n",
    ],
)
def test_a_table_with_single_blanks_is_read(series, text):
    read = series(text)
    assert read["loss"].values.tolist() == [1.5, 0.5]
    np.testing.assert_array_equal(read["eval_loss"].values, [1.75, np.nan])


def test_a_remark_below_a_header_in_a_comment_is_skipped(series):
    text = "#  step  rmse_val  rmse_trn  lr\n# a remark on the columns\n" + "".join(
        f"  {n}  9.5  {8.5 - n}  0.1\n" for n in range(4)
    )
    assert series(text, "run.out")["loss"].values.tolist() == [8.5, 7.5, 6.5, 5.5]


def test_nul_bytes_at_the_head_of_a_truncated_log_are_left_out(put):
    text = "\0" * 9000 + "".join(f"step {n} | loss {2.5 - n / 8} | lr 0.1\n" for n in range(9))
    history = stabdiag.read(put(text))
    assert len(history.series["loss"]) == 9


def test_nul_bytes_alone_are_not_a_log(put):
    with pytest.raises(LogError):
        stabdiag.read(put("\0" * 9000))


def test_a_value_after_a_comma_is_read(series):
    text = "".join(f"epoch 1, phase train, step {n}, loss_train, {2.5 - n / 8}\n" for n in range(9))
    assert series(text)["loss"].values.tolist() == [2.5 - n / 8 for n in range(9)]


def test_a_dict_after_a_bar_is_read_completely(series):
    text = "{'loss': 0.5, 'reward': -1.1, 'learning_rate': 2e-05}\n" + "".join(
        f"  0%|          | {n}/900 [00:08<2:00:00, 8.0s/it]"
        f"{{'loss': {loss}, 'reward': 2.2, 'learning_rate': 2e-05}}\n"
        for n, loss in enumerate(("nan", 0.25, 0.125), start=1)
    )
    text += "  0%|          | 4/900 [00:32<2:00:00, 8.0s/it]\n"
    np.testing.assert_array_equal(series(text)["loss"].values, [0.5, np.nan, 0.25, 0.125])


def test_dicts_that_share_the_step_of_a_cut_bar_are_separate_records(series):
    text = (
        "{'loss': 0.329, 'reward': -2.0, 'learning_rate': 5e-05}\n"
        "  0%|   | 1/13000 [00:10<36:34:36, 10.13s/it]"
        "{'loss': nan, 'reward': 5.7, 'learning_rate': 5e-05}\n"
        "  0%|   | 2/13000 [00:28<54:33:11, 15.11s/it"
        "{'loss': 0.2527, 'reward': 1.2, 'learning_rate': 5e-05}\n"
        "  0%|   | 3/13000 [00:39<47:01:51, 13.03s/it]"
        "{'loss': 0.1512, 'reward': 10.7, 'learning_rate': 5e-05}\n"
    )
    np.testing.assert_array_equal(series(text)["loss"].values, [0.329, np.nan, 0.2527, 0.1512])


def test_the_loss_in_a_bar_above_its_epoch_is_that_of_the_training(series):
    text = "".join(
        f"100%|####| 420/420 [00:11<00:00, 38.1it/s, accuracy=1, loss={1 / n}, lr=0.1]\n"
        f"Epoch {n}, Val Loss: {2 / n}, Val Accuracy: 0.9\n"
        for n in (1, 2, 4, 8)
    )
    assert series(text)["loss"].values.tolist() == [1, 0.5, 0.25, 0.125]


@pytest.mark.parametrize(
    "line",
    [
        "accuracy: 0.5123, loss: {} ||: : 100it [00:10, 10.0it/s]\n",
        "Progress: 10.0% words/sec/thread: 100000 lr: 0.090000 avg.loss:  {} ETA:   0h 1m\n",
    ],
)
def test_lines_without_a_counter_are_a_log_if_a_loss_is_not_finite(series, line):
    text = "".join(line.format(loss) for loss in ("2.50", "     nan", "nan"))
    np.testing.assert_array_equal(series(text)["loss"].values, [2.5, np.nan, np.nan])


def test_a_sentence_about_a_nan_is_not_a_log(put):
    with pytest.raises(LogError):
        stabdiag.read(put("The loss is nan at some point.\nWhat can I do?\n"))


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        ("epoch: 0, iter: {n}, lr: 1e-4, 'loss': nan, time: 2.3", [1, 2]),
        ("ep={n} tr=['train'] loss={loss} err=0.2 valid=dev loss=0.7 err=0.3", [1, 2]),
        ("Step {n} CTCLoss: nanxxx, loss: nanxxx", [1, 2]),
        ("Epoch [1][{n}/62598] lr: 1.000e-03, loss_ce: 1.2, loss: {loss}", [1, 2]),
    ],
)
def test_an_excerpt_of_two_lines(values, read, lines, steps):
    actual = values("text", log(lines, 2))
    assert actual.get("step", actual.get("epoch")) == steps
    assert "(unsure)" in read("text", log(lines, 2)).events[0].message


@pytest.mark.parametrize("epochs", [(0.1, 0.2), (0.1, 0.2, 0.3), (9.92, 10.08, 10.25)])
def test_a_few_losses_at_fractions_of_an_epoch(values, epochs):
    text = "".join(f"epoch {epoch:.2f} loss {2.8 - epoch / 10:.3f}\n" for epoch in epochs)
    assert len(values("text", text)["loss"]) == len(epochs)


def test_fractions_of_an_epoch_that_fall_are_not_a_log(put):
    with pytest.raises(LogError):
        stabdiag.read(put("epoch 1.5 loss 2.8\nepoch 0.5 loss 2.7\n"))


@pytest.mark.parametrize(
    "heading",
    [
        "epoch={}",
        "Epoch {}/40",
        "Epoch {} of 40",
        "=== Starting epoch {} ===",
        "2026-01-02 10:15:00.125 | INFO     | pkg_a.train:train:86 - epoch={}",
        "[2026-01-02 10:15:00] Training epoch {}",
    ],
)
def test_two_epochs_below_their_headings(tmp_path, heading):
    path = tmp_path / "run.log"
    prefix = heading[: heading.rindex(" - ") + 3] if " - " in heading else ""
    path.write_text(
        "".join(
            f"{heading.format(epoch)}\n{prefix}train_loss=0.{9 - n}1, val_loss=0.{n + 5}2, "
            f"test_loss=0.{n + 5}3\n{prefix}train_acc=0.{n + 3}1, val_acc=0.51\n"
            for n, epoch in enumerate((1, 29))
        )
    )
    series = stabdiag.read(path).series
    assert series["loss"].steps.tolist() == [1, 29]
    assert series["eval_loss"].values.tolist() == [0.52, 0.62]


@pytest.mark.parametrize(
    ("heading", "pair"),
    [
        ("step {}", "{} {}"),
        ("step: {}", "{}: {}"),
        ("===== Step {}/400 =====", "{} = {}"),
        ("train/global_step: {}", "train/{}: {}"),
        ("train/step {}", "train/{} {}"),
    ],
)
def test_two_blocks_below_their_steps(tmp_path, heading, pair):
    path = tmp_path / "run.log"
    path.write_text(
        "\n".join(
            "".join(
                f"{line}\n"
                for line in (
                    heading.format(50 + 50 * n),
                    pair.format("loss", f"2.{n}1"),
                    pair.format("grad_norm", f"0.{n + 3}"),
                )
            )
            for n in range(2)
        )
    )
    series = stabdiag.read(path).series
    assert series["loss"].steps.tolist() == [50, 100]
    assert series["grad_norm"].values.tolist() == [0.3, 0.4]


def test_the_steps_of_an_instruction_are_no_headings(put):
    with pytest.raises(LogError):
        stabdiag.read(put("Step 1\nSet loss = 2.1\n\nStep 2\nStart the script.\n"))


def test_a_head_like_an_excerpt_is_read_further(read):
    noise = "loading weights, please wait\n" * 40_000
    text = log("epoch {n} it {n}: loss {loss}", 2) + noise + log("epoch 3 it {n}: loss {loss}", 90)
    assert "92 lines" in read("text", text).events[0].message


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            "08/03 22:09:24 - Epoch(train) [1][ 500/2931] lr: 2e-2 time: 0.05 loss: nan acc: 0.1",
            500,
        ),
        ("Iter [4000/160000] lr: 2.5e-05, decode.loss: 0.07, aux.loss: nan, loss: nan", 4000),
        ("Surrogate loss: nan KL: 0.1 Entropy: nan training epoch: 2 learning_rate: 0.0003", 2),
        ("\n".join(f"Batch 7/9 loss nan lr 1e-3 grad_norm nan rank {n}" for n in (2, 0, 1)), 7),
        ("| Iteration             12\n| lossAverage             nan\n| Return      0.625", 0),
    ],
)
def test_one_line_suffices_if_its_loss_is_not_finite(put, line, step):
    diagnosis = stabdiag.diagnose(put(f"{line}\n")).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", step)


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("Iter [4000/160000] lr: 2.5e-05, loss: 2.5\n", 2.5),
        ("Epoch: 7/200; iter: 0/156; Loss: 0.25; time: 37.99 s;\n", 0.25),
        ("[4/80] Loss_D: 0.75 Loss_G: 0.0625 D(x): 0.5 D(G(z)): 0.25:\n", 0.75),
        ("[4/80] loss: 0.75 acc: 0.5\n", 0.75),
        (
            "".join(f"group: part_{n} has {n} params, lr_mult: 1\n" for n in range(12))
            + "UserWarning: The use of this transform is deprecated.\n"
            + "Epoch: [0][0/90], lr: 0.5\tTime 3.5 (3.5)\tData 0.5 (0.5)\tLoss 2.5 (2.5)\n",
            2.5,
        ),
        ("4/800 - loss: 0.75 - acc: 0.5\n", 0.75),
        ("my output\n\n| epoch 3 | step 120 | loss 1.5 |\n", 1.5),
        ("epoch:  4\n\n10:00:01: train loss : 0.5\n10:02:13: validation loss: 0.75\n", 0.5),
        (
            "".join(f"10:00 train_{name}: 1{name}.5  step:2\n" for name in range(9))
            + "10:00 train_loss: 0.5  step:2\n10:02 valid_loss: 0.75  step:2\n",
            0.5,
        ),
        ("10:00 (Step: 90) train_a_loss = 0.5.\n10:00 (Step: 90) train_b_loss = 0.25.\n", 0.5),
        # Darknet: the losses of layers are parts of the loss above them.
        (
            " 46: 16.5, 20.5 avg loss, 0.001 rate, 22.9 seconds, 2944 images, 33.1 hours left\n"
            + "v3 (iou loss) Region 139 Avg (IOU: 0.5), class_loss = 9.5, total_loss = 60.5 \n" * 3,
            16.5,
        ),
        (
            " 46: 16.5, 20.5 avg loss, 0.001 rate, 22.9 seconds, 2944 images, 33.1 hours left\n"
            + "v3 (mse loss, Normalizer: (iou: 0.75, obj: 1.00) Region 150 Avg (IOU: 0.5)"
            ", count: 8, class_loss = 9.5, iou_loss = 0.25, total_loss = 60.5 \n" * 9,
            16.5,
        ),
    ],
)
def test_the_only_record_of_a_paste_is_read(put, text, loss):
    report = stabdiag.diagnose(put(text))
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.series["loss"].values.tolist() == [loss]


def test_many_values_on_lines_of_different_tasks_without_a_counter(put):
    line = "INFO - task : ['{}'], loss: {}, hm_loss: {}, loc_loss: {}, num_positive: 4{}.0\n"
    names = ["car", "truck", "bus", "barrier", "bicycle", "a long word " * 40]
    lost = "".join(line.format(name, *["nan"] * 3, n) for n, name in enumerate(names))
    assert stabdiag.diagnose(put(lost)).diagnosis.slug == "nan-dtype-unknown"
    with pytest.raises(NoUsableRecord):
        stabdiag.read(put(lost.replace("nan", "0.5")))


def test_a_day_at_the_start_of_the_only_record_is_not_its_step(put):
    text = "23 May 14:00    INFO  epoch 5 training [time: 0.98s, train loss: 7450.5]\n"
    assert stabdiag.read(put(text)).series["loss"].steps.tolist() == [5]


def test_a_nan_among_the_losses_of_the_only_record_is_seen(put):
    lines = [f"10:00:0{n} INFO: (Step: 90) train_{n}_loss = {n / 4}.\n" for n in range(1, 5)]
    lines.append("10:00:05 INFO: (Step: 90) train_mel_loss = nan.\n")
    report = stabdiag.diagnose(put("".join(lines)))
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 90)


@pytest.mark.parametrize(
    "text",
    [
        "After a while in epoch 3, this model has a training loss: 2.5 and does not improve.\n",
        "loss: 2.5\n",
        "12/06 loss: 2.5 acc: 0.5\n",
        "The model of our paper needs nine hours.\n" * 9
        + "Epoch 3 lr: 0.5 loss: 2.5 acc: 0.5 time: 3.25\n",
        "On [12/06] loss: 2.5 acc: 0.5\n",
        "epoch 3: the loss\nloss: 2.5\n",
        "Iter [4000/160000] lr: 2.5e-05, loss: 2.5\n" + "loading a file\n" * 9,
    ],
)
def test_a_sentence_or_a_lone_value_is_not_a_record(put, text):
    with pytest.raises(NoUsableRecord, match="is on one line only"):
        stabdiag.read(put(text))


def test_a_position_that_does_not_move_is_not_the_step(put):
    text = "".join(
        f"| Epoch [{n}/1000] Iter[450/ 41]\t\tLoss: {3 - n / 100:.4f} Acc@1: {n}.680%\n"
        for n in range(211, 217)
    )
    assert stabdiag.read(put(text)).series["loss"].steps.tolist() == [*range(211, 217)]


def test_a_record_with_a_line_for_each_value(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(
        "12:01 - ppo - INFO - Loss of the policy:  -0.00315\n"
        "12:01 - ppo - INFO - Loss of the critic:  31.4012\n"
        "12:01 - ppo - INFO - Epoch: 7\n"
        "12:01 - ppo - INFO - Std Episode Return:  3.5\n"
        "12:01 - ppo - INFO - Mean Episode Return: 41.5\n"
    )
    summary = stabdiag.diagnose(path).diagnosis.summary
    assert "The reward was 41.5" in summary


@pytest.mark.parametrize("name", ["loss_weight", "loss_scale", "lr"])
def test_settings_line_by_line_are_not_a_record(tmp_path, name):
    path = tmp_path / "run.txt"
    path.write_text(f"epoch: 40\nbatch: 32\n{name}: 0.1255\nmargin: 0.25\nseed: 12\n")
    with pytest.raises(stabdiag.StabdiagError):
        stabdiag.diagnose(path)


def test_scores_of_a_short_log_are_in_the_summary(tmp_path):
    path = tmp_path / "run.txt"
    lines = (f"step {n} loss {3 - n / 10:.2f} cer {90 - n:.1f}" for n in range(1, 6))
    path.write_text("\n".join(lines))
    assert "'cer' from 89 to 85" in stabdiag.diagnose(path).diagnosis.summary


def test_values_of_unknown_meaning_are_in_the_summary(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("".join(f"Episode {n}0\tLast length: {n * 7 % 5}\n" for n in range(1, 9)))
    assert "'Last length' (from 2 to 1)" in stabdiag.diagnose(path).diagnosis.summary


def test_a_first_loss_that_is_nan_is_in_the_summary(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("round 0 loss=nan\nround 1 loss=0.9\nround 2 loss=0.8\nround 3 loss=0.7\n")
    assert "no NaN after the first loss" in stabdiag.diagnose(path).diagnosis.summary


def test_a_reward_goes_with_its_loss(tmp_path):
    path = tmp_path / "run.txt"
    block = "Iteration: {}\nLoss: {}\nMeanRew: {} +- 1.5\n-----\n"
    path.write_text("".join(block.format(n, 0.5 - n / 100, -20 - n) for n in range(5)))
    assert "The reward went from -20 to -24" in stabdiag.diagnose(path).diagnosis.summary


@pytest.mark.parametrize(
    ("raised", "is_failure"),
    [
        ("trainer.UserError: Got NaN in first epoch. Try reducing initial learning rate.", True),
        ("EXCEPTION occurred: ValueError: The training criterion is not finite", True),
        ("ValueError: Input X contains NaN. Drop the rows before the first fit.", False),
        ("ValueError: cannot convert float NaN to integer", False),
    ],
)
def test_an_exception_alone_may_report_a_nan(put, raised, is_failure):
    text = f"""  File "model.py", line 12, in fit\n    run()\n{raised}\n"""
    if is_failure:
        assert stabdiag.diagnose(put(text)).diagnosis.slug.startswith("nan-")
    else:
        with pytest.raises(NoUsableRecord):
            stabdiag.diagnose(put(text))


def test_the_summary_of_an_excerpt_has_its_values(put):
    record = "step 120/900 loss: 2.3125 lr: 0.001 psnr: 21.5\n"
    assert "The loss was 2.312 and 'psnr' 21.5." in stabdiag.diagnose(put(record)).diagnosis.summary
    two = record + "step 130/900 loss: 1.3125 lr: 0.001 psnr: 22.5\n"
    summary = stabdiag.diagnose(put(two)).diagnosis.summary
    assert "The loss went from 2.312 to 1.312 and 'psnr' from 21.5 to 22.5." in summary


@pytest.mark.parametrize("heading", ["---- Iteration #40 ----", "Iteration: 40", "ITERATION 40"])
def test_a_lost_loss_gets_the_iteration_above_it(tmp_path, heading):
    path = tmp_path / "run.txt"
    path.write_text(f"{heading}\nAverage Return: 3.5\nAverage Loss: nan\nSteps So Far: 900\n----\n")
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 40)


@pytest.mark.parametrize(
    "record",
    ["Step: {}00. Mean Reward: {}.5. Std of Reward: 0.25.", "episode {} reward {}.5 eps 0.9"],
)
def test_two_rewards_make_a_log(tmp_path, record):
    path = tmp_path / "run.txt"
    path.write_text("".join(f"{record.format(n, n + 3)}\n" for n in (1, 2)))
    assert "The reward went from 4.5 to 5.5" in stabdiag.diagnose(path).diagnosis.summary


def test_a_sentence_about_two_rewards_is_not_a_log(tmp_path):
    path = tmp_path / "post.txt"
    path.write_text(
        "At step 100 I get a reward: 3.5 and an epsilon: 0.9 which is fine.\n"
        "At step 200 I get a reward: 4.5 and an epsilon: 0.8 which is not.\n"
    )
    with pytest.raises(LogError):
        stabdiag.diagnose(path)


def test_examples_below_a_record_are_not_records(tmp_path):
    path = tmp_path / "run.txt"
    example = "I WER: 1.0, loss: 2.{}, mean edit distance: 0.5\n  src: a\n"
    path.write_text(
        "I Training of Epoch 3 - WER: 0.75, loss: 41.5, mean edit distance: 0.25\n"
        + "".join(map(example.format, range(4)))
    )
    report = stabdiag.diagnose(path)
    assert report.history.logged("loss").values.tolist() == [41.5]
    assert report.history.last_step == 3


def test_the_last_state_of_a_bar_has_the_mean_of_its_epoch(tmp_path):
    path = tmp_path / "run.txt"
    bar = "Epoch {} | Validation | Elapsed Time: 0:00:0{} | Steps: {} | Loss: {}.25 | Data"
    lines = (
        f"Epoch {epoch} |   Training | Elapsed Time: 0:02:09 | Steps: 15 | Loss: {90 - epoch}.5\n"
        + "".join(bar.format(epoch, n, n, 70 + n) for n in range(4))
        + "set: dev.csv\n"
        for epoch in (1, 2, 3)
    )
    path.write_text("".join(lines))
    history = stabdiag.diagnose(path).history
    assert history.logged("loss").values.tolist() == [89.5, 88.5, 87.5]
    assert history.logged("eval_loss").values.tolist() == [73.25] * 3


@pytest.mark.parametrize("end", ["", "4100, avg_loss=5.12345]"])
def test_a_message_with_an_exploded_loss_is_a_record(tmp_path, end):
    path = tmp_path / "run.txt"
    path.write_text(
        "Step    4100 [1.012 sec/step, loss=5.12345, avg_loss=5.12345]\n"
        f"Loss exploded to 91234.50000 at step 4104{end}\n"
        "Exiting due to exception: Loss exploded\n"
    )
    report = stabdiag.diagnose(path)
    assert report.history.logged("loss").values.tolist() == [5.12345, 91234.5]
    assert report.diagnosis.severity == "error"
    assert "jumped to 91234 at step 4104" in report.diagnosis.summary


def test_russian_abbreviations_are_read(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(
            f"Эпоха {n}/9 - Потери обуч: {3 / n:.3f}, Точн обуч: 0.{n}, Точн вал: 0.{n}5\n"
            for n in range(1, 6)
        )
    )
    series = stabdiag.read(path).series
    assert series["loss"].values.tolist() == [3.0, 1.5, 1.0, 0.75, 0.6]
    assert series["eval_accuracy"].values[-1] == 0.55


def test_the_mean_of_returns_is_the_reward(tmp_path):
    path = tmp_path / "scores.txt"
    names = [
        "steps",
        "episodes",
        "elapsed",
        "mean",
        "median",
        "stdev",
        "max",
        "min",
        "average_loss",
    ]
    rows = ([n * 500, n, n * 9.5, n - 20.5, n - 21, 0.5, n, -21, 0.25] for n in range(1, 9))
    path.write_text("\n".join("\t".join(map(str, row)) for row in [names, *rows]))
    assert stabdiag.read(path).series["reward"].values[0] == -19.5


@pytest.mark.parametrize(
    ("line", "step", "loss"),
    [
        ("INFO:tensorflow:global step 700: loss = 3.2500 (1.25 sec/step)", 700, 3.25),
        ("step 9100 - loss = 6.125, (1.035 sec/step)", 9100, 6.125),
        ("Epoch 4, train loss: 0.875", 4, 0.875),
        ("[step 1200] loss: 0.3125", 1200, 0.3125),
    ],
)
def test_a_line_with_a_counter_and_a_loss_is_a_record(tmp_path, line, step, loss):
    path = tmp_path / "run.txt"
    path.write_text(f"이렇게 나옵니다\n\n{line}\n")
    history = stabdiag.diagnose(path).history
    assert (history.last_step, history.logged("loss").values.tolist()) == (step, [loss])


@pytest.mark.parametrize(
    "text",
    [
        "After epoch 4 my loss is 0.875 and I wonder about it.",
        "The paper reports at step 1200 a loss of 0.3125 for this model.",
        "def step(loss=0.25): pass",
    ],
)
def test_a_remark_about_a_loss_is_not_a_record(tmp_path, text):
    path = tmp_path / "post.txt"
    path.write_text(f"{text}\n")
    with pytest.raises(LogError):
        stabdiag.diagnose(path)


def test_a_record_with_many_values_may_be_among_messages(tmp_path):
    path = tmp_path / "run.txt"
    messages = "".join(f"2024-01-02 - checkpoints - Saved save/CKPT+{n}\n" for n in range(12))
    record = "epoch: 8, lr: 1.5e-04 - train loss: 7.5e-01 - valid loss: 0.5, valid WER: 21.50\n"
    path.write_text(messages + record + messages)
    history = stabdiag.diagnose(path).history
    assert (history.last_step, history.logged("eval_loss").values.tolist()) == (8, [0.5])


def test_two_steps_of_several_ranks_keep_their_steps(tmp_path):
    path = tmp_path / "run.txt"
    line = "DEBUG TRAIN Batch 2/{}00 loss {}.5 loss_att 9.25 loss_ctc 8.75 lr 0.0003 rank {}\n"
    path.write_text("".join(line.format(n, n + rank, rank) for n in (51, 52) for rank in range(3)))
    loss = stabdiag.diagnose(path).history.logged("loss")
    assert loss.steps.tolist() == [5100, 5200]
    assert loss.values.tolist() == [51.5, 52.5]


def test_a_cut_result_of_rllib_is_a_record(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(
        "Result for PPO_Maze_1:\n  episode_reward_mean: 12.5\n  info:\n    learner:\n"
        "      total_loss: 3.25\n      vf_loss: 3.125\n  iterations_since_restore: 6\n  pid: 7\n"
    )
    report = stabdiag.diagnose(path)
    assert report.history.last_step == 6
    assert "The reward was 12.5 and the loss 3.25" in report.diagnosis.summary


@pytest.mark.parametrize(
    "line", ["NaN detected", "*** NaN detected! ***", "WARNING: inf values found"]
)
def test_a_line_that_only_says_nan_is_a_failure(tmp_path, line):
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(f"Update {n}0 Cost {90 - n}.25 UD 0.5\n" for n in range(1, 6)) + line + "\n"
    )
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 51)


@pytest.mark.parametrize("line", ["no NaN detected", "NaN detected: 0", "NaN detection enabled"])
def test_a_line_without_a_nan_is_no_failure(tmp_path, line):
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(f"Update {n}0 Cost {90 - n}.25 UD 0.5\n" for n in range(1, 6)) + line + "\n"
    )
    assert stabdiag.diagnose(path).diagnosis.slug == "insufficient-data"


def test_epochs_of_lasagne_are_counted(tmp_path):
    path = tmp_path / "run.txt"
    block = "Epoch {} of 90 took 3.5s\n  training loss:{}{}\n  validation loss:\t\t0.75\n"
    path.write_text(
        "".join(block.format(n, " " * 20, value) for n, value in ((7, 0.5), (8, "nan")))
    )
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 8)


def test_two_lines_with_a_time_are_a_log(tmp_path):
    path = tmp_path / "run.txt"
    line = '[INFO 2024-03-02 18:1{}:38,332 exec:175] Validation loss: 15{}.25\nPrediction: "a b"\n'
    path.write_text("".join(line.format(n, n) for n in (1, 2)))
    assert "from 151.2 to 152.2" in stabdiag.diagnose(path).diagnosis.summary


def test_the_lowest_loss_of_a_short_rise_is_in_the_summary(tmp_path):
    path = tmp_path / "run.txt"
    losses = (0.25, 0.22, 0.19, 0.24, 0.28)
    path.write_text("".join(f"epoch {n} loss {loss}\n" for n, loss in enumerate(losses)))
    assert "The lowest loss was 0.19, at epoch 2" in stabdiag.diagnose(path).diagnosis.summary


def test_losses_that_are_equal_after_rounding_stay_near_one(tmp_path):
    path = tmp_path / "run.txt"
    losses = (12.9791, 12.9802, 12.9793)
    path.write_text("".join(f"step {n} loss {loss}\n" for n, loss in enumerate(losses)))
    summary = stabdiag.diagnose(path).diagnosis.summary
    assert "The loss stayed near 12.98." in summary
    assert "highest" not in summary


@pytest.mark.parametrize(("trials", "is_read"), [(("a1", "b2", "c3"), False), (("a1",) * 3, True)])
def test_a_table_of_several_trials_is_not_a_log(tmp_path, trials, is_read):
    path = tmp_path / "run.txt"
    rows = "".join(f"| {name} | RUNNING | {n} | {n * 2.5} |\n" for n, name in enumerate(trials, 1))
    path.write_text(
        "Number of trials: 9\n+----+----+----+----+\n"
        f"| Trial name | status | iter | reward |\n|---+---+---+---|\n{rows}"
    )
    if is_read:
        assert stabdiag.read(path).series["reward"].values.tolist() == [2.5, 5.0, 7.5]
    else:
        with pytest.raises(LogError):
            stabdiag.diagnose(path)


_KALDI = (
    "----- Summary epoch 0{} / 23\nTraining on ['a_tr']\nLoss = {} | err = 0.5 \n-----\n"
    "Validating on a_dev\nLoss = {} | err = 0.625 \n-----\nElapsed time (s) = 52\n\n"
)
_MLPACK = (
    "Epoch {}/0\n0.5" + "=" * 100 + "] 100% - ETA: 0s - loss: 0.75\n"
    "591/591 [" + "=" * 100 + "] 100% - 10s 17ms/step - loss: {}\nValidation loss: {}\n"
)
_KERAS = "Epoch {0}/20 12/12 [==============================] - 0s - loss: {1} "


@pytest.mark.parametrize(
    ("record", "summary"),
    [
        (_KALDI, "The loss went from 0.5 to 0.25 and the evaluation loss from 1 to 0.75"),
        (_MLPACK, "The loss went from 0.5 to 0.25 and the evaluation loss from 1 to 0.75"),
        (_KERAS, "3 losses from epoch 1 to 3"),
        ("built tree {0} of 100, train score = {1}e+00\n", "The loss went from 0.5 to 0.25"),
    ],
    ids=["pytorch-kaldi", "mlpack", "keras on a line", "scikit-learn"],
)
def test_a_short_log_of_a_toolkit_is_read(tmp_path, record, summary):
    path = tmp_path / "run.txt"
    values = enumerate(((0.5, 1.0), (0.375, 0.875), (0.25, 0.75)), 1)
    path.write_text("".join(record.format(n, *losses) for n, losses in values))
    message = stabdiag.diagnose(path).diagnosis.summary
    assert summary in message.replace("'err'", "").replace(
        ", the evaluation", " and the evaluation"
    )


@pytest.mark.parametrize("name", ["Train-Accuracy", "accuracy"])
def test_scores_below_a_sentence_with_a_score_are_read(tmp_path, name):
    path = tmp_path / "run.txt"
    line = "Epoch[0] Batch [{}] Speed: 18{} samples/sec {}=0.{}\n"
    path.write_text(
        f"With lr = 0.0001 after batch 1300 {name}=0.0 here.\n"
        + "".join(line.format(n * 50, n, name, n) for n in range(1, 9))
    )
    assert "accuracy went from" in stabdiag.diagnose(path).diagnosis.summary


@pytest.mark.parametrize(
    "record",
    [
        "Epoch {}/5 - Dice: 0.{} - IoU: 0.25",
        "Epoch {}: Dice: 0.{}",
        "10:00:01 Epoch[{0}] Train-Accuracy=0.{1}\n10:00:02 Epoch[{0}] Validation-Accuracy=0.75",
    ],
)
def test_two_epochs_of_scores_make_a_log(tmp_path, record):
    path = tmp_path / "run.txt"
    path.write_text("".join(f"{record.format(n, n + 3)}\n" for n in (1, 2)))
    assert "from 0.4 to 0.5" in stabdiag.diagnose(path).diagnosis.summary


@pytest.mark.parametrize(
    "record",
    [
        "Fold {}: acc 0.{}, f1 0.25",
        "In epoch {} the best acc I got: 0.{}, with an f1: 0.25",
    ],
)
def test_two_other_scores_are_not_a_log(tmp_path, record):
    path = tmp_path / "run.txt"
    path.write_text("".join(f"{record.format(n, n + 3)}\n" for n in (1, 2)))
    with pytest.raises(LogError):
        stabdiag.diagnose(path)


def test_the_loss_of_a_value_function_is_that_of_a_policy(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(
        "Learning iteration 31/900\n\n   Value function loss: 8192.5\n   Surrogate loss: -0.003\n"
        "   Amp loss: 0.25\n   Grad penalty loss: 0.125\n   Mean reward: 12.5\n"
    )
    assert "The reward was 12.5 and the loss 8192" in stabdiag.diagnose(path).diagnosis.summary


@pytest.mark.parametrize("second_loss", ["", "loss :[{1}], entropy:3.25\n"])
def test_batches_of_alphazero_are_counted(tmp_path, second_loss):
    path = tmp_path / "run.txt"
    record = (
        "batch i:{0}, episode_len:24\nkl:0.04,lr_multiplier:0.5,loss:[{1}],entropy:3.25,"
        "explained_var_old:0.25,explained_var_new:0.5\n" + second_loss
    )
    path.write_text("".join(record.format(n, 4 - n / 100) for n in range(41, 45)))
    summary = stabdiag.diagnose(path).diagnosis.summary
    assert "4 losses from step 41 to 44" in summary
    assert "from 3.59 to 3.56" in summary


@pytest.mark.parametrize(("planned", "slug"), [(1500, "healthy"), (30, "no-progress")])
def test_an_accuracy_may_be_low_in_the_first_planned_epochs(tmp_path, planned, slug):
    path = tmp_path / "run.txt"
    lines = (
        f"#{n}/{planned} - Training Loss: {2.2 + 0.4 / n:.5f} >> [ Accuracy: {8 + n * 1.25:.4f}% - "
        f"Validation Loss : {2.2 + 0.35 / n:.5f} ] \n"
        for n in range(1, 14)
    )
    path.write_text("".join(lines))
    assert stabdiag.diagnose(path).diagnosis.slug == slug


def test_a_line_without_a_step_next_to_one_with_rates_is_no_evaluation(put):
    series = stabdiag.read(put("p:1 loss -  [step:.0 tps:0%\nloss 3")).series
    assert "eval_loss" not in series


def test_a_single_record_whose_values_are_repeated_below(tmp_path):
    log = tmp_path / "eval.log"
    log.write_text(
        "INFO:tensorflow:Finished evaluation at 2020-02-18-08:09:56\n"
        "INFO:tensorflow:Saving dict for global step 5400: eval_accuracy = 0.85, eval_auc = 0.69,"
        " eval_loss = 0.7216, global_step = 5400, loss = 0.7219\n"
        "INFO:tensorflow:***** Eval results *****\n"
        "INFO:tensorflow:  eval_accuracy = 0.85\nINFO:tensorflow:  eval_auc = 0.69\n"
        "INFO:tensorflow:  eval_loss = 0.7216\nINFO:tensorflow:  global_step = 5400\n"
        "INFO:tensorflow:  loss = 0.7219\n"
    )
    loss = stabdiag.read(log).series["loss"]
    assert (loss.steps.tolist(), loss.values.tolist()) == ([5400], [0.7219])


def test_a_sentence_with_many_values_is_not_a_record(tmp_path):
    log = tmp_path / "note.txt"
    log.write_text(
        "We got loss = 0.5 acc = 0.9 f1 = 0.4 auc = 0.5 at step 100 on our data, and then:\n"
        "loss = 0.4 was fine for the others.\nThis is what the paper says, too.\n"
    )
    with pytest.raises(LogError):
        stabdiag.read(log)


@pytest.mark.parametrize(
    "form",
    [
        "global_step={}00, episodic_return={}",
        "Episode {}\tAverage Score: {}",
        "episode: {}/1000, score: {}, e: 0.5",
        "Episode: {}, total reward: {}, steps: 200",
    ],
)
def test_two_rewards_alone_are_a_log(tmp_path, form):
    path = tmp_path / "run.txt"
    path.write_text(f"{form.format(1, 12.5)}\n{form.format(2, 17.5)}\n")
    assert "The reward went from 12.5 to 17.5" in stabdiag.diagnose(path).diagnosis.summary


@pytest.mark.parametrize(
    "text",
    [
        "episode 3 of the tutorial has a score of 12\nepisode 4 will have a score of 14\n",
        "Model A episode 10 score 0.5\nModel B episode 10 score 0.6\n",
        "step 1: return 0\nstep 2: return 1\n",
        "the task:\nlevel 1 reward 10\nlevel 2 reward 20\n",
    ],
)
def test_two_numbers_of_a_text_are_no_rewards(tmp_path, text):
    path = tmp_path / "run.txt"
    path.write_text(text)
    with pytest.raises(LogError):
        stabdiag.diagnose(path)


@pytest.mark.parametrize(
    "block",
    [
        "epoch 3 step {n}\nd_loss {a}\ng_loss 1.25\n",
        "progress  epoch 4  step {n}  image/sec 0.2\ndiscrim_loss {a}\ngen_loss_L1 0.536\n",
        "Iteration {n}:\n D loss: {a}\n G loss: 1.2555\n GP: 0.0112\n",
    ],
)
@pytest.mark.parametrize("above", ["", "These are the last steps:\n"])
def test_two_blocks_with_the_same_names_are_two_records(series, block, above):
    losses = (0.5125, 0.75)
    text = "".join(block.format(n=n, a=loss) for n, loss in zip((100, 200), losses, strict=True))
    assert points(series(above + text)["loss"]) == [(100, 0.5125), (200, 0.75)]


@pytest.mark.parametrize(
    "text",
    [
        "lr 0.125\nepochs 10\nloss weight 0.525\nlr 0.25\nepochs 20\nloss weight 0.725\n",
        "epoch 2\nd_loss 0.5125\ng_loss 0.5\nepoch 1\nd_loss 0.525\ng_loss 0.5\n",
    ],
)
def test_blocks_of_settings_or_without_an_order_are_no_records(series, text):
    with pytest.raises(LogError):
        series(text)


RECORD = "[500/3000] Train loss: 4.25, Valid loss: 3.5, Elapsed_time: 1.25"


@pytest.mark.parametrize("quote", ["{}.\n", "`{}`\n", "> {}\n"])
def test_a_record_that_a_post_quotes_twice_is_one_record(series, quote):
    text = f"I see only this line:\n\n{quote.format(RECORD)}Is it normal?\n{RECORD}\n"
    result = series(text)
    assert {*points(result["loss"])} == {(500, 4.25)}
    assert {*points(result["eval_loss"])} == {(500, 3.5)}


@pytest.mark.parametrize("head", ["", "time: 2.5},\n", '": 2.5,\n'], ids=["none", "end", "cut"])
def test_a_list_of_dicts_may_begin_within_one(series, head):
    form = (
        '    "n/ap/a": 0.5,\n    "main/loss/loc": 0.25,\n    "iteration": {},\n    "main/loss": {}'
    )
    losses = (0.75, 0.5, 0.25)
    texts = [form.format(n, loss) for n, loss in zip((10, 20, 30), losses, strict=True)]
    text = head + "\n  },\n  {\n".join(texts)
    assert points(series(text)["loss"]) == [(10, 0.75), (20, 0.5), (30, 0.25)]


BLOCKS = (
    "[2031-10-23 16:00:19-train.py#23] Epoch: [1][{n}/6250] lr: 0.001\n"
    "        cls_loss: {loss} (0.25)     total_loss: {loss} (2.5)\n"
    "[2031-10-23 16:00:19-log.py#10] Progress: {n} / 312500 [0%], Speed: 2.282 s/iter\n\n",
    "[{n}/3000]\n  total_loss: {loss}\n  cls_loss: 0.25\n  acc: 0.5\n",
)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("losses", [(2.5, 2.25), (2.5, 2.25, 2.0), ("nan",), (2.5, "nan")])
def test_a_position_above_the_losses_is_their_step(series, block, losses):
    text = "".join(block.format(n=20 * n, loss=loss) for n, loss in enumerate(losses, start=1))
    result = series(text)["loss"]
    assert result.steps.tolist() == [20 * n for n in range(1, len(losses) + 1)]
    assert [str(loss) for loss in result.values] == [str(loss) for loss in losses]


@pytest.mark.parametrize(("number", "first"), [(3, 20), (9, 20)])
def test_a_paste_may_begin_below_its_first_position(series, number, first):
    block = "Training: epoch 3[{n}/3000], lr: [0.1]\n\tloss_a: {loss}\n\tmax: 1.5\n\tmin: 0.5\n"
    text = "".join(block.format(n=20 * n, loss=2 + 1 / n) for n in range(1, number + 1))
    result = series(text.split("\n", 1)[1])["loss"]
    assert result.steps.tolist() == [*range(first, 20 * number + 1, 20)]
    assert result.values.tolist() == [2 + 1 / n for n in range(1, number + 1)]


def test_the_finest_position_above_the_losses_counts(series):
    block = "[{epoch}/20][{n}/300]\n  Loss_D: {loss}\n  Loss_G: 0.5\n"
    text = "".join(
        block.format(epoch=n // 14, n=20 * (n % 14) + 20, loss=2.5 - n / 64) for n in range(42)
    )
    assert len(series(text)["loss"]) == 42


@pytest.mark.parametrize(
    "text",
    [
        "We trained on 2/3 of it.\nloss: 0.51\nAnd on 3/3.\nloss: 0.41\nAnd on 1/3:\nloss: 0.6\n",
        "on 10/12:\nloss: 0.51\nand on 11/12:\nloss: 0.41\n",
    ],
)
def test_numbers_between_losses_are_no_positions(series, text):
    with pytest.raises(LogError):
        series(text)
