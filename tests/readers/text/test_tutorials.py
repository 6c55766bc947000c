"""Logs of tutorials and of programs that name their losses in their own way."""

import math

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def series(tmp_path):
    def series(text):
        log = tmp_path / "run.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return series


LOSSES = [2.5 - n / 20 for n in range(12)]

LINES = {
    "names": "{step} {n}% (0m {n}s) {loss} Coelho / Russian ✓",
    "translation": "{n}m 28s (- 6m 40s) ({step} {n}%) {loss}",
    "a flow": "Epoch {step}/9000 | train: {loss} (0.62 bpd) | val: 3.5 (0.58 bpd) | z_std: 5.7",
    "an old CatBoost": "{step}:      learn {loss}passed: 17.4 sec      total: 3m   remaining: 3h",
    "letters after a bar": "0% {step}/90000 [00:40<81:43,  3.20s/it]G: 1.30 | D: {loss} | GP: 0.11",
    "letters in a bar": "1%|  | {step}/90000 [07:11<00:00, 21.73it/s, R=9, D={loss}, G=2.1, LR=1]",
    "losses per word": "{step} words, 1.5 sec, 88.5 words/sec, 2.5 accum_loss/word, {loss} "
    "cur_loss/word",
    "a title": "Epoch {step}/9000 - Loss Discriminator: {loss}, Loss Generator: -8.1",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_loss_is_read_by_the_form_of_its_line(series, line):
    text = "".join(
        line.format(step=100 * n, n=n, loss=f"{loss:.4f}") + "\n"
        for n, loss in enumerate(LOSSES, 1)
    )
    loss = series(text)["loss"]
    assert loss.steps.tolist() == list(range(100, 1300, 100))
    assert loss.values.tolist() == pytest.approx(LOSSES)


def test_a_nan_in_the_lines_of_a_tutorial(series):
    text = "".join(f"{5000 * n} {n}% (0m {n}s) nan Ko / Korean ✓\n" for n in range(1, 5))
    assert all(map(math.isnan, series(text)["loss"].values))


def test_the_terms_of_deepxde_are_added(series):
    heading = "Step      Train loss            Test loss             Test metric\n"
    text = heading + "".join(
        f"{1000 * n:<10d}[{loss:.2e}, 1.00e-01]    [{loss:.2e}, 0.00e+00]    [1.61e+00]\n"
        for n, loss in enumerate(LOSSES)
    )
    loss = series(text)["loss"]
    assert loss.steps.tolist() == list(range(0, 12000, 1000))
    assert loss.values.tolist() == pytest.approx([value + 0.1 for value in LOSSES], abs=0.01)


def test_the_single_term_of_deepxde_is_the_loss(series):
    heading = "Step      Train loss              Test loss               Test metric\n"
    rows = [
        f"{1000 * n:<10d}[{x:.2e}]{14 * ' '}[{x:.2e}]{14 * ' '}[]\n" for n, x in enumerate(LOSSES)
    ]
    loss = series(heading + "".join(rows))["loss"]
    assert loss.values.tolist() == pytest.approx(LOSSES, abs=0.01)


@pytest.mark.parametrize("form", ["**{}:** {}", "**{}**: {}"])
def test_bold_names_in_markdown(series, form):
    text = "".join(
        f"### Epoch {n}/12\n- {form.format('Train Loss', loss)}\n"
        f"- {form.format('Test Accuracy', '98.2%')}\n\n"
        for n, loss in enumerate(LOSSES, 1)
    )
    loss = series(text)["loss"]
    assert loss.values.tolist() == pytest.approx(LOSSES)
    assert loss.steps[0] == 1


def test_the_losses_of_openspiel(series):
    text = "".join(
        f"[2022-01-27 14:{n}:14.120] Step: {n}\n[2022-01-27 14:{n}:18.293] Losses(total: "
        f"{loss:.3f}, policy: 1.5, value: 0.7, l2: 0.037)\n"
        for n, loss in enumerate(LOSSES, 10)
    )
    assert series(text)["loss"].values.tolist() == pytest.approx(LOSSES)


@pytest.mark.parametrize("loss", ["0.5", "nan"])
def test_the_results_of_yolov5(series, loss):
    row = "     {n}/299    0.489G" + f"       {loss}" * 3 + "       1.5        10       640"
    row += "     0.3" * 4 + f"       {loss}" * 3 + "\n"
    read = series("".join(row.format(n=n) for n in range(12)))
    assert read["loss"].values.tolist() == [1.5] * 12
    assert read["loss"].column == "total_loss"
    assert read["score/mAP50"].values.tolist() == [0.3] * 12
    assert math.isnan(read["eval_loss"].values[0]) == (loss == "nan")


def test_scores_next_to_the_times_of_paddle(series):
    text = "".join(
        f"2022-04-12 23:{n}:19,808 - INFO - epoch: {n}, batch_id: 0, AUC: {0.5 + n / 50}, "
        "avg_reader_cost: 0.00031 sec, avg_batch_cost: 0.00173 sec, avg_samples: 1024.0, "
        "ips: 7184.45 ins/s\n"
        for n in range(10, 22)
    )
    auc = series(text)["score/AUC"]
    assert auc.values.tolist() == pytest.approx([0.5 + n / 50 for n in range(10, 22)])


def test_a_loss_of_the_training_and_one_of_the_validation_in_spanish(series):
    text = "".join(
        f"{n}% Epoch {n}: loss entrenamiento={loss}, loss validación=0.5, exactitud=55.0%\n"
        for n, loss in enumerate(LOSSES, 1)
    )
    read = series(text)
    assert read["loss"].values.tolist() == LOSSES
    assert set(read["eval_loss"].values.tolist()) == {0.5}


@pytest.mark.parametrize("word", ["Acc", "Accuracy"])
def test_accuracies_of_both_splits_in_capitalized_words(series, word):
    text = "".join(
        f"Epoch [{n}/12], Loss: {loss}, Train {word}: 0.5{n}, Val Loss: 0.9, Val {word}: 0.25\n"
        for n, loss in enumerate(LOSSES, 1)
    )
    read = series(text)
    assert read["loss"].values.tolist() == LOSSES
    assert set(read["eval_accuracy"].values.tolist()) == {0.25}
    assert read["accuracy"].column == f"Train {word}"


RIGHT = [9052, 9226, 9293, 9390, 9392, 9421]


@pytest.mark.parametrize(
    "form",
    [
        "Epoch {n}: {right} / 10000",
        "_Epoch {n}: {right} / 10000_\t",
        "Running epoch\t{n} /\t6 | {right} / 10000",
        "Epoch {n} of 6 : {right}/10000",
        "> Finished epoch {n} | {right} / 10000",
    ],
)
def test_right_answers_are_an_accuracy(series, form):
    run = "".join(form.format(n=n, right=right) + "\n" for n, right in enumerate(RIGHT))
    accuracy = series(run)["eval_accuracy"]
    assert accuracy.values.tolist() == pytest.approx([right / 10000 for right in RIGHT])
    # The last of two runs is read.
    assert series(run.replace("9", "1") + run)["eval_accuracy"].values[-1] == 0.9421


def test_costs_and_right_answers_of_each_set(series):
    text = "".join(
        f"Epoch {n} training complete\nCost on training data: {0.5 - n / 10}\n"
        f"Accuracy on training data: {900 + n} / 1000\nCost on evaluation data: {0.75 - n / 10}\n"
        f"Accuracy on evaluation data: {right} / 10000\n\n"
        for n, right in enumerate(RIGHT)
    )
    series = series(text)
    assert series["loss"].values.tolist() == pytest.approx([0.5 - n / 10 for n in range(6)])
    assert series["eval_loss"].values.tolist() == pytest.approx([0.75 - n / 10 for n in range(6)])
    assert series["eval_accuracy"].values[0] == 0.9052


def test_the_performance_of_matlab_is_the_loss(series):
    text = "".join(
        f"Epoch {25 * n}/10000, Time {n}.5, Performance {10.0**-n}/1e-12, Gradient {n + 1}/1e-06,"
        f" Validation Checks {n}/500\n"
        for n in range(6)
    )
    series = series(f"{text} - RMSE      : 474.265, 298.87, 474.35\n - CORR : 0.08, 0.46\n")
    assert series["loss"].values.tolist() == pytest.approx([10.0**-n for n in range(6)])
    assert series["grad_norm"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert series["loss"].steps.tolist() == [0, 25, 50, 75, 100, 125]


RECOMMENDERS = {
    "LightGCN": "EPOCH[{n}/40] loss{loss:.3f}-|Sample:2.41|",
    "NGCF": "Epoch {n} [12.3s]: train==[{loss:.5f}={loss:.5f} + 0.00012]",
    "a textbook": "After {n} training step(s), loss on training batch is {loss:.5f}.",
}


@pytest.mark.parametrize("form", RECOMMENDERS.values(), ids=RECOMMENDERS)
def test_losses_without_a_separator_are_read(tmp_path, form):
    path = tmp_path / "run.log"
    losses = [round(0.3 + 2 * 0.9**n, 3) for n in range(40)]
    lines = [form.format(n=n, loss=loss) for n, loss in enumerate(losses, 1)]
    path.write_text("\n".join(lines) + "\n")
    assert stabdiag.read(path).series["loss"].values.tolist() == losses


def test_a_table_in_a_box_is_read(tmp_path):
    path = tmp_path / "run.log"
    rule = f"+{28 * '-'}+{12 * '-'}+\n"
    tables = [
        f"{rule}| {'iteration':26s} | {n:10d} |\n"
        f"| {'train/loss':26s} | {3 - n / 20:10.4f} |\n{rule}"
        for n in range(40)
    ]
    path.write_text("".join(tables))
    loss = stabdiag.read(path).series["loss"]
    assert loss.steps.tolist() == list(range(40))
    assert loss.values[-1] == 1.05


GENERATION = (
    "****** Running generation {n} ****** \n\n"
    "Population's average fitness: {fitness:.5f} stdev: 7.99\n"
    "Best fitness: 50.42 - size: (5, 3) - species 41 - id 34308\n\nPopulation of 199 members:\n"
    "   ID   age  size  fitness  adj fit  stag\n  ====  ===  ====  =======  =======  ====\n"
    "    42   20    {n}     50.4    0.833    19\n    43   20    34     50.4    0.{n}    19\n"
) + "    44   14    28     50.4    0.769    13\n" * 6


def test_the_average_fitness_of_neat_is_the_reward(tmp_path):
    text = "".join(GENERATION.format(n=n, fitness=20 + n) for n in range(30))
    log = tmp_path / "neat.log"
    log.write_text(text)
    report = stabdiag.diagnose(log)
    assert report.history.series["reward"].values.tolist() == [20 + n for n in range(30)]
    # The rows of its tables do not count as unread records.
    assert report.diagnosis.slug == "insufficient-data"


def test_a_heading_with_the_number_of_an_epoch(series):
    bests = "## Best:\n- Best Train Loss: 0.25 (Epoch 7)\n\n"
    text = "".join(
        f"## Epoch no. = {n}\n- Train Loss: {2 - n / 8}\n- Validation Loss: {2.5 - n / 8}\n\n"
        for n in range(1, 9)
    )
    series = series(bests + text)
    assert series["loss"].values.tolist() == [2 - n / 8 for n in range(1, 9)]
    assert series["eval_loss"].steps.tolist() == list(range(1, 9))


def test_a_cost_behind_completed_with_is_read(series):
    text = "".join(
        f"Epoch {n}: [====] -- Completed with the cost: {2.5 - n / 8}\n" for n in range(9)
    )
    assert series(text)["loss"].values.tolist() == [2.5 - n / 8 for n in range(9)]


def test_the_results_of_folds_are_not_a_course(series):
    text = "".join(
        f"fold {n}: train acc: 8{n}.5, train loss: {4000 / 9**n:.4f}, best epoch: {9 - n}\n"
        for n in range(1, 6)
    )
    with pytest.raises(LogError):
        series(text)


@pytest.mark.parametrize("form", ["Return: mean={}, std=3.5", "Return: mean {} std 3.5"])
def test_the_mean_of_a_return_below_its_iteration(tmp_path, form):
    path = tmp_path / "log"
    means = (-212.5, -180.0, -120.5)
    path.write_text("".join(f"Iteration {n}:\n  {form.format(v)}\n" for n, v in enumerate(means)))
    assert stabdiag.read(path).series["reward"].values.tolist() == [*means]


@pytest.mark.parametrize("percent", ["", "%"])
@pytest.mark.parametrize("between", ["\n", ": "])
def test_word_error_rates_of_kaldi_belong_to_their_epochs(series, percent, between):
    rates = [41.5, 33.25, 29.0, 27.5, 26.75, 26.5]
    log = series(
        "\n".join(
            f"Epoch {n}{between}%WER {rate}{percent} [ 2650 / 10000, 90 ins, 310 del, 2250 sub ]"
            for n, rate in enumerate(rates, start=1)
        )
    )
    assert log["score/WER"].values.tolist() == rates
    assert log["score/WER"].steps.tolist() == [1, 2, 3, 4, 5, 6]


def test_word_error_rates_of_several_decodings_are_no_log(series):
    with pytest.raises(LogError):
        series(
            "\n".join(
                f"%WER 2{n}.31 [ 2650 / 10000, 90 ins, 310 del, 2250 sub ] exp/decode/wer_{n}"
                for n in range(9)
            )
        )


@pytest.mark.parametrize(
    "form",
    [
        "Accs: Train: {}, Val: {}, Test: 0.25",
        "accuracy - train: {}, val: {}",
        "acc: [train: {}, val: {}, test: 0.25]",
    ],
)
def test_accuracies_of_splits_next_to_the_best_loss_so_far(tmp_path, form):
    path = tmp_path / "log"
    path.write_text(
        "".join(
            f"Epoch {n}, Best Val loss: 0.5, {form.format(0.5 + n / 8, 0.25 + n / 8)}\n"
            for n in range(4)
        )
    )
    series = stabdiag.read(path).series
    assert series["accuracy"].values.tolist() == [0.5, 0.625, 0.75, 0.875]
    assert series["eval_accuracy"].values.tolist() == [0.25, 0.375, 0.5, 0.625]
    assert "loss" not in series


def test_the_best_loss_so_far_is_not_the_loss(series):
    text = "".join(f"Epoch {n}: loss {2.5 - n} (best loss: 1.5)\n" for n in range(4))
    assert series(text)["loss"].values.tolist() == [2.5, 1.5, 0.5, -0.5]


def test_the_epochs_of_fuxictr_are_named_below_their_losses(series):
    text = "".join(
        f"2026-01-25 07:41:46,177 P8 INFO [Metrics] AUC: 0.75 - logloss: {0.5 - n / 8}\n"
        f"2026-01-25 07:41:46,187 P8 INFO --- 778/778 batches finished ---\n"
        f"2026-01-25 07:41:46,239 P8 INFO Train loss: {0.75 - n / 8}\n"
        f"2026-01-25 07:41:46,239 P8 INFO ************ Epoch={n} end ************\n"
        for n in (1, 2)
    )
    read = series(text)
    assert read["loss"].values.tolist() == [0.625, 0.5]
    assert read["eval_loss"].values.tolist() == [0.375, 0.25]
    assert read["loss"].steps.tolist() == [1, 2]


def test_an_estimator_prints_its_own_values_above_its_loss(tmp_path):
    form = (
        "INFO:tensorflow:cross_entropy = {1}, train_accuracy = 0.{0} ({2} sec)\n"
        "INFO:tensorflow:loss = {1}, step = {0}00 ({2} sec)\n"
        "INFO:tensorflow:global_step/sec: 31.5\n"
    )
    text = "".join(form.format(n, 2.5 - n / 10, 3.5) for n in range(1, 6))
    (tmp_path / "run.log").write_text(text)
    series = stabdiag.read(tmp_path / "run.log").series
    assert series["loss"].steps.tolist() == [100, 200, 300, 400, 500]
    assert series["accuracy"].values.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert "other_loss/cross_entropy" in series


def test_the_annotated_transformer_counts_its_batches(tmp_path):
    form = "Epoch Step: {:6d} | Accumulation Step: {:3d} | Loss: {:6.2f} | Learning Rate: 1.5e-04\n"
    lines = (form.format(30 * n + 1, 3 * n + 1, 7.5 - n / 4) for n in range(12))
    (tmp_path / "run.log").write_text("[Epoch 0] Training ====\n" + "".join(lines))
    loss = stabdiag.read(tmp_path / "run.log").series["loss"]
    assert loss.steps.tolist() == [30 * n + 1 for n in range(12)]


def test_an_estimator_saves_the_values_of_a_single_evaluation(tmp_path):
    saved = (
        "INFO:tensorflow:Saving dict for global step 312: eval_accuracy = 0.125,"
        " eval_loss = 2.375, global_step = 312, loss = 2.375\n"
    )
    below = (
        "INFO:tensorflow:***** Eval results *****\nINFO:tensorflow:  eval_accuracy = 0.125\n"
        "INFO:tensorflow:  eval_loss = 2.375\nINFO:tensorflow:  global_step = 312\n"
        "INFO:tensorflow:  loss = 2.375\n"
    )
    for number, text in enumerate((saved, saved + below)):
        log = tmp_path / f"{number}.log"
        log.write_text(text)
        series = stabdiag.read(log).series
        assert series["loss"].steps.tolist() == [312]
        assert series["loss"].values.tolist() == [2.375]
        assert series["eval_accuracy"].values.tolist() == [0.125]


def test_the_steps_of_an_epoch_are_not_its_count(series):
    line = "Epoch: 7, Steps: 12 | Train Loss: 1.3646304 Vali Loss: nan Test Loss: 1.4440242\n"
    read = series(f"{line}Updating learning rate to 1.5e-06\n")
    assert read["loss"].steps.tolist() == [7]
    assert math.isnan(read["eval_loss"].values[0])


def test_the_demos_of_graph_nets_abbreviate_their_names(series):
    line = "# {n:05d}, T {n}.5, Ltr {loss}, Lge 0.75, Ctr 0.5, Str 0.0, Cge 0.25, Sge 0.0\n"
    text = "".join(line.format(n=20 * n, loss=loss) for n, loss in enumerate([0.5, 0.25, "nan"], 1))
    read = series(text)
    assert read["loss"].steps.tolist() == [20, 40, 60]
    assert read["loss"].values[:2].tolist() == [0.5, 0.25]
    assert math.isnan(read["loss"].values[2])
    assert read["eval_loss"].values.tolist() == [0.75] * 3
    assert read["accuracy"].values.tolist() == [0.5] * 3


@pytest.mark.parametrize("gap", ["", "\n"])
def test_burn_prints_its_counters_below_the_metrics(series, gap):
    form = (
        "[Metrics]\n  - Train Accuracy: epoch 61.50 % - batch 62.50 %\n"
        "  - Train Loss: epoch {loss} - batch 1.5\n"
        "  - Valid Accuracy: epoch 60.50 % - batch 61.00 %\n"
        "  - Valid Loss: epoch 1.75 - batch 1.25\n"
        f"{gap}[Progress]\n  - Iteration {{n}} Epoch 2/6\n  - iteration [##>----] (84s)\n"
    )
    text = "".join(form.format(loss=loss, n=200 * n) for n, loss in enumerate([0.5, "NaN"], 1))
    read = series(text)
    assert read["loss"].steps.tolist() == [200, 400]
    assert read["loss"].values[0] == 0.5
    assert math.isnan(read["loss"].values[1])
    assert read["eval_loss"].values.tolist() == [1.75, 1.75]
    assert read["accuracy"].values.tolist() == [61.5, 61.5]


def test_cuda_convnet_prints_the_epoch_and_the_batch(tmp_path):
    rows = [(1 + n // 6, 1 + n % 6, 2.3 - n / 20) for n in range(24)]
    lines = [
        f"{epoch}.{batch}... logprob:  {loss:.6f}, {loss / 3:.6f} (1.438 sec)\n"
        for epoch, batch, loss in rows
    ]
    path = tmp_path / "train_output.txt"
    path.write_text("".join(lines))
    series = stabdiag.diagnose(path).history.series
    assert series["loss"].values.tolist() == [round(loss, 6) for *_, loss in rows]


def test_avalanche_names_the_task_of_each_value(series):
    text = "".join(
        f"Epoch {n} ended.\n\tLoss_Epoch/train_phase/train_stream/Task002 = {2 - n / 8}\n"
        f"\tTop1_Acc_Epoch/train_phase/train_stream/Task002 = {0.25 + n / 16}\n"
        for n in range(6)
    )
    read = series(text)
    assert read["loss"].values.tolist() == [2 - n / 8 for n in range(6)]
    assert read["accuracy"].values.tolist() == [0.25 + n / 16 for n in range(6)]
    assert read["accuracy"].steps.tolist() == [*range(6)]


@pytest.mark.parametrize("process", ["4321", "140012345678912"])
def test_values_of_an_estimator_below_a_long_label(series, process):
    label = f"I0102 03:04:05.123456 {process} tf_logging.py:115] "
    text = "".join(
        f"{label}cross_entropy = {2.1 - n / 20:.3f}, learning_rate = 0.0125, train_accuracy = 0 "
        f"(2.3 sec)\n{label}loss = {2.5 - n / 20:.3f}, step = {100 * n} (2.3 sec)\n"
        for n in range(1, 13)
    )
    read = series(text)
    assert read["accuracy"].values.tolist() == [0] * 12
    assert read["lr"].steps.tolist() == [100 * n for n in range(1, 13)]
