"""The symptoms of learning."""

import re

import numpy as np
import pytest

import stabdiag

N = 800
AT = np.arange(N)
CLASSES = {"num_classes": 1000}
WORDS = {"vocab_size": 50000}


def noise(size, seed=0):
    return np.random.default_rng(seed).normal(0, size, N)


def of_epochs(loss):
    return {"epoch": np.arange(len(loss)), "loss": loss}


def log(loss, **columns):
    return {"step": np.arange(len(loss)), "loss": loss, **columns}


def falling(begin, end, over=100):
    return end + (begin - end) * np.exp(-AT / over)


CHANCE = np.log(1000) + noise(0.01)
GUESSING = log(CHANCE)
FLAT = log(3.7 + noise(0.02))
LEAPT = log(np.append([10.8, 10.7, 10.6, 10.5, 10.4], 14 * np.exp(noise(0.3)[5:])))
SOARED = {
    "step": 5 * AT[:80],
    "loss": np.append([2.07, 2.03, 17.5], 2.3 + np.abs(noise(0.1)))[:80],
    "lr": 0.0125 * (1 + np.cos(np.pi * AT[:80] / 80)),
}
OFF = log(falling(25.0, 4.0) + noise(0.02))
WILD = log(np.append(7.0, 20 * np.exp(noise(0.5))[1:]))
WAVES = log(np.exp(0.9 * np.cos(2 * np.pi * AT / 200) + noise(0.01)))
SHORT_WAVES = log(3.0 * np.exp(0.5 * np.cos(2 * np.pi * AT / 90) + noise(0.01)))
SWINGS = np.exp(0.6 * np.sin(2.1 * AT / 16))
UNSETTLED = {
    **log(falling(6.9, 2.5) + noise(0.02)),
    "eval_loss": np.where(AT % 16 == 15, 3.0 * SWINGS, None),
}
EARLY = log(falling(9.0, 4.0, 40) + noise(0.01))


def squashed(least, right=0.97):
    """Return a run that applies the softmax twice, with its accuracy."""
    share = right / 100 if right > 1 else right
    loss = falling(least + 0.85, least + 1 - share, 40) + noise(0.005)
    return log(loss, train_acc=falling(right / 4, right, 40))


def evaluated(run):
    """Return the same run with its losses and accuracies logged as evaluations."""
    eval_loss = {"val_loss": run["loss"], "val_acc": run["train_acc"]}
    return {**run, "loss": run["loss"] - 0.1} | eval_loss


LEAK = log(falling(10.8, 0.02, 40) + np.abs(noise(0.005)))


NOISY = 4 + noise(0.8)
STILL = np.full(N, 31.4159)


def sixty_losses(norms):
    """Return sixty noisy losses with these norms."""
    return {name: x[:60] for name, x in log(NOISY, **norms).items()}


def still(points, first=0):
    """Return a flat loss away from the chance level."""
    loss = 2 + 0.05 * np.random.default_rng(2).standard_normal(points)
    return {"step": first + np.arange(points), "loss": loss}


ENDED = {"lr": 0.003 * (1 + np.cos(np.pi * AT[:400] / 400))}
TEN = {"num_classes": 10, "optimizer": "adamw"}
EVERY_20TH = AT[:400] % 20 == 19


def short(loss, eval_loss=None, **columns):
    """Return 400 steps with a cosine that has ended, evaluated every 20 steps."""
    evaluated = (
        {} if eval_loss is None else {"eval_loss": np.where(EVERY_20TH, eval_loss[:400], np.nan)}
    )
    return log(loss[:400], **ENDED, **evaluated) | columns


# Constant evaluations that are slightly better than the first loss.
EVERY_5TH = np.where(AT[:30] % 5 == 4, 1.9213, np.nan)
AT_TEN = np.log(10) + noise(0.005)
MEMORISED = falling(2.32, 2.22, 300) + noise(0.01)
FLAT_EVAL = 2.31 + noise(0.004)


@pytest.mark.parametrize(("first", "is_reported"), [(0.71, False), (0.52, True)])
def test_a_sum_over_an_epoch_is_not_the_loss_of_an_untrained_model(symptom, first, is_reported):
    epochs = {"epoch": range(4), "loss": [190.4, 151.2, 130.9, 118.3]}
    logged = epochs | {"accuracy": [first, first + 0.05, first + 0.08, first + 0.1]}
    assert (symptom("initial-loss-off", logged) is not None) == is_reported


