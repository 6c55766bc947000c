"""Pastes of a few lines, logs of scores, and lines of several ranks."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import ColumnError, LogError


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text, name="run.txt"):
        (tmp_path / name).write_text(text)
        return stabdiag.diagnose(tmp_path / name)

    return diagnose


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("Starting training\nLoss exploded to nan at step 10422!\n", 10422),
        ("The loss became NaN at iteration 300.\n", 300),
        ("Loss exploded to nan at step 7 loss=nan, avg_loss=nan]\nException: no\n", 7),
        ("Traceback (most recent call last):\nValueError: Loss is NaN at step 300\n", 300),
        ("floatingPointError: Loss became infinite or NaN at iteration=166!\n", 166),
        ("step 400 loss nan\n", 400),
        ("kl - 0.02 | loss - 4.8\n----\nkl - nan | loss - nan\n----\nTypeError: no\n", 1),
        ("  4/234 [....] - ETA: 25:09 - loss: inf\n", 4),
        ("loss 3.2\nloss nan\n", 1),
    ],
)
def test_a_few_lines_with_a_non_finite_loss_make_a_log(diagnosed, text, step):
    diagnosis = diagnosed(text).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", step)


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: Function 'LogSoftmaxBackward0' returned nan values in its 0th output.",
        "RuntimeError: normal expects all elements of std >= 0.0",
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore.",
        "RuntimeError: grad_scale is too small, exiting: 1.3e-26",
    ],
)
def test_an_exception_of_the_training_makes_a_log(diagnosed, message):
    report = diagnosed(f"Traceback (most recent call last):\n  File 'a.py', line 3\n{message}\n")
    assert report.diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize(
    "start",
    [
        "| WARNING: overflow detected",
        "2026-02-03 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient",
    ],
)
def test_a_falling_loss_scale_makes_a_log(diagnosed, start):
    scales = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)
    text = "".join(f"{start}, setting loss scale to: {scale}\n" for scale in scales)
    assert diagnosed(text).diagnosis.slug == "loss-scale-collapsed"
    message = "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably ...\n"
    assert diagnosed(text + message).diagnosis.slug == "nan-fp16-overflow"


@pytest.mark.parametrize(
    "text",
    [
        "My loss becomes nan after 300 iterations, what can I do?\n",
        "If the loss is NaN, lower the learning rate.\n",
        "If the loss becomes nan at step 5, lower the learning rate.\n",
        "Lower the rate if you see a loss = nan, and try again.\n",
        "if torch.isnan(loss):\n    raise ValueError('loss is nan')\n",
        "ValueError: cannot convert float NaN to integer\n",
        "val_loss: nan\n",
        "The loss: nan of one record\n" + "loss: 0.5\n" * 3,
    ],
)
def test_sentences_and_source_code_are_not_records(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


def test_two_records_with_a_counter_are_described(diagnosed):
    bar = "Training: 23%|##| {step}/30000 [01:45<04:24, 86.8it/s, Loss={loss}]\n"
    text = bar.format(step=7000, loss=0.2195) + bar.format(step=30000, loss=0.2308)
    report = diagnosed(f"Optimizing scene\n{text}Training complete.\n")
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.series["loss"].steps.tolist() == [7000, 30000]


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ("Epoch {n}: accuracy {value}", "accuracy"),
        ("INFO:root:Epoch[{n}] Validation-accuracy={value}", "eval_accuracy"),
        ("step {n}: BLEU = {value}", "score/BLEU"),
        ("epoch {n} WER {value} CER 0.5", "score/WER"),
    ],
)
def test_a_log_of_scores_is_read(diagnosed, line, score):
    text = "".join(line.format(n=n, value=0.2 + n / 100) + "\n" for n in range(12))
    report = diagnosed(text)
    # A rising error rate is not progress.
    assert report.diagnosis.slug == ("no-progress" if "WER" in line else "insufficient-data")
    assert "went from 0.2 to 0.31" in report.diagnosis.summary
    assert report.history.series[score].steps.tolist() == list(range(12))


def test_a_score_that_falls_in_a_table_without_a_loss_is_a_finding(diagnosed):
    rows = "".join(f"{n},{0.8 - 0.015 * n:.4f}\n" for n in range(40))
    assert diagnosed(f"epoch,val_accuracy\n{rows}", "run.csv").diagnosis.slug == "score-collapsed"


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"Epoch {n}: accuracy 0.{n}\n" for n in (2, 1)),
        "".join(f"step {n * 37 % 40} BLEU {n}\n" for n in range(40)),
    ],
)
def test_scores_need_a_rising_counter(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


def test_a_table_of_scores_without_a_counter_is_refused(diagnosed):
    rows = "".join(f"{n / 10},{n / 5}\n" for n in range(20))
    with pytest.raises(ColumnError, match="no column looks like a training loss"):
        diagnosed(f"BLEU,chrF\n{rows}", "run.csv")


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("label", ["[rank{rank}]: ", "[Rank {rank}] ", "{rank}: "])
def test_a_nan_of_any_rank_is_seen(diagnosed, bad, label):
    lines = [
        f"{label.format(rank=rank)}step={n} loss={'nan' if rank == bad and n > 25 else 4 - n / 20}"
        for n in range(40)
        for rank in range(4)
    ]
    report = diagnosed("\n".join(lines))
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 26)
    assert report.history.series["loss"].steps.tolist() == list(range(40))


def test_finite_ranks_give_one_record_a_step(diagnosed):
    lines = [f"[rank{rank}]: step={n} loss={4 - n / 20}" for n in range(40) for rank in range(4)]
    loss = diagnosed("\n".join(lines)).history.series["loss"]
    np.testing.assert_allclose(loss.values, 4 - np.arange(40) / 20)


@pytest.mark.parametrize(
    "record",
    [
        '{{"step": {n}, "loss": {loss}}}',
        "I0120 20:08:35.002946 17443 solver.cpp:237] Iteration {n}, loss = {loss}",
    ],
)
def test_lines_of_marian_after_another_form_are_not_green(diagnosed, record):
    marian = "[2020] Ep. 1 : Up. {n} : Sen. 260,147 : Cost {loss} : Time 3.2s : L.r. 3e-4"
    lines = [record.format(n=n, loss=2 - n / 100) for n in range(1, 31)]
    lines += [marian.format(n=n, loss="nan" if n > 45 else 2 - n / 100) for n in range(31, 61)]
    assert diagnosed("\n".join(lines)).diagnosis.slug in ("partly-read", "nan-dtype-unknown")


def test_times_called_cost_after_the_last_loss_are_not_records(diagnosed):
    lines = [f"step {n} loss {3 - n / 20:.3f}" for n in range(40)]
    lines += [f"Epoch[{n}] Time cost={n}.5" for n in range(10)]
    assert diagnosed("\n".join(lines)).diagnosis.slug != "partly-read"


def test_status_tables_of_rewards_are_read(diagnosed):
    rule = "+-------------+----------+-------+------+---------+\n"
    heading = "| Trial name  | status   |  iter |   ts |  reward |\n"
    below = "|-------------+----------+-------+------+---------|\n"
    row = "| PPO_f3a_000 | RUNNING  | {n:5d} | {n}000 | {reward:.3f} |\n"
    text = "".join(
        f"== Status ==\nNumber of trials: 1/1\n{rule}{heading}{below}"
        f"{row.format(n=n, reward=20 + 11.5 * n)}{rule}\n"
        for n in range(1, 15)
    )
    report = diagnosed(text)
    assert "The reward went from 31.5 to 181" in report.diagnosis.summary
    assert not any("readable" in event.message for event in report.history.events)


def test_a_table_of_rewards_of_models_is_not_a_log(diagnosed):
    with pytest.raises(LogError, match="different 'model'"):
        diagnosed("| model | reward |\n|---|---|\n| a | 3 |\n| b | 4 |\n| c | 5 |\n")


@pytest.mark.parametrize(("last", "is_partly_read"), [("1.30", False), ("1e9", True), ("30", True)])
def test_the_last_redraw_of_a_bar_repeats_the_last_loss(diagnosed, last, is_partly_read):
    losses = [f"{2.3 - n / 30:.2f}" for n in range(31)]
    text = "".join(
        f"Iter {n}: Train loss {loss}, Learning Rate 1e-4\n"
        f"{{'Step': {n}, 'Loss': '{loss}', 'Learning Rate': '1e-4'}}\n"
        f"  3%|#  | {n}/1000 [00:11<53:42,  3.25s/it, Loss={loss if n < 30 else last}, LR=1e-4]"
        for n, loss in enumerate(losses)
    )
    slug = diagnosed(text).diagnosis.slug
    assert (slug == "partly-read") is is_partly_read


@pytest.mark.parametrize("epoch", ["Epoch", "Эпоха", "에포크", "エポック"])
def test_losses_of_complete_bars_are_not_running_means(diagnosed, epoch):
    losses = [0.117, 0.0626, 0.0351, 0.0193, 0.0146]
    text = "".join(
        f"{epoch} {n}/5 1000/1000 [==========] - 3s 3ms/step - loss: {loss}\n"
        for n, loss in enumerate(losses, start=1)
    )
    history = diagnosed(text).history
    assert list(history.logged("loss").values) == losses
    assert history.unit == "epoch"


def test_counters_are_padded_with_many_blanks(diagnosed):
    text = "".join(
        f"epoch: {n:8d} | nupdates: {4 + 3070 * n:12d} | loss: {9 - n:10.5f}\n" for n in range(4)
    )
    assert list(diagnosed(text).history.logged("loss").steps) == [4, 3074, 6144, 9214]


@pytest.mark.parametrize(
    ("below", "is_partly_read"), [("", False), ("```\n", False), ("...\n", False), ("OK\n", True)]
)
def test_the_end_of_a_block_of_code_may_follow_a_cut_record(diagnosed, below, is_partly_read):
    records = "".join(f"{{'loss': {2.5 - n / 9:.4f}, 'epoch': {n / 9:.2f}}}\n" for n in range(9))
    slug = diagnosed(f"```\n{records}{{'loss': 1.5, 'epo\n{below}").diagnosis.slug
    assert (slug == "partly-read") is is_partly_read


@pytest.mark.parametrize(
    ("last", "slug"),
    [
        ("I0816 12:00:46.06 9 solver.cpp:232] Iteration 81", "insufficient-data"),
        ("I0816 12:00:46.06 9 solver.cpp:232] Iteration 8140, loss = 4", "insufficient-data"),
        ("I0816 12:00:46.06 9 solver.cpp:232] Iteration 8140, loss = ???", "partly-read"),
    ],
)
def test_a_last_line_may_be_the_beginning_of_a_record(diagnosed, last, slug):
    lines = "".join(
        f"I0816 11:40:58.0{n} 9 solver.cpp:232] Iteration {8000 + 20 * n}, loss = {7 - n / 3:.5f}\n"
        f"I0816 11:40:58.0{n} 9 solver.cpp:631] Iteration {8000 + 20 * n}, lr = 1e-05\n"
        for n in range(7)
    )
    assert diagnosed(f"{lines}{last}\n").diagnosis.slug == slug


def test_a_total_time_is_not_a_loss(diagnosed):
    lines = [
        "0:      learn: 67.3072378       test: 60.1268776        best: 60.1268776 (0)"
        "    total: 17.2ms   remaining: 1m 26s",
        "100:    learn: 19.3157269       test: 20.6576048        best: 20.6576048 (100)"
        "  total: 1.35s    remaining: 1m 5s",
        "200:    learn: 13.1851701       test: 20.2684507        best: 20.1699184 (152)"
        "  total: 2.56s    remaining: 1m 1s",
    ]
    losses = diagnosed("".join(f"> {line}\n" for line in lines)).history.logged("loss")
    assert list(losses.steps) == [0, 100, 200]
    assert list(losses.values) == [67.3072378, 19.3157269, 13.1851701]


@pytest.mark.parametrize(
    ("short", "score"),
    [("HR", "NDCG"), ("MR", "MRR"), ("AP", "AUC"), ("IS", "FID"), ("P", "F1"), ("EM", "F1")],
)
@pytest.mark.parametrize("count", [4, 12])
def test_a_short_name_next_to_another_score_of_its_kind_is_no_loss(diagnosed, short, score, count):
    lines = [
        f"Iteration {n}: {short} = {0.6 + n / 100}, {score} = {0.3 + n / 200:.4f}\n"
        for n in range(count)
    ]
    report = diagnosed("".join(lines))
    assert report.history.series[f"score/{score}"].values[0] == 0.3
    assert report.diagnosis.severity == "note"
    # Any other value may be the loss.
    with pytest.raises(ColumnError, match="no column looks like a training loss"):
        diagnosed("".join(line.replace(short + " ", "penalty ") for line in lines))
    with pytest.raises(ColumnError, match="no column looks like a training loss"):
        diagnosed("".join(line.replace(score, "accuracy") for line in lines))


@pytest.mark.parametrize("part", ["forward", "backward", "optimizer step"])
def test_the_total_of_the_times_of_a_step_is_not_a_loss(diagnosed, part):
    line = "iter: {0}, total: {1}, model: {1}, {2}: {1}\n"
    text = "".join(line.format(n, 30.5 * n, part) for n in range(1, 6))
    assert not diagnosed(text).history.has("loss")


def test_accuracies_of_batches_need_no_loss(diagnosed):
    text = "".join(
        f"INFO:root:Epoch[0] Batch [{n}]\tSpeed: 2052.37 samples/sec\taccuracy={n / 50:.6f},"
        f" top_k_accuracy_5={n / 40:.6f}\n"
        for n in range(20, 40)
    )
    assert "score/top_k_accuracy_5" in diagnosed(text).history.series


def test_a_constant_loss_next_to_others_is_a_log_without_a_counter(diagnosed):
    line = "Epoch: 3: [D loss: 50.000000] [G total loss: {:.6f}] [G GAN Loss: 0.000000]\n"
    text = "".join(line.format(14 + (n * 7 % 5)) for n in range(8))
    assert diagnosed(text).diagnosis.slug == "loss-constant"
    with pytest.raises(LogError, match="without a rising step"):
        diagnosed(line.format(14.0) * 8)


def test_a_clipped_perplexity_has_more_than_40_digits(diagnosed):
    line = "Epoch  1, {}/12750; acc:   1.61; ppl: {}.00; 3395 src tok/s; 4270 s elapsed\n"
    text = "".join(
        line.format(8900 + 50 * n, 26881171418161356094253400435962903554686976) for n in range(7)
    )
    assert diagnosed(text).diagnosis.slug == "loss-implausible"


@pytest.mark.parametrize(
    "text",
    [
        "Epoch [4/90] done (7.5s)\n  Train Loss: 0.52\n  Val Loss: 0.61\n  *** best model ***\n",
        "Epoch 4 results:\n  训练损失: 0.52 | 训练 Dice: 0.7\n  验证损失: 0.61 | 验证 Dice: 0.65\n",
        "Epoch 4 train loss: 0.52\nsaved\nEpoch 4 val loss: 0.61\n",
        "## Epoch 4/90\n- loss: 0.52\n- lr: 0.01\n- val_loss: 0.61\n",
        "*Epoch=4  Time=6.5\n  TRAIN:  Cost=0.52  logp=-1.5\n  EVAL-A: Cost=0.61  logp=-1.4\n",
        "fed.py [line:4] INFO ----Round 4----\nfed.py [line:8] INFO train_loss    0.52\n"
        "fed.py [line:8] INFO valid_loss    0.61\n",
    ],
)
def test_the_block_of_a_single_epoch_is_described(diagnosed, text):
    summary = diagnosed(text).diagnosis.summary
    assert summary.startswith(("1 loss at epoch 4", "1 loss at step 4"))
    assert "The loss was 0.52" in summary
    assert "the evaluation loss 0.61" in summary


@pytest.mark.parametrize(
    "text",
    [
        # One loss only, two epochs, and prose.
        "Epoch 4 results:\n  loss weight: 0.52\n",
        "From epoch 4 to epoch 9 it ran.\nTrain Loss: 0.52\nDone.\nIn epoch 9 we stopped.\n",
        "In epoch 4 the train loss is about 0.52 here, and the val loss is higher, 0.61.\n",
    ],
)
def test_a_mention_of_one_epoch_is_no_block(diagnosed, text):
    with pytest.raises((LogError, ColumnError)):
        diagnosed(text)


def test_marks_and_dashes_in_a_table_are_not_words(diagnosed):
    head = "| Epoch | Train Loss | Val Loss |\n| :--- | :--- | :--- |\n"
    rows = [f"| {n} | {3 - n / 4} | {3.1 - n / 5:.2f} {'✓' * (n % 2)} |\n" for n in range(1, 6)]
    report = diagnosed(f"{head}{''.join(rows)}| **6** | — | **1.85** ★ |\n", "README.md")
    assert report.diagnosis.slug == "partly-read"
    assert "The loss went from 2.75 to 1.75 and the evaluation loss from 2.9 to 1.85" in (
        report.diagnosis.summary
    )


@pytest.mark.parametrize("rule", ["-" * 40, "=" * 40, "+" + "-" * 30 + "+"])
def test_records_between_bars_below_a_rule_are_no_table_of_names(diagnosed, rule):
    form = "Epoch {n:04} | Train Loss: {loss} | Val Loss: {val} | Acc: 0.00% | Rate: 0.01\n"
    rows = [form.format(n=n, loss=2 - n / 9, val=2.5 - n / 9) for n in range(1, 12)]
    history = diagnosed(f"{rule}\n{rows[0]}  --> new best\n{''.join(rows[1:])}").history
    assert len(history.series["loss"]) == len(history.series["eval_loss"]) == 11


def test_the_sizes_of_splits_are_no_losses(diagnosed):
    rows = [f"[Epoch {n:03}] Train={0.5 / n:.6f}  Val={0.6 / n:.6f}\n" for n in range(1, 6)]
    history = diagnosed(f"Dataset split: Train=24, Val=3, Test=4\n{''.join(rows)}").history
    assert history.series["loss"].values.tolist() == [0.5, 0.25, 0.166667, 0.125, 0.1]
    assert history.series["eval_loss"].values[0] == 0.6


@pytest.mark.parametrize("indent", ["", "    "])
def test_a_check_that_found_nan_above_the_first_record_counts(diagnosed, indent):
    rows = [f"{indent}Epoch {n} -- Loss {1 - n / 9}\n" for n in range(1, 6)]
    report = diagnosed(f"{indent}NaN detected in grads\n{''.join(rows)}")
    assert report.diagnosis.slug == "grad-nonfinite"
    for harmless in ("no NaN detected in grads", "# NaN detected in grads", "if NaN in grads: x()"):
        report = diagnosed(f"{indent}{harmless}\n{''.join(rows)}")
        assert report.diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize("line", ["loss: {}\n", "Losses {{'ner': {}}}\n", "train loss = {}\n\n"])
@pytest.mark.parametrize("losses", [("3.5", "3.25"), ("18.25", "9.5", "4.75")])
def test_a_text_of_nothing_but_losses_is_read(diagnosed, line, losses):
    report = diagnosed("".join(map(line.format, losses)))
    assert report.history.series["loss"].values.tolist() == [*map(float, losses)]


@pytest.mark.parametrize(
    "text",
    ["loss: 0.5\nloss: 0.5\n", "loss = 0.5\nloss = 0.25\nreturn loss\n", "loss: 0.5\n\nloss:\n"],
)
def test_two_equal_losses_or_other_lines_are_too_little(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


@pytest.mark.parametrize(
    "line",
    [
        "loss: {} - aux_loss: 0.5 - flow_loss: 1e-6\n",
        "D_loss={} G_loss=7.25\n",
        "| loss {} | ppl 9.5 | lr 0.001 |\n",
        "[loss {}] [g_norm 1.25]\n",
    ],
)
def test_three_consecutive_lines_of_several_values_are_a_log(diagnosed, line):
    losses = ("3.5", "3.25", "3.375")
    text = f"This is what I see:\n{''.join(map(line.format, losses))}What does it mean?\n"
    report = diagnosed(text)
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.series["loss"].values.tolist() == [*map(float, losses)]


@pytest.mark.parametrize(
    "line",
    [
        "loss: {}, lr: 0.75\nand of the next model:\n",
        "loss: {}\n",
        "We compare our loss {} with the other loss 0.5 of the model.\n",
    ],
)
def test_three_lines_apart_or_of_one_value_or_of_words_are_no_log(diagnosed, line):
    losses = ("3.5", "3.25", "3.375")
    with pytest.raises(LogError):
        diagnosed(f"This is what I see:\n{''.join(map(line.format, losses))}What is it?\n")


def test_lines_with_a_bar_of_any_width_and_percentage_are_alike(diagnosed):
    rows = "".join(
        f"| Progress [{'#' * (2 * n):20}][{11.5 * n - 4:5.2f}%] | LR 0.0005 | Loss {7 - n / 4} |\n"
        for n in range(1, 9)
    )
    text = f"- Average Loss: 6.875\n===== Epoch  20 / 200 =====\n{rows}\n- Average Loss: 6.75\n"
    report = diagnosed(text)
    assert report.history.series["loss"].values.tolist() == [7 - n / 4 for n in range(1, 9)]


def test_the_bracket_behind_an_indeterminate_value_remains(diagnosed):
    rows = "".join(
        f"Region {at} Avg (IOU: {iou}, GIOU: {iou}), count: 2, loss = {loss}, iou_loss = 0.5\n"
        for at, iou, loss in (
            (94, "0.25", 1153.5),
            (106, "-nan(ind)", 5933.5),
            (82, "-nan(ind)", 298.5),
            (94, "0.5", 1146.5),
        )
    )
    report = diagnosed(rows)
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.series["loss"].values.tolist() == [1153.5, 5933.5, 298.5, 1146.5]


@pytest.mark.parametrize("bad", ["nan", "inf"])
def test_a_summary_of_modules_above_the_bars_is_no_table_of_a_policy(diagnosed, bad):
    summary = (
        "  | Name      | Type             | Params\n" + "-" * 42 + "\n"
        "0 | backbone  | ResNet           | 11 M\n"
        "1 | loss_func | CrossEntropyLoss | 0\n" + "-" * 42 + "\n11 M     Trainable params\n"
    )
    bars = "".join(
        f"Epoch {n}: 100%|####| 215/215 [01:03<00:00, 4.1it/s, loss={loss}, v_num=3]\n"
        for n, loss in enumerate(("2.5", "2.25", bad))
    )
    report = diagnosed(summary + bars)
    assert report.diagnosis.slug == "nan-dtype-unknown"
    assert report.diagnosis.step == 2


def column(name, values=(2.9, 2.8, 2.7, 2.6, 2.5, 2.4), row="{}\n"):
    return name + "".join(map(row.format, values))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (column("val_loss\n--\n"), {"loss"}),
        (column("Training loss:\n") + "\n" + column("Validation loss:\n"), {"loss", "eval_loss"}),
        (column("| loss |\n|---|\n", row="| {} |\n"), {"loss"}),
        (column("## train_loss =\n\n", row="  {},\n"), {"loss"}),
    ],
)
def test_a_column_of_numbers_below_its_name_is_a_list(diagnosed, text, names):
    series = diagnosed(f"My loss is unstable. Why?\n\n{text}Any idea?\n").history.series
    assert {*series} == names
    assert all(line.values.tolist() == [2.9, 2.8, 2.7, 2.6, 2.5, 2.4] for line in series.values())


@pytest.mark.parametrize(
    "text",
    [
        column("My sizes\n"),
        column("loss_weight\n"),
        column("The val_loss of the first models was\n", (2.9, 2.8)),
        column("loss\nof\n"),
    ],
)
def test_a_column_without_the_name_of_a_loss_is_no_list(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(f"What is wrong here?\n\n{text}Any idea?\n")


def test_the_list_that_an_evaluation_returns_is_not_one_of_losses(diagnosed):
    bars = (
        "560/592 [=====>.] - ETA: 0s - loss: 0.6366 - acc: 0.6673 - f1: 0.0000e+00\n"
        "Epoch 00016: val_f1 did not improve from 0.00000\n"
        "592/592 [======] - 63s 6ms/sample - loss: 0.6365 - acc: 0.6674 - f1: 0.0000e+00"
        " - val_loss: 0.6352 - val_acc: 0.6688 - val_f1: 0.0000e+00\n"
        "Epoch 00016: early stopping\n"
        "264/264 [======] - 2s 9us/sample - loss: 0.6352 - acc: 0.6688 - f1: 0.0000e+00\n"
    )
    series = diagnosed(f"{bars}SCORES:\n[0.63522, 0.66880, 0.0, 0.0]\n").history.series
    assert series["loss"].values.tolist() == [0.6366, 0.6365]
    assert series["eval_loss"].values.tolist() == [0.6352]


def test_a_confusion_matrix_has_no_counter(diagnosed):
    reports = "".join(
        f"Model: {name}\n\n              precision    recall  f1-score   support\n\n"
        f"           0       0.9{n}      0.9{n}      1.00     45320\n"
        f"           1       0.8{n}      0.83      0.8{n}        76\n\n"
        f"   macro avg       0.9{n}      0.9{n}      0.93     45396\n"
        f"\nROC AUC: 0.97{n}\n\nConfusion Matrix:\n[[4531{n}     {9 - n}]\n [   13    6{n}]]\n\n\n"
        for n, name in enumerate(("logistic", "forest", "voting", "boosting", "mean"))
    )
    with pytest.raises(LogError):
        diagnosed(reports)


def test_a_single_later_epoch_between_steps_that_restart_begins_no_run(diagnosed):
    rows = "".join(f"train {n} loss 0.01{n % 9}79 top1 99.67\n" for n in (250, 300, 350))
    text = f"{rows}train_acc 99.684\nepoch 49 lr 1.02e-03\ntrain 0 loss 0.00720 top1 100.0\n"
    report = diagnosed(text)
    assert report.history.source.attempts == 1
    assert len(report.history.series["loss"].values) == 4
