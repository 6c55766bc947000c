"""Print styles of names, values and counters in custom training loops."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError

LOSSES = [2.5 - n / 8 + 0.02 * (n % 2) for n in range(12)]


@pytest.fixture
def diagnosed(tmp_path):
    def diagnosed(text, name="paste.txt"):
        path = tmp_path / name
        path.write_text(text)
        return stabdiag.diagnose(path)

    return diagnosed


def lines(form, values=LOSSES):
    return "".join(
        form.format(n=n, v=f"{value:.4f}", w=f"{value + 0.1:.4f}", bar="#" * n) + "\n"
        for n, value in enumerate(values, start=1)
    )


@pytest.mark.parametrize(
    "form",
    [
        # The counter has no known word, or its word is behind it.
        "t={n} R=-1{n}.5 Lq={v}",
        "#{n} nll {v} acc 0.5",
        "[{n}] cost := {v}",
        "Iteration {n} - Error := {v}",
        "E:{n} L:{v} A:0.5",
        "n {n} | loss {v}",
        "After {n} epochs the training loss is {v}",
        "INFO:trainer:[{n:06d}] loss={v} gnorm=0.5",
        "[{bar:12s}] 50% ({n} of 12) loss {v} ETA 5s",
        "loss(epoch={n}) = {v}",
        "in epoch {n} I get a loss of {v}",
        "{v} is the loss in epoch {n}",
        # Symbols and abbreviations.
        "Iteration {n}: J = {v}",
        "Epoch {n}: L_total={v} L_pde=0.9 L_bc=0.1",
        "ep {n} tl {v} vl {w}",
        ">> ep {n} << tr_l {v} va_l {w}",
        "Ep{n:02d} TL{v} VL{w}",
        "trn: {v}   val: {w}   (epoch {n})",
        "step {n} (0.4s): train {v} val {w}",
        "epoch {n} bpc {v} valid bpc {w}",
        "step {n} training accuracy 0.5 cross_entropy {v}",
        # Signs between names and values.
        "EPOCH {n} TRAINING LOSS = {v} VALIDATION LOSS = {w}",
        "epoch_{n}: train_loss_{v}_val_loss_{w}",
        "<epoch>{n}</epoch><loss>{v}</loss>",
        "Epoch {n}; Loss;{v}; ValLoss;{w}",
        "Epoch {n:02d}.......loss {v}.......acc 0.5",
        "step: {n}, {{'loss': DeviceArray({v}, dtype=float32)}}",
        "ep={n} trn_loss={v} vld_loss={w} lr=1e-3",
        "e={n} tloss:{v} vloss:{w}",
        "Update {n}: train err {v}, dev err {w}",
        "{n:03d}/012 | tr: {v} | te: {w}",
        "epoch {n}: <tf.Tensor: shape=(), dtype=float32, numpy={v}> loss",
        "Epoch {n} train_loss: <tf.Tensor: shape=(), dtype=float32, numpy={v}>",
        "epoch {n}: loss = Float32({v})",
        "Epoch {n} Train: {{'loss': {v}, 'acc': 0.5}} Val: {{'loss': {w}, 'acc': 0.5}}",
        # Counts between the name and the value.
        "loss [3, {n}](epoch, minibatch): {v}",
        "Loss (epoch 3, iter {n}) = {v}",
        "Train loss [3/9, {n}/12]: {v}",
        "loss at [3, {n}]: {v}",
        "Loss: [3, {n}] {v}",
        "Training loss [{n}/12]: {v}",
        "Epoch {n}\nLoss RPN classifier: {v}",
        "Loss after {n} examples: {v}",
        "log-likelihood after {n} iterations: -{v}",
        "perplexity after {n} batches: {v}",
        "Average loss after {n} samples {v}",
        "cost after {n} updates is {v}",
        "rmse = {v} (train), {w} (test) @ iter {n}",
        # What the loss is of, and when it was measured.
        "step {n}: loss after forward pass = {v}",
        "step {n} loss over the last 10 batches: {v}",
        "epoch {n}, training loss on the whole set: {v}, loss on the test set: {w}",
        "epoch {n}: loss averaged over batches is {v}",
        "[{n}] Current loss value at this step: {v}",
        # Criteria, also next to a score.
        "epoch {n} triplet {v} margin 0.2",
        "epoch {n} focal: {v} iou: 0.5",
        "epoch {n} wer 45.5 ctc {v}",
        "ep:{n} los:{v} acc:0.5",
    ],
)
def test_the_loss_and_the_counter_are_read(diagnosed, form):
    series = diagnosed(lines(form)).history.series
    np.testing.assert_allclose(series["loss"].values, LOSSES, atol=1e-4)
    assert series["loss"].steps.tolist() == list(range(1, 13))
    if "{w}" in form:
        np.testing.assert_allclose(series["eval_loss"].values, np.add(LOSSES, 0.1), atol=1e-4)
    lost = diagnosed(lines(form, [*LOSSES[:6], *[math.nan] * 6])).diagnosis
    assert (lost.slug, lost.step) == ("nan-dtype-unknown", 7)


def test_a_bound_that_rises_is_negated(diagnosed):
    text = "".join(f"ELBO at iteration {n}: {-value}\n" for n, value in enumerate(LOSSES, 1))
    np.testing.assert_allclose(diagnosed(text).history.series["loss"].values, LOSSES)
    # Numbers below zero without a name may be anything.
    text = "".join(f"{n}: {-value}\n" for n, value in enumerate(LOSSES, 1))
    assert "loss" not in diagnosed(text, "train.log").history.series


@pytest.mark.parametrize(("exponent", "power"), [("f-5", -5), ("f1", 1), ("D-05", -5), ("d+02", 2)])
def test_exponents_with_other_letters(diagnosed, exponent, power):
    text = "".join(f"epoch {n} loss {v:.4f}{exponent}\n" for n, v in enumerate(LOSSES, 1))
    losses = diagnosed(text).history.series["loss"].values
    np.testing.assert_allclose(losses, np.array(LOSSES) * 10.0**power, rtol=1e-3)


@pytest.mark.parametrize(
    "form",
    [
        "Episode {n} average reward over last 100 episodes: {v}",
        "Episode {n}, moving average reward of the past 50 episodes is {v}",
        "episode {n} mean return for the last 10 games = {v} eps 0.5",
        "episode {n} | avgR {v} | eps 0.8",
        "episode {n}, totalR = {v}",
    ],
)
def test_the_mean_of_the_last_episodes_is_a_reward(diagnosed, form):
    series = diagnosed(lines(form)).history.series
    np.testing.assert_allclose(series["reward"].values, LOSSES, atol=1e-4)
    assert series["reward"].steps.tolist() == list(range(1, 13))


def test_the_loss_of_a_value_is_not_that_of_a_validation(diagnosed):
    text = "".join(f"step {n} pi_loss {v / 9:.4f} v_loss {v}\n" for n, v in enumerate(LOSSES, 1))
    assert "eval_loss" not in diagnosed(text).history.series


def test_counts_in_thousands(diagnosed):
    text = "".join(f"iter {n / 10:.1f}k: loss {value}\n" for n, value in enumerate(LOSSES, 1))
    assert diagnosed(text).history.series["loss"].steps.tolist() == [*range(100, 1300, 100)]


@pytest.mark.parametrize(
    "form", ["loss {v} elapsed {n}", "loss {v} rank {n}", "loss {v} memory {n} lr 0.1"]
)
def test_a_number_that_rises_is_no_step_if_it_has_another_meaning(diagnosed, form):
    steps = diagnosed(lines(form)).history.series["loss"].steps.tolist()
    assert steps == list(range(12))


@pytest.mark.parametrize(
    "form", ["loss {v} acc 0.{n}", "train_loss={v}; val_loss={w}", "train loss: {v}, lr: 0.{n}"]
)
def test_three_records_without_a_counter_are_a_log(diagnosed, form):
    assert diagnosed(lines(form, LOSSES[:3])).history.series["loss"].values.tolist() == LOSSES[:3]
    # Two may be the results of two models.
    with pytest.raises(LogError):
        diagnosed(lines(form, LOSSES[:2]))


def test_calls_that_julia_shows(diagnosed):
    timed = "".join(
        f"(loss(tx, ty), now()) = ({v:.4f}f0, 2026-01-02T03:04:{n:02d}.5)\n"
        for n, v in enumerate(LOSSES)
    )
    np.testing.assert_allclose(diagnosed(timed).history.series["loss"].values, LOSSES, atol=1e-4)
    shown = "".join(f"[ Info: Epoch {n}\naccuracy(x, y) = 0.{10 + n}\n" for n in range(1, 9))
    assert diagnosed(shown).history.series["accuracy"].steps.tolist() == [*range(1, 9)]


@pytest.mark.parametrize(
    "form",
    [
        "[ Info: Epoch {n}\nsum(loss.(test_x, test_y)) = {v} (tracked)\n",
        "Epoch #{n} trainer.getError():{v}\n",
        "epoch {n}: mean_loss(model(x), y) = {v}\n",
        "epoch {n}\nnet.calculateCost() = {v}\n",
    ],
)
def test_what_a_call_returns_is_named_after_it(diagnosed, form):
    loss = diagnosed(lines(form)).history.series["loss"]
    np.testing.assert_allclose(loss.values, LOSSES, atol=1e-4)
    assert loss.steps.tolist() == [*range(1, 13)]


def test_an_accuracy_at_positions_in_epochs(diagnosed):
    text = "".join(
        f"| epoch {n:3d} | {at:5d}/ 2200 batches | accuracy {0.5 + n / 50 + at / 90000:8.3f}\n"
        for n in range(1, 4)
        for at in (500, 1000, 1500, 2000)
    )
    assert len(diagnosed(text).history.series["accuracy"].values) == 12


def test_a_paste_may_begin_within_its_first_record(diagnosed):
    text = lines("epoch:1 loss:{v} | train-TER:100.00", LOSSES[:6])[1:]
    assert diagnosed(text).history.series["loss"].values.tolist() == LOSSES[:6]


def test_many_equal_losses_without_a_counter_are_a_log(diagnosed):
    text = "9/9 - 3s - loss: 2.3026 - mae: 0.6931 - 3s/epoch\n"
    assert diagnosed(60 * text).diagnosis.slug == "loss-constant"
    with pytest.raises(LogError):
        diagnosed(9 * text)
    with pytest.raises(LogError):
        diagnosed(60 * "the loss: 2\n")


def test_lines_of_two_statements_are_not_joined(diagnosed):
    text = "".join(
        f"Epoch {n:05d}: val_loss improved from {v + 1:.5f} to {v:.5f}, saving model to w.h5\n"
        f"500/500 - 12s - loss: {v:.4f} - val_loss: {v:.4f}\n"
        for n, v in enumerate(LOSSES, 1)
    )
    report = diagnosed(text)
    assert report.diagnosis.slug != "partly-read"
    assert report.history.series["loss"].steps.tolist() == list(range(1, 13))


def test_the_first_of_a_padded_array_of_losses_may_be_nan(diagnosed):
    text = "".join(
        f"Pass 0, batch {n}, loss [{'nan' if n > 5 else f'{2 - n / 9:.6f}':>8} {2 - n / 8:.6f}]\n"
        for n in range(9)
    )
    finding = diagnosed(text).diagnosis
    assert (finding.slug, finding.step) == ("nan-dtype-unknown", 6)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (", AUC score 0.{n:02d}", "AUC score"),
        (" val auc 0.{n:02d}", "val auc"),
        (" | ROC AUC 0.{n:02d} | 3 s", "ROC AUC"),
        (", f1 score 0.{n:02d}", "f1 score"),
        ("; mAP@0.5 0.{n:02d}; speed 2 it/s", "mAP@0.5"),
        (" results: AUC 0.{n:02d}", "AUC"),
    ],
)
def test_several_words_name_a_score_without_a_sign(diagnosed, written, name):
    series = diagnosed(lines("Epoch {n} train loss {v} val loss {w}" + written)).history.series
    score = next(logged for logged in series.values() if logged.column == name)
    np.testing.assert_allclose(score.values, np.arange(1, 13) / 100)
    assert series["loss"].values.tolist() == pytest.approx(LOSSES)


def test_words_in_front_of_a_number_of_something_else_are_no_score(diagnosed):
    for words in ("of the best score 0.5 found by seed 0.{n:02d}", "target BLEU 30.5"):
        assert len(diagnosed(lines("Epoch {n} loss {v} " + words)).history.series) == 1


@pytest.mark.parametrize(
    "form",
    [
        "Loss after {n} iterations: {v}",
        "Total error after {n} epochs is {v}",
        "Mean squared error after {n} rounds = {v}",
        "loss(x, y) = {v} (tracked)",
        "loss(X[1], model) = {v}",
        "J(theta) = {v}",
        "J(w, b): {v}",
        "Sum of squared errors: {v}",
        "epoch:{n}--------training_loss:{v}--------valid_loss:{w}",
        "loss train: {v}, validate: {w}",
        "Iter {n} RMSE train {v} RMSE valid {w}",
    ],
)
def test_other_sentences_of_a_loss_are_read(diagnosed, form):
    series = diagnosed(lines(form)).history.series
    assert series["loss"].values.tolist() == LOSSES
    if "{n}" in form:
        assert series["loss"].steps.tolist() == list(range(1, 13))
    if "{w}" in form:
        np.testing.assert_allclose(series["eval_loss"].values, np.add(LOSSES, 0.1))


@pytest.mark.parametrize("form", ["accuracy: {v}", "Test F1 {v}", "bleu = {v}"])
def test_scores_without_a_counter(diagnosed, form):
    text = lines(form, [0.5 + n / 50 for n in range(12)])
    report = diagnosed(text)
    assert report.diagnosis.slug == "insufficient-data"
    assert "from 0.5 to 0.72" in report.diagnosis.summary
    few = "".join(text.splitlines(keepends=True)[:4])
    assert "from 0.5 to 0.56" in diagnosed(few).diagnosis.summary
    # A title may say that these are models, and two scores may be anything.
    for other in ("Results of the models\n" + text, "".join(text.splitlines(keepends=True)[:2])):
        with pytest.raises(LogError):
            diagnosed(other)


@pytest.mark.parametrize(
    "form", ["Training: [{n}, 3000] loss: {loss}", "iter [{n}, 3000] {loss} loss"]
)
def test_a_list_of_a_position_and_its_total(put, form):
    text = "".join(form.format(n=n, loss=3 - n / 2000) + "\n" for n in range(100, 3000, 100))
    history = stabdiag.diagnose(put(text)).history
    assert history.unit == "step"
    assert history.series["loss"].steps.tolist() == [*range(100, 3000, 100)]


def test_a_list_of_an_epoch_and_its_last_batch(put):
    text = "".join(f"[{n}, 2000] loss: {3 / n:.4f}\n" for n in range(1, 12))
    assert stabdiag.diagnose(put(text)).history.series["loss"].steps.tolist() == [*range(1, 12)]