@pytest.mark.parametrize(
    ("last", "score", "severity"),
    [(5.0, 0.2, "note"), (20.0, 0.2, "warning"), (5.0, 0.01, "warning")],
)
def test_a_high_first_loss_that_the_model_left_behind_is_a_note(symptom, last, score, severity):
    epochs = np.arange(50)
    loss = last + (80 - last) * 0.8**epochs + 0.01 * noise(1.0)[:50]
    accuracy = np.interp(epochs, [0, 49], [0.01, score]) + 0.001 * noise(1.0)[:50]
    finding = symptom("initial-loss-off", {"epoch": epochs, "loss": loss, "accuracy": accuracy})
    assert finding.severity == severity


def test_a_policy_is_not_advised_to_memorize_one_batch():
    diagnosis = stabdiag.diagnose(log(np.full(N, 2.3026), reward=AT / N)).diagnosis
    assert diagnosis.slug == "loss-constant"
    assert "guess" not in diagnosis.summary
    assert diagnosis.next_actions[-1].startswith("Print the advantages")


@pytest.mark.parametrize(("error", "severity"), [(falling(1, 0.1, 100), "warning"), (0.5, "error")])
def test_a_loss_printed_as_zero_next_to_a_score_that_improves_is_a_warning(error, severity):
    run = log(np.zeros(N), mse=error + noise(0.001))
    diagnosis = stabdiag.diagnose(run).diagnosis
    assert (diagnosis.slug, diagnosis.severity) == ("loss-constant", severity)
    assert ("the model learns" in diagnosis.summary) == (severity == "warning")


def test_a_policy_whose_loss_is_zero_may_move():
    moved, stuck = (
        stabdiag.diagnose(log(np.zeros(N), kl=1e-3 * scale * AT)).diagnosis for scale in (1, 0)
    )
    assert (moved.severity, stuck.slug) == ("note", "loss-constant")


# A single class: each evaluation is perfect.
PERFECT = log(falling(2.3, 1e-4, 20), val_acc=np.where(AT % 80 == 79, 1.0, None))


LOST = {"eval_loss": np.where(AT % 80 == 79, 0.0, None)}


@pytest.mark.parametrize(
    ("slug", "run", "manifest", "first"),
    [
        ("loss-constant", log(np.full(N, 2.5)), {}, "requires_grad"),
        ("loss-constant", log(np.full(N, 4.6052)), {}, "Print the logits"),
        ("loss-constant", log(np.full(N, 4.6052)), CLASSES, "requires_grad"),
        # Means of epochs: four are enough.
        ("loss-constant", of_epochs([1.9112] + [1.9105] * 4), {}, "a tenth of the learning rate"),
        (
            "loss-constant",
            log(np.append([0.677, 2.46, 5.34], np.full(30, 0.6931))),
            {},
            "a tenth of the learning rate",
        ),
        ("loss-constant", {"step": AT[:8], "loss": [10.375] * 8}, {}, "requires_grad"),
        (
            "loss-constant",
            log(np.append((falling(4, 2) + noise(0.01))[:400], np.full(400, 2.0123))),
            {},
            "step 400",
        ),
        ("loss-constant", log(np.append(2.0 + noise(0.1)[:400], np.zeros(400))), {}, "step 400"),
        (
            "loss-constant",
            log(np.append((falling(4, 2, 5) + noise(0.1))[:36], np.full(24, 1.8731251))),
            {},
            "step 36",
        ),
        ("loss-constant", log(np.zeros(N)), {}, "step 0"),
        ("loss-constant", {"step": AT[:3], "loss": [-7.12e-20] * 3}, {}, "print the loss"),
        ("loss-constant", log(np.zeros(N), grad_norm=np.zeros(N)), {}, "print the loss"),
        (
            "loss-constant",
            log(np.zeros(N), grad_norm=0 * AT, reward=AT / N),
            {},
            "reaches the weig",
        ),
        ("plateau-at-chance", GUESSING, CLASSES, "6.908"),
        ("plateau-at-chance", GUESSING, {}, "32 examples"),
        ("plateau-at-chance", log(1.02 * CHANCE), CLASSES, "6.908"),
        ("plateau-at-chance", {"epoch": AT[:40], "loss": CHANCE[:40]}, CLASSES, "6.908"),
        ("plateau-at-chance", log(np.where(AT % 4 < 2, CHANCE, 2 * CHANCE)), {}, "6.908"),
        ("not-learning", FLAT, {}, "32 examples"),
        ("not-learning", {**FLAT, "grad_norm": np.zeros(N)}, {}, "no gradient reaches"),
        ("not-learning", LEAPT, {}, "a tenth of the learning rate"),
        # Two records are low if all the others are higher: each is a mean over some steps.
        ("not-learning", SOARED, {}, "0.0025 instead of 0.025"),
        ("not-learning", log(10.8 + 6 * np.exp(-AT / 100) * (AT > 5)), {}, "a longer warm-up"),
        ("initial-loss-off", OFF, WORDS, "10.82"),
        ("loss-oscillating", WILD, {}, "Divide the peak learning rate by 5"),
        ("loss-oscillating", WAVES, {"lr": 0.01}, "from 0.01 to 0.002"),
        # Short waves without any progress.
        ("loss-oscillating", SHORT_WAVES, {}, "Divide the peak learning rate by 5"),
        # An evaluation loss that never settles while the training loss falls.
        ("loss-oscillating", UNSETTLED, {}, "Divide the peak learning rate by 5"),
        ("plateau-early", EARLY, {"target_loss": 2.5}, "step 400"),
        ("softmax-twice", squashed(1.4612), {}, "Pass logits"),
        ("softmax-twice", squashed(5.9094, 97.0), {}, "Pass logits"),
        # Not all probabilities are near 1.
        ("softmax-twice", squashed(1.50), {"num_classes": 10}, "Pass logits"),
        ("softmax-twice", evaluated(squashed(1.4612)), {}, "Pass logits"),
        ("softmax-twice", squashed(0.3132), {"num_classes": 2}, "Pass logits"),
        ("softmax-twice", squashed(1.3), {}, "Check the dimension of the softmax"),
        ("softmax-twice", squashed(1.6), {"num_classes": 10}, "Check the dimension of the softmax"),
        ("too-good", LEAK, WORDS, "Print one batch"),
        ("too-good", {**LEAK, "eval_loss": LEAK["loss"]}, WORDS, "Print one batch"),
        ("too-good", {**LEAK, "eval_loss": LEAK["loss"] / 10}, {"num_classes": 40}, "unshifted"),
        # Printed with four decimals.
        (
            "too-good",
            log(np.round(falling(2.3, 0.0, 4), 4)) | LOST,
            {"num_classes": 10},
            "unshifted",
        ),
        ("too-good", PERFECT, {}, "only one class"),
        ("too-good", PERFECT, {"num_classes": 10}, "only one class"),
    ],
)
def test_symptom_is_reported(symptom, slug, run, manifest, first):
    finding = symptom(slug, run, manifest)
    assert finding is not None
    assert first in finding.first_action
    assert finding.first_action.endswith(".")
    assert finding.evidence
    assert finding.section == "symptom"


