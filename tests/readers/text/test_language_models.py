"""Forms of pasted logs of language and speech models: bars, ranks, single blocks, cut ends."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def history(tmp_path):
    def read(text):
        (tmp_path / "run.txt").write_text(text)
        return stabdiag.read(tmp_path / "run.txt")

    return read


@pytest.fixture
def diagnosis(tmp_path):
    def diagnose(text):
        (tmp_path / "run.txt").write_text(text)
        return stabdiag.diagnose(tmp_path / "run.txt").diagnosis

    return diagnose


def points(series):
    return [*zip(series.steps.tolist(), series.values.tolist(), strict=True)]


@pytest.mark.parametrize("escape", ["ESC[", "^[[", "\\x1b[", "\\033["])
def test_the_table_of_a_terminal_with_spelled_escapes_is_read(history, escape):
    rows = "".join(
        f"{escape}4A{escape}J0           {n}00         {7 - n}.25     0.00{n}\n"
        f"{escape}J     total [.............]  0.00%\nthis epoch [#............]  0.43%\n"
        for n in (1, 2, 3)
    )
    series = history(f"epoch       iteration   main/loss   main/acc\n{rows}").series
    assert points(series["loss"]) == [(100, 6.25), (200, 5.25), (300, 4.25)]


def test_the_lines_of_several_ranks_at_a_single_step_are_a_record(history):
    line = (
        "INFO ({0}/4) Epoch 1, batch 50, loss[loss=0.4{0}, simple_loss=0.7, pruned=0.8], lr: 0.1\n"
    )
    series = history("".join(map(line.format, range(4)))).series
    assert [step for step, _ in points(series["loss"])] == [50]


def test_lines_of_different_steps_of_several_ranks_need_a_counter_that_rises(history):
    line = "INFO ({0}/4) Epoch 1, batch {1}, loss[loss=0.4, simple_loss=0.7, pruned=0.8]\n"
    with pytest.raises(LogError):
        history(line.format(0, 50) + line.format(1, 40))


def test_the_losses_of_an_epoch_with_a_heading_in_capitals_are_a_record(history):
    losses = "".join(f"     | > avg_loss_{name}: 2.5 (+0)\n" for name in ("disc", "gen", "mel"))
    read = history(f" > EPOCH: 0/1000\n --> runs/tts\n\n  --> EVAL PERFORMANCE\n{losses}")
    assert read.series["loss"].values.tolist() == [2.5]


def test_the_bars_of_fairseq_may_be_cut_at_the_width_of_the_terminal(history):
    bars = "".join(
        f"| epoch 017:  {3 * n}%|▍| {n}/35 [00:16<00:24,  1.17s/it, loss=1{n % 10}.806, wpb=27, cl"
        for n in range(14, 20)
    )
    series = history(f"{bars}\n").series
    assert points(series["loss"])[:2] == [(14, 14.806), (15, 15.806)]


def test_the_current_loss_of_litgpt_is_the_loss(history):
    rows = "".join(
        f"Ep 1 | iter {n} | step {n // 4}: loss train (curr): {2 - n / 10:.3f},"
        " val (prev val iter): None | iter time: 102.00 ms\n"
        for n in range(8)
    )
    assert points(history(rows).series["loss"])[:2] == [(0, 2.0), (1, 1.9)]


def test_the_percentage_of_clipped_updates_is_not_a_threshold(tmp_path):
    rows = "".join(
        f"| epoch 001:  {n}0 / 900 loss=2.{n}, num_updates={n}0, gnorm=1.5, clip=100%\n"
        for n in range(1, 6)
    )
    (tmp_path / "run.txt").write_text(rows)
    assert stabdiag.diagnose(tmp_path / "run.txt").manifest.grad_clip is None


def test_a_record_that_ends_on_the_name_of_its_loss_is_cut(diagnosis):
    rows = "".join(f"INFO Batch {n}/900: accuracy: 0.5, loss: 1.{n} ||\n" for n in range(1, 6))
    assert diagnosis(f"{rows}INFO Batch 6/900: accuracy: 0.51, loss:").slug == "insufficient-data"


def test_records_without_a_loss_above_the_last_line_are_left_out(diagnosis):
    rows = "".join(f"INFO Batch {n}/900: accuracy: 0.5, loss: 1.{n} ||\n" for n in range(1, 6))
    cut = "".join(f"INFO Batch {n}/900: accuracy: 0.51, loss:\n" for n in range(6, 9))
    assert diagnosis(rows + cut).slug == "partly-read"


def test_an_exception_after_many_overflows_is_a_failure(diagnosis):
    line = "Exception: Skipped 50 iterations in a row due to Overflow - Exiting training.\n"
    text = f"Traceback (most recent call last):\n  File 'a.py', line 3\n{line}"
    assert diagnosis(text).slug == "nan-dtype-unknown"


def test_an_unknown_measure_may_follow_a_counter_and_a_colon(diagnosis):
    rows = "".join(
        f"[x][INFO] -   Epoch {n}: Train_rf 0.{n}   Memory 9.9%\n" for n in range(10, 20)
    )
    assert diagnosis(rows).slug == "partly-read"


@pytest.mark.parametrize("unit", ["samples/sec", "tok/s", "images/second"])
def test_a_rate_per_second_is_not_a_part_of_the_next_name(history, unit):
    rows = "".join(
        f"Epoch[0] Batch [{n}0]  Speed: 683.23 {unit} perplexity={14 - n}.5 accuracy=0.1\n"
        for n in (1, 2)
    )
    assert points(history(rows).series["loss"]) == [(10, 13.5), (20, 12.5)]


def test_the_results_of_an_estimator_are_a_record(history):
    read = history(
        "INFO:tensorflow:***** Eval results *****\nINFO:tensorflow:  global_step = 343\n"
        "INFO:tensorflow:  loss = 0.5\nINFO:tensorflow:  masked_lm_accuracy = 0.8\n"
        "INFO:tensorflow:  masked_lm_loss = 0.4\nINFO:tensorflow:  next_sentence_loss = 0.1\n"
    )
    assert points(read.series["loss"]) == [(343, 0.5)]


def test_a_setting_of_a_step_above_a_single_loss_is_not_a_record(history):
    with pytest.raises(LogError):
        history("global_step = 343 is loaded\nloss = 0.5\n")


def test_a_single_record_of_vits_has_the_step_above_it(history):
    read = history(
        "INFO:xx:Train Epoch: 478 [92%]\nINFO:xx:[110200, 9.42e-05]\n"
        "INFO:xx:loss_disc=3.5, loss_gen=3.1, loss_fm=8.7,loss_mel=19.3, loss_kl=1.5\n"
    )
    assert points(read.series["loss"]) == [(110200, 3.5)]


def test_the_name_of_colossal_ai_is_not_the_name_of_a_loss(history):
    rows = "".join(
        f"   INFO     colossalai - colossalai - INFO: [Epoch {n} / Train]:\n"
        f"            Loss = {20 - n}.5 | LR = 0.00015 | Throughput = 0\n"
        f"   INFO     colossalai - colossalai - INFO:\n            memory.py:91\n"
        for n in (4, 5)
    )
    assert points(history(rows).series["loss"]) == [(4, 16.5), (5, 15.5)]


def test_the_lines_of_fasttext_may_lack_their_ends(history):
    rows = "".join(
        f"Progress:   0.{n}% words/sec/thread:      10 lr:  0.1 loss: {9 - n}.976 ETA: 17"
        for n in range(8)
    )
    assert history(rows).series["loss"].values.tolist() == pytest.approx(
        [9.976 - n for n in range(8)]
    )


def test_a_value_may_be_before_its_name(history):
    rows = "".join(f"{10 - n}.5 loss, 0.0001{n} LR, 8.83 GB used, 5.{n} s   \n" for n in range(5))
    series = history(f"training llama\n{rows}").series
    assert series["loss"].values.tolist() == [10.5, 9.5, 8.5, 7.5, 6.5]
    assert series["lr"].values.tolist() == [0.0001, 0.00011, 0.00012, 0.00013, 0.00014]


def test_a_comma_may_be_between_a_step_a_name_and_its_value(history):
    rows = "".join(f"step {n}0, loss, {5 - n}.5\n" for n in range(1, 5))
    assert points(history(rows).series["loss"])[:2] == [(10, 4.5), (20, 3.5)]


def test_the_loss_of_the_router_is_not_the_loss_of_the_task(history):
    rows = "".join(
        f"INFO | step {n}/15 | cross-entropy-loss 2.{n} | load-balance-loss 0.001{n} | lr 1e-06\n"
        for n in range(1, 5)
    )
    assert history(rows).series["loss"].values.tolist() == [2.1, 2.2, 2.3, 2.4]


FAIRSEQ = "| epoch {0:03d} | loss 3.{1} | ppl 4.6 | num_updates {0}00 | lr 0.0008 | gnorm 0.3\n"


def test_a_record_with_only_its_first_values_is_cut(diagnosis):
    rows = "".join(FAIRSEQ.format(n, 99 - n) for n in range(1, 6))
    assert diagnosis(f"{rows}| epoch 006 | loss 3.94 | ppl").slug == "insufficient-data"


@pytest.mark.parametrize(
    "cut", ["| epoch 006 | loss 3.91 | ppl 4.6\n| epoch 007 | loss 3.90 | ppl 4"]
)
def test_several_records_with_only_their_first_values_are_left_out(diagnosis, cut):
    rows = "".join(FAIRSEQ.format(n, 99 - n) for n in range(1, 6))
    assert diagnosis(f"{rows}{cut}").slug == "partly-read"


@pytest.mark.parametrize(("count", "slug"), [(12, "healthy"), (30, "score-constant")])
def test_a_score_of_translations_may_be_zero_at_first(diagnosis, count, slug):
    rows = "".join(
        f"  global step {n}00 lr 1 step-time 0.9s wps 8.0K ppl {9000 / n:.2f} bleu 0.00\n"
        for n in range(1, count + 1)
    )
    assert diagnosis(rows).slug == slug


@pytest.mark.parametrize(
    ("reward", "reason"),
    [("", "value function"), ("average reward score: 0.2{0}\n", "'average_reward' did not fall")],
    ids=["alone", "with rewards"],
)
def test_the_losses_of_an_actor_and_a_critic_may_rise(diagnosis, reward, reason):
    row = "epoch: 0|step: {0}|ppo_ep: 1|act_loss: 0.0{0}|cri_loss: 0.2{0}|unsuper_loss: 0.0\n"
    rows = "".join(f"{row}{reward}{'-' * 60}\n".format(n) for n in range(10, 40))
    assert reason in diagnosis(rows).summary


CODE = """```python
import torch

def step(model, batch):
    loss = model(batch).loss
    if torch.isnan(loss):
        raise ValueError("loss is nan")
    print(f"epoch 1 loss {loss.item()}")
```
"""
RECORDS = "".join(
    f"[ time:{n}s total:{n}2 ] {{'exs': 32, 'train_loss': 33{n}.1}}\n" for n in range(5)
)
LOST = "[ time:9s total:92 ] {'exs': 32, 'train_loss': nan}\n"


def test_source_code_between_fences_is_not_a_part_of_the_log(diagnosis):
    assert diagnosis(f"{CODE}Here is my log:\n```\n{RECORDS}```\n").slug == "insufficient-data"


@pytest.mark.parametrize("language", ["python", "bash", ""])
def test_a_log_between_fences_is_read_in_any_language(history, language):
    read = history(f"```{language}\n{RECORDS}{LOST}```\n")
    assert np.isnan(read.series["loss"].values[-1])
    assert len(read.series["loss"]) == 6


def test_the_line_numbers_below_source_code_are_those_of_the_file(tmp_path):
    (tmp_path / "run.txt").write_text(f"{CODE}{RECORDS}RuntimeError: CUDA out of memory.\n")
    (event,) = (
        event
        for event in stabdiag.read(tmp_path / "run.txt").events
        if "out of memory" in event.message
    )
    assert event.line == 15


def test_a_sentence_about_a_loss_does_not_hide_a_log_of_perplexities(history):
    rows = "".join(
        f"global step {n}00 rate 0.5 step-time 0.3 perplexity {9 - n}.5\n" for n in range(1, 9)
    )
    read = history(f"{rows}\nFor me the loss was 0.5 after 10 epochs.\n")
    assert read.series["loss"].values.tolist() == [9.5 - n for n in range(1, 9)]


def test_a_sentence_about_a_loss_below_many_epochs_is_not_a_record(history):
    rows = "".join(f"Epoch {n} finished\n" for n in range(1, 9))
    with pytest.raises(LogError):
        history(f"{rows}\nFor me the loss was 0.5 with a lower rate.\n")


@pytest.mark.parametrize(
    "setting", ["train.py --epochs 100 --lr 1e-4", "max_steps=900", "num_epochs: 7"]
)
def test_a_number_of_epochs_in_a_setting_is_not_an_epoch(history, setting):
    rows = "".join(f"TRAIN EPOCH  {n}:\nloss    {3 - n / 2}\ncrl     0.1\n\n" for n in range(4))
    assert points(history(f"{setting}\n{rows}").series["loss"])[-1] == (3, 1.5)


def test_bars_on_one_line_of_a_paste_are_separated_below_other_lines(history):
    bars = "".join(
        f"| epoch 017:  {3 * n}%|▍| {n}/35 [00:16<00:24,  1.17s/it, loss=1{n % 10}.806, wpb=27, cl"
        for n in range(14, 20)
    )
    series = history(f"Here is it:\n\n```\n{bars}\n```\n\nAny idea?\nThanks.\n").series
    assert points(series["loss"])[:2] == [(14, 14.806), (15, 15.806)]


@pytest.mark.parametrize(
    "below",
    ["```\n\n</details>\n", "Traceback (most recent call last):\n  line 21\nValueError: x\n"],
)
def test_a_cut_record_may_be_above_other_lines(diagnosis, below):
    rows = "".join(
        f"{{'loss': 2.{n}, 'learning_rate': 1e-05, 'epoch': 0.0{n}}}\n" for n in range(5)
    )
    slug = diagnosis(f"{rows}{{'loss': 2.5, 'learning_r\n{below}").slug
    assert slug in ("insufficient-data", "stall")


def test_a_cut_record_above_a_record_is_left_out(diagnosis):
    rows = "".join(
        f"{{'loss': 2.{n}, 'learning_rate': 1e-05, 'epoch': 0.0{n}}}\n" for n in range(5)
    )
    broken = "{'loss': 2.5, 'learning_r\n{'loss': 2.5, 'learning_r\n"
    assert diagnosis(f"{rows}{broken}").slug == "partly-read"


TRANSLATION = "global step {} learning rate 0.4100 step-time 0.52 perplexity {}\n"


def test_a_perplexity_of_early_tensorflow_is_read_with_its_buckets(diagnosis):
    text = "".join(
        TRANSLATION.format(200 * n, 9 - n)
        + f"  eval: bucket 0 perplexity {9 - n}.25\n  eval: bucket 1 perplexity {30 - n}.50\n"
        for n in range(1, 5)
    )
    assert "The perplexity went from 8 to 5" in diagnosis(text).summary
    assert "the evaluation perplexity from 8.25 to 5.25" in diagnosis(text).summary


def test_the_values_of_a_single_record_are_reported(diagnosis):
    text = TRANSLATION.format(4200, "1.07") + "  eval: perplexity 83.10\n"
    assert "The perplexity was 1.07 and the evaluation perplexity 83.1." in diagnosis(text).summary
    marian = "[2020-01-02 10:11:12] Ep. 3 : Up. 4200 : Sen. 91,300 : Cost 3.25 : Time 51.2s\n"
    assert "The loss was 3.25." in diagnosis(marian).summary


def test_a_perplexity_in_a_sentence_is_no_record(history):
    with pytest.raises(LogError):
        history("After global step 4200 the step-time rose, and the perplexity 1.07 was odd.\n")


@pytest.mark.parametrize(("epochs", "planned"), [((1, 1), None), ((1, 2), 900)])
def test_a_position_within_the_only_epoch_is_no_plan(history, epochs, planned):
    text = "".join(
        f"epoch {epochs[n > 4]} - iter {90 * n}/900 - loss {4 - n / 4}\n" for n in range(1, 9)
    )
    assert history(text).config.get("total_steps") == planned


BETWEEN = "End-to-End => Latency: 5.10s, Samples/sec: 6.2\nTraining   => Latency: 1.75s\n"


@pytest.mark.parametrize(
    "line",
    [
        "epoch: 0|step: {}|ppo_ep: 1|act_loss: 0.25|cri_loss: 0.5|unsuper_loss: 0.0\n"
        "average reward score: {}\n-----\n",
        "Epoch: 0 | Step: {} | PPO Epoch: 1 | Actor Loss: 0.25 | Critic Loss: 0.5 | "
        "Unsupervised Loss: 0.0\n" + BETWEEN + "Average reward score: {}\n-----\n",
    ],
    ids=["the first version", "with times"],
)
def test_the_reward_below_the_losses_of_a_policy_belongs_to_their_step(history, line):
    text = "".join(line.format(40 + n, n / 4) for n in range(1, 6))
    assert points(history(text).series["reward"]) == [(40 + n, n / 4) for n in range(1, 6)]


def test_the_losses_of_a_wide_table_are_all_read(diagnosis):
    names = ["lg_loss_scale", "loss", *(f"loss_q{n}" for n in range(4)), "mse", "step"]
    rows = "".join(f"| {name:<13} | 0.75     |\n" for name in names[:-1])
    table = "-" * 28 + f"\n{rows}| step          | {{}}00      |\n" + "-" * 28 + "\n"
    assert diagnosis("".join(table.format(n) for n in range(1, 5))).slug != "partly-read"


@pytest.mark.parametrize(
    ("line", "role", "values"),
    [
        ("val loss: {0}.5, acc: 0.2{0}", "eval_accuracy", [0.21, 0.22, 0.23]),
        ("val_loss={0}.5 f1=0.2{0} time=3.{0}", "score/val f1", [0.21, 0.22, 0.23]),
        ("test loss {0}.5, accuracy: 0.2{0}", "eval_accuracy", [0.21, 0.22, 0.23]),
        ("val_loss: {0}.5 acc: 0.2{0} val_acc: 0.1", "eval_accuracy", [0.1, 0.1, 0.1]),
    ],
)
def test_a_score_next_to_the_loss_of_an_evaluation_is_of_the_same_split(
    history, line, role, values
):
    text = "".join(
        f"Epoch {n}/3\ntrain loss: {9 - n}.25, acc: 0.3{n}\n{line.format(n)}\n" for n in (1, 2, 3)
    )
    assert history(text).series[role].values.tolist() == pytest.approx(values)


def test_the_report_of_a_nan_does_not_rename_the_loss(diagnosis):
    text = "".join(
        f"[10:11:{n}.5] Epoch: [0]  [   {n}/9000]  lr: 0.01  closs: 1.{n} (1.5)  data: 0.1\n"
        for n in range(20, 60, 10)
    )
    finding = diagnosis(f"{text}Loss is nan, stopping training\n")
    assert "last finite loss: step 50" in finding.summary


def test_the_only_record_of_a_logger_may_be_among_its_messages(history):
    stamp = "2020-01-02 10:11:12,131 - log/train.log - INFO - "
    messages = [f"{name}:\tfirst of all" for name in "abcdefghijkl"]
    record = f"{stamp}iteration:3 step:100/170, NER loss: 8.25\n"
    text = "".join(f"{stamp}{message}\n" for message in messages) + record
    assert points(history(text).series["loss"]) == [(3, 8.25)]
    with pytest.raises(LogError):
        history(text.replace(stamp, ""))


def test_the_loss_of_an_evaluation_is_not_called_a_training_loss(diagnosis):
    text = "".join(f"{{'eval_loss': {3 - n / 4}, 'epoch': {n}.0}}\n" for n in (1, 2))
    assert "The evaluation loss went from 2.75 to 2.5." in diagnosis(text).summary


RECORD = "[ time:7s parleys:64 ] {{'total': 9, 'accuracy': 0.25, 'f1': 0.5, 'loss': {} }}\n"


def test_the_only_record_may_have_no_counter(diagnosis):
    summary = diagnosis("I see this:\n" + RECORD.format(2.25)).summary
    assert "The loss was 2.25 and the accuracy 0.25." in summary
    assert diagnosis(RECORD.format("nan")).slug.startswith("nan-")


@pytest.mark.parametrize(
    "line",
    [
        "Our model has loss 0.25 with accuracy 0.9 and f1 0.8, auc 0.7 on the test set here.\n",
        "loss = criterion(x, y); total_loss = 0.0; lr = 0.1; acc = 0.5; f1 = 0.0\n",
        "f(loss='mse', total_loss=0.5, lr=0.1, acc=0.5, f1=0.1)\n" * 2,
    ],
    ids=["a sentence", "statements", "twice"],
)
def test_many_values_without_a_counter_are_no_record(history, line):
    with pytest.raises(LogError):
        history(line)


def test_the_mean_of_lightning_is_not_the_loss_of_a_bar_that_breaks_off(history):
    bar = "Epoch 0:   0%|  | {0}/90 [0:10<1:15, loss=nan, v_num=, val_loss=7.5, reduced_train_loss="
    text = ", ".join(f"{bar.format(n)}{n}.500, lr=0.1" for n in (3, 4, 5))
    series = history(f"{text}, {bar.format(6)}\n").series
    assert points(series["loss"]) == [(3, 3.5), (4, 4.5), (5, 5.5)]


RANKS = "".join(
    f"[job] - step:  {step}  loss:  {9 - step}.50000  grad_norm: {step}.25  tps: 9,0{rank}0\n"
    for step in (4, 5)
    for rank in range(4)
)


def test_two_steps_of_several_ranks_are_two_records(history):
    series = history(RANKS + "[job] - INFO - step:  5  loss:  4.50000  grad_norm:").series
    assert points(series["loss"]) == [(4, 5.5), (5, 4.5)]
    assert points(series["grad_norm"]) == [(4, 4.25), (5, 5.25)]
    assert "eval_loss" not in series


def test_two_records_with_a_position_have_steps(history):
    line = "INFO: run:, {0}00/900, train/total_loss: 0.{0} (0.5), lr: 0., max mem: 67.0\n"
    assert points(history(line.format(4) + line.format(5)).series["loss"]) == [
        (400, 0.4),
        (500, 0.5),
    ]


def test_the_split_and_the_loss_may_be_one_word(history):
    line = "epoch {0} | trainloss 2.{0} | validloss 3.{0} | testloss 4.{0} | testacc 0.{0}\n"
    series = history("".join(map(line.format, range(6)))).series
    assert series["loss"].column == "trainloss"
    assert series["eval_loss"].column == "validloss"
    assert series["eval_accuracy"].column == "testacc"


@pytest.mark.parametrize("quoted", ["", "> "])
def test_the_finetuning_of_gpt_2_counts_in_brackets(history, quoted):
    lines = (
        f"{quoted}[{10 * n} | {12.25 * n:.2f}] loss={3 - n / 8:.2f} avg=2.90\n"
        for n in (1, 2, 3, 4)
    )
    loss = history("".join(lines)).series["loss"]
    assert loss.steps.tolist() == [10, 20, 30, 40]
    assert loss.values.tolist() == [2.88, 2.75, 2.62, 2.5]


@pytest.mark.parametrize("bold", ["{}", "**{}**"])
def test_all_perplexities_of_an_epoch_are_read_above_those_of_the_validation(history, bold):
    lines = []
    for epoch in (1, 2, 3):
        for iteration in (400, 800, 1200):
            value = bold.format(30 - 4 * epoch - iteration / 800)
            lines.append(f"Epoch {epoch} ; Iteration {iteration}/1200 ; Perplexity {value}")
        lines.append(f"Validation perplexity: {bold.format(32.5 - 4 * epoch)}")
    read = history("\n".join(lines) + "\n")
    assert read.series["loss"].values.tolist()[:4] == [25.5, 25.0, 24.5, 21.5]
    assert read.series["eval_loss"].values.tolist() == [28.5, 24.5, 20.5]


OF_PERPLEXITY = (
    "[03/04/19 10:00:00 INFO] Epoch 2 ; Iteration 900/900 ; Source tokens/s 700 ; {} 40.5\n"
)


@pytest.mark.parametrize("name", ["Perplexity", "perplexity", "ppl:", "PPL"])
def test_a_single_record_may_have_a_perplexity(history, name):
    read = history(
        OF_PERPLEXITY.format(name) + "[03/04/19 10:01:00 INFO] Validation perplexity: 44.5\n"
    )
    assert read.series["loss"].values.tolist() == [40.5]


@pytest.mark.parametrize(
    "text",
    [
        "The model of epoch 3 of 5 has a perplexity of 20.5\n",
        "Epoch 3 perplexity: 20.5\n",
        "min perplexity: 20.5 at step 3, vocabulary: 50\n",
    ],
)
def test_other_lines_with_a_perplexity_are_no_record(history, text):
    with pytest.raises(LogError):
        history(text)
