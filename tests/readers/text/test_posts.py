"""Excerpts as people paste them into issues: broken lines, one record, a traceback, odd names."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord


def falling(number, count):
    return 0.9 + 2.5 * math.exp(-3 * number / count)


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text):
        log = tmp_path / "run.log"
        log.write_text(text)
        return stabdiag.diagnose(log)

    return diagnose


def losses_in(report):
    return report.history.series["loss"].values.tolist()


VITS = "INFO:ljs_base:Train Epoch: 37 [{percent}%]\nINFO:ljs_base:[{losses}, {step}, 0.0002]\n"
SOVITS = "INFO\tTrain Epoch: 37 [{percent}%]\nINFO\tLosses: [{losses}], step: {step}, lr: 0.0002\n"


@pytest.mark.parametrize(("line", "count"), [(VITS, 6), (VITS, 5), (VITS, 7), (SOVITS, 5)])
def test_a_list_of_losses_has_the_names_of_its_framework(diagnosed, line, count):
    names = ["disc", "gen", "fm", "mel", *(["dur"] if count > 5 else []), "kl"]
    values = [f"{2 + number}.5" for number in range(count)]
    text = "".join(
        line.format(percent=n, losses=", ".join(values), step=200 * n) for n in range(1, 13)
    )
    series = diagnosed(text).history.series
    assert series["loss"].steps.tolist() == list(range(200, 2600, 200))
    columns = {series[role].column: series[role].values[0] for role in series}
    assert {name: columns[f"loss_{name}"] for name in names} == {
        name: 2.5 + number for number, name in enumerate(names)
    }
    assert set(series["lr"].values) == {0.0002}


def test_a_nan_in_a_list_of_losses(diagnosed):
    text = "".join(
        VITS.format(percent=n, losses="nan, nan, nan, 83.0, 0.99, inf", step=200 * n)
        for n in range(1, 5)
    )
    assert diagnosed(text).diagnosis.slug.startswith("nan-")


def test_a_list_of_another_length_is_not_named(diagnosed):
    text = "".join(VITS.format(percent=n, losses="2.5, 3.5", step=200 * n) for n in range(1, 13))
    with pytest.raises(NoUsableRecord):
        diagnosed(text)


def test_a_renamed_counter_continues(diagnosed):
    lines = [f"step {10 * n} loss {falling(n, 40)}" for n in range(40)]
    lines += [f"iter {10 * n} loss {falling(n, 40)}" for n in range(40, 79)]
    report = diagnosed("\n".join([*lines, "iter 790 loss nan"]))
    assert report.history.series["loss"].steps.tolist() == list(range(0, 800, 10))
    assert report.diagnosis.slug.startswith("nan-")


def test_a_counter_is_followed_far_below_the_head(diagnosed):
    lines = [f"{'step' if n < 2000 else 'update'} {n} loss {falling(n, 900)}" for n in range(3000)]
    assert len(losses_in(diagnosed("\n".join(lines)))) == 3000


def test_another_counter_that_starts_again_is_not_the_same(diagnosed):
    lines = [f"step {10 * n} loss {falling(n, 40)}" for n in range(40)]
    lines += [f"iter {n} loss 0.5" for n in range(40)]
    assert len(losses_in(diagnosed("\n".join(lines)))) == 40


def test_lines_that_lost_their_loss_have_no_verdict(diagnosed):
    lines = [f"step {n} | loss {falling(n, 20):.3f} | lr 3e-4 | 812 tok/s" for n in range(40)]
    lines += [f"step {n} | lr 3e-4 | 812 tok/s" for n in range(40, 60)]
    report = diagnosed("\n".join(lines))
    assert report.diagnosis.slug == "partly-read"


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "saved the model after 40 steps in 812 s\n",
        "step 40 | eval accuracy 0.91\n",
        "Traceback (most recent call last):\n  File 'train.py', line 3\nKeyboardInterrupt\n",
    ],
)
def test_other_last_lines_are_not_records(diagnosed, tail):
    lines = [f"step {n} | loss {falling(n, 20):.3f} | lr 3e-4 | 812 tok/s\n" for n in range(40)]
    slugs = {finding.slug for finding in diagnosed("".join(lines) + tail).findings}
    assert "partly-read" not in slugs


def test_a_loss_may_be_printed_on_every_tenth_line(diagnosed):
    lines = [
        f"step {n} | {f'loss {falling(n, 200):.3f} | ' if n % 10 == 0 else ''}lr 3e-4 | 812 tok/s"
        for n in range(300)
    ]
    assert diagnosed("\n".join(lines)).diagnosis.slug != "partly-read"


def test_the_value_after_an_arrow_counts(diagnosed):
    lines = [
        f"Epoch {n} train loss {falling(n, 12):.3f}\n"
        f"saved best model (val loss {'inf' if n == 1 else 3 - n / 8} -> {2.875 - n / 8})"
        for n in range(1, 13)
    ]
    values = diagnosed("\n".join(lines)).history.series["eval_loss"].values
    assert values.tolist() == [2.875 - n / 8 for n in range(1, 13)]


@pytest.mark.parametrize("unit", ["nats", "nat", "bits", "bpc", "dB", "%"])
def test_a_unit_after_a_loss(diagnosed, unit):
    lines = [f"step {n} loss {3 - n / 32}{unit} lr 3e-4" for n in range(30)]
    assert losses_in(diagnosed("\n".join(lines))) == [3 - n / 32 for n in range(30)]


def test_a_broken_line_goes_on_below_it(diagnosed):
    lines = [
        f"2020-05-15 14:41:49 - INFO - Epoch [1][{50 * n}/2500] lr: 0.1, loss_cls: 0.5,\n"
        f" loss_mask: 0.25, loss: {'nan' if n > 8 else 2 - n / 8}"
        for n in range(1, 12)
    ]
    report = diagnosed("\n".join(lines))
    loss = report.history.series["loss"]
    assert loss.column == "loss"
    np.testing.assert_array_equal(loss.values[:8], [2 - n / 8 for n in range(1, 9)])
    assert report.diagnosis.slug.startswith("nan-")


def test_an_evaluation_below_a_record_is_not_a_part_of_it(diagnosed):
    lines = [
        f"Epoch {n} loss: {falling(n, 9)}\n    validation: loss: {1 + n / 8}" for n in range(12)
    ]
    report = diagnosed("\n".join(lines))
    assert losses_in(report) == [falling(n, 9) for n in range(12)]
    assert report.history.series["eval_loss"].values.tolist() == [1 + n / 8 for n in range(12)]


@pytest.mark.parametrize(
    "text",
    [
        "2021-09-21 17:44:00,934 - INFO - trainer - Training\n  0%|          | 0/15 [00:06<?]\n"
        "Traceback (most recent call last):\n  File 'train.py', line 217, in <module>\n"
        "    metrics = trainer.train()\nValueError: nan loss encountered",
        "> Flux.train!(loss, params(m), train)\n> accuracy(x, y) = 0.12\n> ERROR: Loss is NaN",
        "FATAL: the training loss became infinite, stopping",
    ],
)
def test_an_exception_about_the_loss_makes_a_log(diagnosed, text):
    assert diagnosed(text).diagnosis.slug.startswith("nan-")


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: cannot convert float NaN to integer",
        "ValueError: Input contains NaN, infinity or a value too large for dtype('float32').",
        "# ValueError: if the loss is nan",
        "The loss is nan if the learning rate is too high.",
        "TypeError: loss() got an unexpected keyword argument 'nan_policy'",
    ],
)
def test_other_exceptions_are_not_logs(diagnosed, text):
    with pytest.raises(NoUsableRecord):
        diagnosed(text)


def test_one_record_alone_is_described(diagnosed):
    report = diagnosed(
        "Output is:\n[2019-12-09 17:54:47,997 INFO] Step 50/ 5000; acc: 5.35; ppl: 1490.24; "
        "xent: 7.31; lr: 1.00000; 84/336 tok/s; 890 sec"
    )
    assert losses_in(report) == [7.31]
    assert report.diagnosis.slug == "insufficient-data"


def test_an_exception_of_any_name_makes_one_record_evidence(diagnosed):
    report = diagnosed(
        "| epoch 027 | loss 6.341 | ppl 31.65 | num_updates 10198 | lr 0.0006 | loss_scale 0.5\n"
        + "".join(
            f"| WARNING: overflow detected, setting loss scale to: {0.5**n}\n" for n in range(2, 14)
        )
        + "Exception: Minimum loss scale reached (0.0001). Your loss is probably exploding."
    )
    assert report.diagnosis.slug == "loss-scale-collapsed"


@pytest.mark.parametrize(
    ("line", "role", "column"),
    [
        (
            "INFO - Loss of the current value function: {value}\nINFO - Epoch: {n}",
            "loss",
            "Loss of",
        ),
        (
            "At iteration 1/{n}/9, Mean rms={value}%, delta=8%, char train=9%, skip ratio=0%",
            "loss",
            "",
        ),
        ("--batch_info, iter:{n}, epoch:7\n--batch_info, time:2.0, obj:{value}", "loss", "loss"),
        ("Processed [4719] pairs, Error was [{value}]", "loss", "loss"),
        ("Epochs  {n}. Current error: {value}. Bit fail 4.", "loss", "Current loss"),
        (
            "fps step: 2{n} fps total: 18000 epoch: {n}/1000 frames: {n}000\n"
            "saving next best rewards:  [{value}]",
            "reward",
            "reward",
        ),
    ],
)
def test_names_of_a_loss_or_a_reward(diagnosed, line, role, column):
    lines = [line.format(n=n, value=4 - n / 8) for n in range(1, 13)]
    series = diagnosed("\n".join(lines)).history.series[role]
    assert series.values.tolist() == [4 - n / 8 for n in range(1, 13)]
    assert series.column.startswith(column)


def test_espnet_waits_for_data_in_its_iter_time(diagnosed):
    lines = [
        f"1epoch:train:{50 * n + 1}-{50 * n + 50}batch: iter_time=1.5e-04, forward_time=0.143, "
        f"loss={4 - n / 8}, train_time=0.565"
        for n in range(12)
    ]
    series = diagnosed("\n".join(lines)).history.series
    assert set(series["data_time"].values) == {1.5e-4}
    assert set(series["step_time"].values) == {0.565}


def test_a_mail_breaks_the_line_of_kaldi(diagnosed):
    lines = [
        f"LOG (nnet3-train:x():nnet-training.cc:385) Average\nobjective function for 'output' for "
        f"minibatches {100 * n}-{100 * n + 99} is {n / 8 - 4} over 13564\nframes."
        for n in range(12)
    ]
    assert losses_in(diagnosed("\n".join(lines))) == [4 - n / 8 for n in range(12)]


def test_espnet_reports_losses_that_are_too_large(diagnosed):
    lines = [
        f"2018-05-23 13:05:{n:02d} (e2e_asr:88) WARNING: loss (={2.5e8 + n}) is not correct"
        for n in range(8)
    ]
    lines.insert(3, "2018-05-23 13:05:13 (asr:132) WARNING: grad norm is nan. Do not update model.")
    report = diagnosed("\n".join(lines))
    assert losses_in(report) == [2.5e8 + n for n in range(8)]
    assert np.isnan(report.history.series["grad_norm"].values).all()


def test_a_report_that_the_first_loss_is_nan_is_no_placeholder(diagnosed):
    losses = ["nan", "14484257.0", "-186341", "3.5", "2.5"]
    report = diagnosed("\n".join(f"WARNING: loss (={loss}) is not correct" for loss in losses))
    assert report.diagnosis.slug == "nan-dtype-unknown"
    assert losses_in(report)[1:] == [14484257.0, -186341, 3.5, 2.5]


SPACY = """E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE
---  ------  ------------  --------  ------  ------
  0       0         12.31     88.40    2.00    0.02
  1     200        310.22   2410.11    4.00    0.04
  2     400        280.51   1890.75    5.00    0.05
  3     600        190.17   1510.02    6.00    0.06