@pytest.mark.parametrize(
    ("slug", "run", "manifest"),
    [
        # Written with two digits, stored in four bytes.
        (
            "loss-constant",
            log(np.append(np.round(falling(2, 0.1, 40), 2)[:90], np.full(40, 0.31)).astype("f4")),
            {},
        ),
        # A loss that barely moves.
        ("loss-constant", log(2.5 + noise(1e-06)), {}),
        # Three epochs, and seven steps, may be alike by chance.
        ("loss-constant", of_epochs([1.9112] + [1.9105] * 3), {}),
        ("loss-constant", {"step": AT[:8], "loss": [1.9112] + [1.9105] * 7}, {}),
        # 10.4 is rounded.
        ("loss-constant", {"step": AT[:19], "loss": [10.4] * 19}, {}),
        # Advantages that cancel, and gradients all the same.
        ("loss-constant", log(np.zeros(N), grad_norm=1 + AT / N), {}),
        # Small, but not by rounding.
        ("loss-constant", {"step": AT[:3], "loss": [7.12e-09] * 3}, {}),
        # Zero from the first step, with a reward.
        ("loss-constant", log(np.zeros(N), reward=AT / N), {}),
        # Nothing left to learn.
        ("loss-constant", log(np.maximum(falling(2, -0.01, 100), 0)), {}),
        # The first hundred steps.
        ("plateau-at-chance", log(CHANCE[:100]), CLASSES),
        # The first fifteen epochs.
        ("plateau-at-chance", {"epoch": AT[:15], "loss": CHANCE[:15]}, CLASSES),
        # Two sides of a game.
        ("plateau-at-chance", log(np.log(2) + noise(0.005)), {}),
        # A different number of classes.
        ("plateau-at-chance", GUESSING, WORDS),
        # It fell to the chance level and stays there.
        ("plateau-at-chance", log(np.maximum(falling(14, 4, 400), CHANCE)), {}),
        # Better than a guess.
        ("plateau-at-chance", log(0.98 * CHANCE), CLASSES),
        # Far above chance.
        ("plateau-at-chance", log(1.05 * CHANCE), CLASSES),
        # The chance level is unknown.
        ("plateau-at-chance", log(1.02 * CHANCE), {}),
        # The evaluation left chance.
        ("plateau-at-chance", {**GUESSING, "eval_loss": falling(6.9, 3.0)}, CLASSES),
        # Still warming up.
        ("plateau-at-chance", {**GUESSING, "lr": np.linspace(0, 0.001, N)}, CLASSES),
        # It fell early.
        ("not-learning", log(falling(3.8, 3.7, 20) + noise(0.02)), {}),
        # Low by chance.
        ("not-learning", log(np.append([0.9] * 4, 1.2 + noise(0.3)[4:])), {}),
        # It recovered from the jump.
        ("not-learning", log(falling(10.0, 7.0) + 9 * np.exp(-AT / 60) * (AT > 5)), {}),
        # It rose, its evaluation fell.
        (
            "not-learning",
            {**LEAPT, "eval_loss": np.where(AT % 100 == 99, falling(10.5, 7.0), np.nan)},
            {},
        ),
        # Rewards near zero.
        ("not-learning", log(noise(0.02)), {}),
        # After a resume.
        ("not-learning", {"step": 30000 + AT, "loss": FLAT["loss"]}, {}),
        # A game.
        ("not-learning", {"step": AT, "dis/loss": FLAT["loss"], "gen/loss": FLAT["loss"]}, {}),
        # Weights that may change.
        (
            "not-learning",
            sixty_losses({"weight_norm/head": STILL, "weight_norm/body": STILL + AT / N}),
            {},
        ),
        ("not-learning", sixty_losses({"weight_norm": np.full(N, 31.4)}), {}),
        ("not-learning", sixty_losses({"weight_norm": np.where(AT % 20, np.nan, STILL)}), {}),
        # What is resumed may have learned before; a hundred losses are the least.
        ("not-learning", still(400, first=5000), {}),
        ("not-learning", still(99), {}),
        # It falls, evaluates better, warms up, or a part of it weighs more.
        ("not-learning", still(400) | {"loss": still(400)["loss"] - AT[:400] / 4000}, {}),
        ("not-learning", still(400) | {"eval_loss": np.linspace(3, 1, 400)}, {}),
        ("not-learning", still(400) | {"lr": np.linspace(0, 1e-3, 400) ** 4}, {}),
        (
            "not-learning",
            still(400) | {"loss": still(400)["loss"] + AT[:400] / 400, "beta": AT[:400]},
            {},
        ),
        # A short run without a sign of its end, and two that learned.
        ("plateau-at-chance", log(AT_TEN[:400]), TEN),
        ("not-learning", short(falling(2.35, 1.7, 60) + noise(0.01)), TEN),
        ("not-learning", short(2.0 + noise(0.4), falling(2.12, 1.9)), {}),
        # Trained before.
        ("initial-loss-off", log(falling(3.0, 2.0)), WORDS),
        # A sum over each sequence.
        ("initial-loss-off", log(falling(250.0, 20.0)) | {"loss_ctc": falling(280.0, 20.0)}, WORDS),
        # A sum of parts.
        (
            "initial-loss-off",
            {"step": AT, "box_loss": falling(25.0, 4.0), "cls_loss": falling(5.0, 2.0)},
            WORDS,
        ),
        # Noise from batch to batch.
        ("loss-oscillating", log(falling(7.0, 1.0) * np.exp(noise(0.5))), {}),
        # It began low by chance.
        ("loss-oscillating", log(np.where(AT == 0, 0.2, np.exp(noise(1)))), {}),
        # Warm restarts.
        (
            "loss-oscillating",
            {**WAVES, "lr": 0.001 * (1 + np.cos(2 * np.pi * (AT % 200) / 400))},
            {},
        ),
        # Waves of a third of the improvement.
        (
            "loss-oscillating",
            log(falling(7.0, 5.0, 30) + 0.5 * np.cos(2 * np.pi * AT / 200) + noise(0.01)),
            {},
        ),
        # Short waves of a loss that falls.
        ("loss-oscillating", log(SHORT_WAVES["loss"] * falling(4.0, 1.0, 60)), {}),
        # An evaluation loss that swings as much but improves, and one that rises steadily.
        (
            "loss-oscillating",
            {**UNSETTLED, "eval_loss": np.where(AT % 16 == 15, SWINGS * falling(3.0, 0.2), None)},
            {},
        ),
        (
            "loss-oscillating",
            {**UNSETTLED, "eval_loss": np.where(AT % 16 == 15, falling(1.0, 4.0, 200), None)},
            {},
        ),
        # Negligible waves.
        ("loss-oscillating", log(6.9 + 0.1 * np.cos(2 * np.pi * AT / 200) + noise(0.01)), {}),
        # Where it began is not in the log.
        ("loss-oscillating", {**WILD, "step": np.asarray(WILD["step"]) + 13000}, {}),
        # Near its target.
        ("plateau-early", EARLY, {"target_loss": 3.9}),
        ("softmax-twice", squashed(0.3132), {}),
        ("softmax-twice", squashed(1.4612), {"num_classes": 4}),
        ("softmax-twice", squashed(1.4612, 0.7), {}),
        # Less than 1, as with smoothed labels.
        ("softmax-twice", squashed(0.95), {}),
        # The logged loss has other terms.
        ("softmax-twice", {**squashed(1.3), "box_loss": squashed(1.3)["loss"] / 2}, {}),
        # Many answers are wrong.
        ("softmax-twice", squashed(1.3, 0.85), {}),
        # Passes the level of the floor, and still falls.
        ("softmax-twice", log(falling(2.4, 1.49, 180)), {"num_classes": 10}),
        # Never fell.
        ("plateau-early", log(np.full(N, 3.0)), {"target_loss": 2.5}),
        # Still falling.
        ("plateau-early", log(falling(9.0, 4.0, 400) + noise(0.01)), {"target_loss": 2.5}),
        # An easy task.
        ("too-good", {**LEAK, "eval_loss": LEAK["loss"]}, {"num_classes": 40}),
        # Ten classes.
        ("too-good", LEAK, {"num_classes": 10}),
        # The first evaluation was not perfect, the loss did not fall, and a trained model.
        (
            "too-good",
            {**PERFECT, "val_acc": np.where(AT % 80 == 79, 1 - 0.1 * (AT == 79), None)},
            {},
        ),
        ("too-good", {**PERFECT, "loss": 0.5 + noise(0.01)}, {}),
        ("too-good", PERFECT, {"init_from": "a/model"}),
        # Rewards throughout.
        ("too-good", log(np.abs(noise(0.01)) + 0.001), WORDS),
        # Below zero, so not a distance.
        ("too-good", log(falling(10.8, -2.0)), WORDS),
        # Memorized.
        ("too-good", {**LEAK, "eval_loss": falling(10.8, 4.0)}, WORDS),
    ],
)
def test_near_miss_is_not_reported(symptom, slug, run, manifest):
    assert symptom(slug, run, manifest) is None


