"""Logs without a known name of a loss, and printed lists."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def diagnosed(tmp_path):
    def diagnosed(text, name="excerpt.txt", columns=None):
        path = tmp_path / name
        path.write_text(text)
        return stabdiag.diagnose(path, columns=columns)

    return diagnosed


def lines(form, values):
    return "".join(form.format(n=n, value=value) for n, value in enumerate(values, start=1))


FALLING = [3 - n / 10 for n in range(12)]


def test_lists_are_no_values(diagnosed):
    form = "Epoch: {n} | batch x: [{value}. 8. 2.] | batch y: [ {value}, 1.5]\n"
    with pytest.raises(LogError):
        diagnosed(lines(form, [3, 7, 2, 9, 4, 6, 1, 8]))
    single = diagnosed(lines("Epoch: {n} | energy: [{value}]\n", FALLING))
    assert single.diagnosis.slug == "partly-read"


@pytest.mark.parametrize(
    "form",
    [
        "Finished Epoch {n}, Log-likelihood: {value}\n",
        "EM iteration {n}: Log Likelihood = {value}\n",
        "Iter {n} | Log likelihood: {value}\n",
        "DEBUG - Likelihood for iteration {n}: {value}\n",
        "Iter {n} | likelihood: {value}\n",
        "[INFO] Iteration {n}: log-likelihood {value}.\n",
        "Iteration {n}: loglik {value}.\n",
        "EM iteration {n}, logL={value}, delta=1.5\n",
        "<{n}> LL/token: {value}\n",
        "At iteration {n} the objective is {value}.\n",
        "sampler: iteration {n} of 90, log likelihood {value}, 3 topics\n",
    ],
)
def test_a_log_likelihood_is_a_negated_loss(diagnosed, form):
    history = diagnosed(lines(form, [-5000.25 + 40 * n for n in range(12)])).history
    assert history.series["loss"].values[[0, -1]].tolist() == [5000.25, 4560.25]


def test_a_perplexity_without_a_sign(diagnosed):
    form = "Epoch {n}, after 40 batches, train perplexity {value}, valid perplexity 9.5.\n"
    series = diagnosed(lines(form, FALLING)).history.series
    assert series["loss"].values.tolist() == pytest.approx(FALLING)
    assert set(series["eval_loss"].values) == {9.5}


def test_a_positive_likelihood_is_not_a_loss(diagnosed):
    with pytest.raises(LogError):
        diagnosed(lines("Iter {n} | likelihood: {value}\n", [0.25 + n / 100 for n in range(12)]))


@pytest.mark.parametrize(
    ("form", "column"),
    [
        ("[Epoch 3/9] [Batch {n}/40] [G - a: 1.5, b: 0.1] [D - real: {value}, fake: 0.1]\n", "D"),
        ("iter {n} | D: {value} G: 0.7\n", "D"),
        ("iter {n} | netD: {value} netG: 0.7\n", "D"),
        ("[iter {n}] [d: {value}] [g: 0.7]\n", "D"),
        ("Iter {n} | Sup: {value} Unsup: 0.1\n", "sup"),
        ("epoch {n}, recon: {value}, KLD: 0.1\n", "recon"),
        ("epoch {n}, total: {value}, box: 0.1, cls: 0.3\n", "total"),
        ("epoch {n}, bpd={value}\n", "bpd"),
        ("Iteration {n}\n{{'textcat': {value}}}\n", "textcat"),
        (
            "{n}/12 [==>...] - ETA: 3s - rpn_cls: {value} - rpn_regr: 0.1 - det_cls: 0.2\n",
            "rpn_cls",
        ),
        ("step {n} rcnn_bbox: 0.1 rcnn_class: {value}\n", "rcnn"),
        ("epoch {n} {{'tok2vec': 0.1, 'ner': {value}}}\n", "ner"),
    ],
)
def test_names_that_are_losses_where_nothing_else_is(diagnosed, form, column):
    loss = diagnosed(lines(form, FALLING)).history.series["loss"]
    assert column in loss.column
    assert loss.steps.tolist() == list(range(1, 13))
    # Two kinds of loss add up.
    np.testing.assert_allclose(np.diff(loss.values), -0.1)


@pytest.mark.parametrize(
    "form",
    [
        "tick {n}   kimg {n}.6   time 1d 06h 06m   sec/tick {value}   gpumem 8.9   augment 6.5\n",
        "==> Start Training Epoch {n}, lr={value} ...\n==> Finished Epoch {n}.\n",
        "step {n} foo {value}\n",
        "round {n}: {value}\n",
        "{n} -> {value}\n",
        "{n} {value}\n",
    ],
)
def test_values_of_unknown_meaning_are_not_called_a_loss(diagnosed, form):
    report = diagnosed(lines(form, FALLING))
    assert report.diagnosis.slug == "partly-read"
    assert "12 records without a known loss" in report.diagnosis.summary
    assert "--column loss=NAME" in report.diagnosis.first_action
    assert "loss" not in report.history.series


def test_a_check_fails_if_no_loss_is_known(tmp_path, stabdiag):
    log = tmp_path / "run.log"
    log.write_text(lines("step {n} foo {value}\n", FALLING))
    assert stabdiag("check", log).code == 2
    assert stabdiag("check", log, "--column", "loss=foo").code == 0


def test_a_value_of_unknown_meaning_that_goes_nan_is_the_loss(diagnosed):
    diagnosis = diagnosed(lines("step {n} foo {value}\n", [*FALLING, "nan", "nan"])).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 13)


@pytest.mark.parametrize(
    "form",
    [
        "({n}, {value})\n",
        "round {n}\n{value}\n",
        "INFO:name, 2022-03-10 18:35:12,212, epoch, 00{n}, {value}, 0.01, 0.02\n",
        "3        {n}     {value}     0.18     0.0001        \n",
    ],
)
def test_values_without_a_name(diagnosed, form):
    report = diagnosed(lines(form, FALLING))
    assert report.diagnosis.slug == "partly-read"
    assert "loss" not in report.history.series
    series = diagnosed(lines(form, FALLING), columns={"loss": "measure"}).history.series["loss"]
    assert series.values.tolist() == FALLING
    assert series.steps.tolist() == list(range(1, 13))
    lost = diagnosed(lines(form, [*FALLING, "nan", "nan"])).diagnosis
    assert (lost.slug, lost.step) == ("nan-dtype-unknown", 13)


@pytest.mark.parametrize(
    "text",
    [
        lines("step {n} of the recipe: stir\n", FALLING),
        lines("step {n} foo 2.5\n", FALLING),
        lines("foo {value}\n", FALLING),
        lines("step 7 foo {value}\n", FALLING),
        lines("step {n} foo {value}\na\nb\nc\n", FALLING),
        lines("{n}. Install the package\n", FALLING),
        lines("D: {value} G: 0.5\n", [0.5]),
        "lr = [0.1, 0.01, 0.001, 0.0001]\n",
        "loss_weights = [0.5, 0.25, 0.1, 0.15]\n",
        "loss = [0.5, 0.25]\n",
        "loss: [a, b, c, d]\n",
        "names = [2.5, 2.25, 2.0, 1.75]\n",
    ],
)
def test_other_numbers_are_not_a_log(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


NUMBERS = [0.75, 0.5, 0.25, "nan", "nan"]


@pytest.mark.parametrize(
    "text",
    [
        f"losses = [{', '.join(map(str, NUMBERS))}]\n",
        f"my loss:\n\n[{', '.join(map(str, NUMBERS))}]\nwhat is wrong?\n",
        "loss: [0.75 0.5  0.25\n  nan  nan]\n",
        f"{{'loss': {NUMBERS}, 'val_loss': [1.5, 1.25, 1.5, 2.5, 3.5]}}\n".replace("'nan'", "nan"),
        "losses: [" + ", ".join(f"array({n}, dtype=float32)" for n in NUMBERS) + "]\n",
        "".join(f"tensor({n}, grad_fn=<NllLossBackward0>)\n" for n in NUMBERS),
        "train_loss = np.array([0.75, 0.5, 0.25, nan, nan])\n",
    ],
)
def test_printed_lists(diagnosed, text):
    report = diagnosed(text)
    losses = report.history.series["loss"].values.tolist()
    assert losses[:3] == NUMBERS[:3]
    assert all(map(math.isnan, losses[3:]))
    assert report.diagnosis.slug == "nan-dtype-unknown"


def test_a_list_that_is_printed_each_time_it_has_grown(diagnosed):
    losses = [2 - n / 20 for n in range(24)]
    text = "".join(f"{losses[:end]}\n" for end in (6, 12, 24))
    assert diagnosed(text, name="losses.txt").history.series["loss"].values.tolist() == losses
    other = f"{losses[:6]}\n{losses[8:16]}\n"
    assert len(diagnosed(other, name="losses.txt").history.series["loss"].values) == 6


@pytest.mark.parametrize(
    "form",
    [
        "Episode {n}\tAvg: {value}\tBest: 9.5\tBuffer: {n}000\n",
        "Episode: {n}, mean: {value}, max: 9.5, min: 0.5\n",
        "Generation {n}: best 9.5 mean {value}\n",
    ],
)
def test_the_average_of_episodes_is_the_reward(diagnosed, form):
    report = diagnosed(lines(form, FALLING))
    assert report.history.series["reward"].values.tolist() == FALLING
    assert report.diagnosis.slug != "partly-read"
    # An average next to another counter may be anything.
    other = diagnosed(lines(form.replace("Episode", "step").replace("Generation", "step"), FALLING))
    assert other.diagnosis.slug == "partly-read"


@pytest.mark.parametrize(
    "form",
    [
        "Epoch {n}: IoU {value}\n",
        "ITERATION: {n}, ACCURACY: {value}\n",
    ],
)
def test_scores_alone(diagnosed, form):
    values = [0.5 + n / 50 for n in range(12)]
    report = diagnosed(lines(form, values))
    assert report.diagnosis.slug == "insufficient-data"
    assert "went from 0.5" in report.diagnosis.summary


@pytest.mark.parametrize(
    "form",
    [
        "epoch {n}, top1_error: {value}\n",
        "epoch {n} val err: {value} %\n",
        "epoch {n}, minibatch 250/250, validation error {value} %\n"
        "     epoch {n}, minibatch 250/250, test error of best model {value} %\n",
    ],
)
def test_error_rates_alone(diagnosed, form):
    report = diagnosed(lines(form, [9.5 - n / 2 for n in range(12)]))
    assert report.diagnosis.slug == "insufficient-data"
    assert "went from 9.5 to 4" in report.diagnosis.summary


def test_lists_of_another_length_without_a_measure_are_left_out(diagnosed):
    text = (
        "loss = [0.75, 0.5, 0.25, 0.5]\nval_loss = [1.5, 1.25, 1.5, 2.5]\nids = [1, 2, 3, 4, 5]\n"
    )
    series = diagnosed(text).history.series
    assert series["eval_loss"].values.tolist() == [1.5, 1.25, 1.5, 2.5]
    assert {*series} == {"loss", "eval_loss"}


TABLE = (
    "| explained_variance | 0.865   |\n| fps                | 1641    |\n"
    "| n_updates          | {n}    |\n| policy_loss        | -2.9e-08 |\n"
    "| total_timesteps    | {n}00   |\n| value_loss         | 0.5     |\n"
)


def test_a_table_of_a_policy_without_its_rules(diagnosed):
    series = diagnosed("What do these mean?\n\n" + TABLE.format(n=13)).history.series
    assert series["loss"].values.tolist() == [0.5]
    with pytest.raises(LogError):
        diagnosed("| model | 0.5 |\n| loss | 0.25 |\n| acc | 0.5 |\n| fps | 164 |\n")


@pytest.mark.parametrize("form", ["{n}:\t{value}\n", "({n}, {value})\n", "train_loss = [{all}]\n"])
def test_a_number_that_is_cut_into_another_is_left_out(diagnosed, form):
    values = [*map(str, FALLING)]
    values[5] = "2.42.5"
    text = form.format(all=", ".join(values)) if "all" in form else lines(form, values)
    columns = None if "loss" in text else {"loss": "measure"}
    loss = diagnosed(text, columns=columns).history.series["loss"]
    np.testing.assert_array_equal(loss.values, [*FALLING[:5], *FALLING[6:]])


def test_the_number_of_epochs_is_not_a_loss(diagnosed):
    text = lines("iter:{n}, epoch:7(total:2000), done:{value}, run_type:train\n", [8, 9, 10, 11])
    assert "loss" not in diagnosed(text).history.series
    text = lines("iter:{n}, epoch:7(total:{value}), run_type:train\n", [2000, 1999, 1998, 1998])
    assert diagnosed(text).history.series["loss"].values.tolist() == [2000, 1999, 1998, 1998]


@pytest.mark.parametrize("word", ["cycle", "Cycle", "after cycle"])
def test_values_of_unknown_meaning_are_reported_next_to_cycles(tmp_path, word):
    log = tmp_path / "out.txt"
    log.write_text("".join(f"{word}={n} avg(tension)={260 + n % 7}.25\n" for n in range(1, 40)))
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "partly-read"
    assert "'avg(tension)' (from 261.2 to 264.2)" in report.diagnosis.summary


RISING = ["0.50", "0.5125", "0.525", "0.50", "0.55", "0.56"]


@pytest.mark.parametrize("values", [["0.5125"] * 6, RISING])
@pytest.mark.parametrize("others", ["", "dist=1.75, "])
def test_a_known_score_counts_more_than_other_names(tmp_path, values, others):
    bar = "Train epoch 2: {}%|#| {}/50 [00:15<01:00, 1.5it/s, {}acc={}]\n"
    lines = (bar.format(2 * n, n, others, value) for n, value in enumerate(values, start=1))
    (tmp_path / "run.log").write_text("".join(lines))
    accuracy = stabdiag.read(tmp_path / "run.log").series["accuracy"]
    assert accuracy.values.tolist() == [*map(float, values)]


@pytest.mark.parametrize(("last", "step"), [("0.41 2.8", None), ("nan 2.8", 50), ("inf\tnan", 50)])
def test_two_values_after_a_count_with_a_colon(tmp_path, last, step):
    rows = [f"{10 * n}: {0.7 - n / 20:.2f} {1.7 + n / 10:.1f}\n" for n in range(5)]
    (tmp_path / "run.txt").write_text("".join(rows) + f"50: {last}\n60: {last}\n")
    diagnosis = stabdiag.diagnose(tmp_path / "run.txt").diagnosis
    assert (diagnosis.slug, diagnosis.step) == (
        ("partly-read", None) if step is None else ("nan-dtype-unknown", step)
    )


@pytest.mark.parametrize("name", ["total", "L1"])
def test_totals_of_batches_are_the_loss_next_to_a_score_of_each_epoch(tmp_path, name):
    batches = "".join(
        f"[epoch: {{0}}/200, iter: {n}/400] {name}: {{{n // 25 % 2 + 1}:.6f}}\n"
        for n in range(0, 400, 25)
    )
    form = f"{batches}Validation accuracy: 0.5{{0}}\nEnd of epoch {{0}} / 200\n"
    text = "".join(form.format(n, 1.1 - n / 90, 1.15 - n / 90) for n in range(5, 9))
    (tmp_path / "run.txt").write_text(text)
    series = stabdiag.read(tmp_path / "run.txt").series
    assert len(series["loss"]) == 64
    assert series["eval_accuracy"].values.tolist() == [0.55, 0.56, 0.57, 0.58]


def test_a_name_with_another_digit_is_another_name(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("".join(f"step {n} f1: {n / 300:.4f}\nstep {n} f2: 0.5\n" for n in range(200)))
    series = stabdiag.read(path).series
    assert [*series] == ["score/f1"]
    assert series["score/f1"].values[-1] == 0.6633


@pytest.mark.parametrize("name", ["Tot", "TOT", "Total"])
@pytest.mark.parametrize("is_count", [False, True])
def test_a_short_name_of_a_total(tmp_path, name, is_count):
    values = [100 * n if is_count else 2.5 - n / 16 for n in range(1, 13)]
    path = tmp_path / "run.log"
    path.write_text(
        "".join(f"it {n} | {name}: {value} PDE: {n / 16}\n" for n, value in enumerate(values))
    )
    series = stabdiag.diagnose(path).history.series
    assert ("loss" in series) == (not is_count)
    assert is_count or series["loss"].values.tolist() == values


def test_a_short_history_needs_a_list_of_an_evaluation(diagnosed):
    history = "{'val_loss': [0.52, 0.41, 0.43], 'acc': [0.61, 0.7, 0.8], 'loss': [0.8, 0.5, 0.4]}\n"
    for text in (history, history + "[0, 1, 2]\n[0.52, 0.41, 0.43]\n"):
        report = diagnosed(text)
        assert report.history.series["loss"].values.tolist() == [0.8, 0.5, 0.4]
        assert report.history.series["eval_loss"].values.tolist() == [0.52, 0.41, 0.43]
    with pytest.raises(LogError):
        diagnosed("loss_weights: [1.0, 0.5, 0.25]\nanchors: [0.1, 0.2, 0.3]\n")


@pytest.mark.parametrize(
    "form",
    [
        "[{n}] Train-accuracy=0.{n:02}\n[{n}] Validation-accuracy=0.1\n",
        "({n}) training accuracy 0.{n:02}\n({n}) validation accuracy 0.1\n",
        "{n}: OrderedDict([('f1', 0.{n:02}), ('precision', 0.2), ('recall', 0.1)])\n",
        "epoch {n} [('accuracy', 0.{n:02}), ('auc', 0.2)]\n",
    ],
)
def test_numbered_scores_are_read(diagnosed, form):
    report = diagnosed("".join(form.format(n=n) for n in range(1, 9)))
    assert report.diagnosis.slug != "partly-read"
    assert any(0.08 in series.values for series in report.history.series.values())


def test_a_numbered_list_of_models_is_no_log(diagnosed):
    names = ["alpha", "beta", "gamma", "delta", "epsilon"]
    with pytest.raises(LogError):
        diagnosed(
            "".join(f"{n}. {name} acc: 0.{n}1 f1: 0.{n}2\n" for n, name in enumerate(names, 1))
        )


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("step {n} avg_r: {value}, avg_l: 0.02, avg_q: 0.1\n", "step"),
        ("Ep: {n} | Ep_r: {value} | w01\n", "episode"),
        ("Ep {n} | score: {value} | eps: 0.9\n", "episode"),
    ],
)
def test_letters_of_rewards_are_read(diagnosed, form, unit):
    report = diagnosed(lines(form, FALLING))
    assert report.history.series["reward"].values.tolist() == pytest.approx(FALLING)
    assert report.history.series["reward"].steps.tolist() == [*range(1, 13)]
    assert report.history.unit == unit


def test_the_recall_of_a_split_is_no_reward(diagnosed):
    form = "epoch {n} loss: {value}, avg_p: 0.{n:02}, avg_r: 0.3, avg_f1: 0.3\n"
    assert "reward" not in diagnosed(lines(form, FALLING)).history.series


def test_the_scores_of_a_grid_search_are_no_run(diagnosed):
    rows = [f"0.6{n} (0.012) with: {{'batch_size': {10 * n}, 'epochs': 9}}\n" for n in range(1, 9)]
    with pytest.raises(LogError):
        diagnosed("Best: 0.68 using {'batch_size': 80, 'epochs': 9}\n" + "".join(rows))