"""


def test_the_first_row_of_spacy_has_scores_only(diagnosed):
    series = diagnosed(SPACY).history.series
    assert series["score/ENTS_F"].values.tolist() == [2, 4, 5, 6]
    assert series["loss"].values.tolist() == [2410.11, 1890.75, 1510.02]


def test_an_odd_value_after_a_name_of_a_framework(diagnosed):
    lines = [
        f"Ep. 1 : Up. {n} : Sen. 260,147 : Cost {'(nan)' if n > 9 else 4 - n / 8} : L.r. 3e-4"
        for n in range(1, 13)
    ]
    report = diagnosed("\n".join(lines))
    assert report.diagnosis.slug.startswith("nan-")
    np.testing.assert_array_equal(losses_in(report)[9:], [np.nan] * 3)


def test_a_message_in_a_block_of_records_is_found(diagnosed):
    lines = [f"step {n} loss {falling(n, 900):.3f} lr 0.1" for n in range(3000)]
    lines[2990] = "WARNING: the loss is nan, skipping this batch"
    report = diagnosed("\n".join(lines))
    assert np.isnan(losses_in(report)).sum() == 1


def test_an_interval_and_a_value_are_not_evaluations(diagnosed):
    lines = [f"step {n} loss {3 - n / 32}\nthe loss has a value of loss 7.5" for n in range(30)]
    assert "eval_loss" not in diagnosed("\n".join(lines)).history.series


def test_a_sentence_about_nan_above_the_log_is_not_a_record(diagnosed):
    lines = "".join(f"step {10 * n}: loss {falling(n, 40):.4f}\n" for n in range(40))
    for sentence in (
        "My loss = nan after some steps, see below.",
        'I always get a nan loss after "WARNING: received a nan loss", can I skip it?',
    ):
        report = diagnosed(f"{sentence}\n\n{lines}")
        assert report.diagnosis.slug == "healthy"
        assert [finding.slug for finding in report.findings] == ["healthy"]
    report = diagnosed(f"WARNING: received a nan loss, setting loss value to 0\n{lines}")
    assert report.diagnosis.slug != "healthy"


@pytest.mark.parametrize(
    "message", ["WARNING: loss is nan, skipping the batch", "ValueError: loss is nan"]
)
def test_a_message_above_the_first_record_counts(diagnosed, message):
    lines = "".join(f"step {10 * n}: loss {falling(n, 40):.4f}\n" for n in range(40))
    report = diagnosed(f"{message}\n{lines}")
    assert [finding.slug for finding in report.findings] != ["healthy"]


def test_a_counter_in_brackets_after_the_level(diagnosed):
    lines = "".join(
        f"2026-01-02 03:04:{n:02d} INFO [{50 * n:5d}] loss={falling(n, 40):.4f} lr=0.001\n"
        for n in range(1, 41)
    )
    assert diagnosed(lines).history.series["loss"].steps.tolist() == list(range(50, 2050, 50))


def test_a_process_number_in_brackets_is_not_a_step(diagnosed):
    lines = "".join(
        f"2026-01-02 03:04:{n:02d} INFO [ 4711] loss={falling(n, 40):.4f} lr=0.001\n"
        for n in range(1, 41)
    )
    assert diagnosed(lines).history.series["loss"].steps.tolist() == list(range(40))


def test_scores_whose_counter_restarts_with_each_epoch(diagnosed):
    text = "".join(
        f"INFO:root:Epoch[{epoch}] Batch [{100 * batch}]\tSpeed: 120{batch}.46 samples/sec"
        f"\taccuracy={0.1 + 0.02 * epoch + 0.001 * batch:.6f}\n"
        for epoch in range(8)
        for batch in range(1, 11)
    )
    report = diagnosed(text)
    assert len(report.history.series["accuracy"].steps) == 80
    assert not [event for event in report.history.events if "earlier" in event.message]


def test_an_epoch_without_a_batch_has_no_mean(diagnosed):
    text = "".join(
        "".join(
            f"Epoch[{epoch}] Batch [{20 * batch}]\tSpeed: 35.7 samples/sec"
            f"\tTrain-SmoothL1={falling(10 * epoch + batch, 60):.6f}\n"
            for batch in range(1, 6)
        )
        + f"Epoch[{epoch}] Train-SmoothL1=nan\nEpoch[{epoch}] Time cost=585.188\n"
        for epoch in range(6)
    )
    assert np.isfinite(losses_in(diagnosed(text))).all()


def test_a_component_that_is_nan_from_the_start_is_a_series(diagnosed):
    text = "".join(
        f"[Epoch 0][Batch {100 * n - 1}], Speed: 31.8 samples/sec, CrossEntropy={12 - n / 9:.6f},"
        " SmoothL1=nan\n"
        for n in range(1, 6)
    )
    other = diagnosed(text).history.series["other_loss/SmoothL1"]
    assert np.isnan(other.values).all()


@pytest.mark.parametrize("values", [("0.0043", "0.0044"), ("0.0044", "0.0044")])
def test_a_flat_loss_without_a_counter(diagnosed, values):
    text = "".join(
        f"Epoch 2 train Loc Loss: {values[n % 2]} Tot Loss: {values[n % 2]} Accu :0.00{n % 7}\n"
        for n in range(40)
    )
    assert losses_in(diagnosed(text)) == [float(values[n % 2]) for n in range(40)]


def test_a_loss_in_angle_brackets(diagnosed):
    text = "".join(
        f'INFO:  Iteration: {n}, Loss: <{falling(n, 20):.9f}>\nCONTEXT:  function "mlp"\n'
        for n in range(1, 21)
    )
    assert losses_in(diagnosed(text))[0] == pytest.approx(falling(1, 20))


def test_names_joined_to_their_values_by_an_underscore(diagnosed):
    text = "".join(f"step_{20 * n}:\tloss_{-falling(n, 20):.6f}\n" for n in range(1, 21))
    series = diagnosed(text).history.series["loss"]
    assert series.steps.tolist() == list(range(20, 420, 20))
    assert series.values[0] == pytest.approx(-falling(1, 20), abs=1e-6)


@pytest.mark.parametrize("lost", ["nan", "NaN", "inf", "-inf"])
def test_a_lost_loss_joined_to_its_name_is_read(diagnosed, lost):
    lines = [f"step_{20 * n}: loss_{falling(n, 20):.4f}\n" for n in range(1, 21)]
    report = diagnosed("".join([*lines, *(f"step_{20 * n}: loss_{lost}\n" for n in range(21, 25))]))
    assert report.diagnosis.slug.startswith("nan-")
    assert report.diagnosis.step == 420


def test_binary_cross_entropy_without_a_counter(diagnosed):
    text = "".join(
        f"15:35:{n:02d}   >>>>>>>>>>\n15:35:{n:02d}   binary cross entropy: {falling(n, 30):.6f}\n"
        for n in range(30)
    )
    assert len(losses_in(diagnosed(text))) == 30


def test_overflows_at_the_end_of_the_trainer_have_steps(diagnosed):
    text = "".join(
        f"{{'loss': {falling(n, 9):.4f}, 'learning_rate': 0.0001, 'epoch': 0.{n:02d}}}\n"
        for n in range(20, 26)
    )
    text += "".join(
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
        f"{2**n}, reducing to {2 ** (n - 1)}\n"
        for n in range(6, 0, -1)
    )
    text += "Exception: Current loss scale already at minimum - cannot decrease scale anymore.\n"
    report = diagnosed(text)
    assert report.diagnosis.slug == "loss-scale-collapsed"
    assert report.history.series["loss_scale"].values[-1] == 1


def test_a_markdown_table_of_scores(diagnosed):
    rows = "".join(f"| {n} | {14 + n:.2f} | {35 + n:.2f} |\n" for n in range(1, 16))
    series = diagnosed("| epoch | BLEU | chrF |\n|---|---|---|\n" + rows).history.series
    assert series["score/BLEU"].values.tolist() == [14.0 + n for n in range(1, 16)]


def test_the_loss_of_a_variational_autoencoder_is_not_added_to_its_parts(diagnosed):
    text = "".join(
        f"ITER {500 * n} loss_vae: {falling(n, 30):.4f}; loss_recon: {falling(n, 30) - 0.1:.4f};"
        f" loss_kl: {200 - n:.4f}\n"
        for n in range(30)
    )
    assert losses_in(diagnosed(text))[0] == pytest.approx(falling(0, 30), abs=1e-4)


@pytest.mark.parametrize(
    "line",
    [
        ">{n}, dA[0.053,0.058] dB[0.024,0.041] g[{g:.3f},2.900]",
        ">{n}, d1[0.553] d2[0.524] g[{g:.3f}]",
        ">{n}, c1=-0.3, c2=0.2 g={g:.3f}",
    ],
)
def test_the_losses_of_gan_tutorials(diagnosed, line):
    text = "".join(line.format(n=n, g=falling(n, 40)) + "\n" for n in range(1, 41))
    series = diagnosed(text).history.series
    assert series["other_loss/loss_G"].steps.tolist() == list(range(1, 41))
    assert series["other_loss/loss_G"].values[0] == pytest.approx(falling(1, 40), abs=1e-3)


def test_a_quoted_line_with_a_number_is_not_a_gan(diagnosed):
    text = "".join(f"> {n}, a=0.5, b=0.6\n" for n in range(1, 41))
    with pytest.raises(NoUsableRecord):
        diagnosed(text)


def test_the_best_reward_below_an_arrow_is_not_the_reward(diagnosed):
    text = "".join(
        f"Step {1000 * n:6d} | Avg Reward (last 10): {50 + n:.2f} | Episodes: {16 * n}\n"
        + (f"  → saved (avg reward: {50 + n:.2f})\n" if n % 3 == 0 else "")
        for n in range(1, 31)
    )
    reward = diagnosed(text).history.series["reward"]
    assert reward.values.tolist() == [50.0 + n for n in range(1, 31)]


def test_the_score_of_episodes_next_to_a_frame(diagnosed):
    text = "".join(
        f"\rEpisode {n}\tFrame {11 * n} \tAverage100 Score: {10 + n:.2f}" for n in range(1, 41)
    )
    assert diagnosed(text).history.series["reward"].values.tolist() == [
        10.0 + n for n in range(1, 41)
    ]


@pytest.mark.parametrize("bad", [40, 24])
def test_a_total_with_its_terms_is_the_loss(diagnosed, bad):
    """Without it, only the scores of the evaluations would be judged."""
    lines = []
    for n in range(40):
        values = [f"{falling(n, 40) * part:.4f}" if n < bad else "nan" for part in (1, 0.7, 0.3)]
        total, seg, det = values
        lines.append(
            f"epoch {n // 10} step {50 * n} | total {total} = seg {seg} + det {det} | lr 1e-3"
        )
        if n % 10 == 9:
            lines.append(f">> eval epoch {n // 10}: mIoU {0.3 + n / 100:.4f}")
    report = diagnosed("\n".join(lines))
    assert len(report.history.series["loss"]) == 40
    assert (report.diagnosis.severity == "error") == (bad < 40)


@pytest.mark.parametrize("form", ["**Train Loss:** {}", "**Loss**: {}", "l_pix: {}"])
def test_a_lost_loss_in_capitals_is_read(diagnosed, form):
    losses = [*(f"{falling(n, 20):.4f}" for n in range(1, 21)), "NaN", "NaN"]
    head = "[train][epoch:  1, iter: {}, lr:(2e-04,)] " if "l_" in form else "Epoch {}: "
    text = "".join(f"{head.format(n)}{form.format(x)}\n" for n, x in enumerate(losses, start=1))
    assert diagnosed(text).diagnosis.slug.startswith("nan-")


def test_a_total_named_by_a_letter_has_its_parts(diagnosed):
    text = "".join(
        f"\rL: {falling(n, 40):.2f}, L_crf: 6.53, L_selection: 0.84, epoch: 0/50::  22%|█ | "
        f"{n}/1419 [02:05<07:26,  2.48it/s]"
        for n in range(1, 41)
    )
    series = diagnosed(text).history.series
    assert series["loss"].values[0] == pytest.approx(falling(1, 40), abs=0.01)
    assert series["other_loss/loss_crf"].values[0] == 6.53


BOOSTED = (
    "{n}:\tlearn: {learn:.7f}\ttest: {test:.7f}\tbest: {best:.7f} ({at})\ttotal: {n}s\t"
    "remaining: 2h\n"
)


def test_boosted_trees_with_a_measure_that_is_maximized(diagnosed):
    scores = [0.9 + 0.002 * min(n, 12) - 0.001 * max(n - 12, 0) for n in range(40)]
    text = "".join(
        BOOSTED.format(n=n, learn=0.9 + 0.002 * n, test=score, best=max(scores[: n + 1]), at=n)
        for n, score in enumerate(scores)
    )
    series = diagnosed(text).history.series
    assert series["score/test_score"].values == pytest.approx(scores)
    assert "loss" not in series


def test_boosted_trees_with_a_loss(diagnosed):
    text = "".join(
        BOOSTED.format(n=n, learn=1 / (n + 2), test=1 / (n + 1), best=1 / (n + 1), at=n)
        for n in range(40)
    )
    series = diagnosed(text).history.series
    assert series["eval_loss"].values[3] == 0.25
    assert series["loss"].values[3] == 0.2


def test_statements_that_return_numbers_are_no_rewards(diagnosed):
    code = "".join(f"    case {n}:\n      return {3 * n};\n" for n in range(1, 9))
    with pytest.raises(NoUsableRecord):
        diagnosed("int digits(int n) {\n  switch (n) {\n" + code + "  }\n}\n")


@pytest.mark.parametrize(
    "line",
    [
        "loss_epoch_{n} = {loss}",
        "epoch_{n}_loss: {loss}",
        "train_loss[{n}] = {loss}",
        "Loss ({n}): {loss}",
        "INFO - The train loss of epoch2-batch-{n}:{loss}",
        "In epoch {n}, the loss was {loss}.",
    ],
)
def test_a_counter_in_the_name_of_the_loss(diagnosed, line):
    values = [falling(n, 30) for n in range(30)]
    text = "".join(line.format(n=n + 1, loss=f"{value:.4f}\n") for n, value in enumerate(values))
    series = diagnosed(text.replace("\n.", ".\n")).history.series
    assert series["loss"].steps.tolist() == list(range(1, 31))
    assert series["loss"].values.tolist() == pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize("opening", [" (", "(", " ["])
def test_a_qualifier_after_the_name_of_the_loss(diagnosed, opening):
    closing = "]" if "[" in opening else ")"
    line = "step {0} loss{1}train{2} {3:.4f} loss{1}val{2} {4:.4f}\n"
    values = [falling(n, 30) for n in range(30)]
    text = "".join(
        line.format(n + 1, opening, closing, value, 2 * value) for n, value in enumerate(values)
    )
    series = diagnosed(text).history.series
    assert series["loss"].values.tolist() == pytest.approx(values, abs=1e-4)
    assert series["eval_loss"].values[0] == pytest.approx(2 * values[0], abs=1e-4)


def test_several_losses_with_an_index_are_no_steps(diagnosed):
    text = "".join(
        f"step {n} loss[0]: {falling(n, 30):.4f} loss[1]: {falling(n, 30) / 2:.4f}\n"
        for n in range(1, 31)
    )
    loss = diagnosed(text).history.series["loss"]
    assert loss.steps.tolist() == list(range(1, 31))
    assert loss.values[0] == pytest.approx(falling(1, 30), abs=1e-4)


def test_a_record_that_breaks_off_at_the_end_is_not_left_out(diagnosed):
    text = "".join(
        f"{{'loss': {falling(n, 30):.4f}, 'grad_norm': 0.5, 'epoch': {n / 100:.2f}}}\n"
        for n in range(1, 31)
    )
    report = diagnosed(text + "{'loss': 0.9312, 'grad_no\n")
    assert report.diagnosis.slug == "healthy"
    report = diagnosed(text + "{'loss': 0.9312, 'grad_no\nmore text\n" * 2)
    assert report.diagnosis.slug == "partly-read"


def test_one_record_and_the_overflows_after_it(diagnosed):
    record = "| epoch 007 | loss 5.21 | ppl 37.0 | num_updates 900 | lr 0.0004 | loss_scale 0.5"
    scales = [0.5 / 2**n for n in range(1, 13)]
    overflows = "".join(
        f"| WARNING: overflow detected, setting loss scale to: {scale}\n" for scale in scales
    )
    report = diagnosed(f"It fails after an overflow, see below.\n```\n{record}\n{overflows}```\n")
    assert report.diagnosis.slug == "loss-scale-collapsed"


def test_a_scale_at_its_minimum_after_one_halving(diagnosed):
    text = (
        "{'loss': 1.82, 'learning_rate': 0.0002, 'epoch': 0.31}\n"
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1\n"
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore.\n"
    )
    assert diagnosed(text).diagnosis.slug == "nan-fp16-overflow"


def test_a_reward_that_is_never_finite_is_named(diagnosed):
    table = (
        "| ep_rewmean | nan |\n| explained_variance | 0.126 |\n| fps | 838 |\n"
        "| policy_loss | 0.0006 |\n| total_timesteps | {step} |\n| value_loss | {loss:.3f} |\n"
    )
    rule = "-" * 30 + "\n"
    text = "".join(rule + table.format(step=128 * n, loss=60 + n % 7) + rule for n in range(1, 41))
    diagnosis = diagnosed(text).diagnosis
    assert diagnosis.slug == "no-progress"
    assert "'ep_rewmean' is never finite" in diagnosis.summary
    assert diagnosis.first_action.startswith("Find out why 'ep_rewmean' is never finite")


@pytest.mark.parametrize(
    ("loss", "slug"), [("5.3", "insufficient-data"), ("nan", "nan-dtype-unknown")]
)
def test_a_record_of_fairseq_that_breaks_off_before_its_step(diagnosed, loss, slug):
    line = '2021-01-05 | INFO | train | {{"epoch": {n}, "train_loss": "{loss}", "train_{rest}\n'
    text = "".join(
        line.format(n=n, loss=9.1 - n, rest=f'num_updates": "{110 * n}"}}') for n in range(1, 4)
    )
    report = diagnosed(text + line.format(n=4, loss=loss, rest="ppl"))
    assert report.diagnosis.slug == slug


def test_a_line_that_breaks_off_before_its_loss_is_not_left_out(diagnosed):
    line = "\titers: {n}, epoch: 1 | loss: {loss:.4f}\n"
    text = "".join(line.format(n=100 * n, loss=falling(n, 30)) for n in range(1, 31))
    assert diagnosed(text + "\titers: 3100, epoch: 1 |\n").diagnosis.slug == "healthy"
    # Many records without their loss are a sign of a loss that became NaN.
    lost = "".join(f"\titers: {100 * n}, epoch: 1 |\n" for n in range(31, 40))
    assert diagnosed(text + lost).diagnosis.slug == "partly-read"


def test_records_with_their_time_in_brackets_on_one_line(diagnosed):
    text = " ".join(
        f"[2021/06/30 12:24:{n:02d}] root INFO: epoch: [1/500], iter: {10 * n}, lr: 0.001, "
        f"loss: {falling(n, 30):.4f}, acc: 0.06, samples: 5120, ips: 46.57"
        for n in range(1, 31)
    )
    assert len(losses_in(diagnosed(text))) == 30


@pytest.mark.parametrize("name", ["eval-auc", "validation_0-auc", "valid_0's auc"])
def test_boosting_rounds_with_scores_alone(diagnosed, name):
    text = "".join(f"[{n}]\t{name}:{0.6 + 0.01 * n:.5f}\n" for n in range(20))
    series = diagnosed(text).history.series
    assert [list(series[role].steps) for role in series if name in series[role].column] == [
        list(range(20))
    ]


def test_scores_next_to_a_number_in_brackets_that_does_not_rise_evenly(diagnosed):
    text = "".join(f"[{n * n}]\teval-auc:{0.6 + 0.01 * n:.5f}\n" for n in range(20))
    with pytest.raises(NoUsableRecord):
        diagnosed(text)


def test_bars_of_keras_on_one_line(diagnosed):
    bar = "{n}/632 [>.............................] - ETA: 2:07:20 - loss: {loss} - mrcnn_class "
    text = "Epoch 1/20 " + "".join(
        bar.format(n=n, loss=loss) for n, loss in enumerate(["5.1723", "nan", "nan"], start=1)
    )
    assert diagnosed(text + "\n").diagnosis.slug == "nan-dtype-unknown"


def test_a_last_record_without_its_loss_is_left_out(diagnosed):
    text = "".join(f"step {n} loss {falling(n, 30):.4f} lr 0.001\n" for n in range(1, 31))
    assert diagnosed(text).diagnosis.slug == "healthy"
    assert diagnosed(text + "step 31 lr 0.001\n").diagnosis.slug == "partly-read"


def test_a_record_that_breaks_off_after_a_lost_value_is_left_out(diagnosed):
    text = "".join(
        f"{{'loss': {falling(n, 30):.4f}, 'grad_norm': 0.5, 'epoch': {n / 100:.2f}}}\n"
        for n in range(1, 31)
    )
    report = diagnosed(text + "{'loss': None, 'grad_no\n")
    assert report.diagnosis.slug == "partly-read"


def test_two_epochs_with_a_sign_after_their_count(diagnosed):
    block = "Epoch {};\nParameters norm: 7.5\nTraining error: {}\nGradient norm: {}\n"
    read = diagnosed(block.format(245, 0.75, 0.5) + block.format(246, 0.625, 0.25)).history.series
    assert read["loss"].steps.tolist() == [245, 246]
    assert read["loss"].values.tolist() == [0.75, 0.625]
    assert read["grad_norm"].values.tolist() == [0.5, 0.25]


def test_the_short_names_of_vse(diagnosed):
    rows = [
        f"Epoch: [2][{n}00/1133]\tEit {n}00  lr 0.0002  Le {falling(n, 12):.4f} (2.5000)\n"
        for n in range(12)
    ]
    series = diagnosed("".join(rows)).history.series
    assert series["loss"].values.tolist() == [round(falling(n, 12), 4) for n in range(12)]
    assert series["loss"].steps.tolist() == [*range(0, 1200, 100)]
    assert set(series["lr"].values) == {0.0002}


COMMENTS = ["", "   <-- here", "  # a spike (step 4)", "", " ← again", " // fine", "", " --> no"]


def test_a_user_may_comment_on_a_record(diagnosed):
    rows = [f"{{'loss': {3 - n / 8}, 'grad_norm': 0.5}}{text}\n" for n, text in enumerate(COMMENTS)]
    assert losses_in(diagnosed("".join(rows))) == [3 - n / 8 for n in range(len(COMMENTS))]


def test_a_line_of_words_above_the_losses_of_components(diagnosed):
    rows = [f"{{'ner': {30 - n}.5}}\n" for n in range(8)]
    for words in ("", "Created blank 'en' model\n", "This is what the program prints:\n\n"):
        assert losses_in(diagnosed(words + "".join(rows))) == [30.5 - n for n in range(8)]