def test_a_constant_loss_mentions_a_learning_rate_of_0(symptom):
    still = log(np.full(N, 2.5), lr=np.zeros(N))
    finding = symptom("loss-constant", still)
    assert finding.summary.endswith("; the learning rate is 0 throughout.")
    assert finding.first_action.startswith("Find out why the learning rate is 0")
    assert not any("that is not 0" in action for action in finding.next_actions)
    moving = symptom("loss-constant", log(np.full(N, 2.5), lr=np.full(N, 1e-3)))
    assert moving.first_action.startswith("Check at step 0")
    # It covers what the other finding would say.
    assert symptom("not-learning", still) is None


@pytest.mark.parametrize(
    ("slug", "loss"), [("not-learning", FLAT["loss"]), ("plateau-at-chance", CHANCE)]
)
def test_a_learning_rate_of_0_is_reported_in_a_short_run(symptom, slug, loss):
    short = log(loss[:40], lr=np.zeros(40))
    finding = symptom(slug, short)
    assert finding.first_action.startswith("Find out why the learning rate is 0")
    # A rate of 0 cannot be too high or be divided by 10.
    assert not re.search("too high|not 0|by 10", " ".join(finding.next_actions))
    assert finding.summary.endswith("; the learning rate is 0 throughout.")
    assert symptom(slug, log(loss[:40], lr=np.full(40, 1e-3))) is None
    # A loss that falls has a rate, even if the log says 0.
    assert symptom(slug, log(falling(9, 4, 10)[:40], lr=np.zeros(40))) is None


@pytest.mark.parametrize(
    ("slug", "run", "peak_lr", "first"),
    [
        ("plateau-at-chance", GUESSING, 2e-6, "Raise the peak learning rate from 2e-06 to 0.0001"),
        ("not-learning", FLAT, 2e-6, "Raise the peak learning rate from 2e-06 to 0.0001"),
        ("not-learning", FLAT, 0.5, "Lower the peak learning rate from 0.5 to 0.01"),
        ("not-learning", LEAPT, 0.0432, "Start again with a peak learning rate of 0.0043 instead"),
        # A usual rate, and a loss that is constant to the last digit.
        ("not-learning", FLAT, 2e-5, "Train on only 32 examples"),
        ("loss-constant", log(np.full(N, 2.5)), 2e-6, "Check at step 0"),
    ],
)
def test_an_extreme_rate_is_the_first_suspect(symptom, slug, run, peak_lr, first):
    finding = symptom(slug, run, CLASSES | {"optimizer": "adamw", "peak_lr": peak_lr})
    assert finding.first_action.startswith(first)
    # The optimizer decides which rates are usual.
    unknown = symptom(slug, run, CLASSES | {"peak_lr": 2e-6})
    assert not unknown.first_action.startswith("Raise")


def test_constant_weights_with_overflowing_gradients_mean_skipped_steps(symptom):
    eval_loss = np.where(AT % 20 == 19, 2.1109, np.nan)
    run = log(NOISY, eval_loss=eval_loss, grad_norm=np.full(N, np.nan))
    finding = symptom("not-learning", run)
    assert "no gradient norm is finite" in finding.summary
    assert finding.first_action.startswith("In fp16, let the loss scale adapt")
    other = symptom("not-learning", run | {"grad_norm": np.ones(N)})
    assert other.first_action.startswith("Check that the optimizer steps")


@pytest.mark.parametrize(
    ("points", "columns", "says"),
    [
        # The loss varies more than the check of the loss alone allows.
        (60, {"lr": np.zeros(N)}, "; the learning rate is 0 throughout."),
        (6, {"lr": np.zeros(N)}, "; the learning rate is 0 throughout."),
        (60, {"weight_norm": STILL}, "; the weight norm is 31.42 throughout."),
        (
            60,
            {"weight_norm": STILL, "loss_scale": np.full(N, 2.0**20)},
            "in fp16, with a loss scale of 1048576 throughout.",
        ),
    ],
)
def test_constant_weights_are_reported_after_few_losses(symptom, points, columns, says):
    run = {name: x[:points] for name, x in log(NOISY, **columns).items()}
    manifest = {"dtype": "fp16"} if "loss_scale" in columns else {}
    assert symptom("not-learning", run, manifest).summary.endswith(says)
    falls = run | {"loss": (falling(9, 4, 10) + noise(0.1))[:points]}
    assert symptom("not-learning", falls) is None
    learns = run | {"eval_loss": falling(4, 2, 10)[:points]}
    assert symptom("not-learning", learns) is None


@pytest.mark.parametrize("points", [100, 150, 400])
def test_a_short_run_that_ends_where_it_began_has_not_learned(points):
    report = stabdiag.diagnose(still(points))
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == ("not-learning", "warning")
    assert not report.ok


@pytest.mark.parametrize(
    ("slug", "run", "manifest"),
    [
        ("plateau-at-chance", short(AT_TEN), TEN),
        ("plateau-at-chance", short(MEMORISED, FLAT_EVAL), TEN),
        ("not-learning", short(2.0 + noise(0.4), 2.12 + noise(0.001)), {}),
    ],
)
def test_a_short_run_that_has_ended_never_learned(symptom, slug, run, manifest):
    assert symptom(slug, run, manifest).actions[0].kind == "try-small"


@pytest.mark.parametrize(
    ("peak", "optimizer", "kind", "to"),
    [
        (0.3, "adamw", "lower-lr", 0.01),
        (1e-8, "adamw", "raise-lr", 1e-6),
        (0.3, "sgd", "try-small", None),
        (0.3, None, "try-small", None),
        (30.0, None, "lower-lr", 0.01),
    ],
)
def test_an_unusual_rate_is_the_first_suspect(symptom, peak, optimizer, kind, to):
    manifest = {"num_classes": 10, "optimizer": optimizer} if optimizer else {"num_classes": 10}
    run = short(AT_TEN, lr=peak / 0.006 * ENDED["lr"])
    action = symptom("plateau-at-chance", run, manifest).actions[0]
    assert action.kind == kind
    assert action.to == (to and pytest.approx(to))
    assert to is None or (action.setting, action.from_) == ("peak_lr", pytest.approx(peak))


@pytest.mark.parametrize(
    "column", [{"weight_norm": STILL[:60]}, {"lr": np.zeros(60)}], ids=["norm", "rate"]
)
@pytest.mark.parametrize("moves", [False, True])
def test_weights_that_moved_the_loss_are_not_reported_as_constant(symptom, column, moves):
    loss = 4 + np.random.default_rng(2).normal(0, 0.05, 60) + moves * np.sqrt(np.arange(60))
    finding = symptom("not-learning", {"step": np.arange(60), "loss": loss} | column)
    message = "" if finding is None else f"{finding.first_action} {finding.summary}"
    assert ("throughout" in message) != moves
    assert not (moves and "weight changes" in message)


@pytest.mark.parametrize("norm", [{"grad_norm": np.zeros(30)}, {"val_loss": EVERY_5TH}])
def test_thirty_records_show_that_nothing_is_trained(symptom, norm):
    finding = symptom("not-learning", still(30) | norm)
    assert finding.actions[0].kind == "check-model"
    assert "throughout" in finding.summary
    assert symptom("not-learning", still(30)) is None
    falls = still(30) | {"loss": np.linspace(2.5, 1.5, 30)}
    assert symptom("not-learning", falls | norm) is None


def test_weights_that_made_a_loss_rise_have_changed(symptom):
    high = np.append([2.9, 2.95, 2.85], 14 * np.exp(noise(0.1))[3:])
    eval_loss = np.where(AT % 100 == 99, 14.0213, np.nan)
    finding = symptom("not-learning", log(high, val_loss=eval_loss))
    assert finding.actions[0].kind == "lower-lr"
    assert not any("no weight changes" in action.text for action in finding.actions)


@pytest.mark.parametrize(
    ("value", "count", "severity"),
    [
        (0.0, 5, "error"),
        (0.0, 2, None),
        (1.0, 12, "warning"),
        (1.0, 5, None),
        (1.0, 200, "error"),
        (2.302585, 12, "error"),
    ],
)
def test_a_short_log_whose_loss_never_changes(symptom, value, count, severity):
    run = {"step": np.arange(count), "loss": np.full(count, value)}
    finding = symptom("loss-constant", run)
    assert (finding and finding.severity.value) == severity
    if severity == "warning":
        assert "may have rounded" in finding.summary


@pytest.mark.parametrize(("skipped", "is_cause"), [(np.ones(800), True), (np.zeros(800), False)])
def test_a_loss_that_is_flat_because_every_step_is_skipped(symptom, skipped, is_cause):
    loss = 8 + 0.08 * np.random.default_rng(3).standard_normal(800)
    finding = symptom("not-learning", {"step": np.arange(800), "loss": loss, "skipped": skipped})
    assert ("every step was skipped" in finding.first_action) == is_cause


PERIOD = np.array([0.9741, 1.3742, 1.239, 0.967, 1.0386, 1.1681, 1.224, 0.961])


def test_losses_that_are_the_same_in_every_epoch_show_that_nothing_is_updated():
    diagnosis = stabdiag.diagnose(log(np.resize(PERIOD, N))).diagnosis
    assert diagnosis.slug == "loss-constant"
    assert diagnosis.title == "The same losses repeat exactly"
    assert diagnosis.evidence["period"] == len(PERIOD)
    assert "requires_grad" in diagnosis.first_action


@pytest.mark.parametrize("count", [13, 15, 19])
def test_a_part_of_a_second_epoch_shows_that_losses_repeat(count):
    diagnosis = stabdiag.diagnose({"step": AT[:count], "loss": np.resize(PERIOD, count)}).diagnosis
    assert diagnosis.title == "The same losses repeat exactly"
    few_digits = np.round(np.resize(PERIOD, count), 1)
    rounded = stabdiag.diagnose({"step": AT[:count], "loss": few_digits})
    assert "loss-constant" not in {finding.slug for finding in rounded.findings}


def test_losses_that_almost_repeat_or_have_few_digits_do_not():
    changed = np.resize(PERIOD, N)
    changed[-1] += 0.0001
    for losses in (changed, np.round(np.resize(PERIOD, N), 1)):
        slugs = {finding.slug for finding in stabdiag.diagnose(log(losses)).findings}
        assert "loss-constant" not in slugs


@pytest.mark.parametrize("stuck", [True, False])
def test_an_adversary_whose_loss_never_changes_is_stuck(stuck):
    generator = np.zeros(20) if stuck else np.linspace(0.0, 0.1, 20)
    run = {"step": AT[:20], "d_loss": 70 + noise(9)[:20], "g_loss": generator}
    findings = {finding.slug: finding for finding in stabdiag.diagnose(run).findings}
    assert ("loss-constant" in findings) == stuck
    if stuck:
        assert findings["loss-constant"].severity == "warning"
        assert "'g_loss' is exactly 0 at all 20 records" in findings["loss-constant"].summary


def test_a_loss_that_becomes_0_in_one_step_needs_few_records():
    fell = stabdiag.diagnose({"step": AT[:12], "loss": np.array([0.1004, *[0.0] * 11])})
    assert fell.diagnosis.slug == "loss-constant"
    slowly = 0.1 * 0.01 ** AT[:4]
    gradual = stabdiag.diagnose({"step": AT[:12], "loss": np.array([*slowly, *[0.0] * 8])})
    assert "loss-constant" not in {finding.slug for finding in gradual.findings}


def test_a_second_pair_of_adversaries_may_not_train_yet():
    run = {
        "step": AT[:20],
        "d_loss": 70 + noise(9)[:20],
        "g_loss": np.linspace(0.0, 0.1, 20),
        "d_lm_loss": np.zeros(20),
        "g_lm_loss": np.zeros(20),
    }
    assert "loss-constant" not in {finding.slug for finding in stabdiag.diagnose(run).findings}


def test_a_constant_regularizer_of_a_discriminator_is_not_a_stuck_adversary():
    run = {
        "step": AT[:20],
        "Loss/D/loss": 70 + noise(9)[:20],
        "Loss/G/loss": np.linspace(2.1, 2.4, 20),
        "Loss/D/reg": np.full(20, 0.07),
    }
    assert "loss-constant" not in {finding.slug for finding in stabdiag.diagnose(run).findings}


@pytest.mark.parametrize(("right", "severity"), [(0.95, "warning"), (None, "note")])
def test_a_loss_too_high_for_its_accuracy_may_be_contrastive(symptom, right, severity):
    evaluated = {} if right is None else {"val_acc": np.where(AT % 80 == 79, right, None)}
    assert symptom("softmax-twice", squashed(1.3) | evaluated).severity == severity


def test_a_fast_start_in_a_sparse_log_is_not_pretrained():
    at = 10 * np.arange(50)
    loss = 0.3 * np.exp(-at / 100) + 3.6 * np.exp(-at / 2)
    report = stabdiag.diagnose({"step": at, "loss": loss}, manifest={"vocab_size": 50})
    assert "trained model" not in report.diagnosis.summary
    loss[0] = 0.5
    report = stabdiag.diagnose({"step": at, "loss": loss}, manifest={"vocab_size": 50})
    assert "trained model" in report.diagnosis.summary


@pytest.mark.parametrize(
    ("end", "evaluated", "right", "is_reported"),
    [
        (45.0, 210.0, 0.9, False),  # sums over sequences: nothing else is that high
        (45.0, 210.0, 0.3, True),
        (45.0, 2.3, 0.9, True),
        (0.5, 210.0, 0.9, True),
        (240.0, 210.0, 0.6, False),  # a mean falls with the errors
        (240.0, 210.0, 0.3, True),
    ],
)
def test_sums_over_sequences_are_not_far_above_chance(symptom, end, evaluated, right, is_reported):
    logged = {
        "step": range(1000, 9000, 1000),
        "loss": np.linspace(300, end, 8),
        "val_loss": np.linspace(evaluated, evaluated / 10, 8),
        "val_acc": np.linspace(0.1, right, 8),
    }
    assert (symptom("initial-loss-off", logged) is not None) is is_reported


@pytest.mark.parametrize(("right", "severity"), [(0.97, "note"), (0.3, "warning")])
def test_a_high_first_loss_is_a_note_if_the_classes_are_learned(symptom, right, severity):
    logged = {
        "step": range(0, 80, 10),
        "loss": np.geomspace(51_000, 180, 8),
        "train_acc": np.linspace(0.1, right, 8),
    }
    assert symptom("initial-loss-off", logged).severity.value == severity


@pytest.mark.parametrize(
    ("terms", "is_reported"),
    [
        ({"cls_loss": 0.4, "mask_loss": 0.6}, False),
        ({"ce_loss": 0.97, "reg_loss": 0.03}, True),  # one term is nearly all of it
        ({"cls_loss": 0.4, "mask_loss": 0.2}, True),  # not a sum
        ({"weighted_loss": 0.5}, False),
    ],
)
def test_a_sum_of_terms_has_no_level_of_chance(symptom, terms, is_reported):
    loss = falling(60.0, 2.0)
    logged = {"step": AT, "loss": loss, "accuracy": AT / N}
    logged |= {name: fraction * loss for name, fraction in terms.items()}
    assert (symptom("initial-loss-off", logged) is not None) is is_reported


@pytest.mark.parametrize(
    "name", ["PPL_loss", "ppl loss", "lossppl", "trainppl", "loss (ppl)", "Perplexity_Loss"]
)
def test_a_perplexity_has_no_level_of_chance(symptom, name):
    logged = {"step": AT, name: falling(700.0, 30.0), "accuracy": AT / N}
    assert symptom("initial-loss-off", logged) is None
    assert symptom("initial-loss-off", logged | {"loss": logged[name]}) is not None


@pytest.mark.parametrize(("change", "is_present"), [(1e-6, False), (0.0, True), (0.1, True)])
def test_a_rounded_loss_next_to_evaluations_that_still_change_is_constant(change, is_present):
    rounds = np.arange(2100, 2200, 5)
    evaluations = 0.53 + change * np.arange(20) / 20
    columns = {"step": rounds, "loss": np.full(20, 0.528952), "eval_loss": evaluations}
    slugs = {finding.slug for finding in stabdiag.diagnose(columns).findings}
    assert ("loss-constant" in slugs) == is_present


@pytest.mark.parametrize(
    ("level", "falls", "is_present"), [(3e-8, True, False), (3e-2, True, True), (3e-8, False, True)]
)
def test_a_loss_of_0_next_to_tiny_evaluations_is_rounded(level, falls, is_present):
    evaluations = level * (1 + falls * 0.9**AT)
    columns = {"step": AT, "loss": np.zeros(len(AT)), "eval_loss": evaluations}
    slugs = {finding.slug for finding in stabdiag.diagnose(columns).findings}
    assert ("loss-constant" in slugs) == is_present
