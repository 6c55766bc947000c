"""The symptoms of generalization."""

import numpy as np
import pytest

import stabdiag

N = 800
AT = np.arange(N)
EVERY = 40
K = {"vocab_size": 256}


def evaluated(train, eval_loss):
    """Return a log with a constant evaluation loss."""
    return run(train, np.full(N, np.nan)) | {"eval_loss": np.where(AT % EVERY, np.nan, eval_loss)}


def run(train, eval_loss, first=0):
    """Return a log with noise on both losses and an evaluation every ``EVERY`` steps."""
    rng = np.random.default_rng(0)
    eval_loss = eval_loss * np.exp(rng.normal(0, 0.005, N))
    logged = [
        float(value) if at % EVERY == 0 and at >= first else None
        for at, value in zip(AT.tolist(), eval_loss, strict=True)
    ]
    return {"step": AT, "loss": train * np.exp(rng.normal(0, 0.02, N)), "eval_loss": logged}


def falling(begin, end, over=150):
    return end + (begin - end) * np.exp(-AT / over)


def epochs(*losses):
    """Return a log of epochs with a constant evaluation loss."""
    return {"epoch": range(len(losses)), "loss": losses, "eval_loss": [0.2] * len(losses)}


TRAIN = falling(5.0, 0.2)
TURNED = np.where(AT < 300, falling(5.0, 1.0), falling(5.0, 1.0)[300] * (1 + (AT - 300) / 1000))
JUMPED = TRAIN + np.where(AT > 420, 1.0 + AT / 1000, 0.0)
FLAT = falling(5.0, 1.0, 60)
WORSE = np.where(AT < 300, FLAT, FLAT[300] * (1 + (AT - 300) / 1000))

# Evaluations so noisy that a turn cannot be distinguished from the noise.
ROUGH = {
    "step": AT[:10],
    "loss": np.linspace(2.2, 1.6, 10),
    "eval_loss": [3.0, 2.4, 2.0, 1.5, 2.1, 1.6, 2.2, 1.6, 2.3, 2.0],
}
# Fine-tuned for three epochs, the loss logged four times in each.
TUNED = {
    "step": 25 * (AT[:12] + 1),
    "loss": [0.66, 0.52, 0.47, 0.41, 0.30, 0.27, 0.26, 0.22, 0.12, 0.11, 0.10, 0.08],
    "eval_loss": [None] * 3 + [0.42] + [None] * 3 + [0.46] + [None] * 3 + [0.55],
}
EPOCHS = {"epoch": AT[:100], "loss": TRAIN[:100], "eval_loss": 3 * TRAIN[:100]}
# Evaluated on inputs with a different scale.
OTHERWISE = {
    "epoch": AT[:8],
    "loss": [2.19, 1.81, 1.37, 0.99, 0.72, 0.55, 0.44, 0.37],
    "eval_loss": [2.307, 2.299, 2.296, 2.301, 2.288, 2.293, 2.291, 2.295],
}
AVERAGED = [2.312, 2.3115, 2.311, 2.3105, 2.31, 2.309, 2.308, 2.307]
WORSE_MODE = {
    "epoch": AT[:8],
    "loss": [0.6, 0.3, 0.2, 0.14, 0.1, 0.08, 0.06, 0.05],
    "eval_loss": [0.99, 0.93, 0.9, 0.88, 0.86, 0.85, 0.84, 0.83],
    "accuracy": [0.87, 0.92, 0.95, 0.96, 0.97, 0.98, 0.98, 0.99],
    "eval_accuracy": [0.71, 0.72, 0.73, 0.73, 0.74, 0.74, 0.75, 0.75],
}
# Most evaluation examples are right, so something carries over.
RIGHT = WORSE_MODE | {"eval_loss": [0.6, 0.62, 0.66, 0.7, 0.75, 0.8, 0.86, 0.93]}
# A fall by less than half.
SLIGHT = falling(4.6, 1.8, 800)
FAR = np.array([5.9, 6.6, 5.2, 6.1, 5.5, 6.3, 5.4, 6.0])
QUICK = falling(5.0, 0.2, 30)
HEART = 3.0 + AT / 400


def every(points):
    """Return the records of an overfitting run whose training loss is logged rarely."""
    log = run(TRAIN, TURNED)
    return [
        {"step": at}
        | ({"loss": float(log["loss"][at])} if at % points == 0 else {})
        | ({"eval_loss": log["eval_loss"][at]} if at % EVERY == 0 else {})
        for at in range(N)
        if at % points == 0 or at % EVERY == 0
    ]


@pytest.mark.parametrize(
    ("slug", "log", "manifest", "first"),
    [
        ("overfitting", run(TRAIN, TURNED), {}, "Keep the checkpoint nearest to step"),
        ("overfitting", run(np.round(falling(5.0, 0.0, 60), 4), TURNED), {}, "and stop there"),
        ("overfitting", run(TRAIN, JUMPED), {}, "between steps 400 and 440"),
        ("overfitting", TUNED, {}, "Keep the checkpoint nearest to step 100"),
        # The training loss keeps falling; the evaluation loss rises slightly but clearly.
        (
            "overfitting",
            run(falling(5.0, 0.1, 60), np.maximum(4.0, 4 + (AT - 80) / 1600)),
            {},
            "to step",
        ),
        # No evaluation is better than an untrained model's.
        (
            "learning-not-transferring",
            run(TRAIN, 5.0 + AT / 400),
            {},
            "with their labels, as the model gets them",
        ),
        # Seen once, nothing is memorized.
        (
            "eval-gap-from-start",
            run(TRAIN, TURNED) | {"epoch": AT / 300},
            {},
            "compare the data of training",
        ),
        ("eval-rising", run(FLAT, WORSE), {}, "evaluate it again"),
        ("eval-gap-from-start", run(TRAIN, 3 * TRAIN + 0.5), {}, "evaluation mode"),
        # Never better than an untrained model, in steps and in epochs.
        ("learning-not-transferring", run(TRAIN, np.full(N, 5.0)), {}, "20 evaluation examples"),
        # The first training losses are above it by their noise.
        ("learning-not-transferring", run(TRAIN, np.full(N, 4.7)), {}, "20 evaluation examples"),
        ("learning-not-transferring", OTHERWISE, {}, "20 evaluation examples"),
        # An average of the weights that hardly moves.
        ("learning-not-transferring", OTHERWISE | {"eval_loss": AVERAGED}, {}, "(EMA)"),
        # Worse after the first epoch than in training during it.
        ("eval-gap-from-start", WORSE_MODE, {}, "evaluation mode"),
        # Noisy evaluations far above an untrained model, in epochs.
        ("learning-not-transferring", OTHERWISE | {"eval_loss": FAR}, {}, "evaluation mode"),
        # A sum over the micro-batches of a step, and their mean.
        ("train-loss-summed", run(8 * SLIGHT, SLIGHT), {}, "of micro-batches of a step (about 8"),
        ("train-loss-summed", run(16 * FLAT, FLAT), {}, "micro-batches of a step (about 16)"),
        ("underfitting", run(falling(5.5, 4.6), falling(5.5, 4.7)), K, "Train longer"),
        ("eval-nonfinite", run(TRAIN, np.where(AT < 200, TRAIN, np.nan)), {}, "batch by batch"),
        ("eval-constant", evaluated(TRAIN, 5.5432), {}, "compare a weight of both"),
        # A log of a few epochs, with four decimals.
        ("eval-constant", epochs(0.1902, 0.1872, 0.1844, 0.182, 0.1794), {}, "compare a weight"),
    ],
)
def test_symptom_is_reported(symptom, slug, log, manifest, first):
    finding = symptom(slug, log, manifest)
    assert finding is not None
    assert first in finding.first_action
    assert finding.evidence
    if finding.step is not None:
        assert 0 <= finding.step <= 400


@pytest.mark.parametrize(
    ("slug", "log", "manifest"),
    [
        # The training loss is flat.
        ("overfitting", run(FLAT, WORSE), {}),
        # Two evaluations at the end.
        ("overfitting", run(TRAIN, TURNED, first=720), {}),
        # A single evaluation after the best.
        ("overfitting", TUNED | {"eval_loss": [None] * 3 + [0.42] + [None] * 7 + [0.55]}, {}),
        # A turn within the noise of evaluations.
        ("overfitting", ROUGH, {}),
        # An epoch is a long time.
        ("eval-gap-from-start", EPOCHS, {}),
        # Memorized immediately.
        ("eval-gap-from-start", run(QUICK, HEART), {}),
        # Learned before the log begins.
        ("eval-gap-from-start", run(np.full(N, 0.05), np.full(N, 0.13)), {}),
        ("eval-gap-from-start", run(TRAIN, 3 * TRAIN + 0.5) | {"accuracy": np.ones(N)}, {}),
        # The evaluation improves, if on another scale.
        ("learning-not-transferring", OTHERWISE | {"eval_loss": np.linspace(2.3, 1.9, 8)}, {}),
        ("learning-not-transferring", OTHERWISE | {"eval_loss": np.linspace(40.0, 4.0, 8)}, {}),
        # Noisy evaluations near an untrained model, and a score that improves.
        ("learning-not-transferring", OTHERWISE | {"eval_loss": FAR / 4}, {}),
        (
            "learning-not-transferring",
            OTHERWISE | {"eval_loss": FAR, "eval_accuracy": np.linspace(0.1, 0.8, 8)},
            {},
        ),
        # A factor too small for a sum, and one that changes.
        ("train-loss-summed", run(3 * FLAT, FLAT), {}),
        ("train-loss-summed", run(FLAT * np.linspace(5, 12, N), FLAT), {}),
        ("eval-loss-scaled", run(TRAIN, 1.8 * TRAIN), {}),
        ("eval-far-below-train", run(3 * FLAT, FLAT), {}),
        # No early evaluation.
        ("eval-gap-from-start", run(TRAIN, 3 * TRAIN, first=200), {}),
        # Training below zero.
        ("overfitting", run(TRAIN - 1.0, TURNED), {}),
        # Evaluations below zero.
        ("overfitting", run(TRAIN, TURNED - 3.0), {}),
        # The training loss is constant too; too few digits.
        ("eval-constant", evaluated(np.full(N, 5.5), 5.5432), {}),
        ("eval-constant", evaluated(TRAIN, 5.5), {}),
        # Both losses have few digits; the training loss does not fall; too few evaluations.
        ("eval-constant", epochs(0.5, 0.4, 0.3, 0.25, 0.2), {}),
        ("eval-constant", epochs(0.1902, 0.1872, 0.1899, 0.182, 0.1794), {}),
        ("eval-constant", epochs(0.1902, 0.1872, 0.1844, 0.182), {}),
        # At chance.
        ("underfitting", run(falling(5.55, 5.54), falling(5.55, 5.55)), K),
        # A small difference after the first epoch, and no accuracy.
        ("eval-gap-from-start", WORSE_MODE | {"eval_accuracy": [0.8] * 8}, {}),
        ("eval-gap-from-start", WORSE_MODE | {"accuracy": [None] * 8}, {}),
        ("learning-not-transferring", RIGHT, {}),
    ],
)
def test_near_miss_is_not_reported(symptom, slug, log, manifest):
    assert symptom(slug, log, manifest) is None


def test_training_losses_may_be_sparser_than_evaluations(symptom):
    assert symptom("overfitting", every(60)).step == 320


@pytest.mark.parametrize(("rise", "is_reported"), [(1.0, True), (0.1, False)])
def test_many_noisy_evaluations_show_a_rise_together(symptom, rise, is_reported):
    at = np.arange(40)
    noise = 0.25 * np.random.default_rng(3).standard_normal(40)
    train = np.linspace(3.0, 1.0, 40)
    heldout = 3.4 + rise * np.maximum(at - 8, 0) / 31 + noise
    finding = symptom("overfitting", {"epoch": at, "loss": train, "eval_loss": heldout})
    assert (finding is not None) == is_reported


def test_reported_evaluation_values_were_logged(symptom):
    eval_loss = [3.0, 2.0, 1.5, 1.4, 1.0, 1.5, 1.8, 2.2, 2.6, 3.1]
    train = [2.9, 2.0, 1.4, 1.1, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1]
    finding = symptom("overfitting", {"step": range(10), "loss": train, "eval_loss": eval_loss})
    assert finding.step == 4
    assert list(finding.evidence.values()) == [1.0, 3.1, 0.8, 0.1]


@pytest.mark.parametrize(
    ("heldout", "slug"),
    [
        (32 * TRAIN, "eval-loss-scaled"),
        (512 * TRAIN**0.9, "eval-loss-scaled"),
        (1.8 * TRAIN, "eval-gap-from-start"),
        (3 * TRAIN + 0.5, "eval-gap-from-start"),
    ],
    ids=["sum", "tokens", "small", "gap"],
)
def test_a_constant_factor_between_losses_has_its_own_slug(symptom, heldout, slug):
    other = {"eval-loss-scaled", "eval-gap-from-start"}.difference({slug}).pop()
    assert symptom(slug, run(TRAIN, heldout)) is not None
    assert symptom(other, run(TRAIN, heldout)) is None


@pytest.mark.parametrize(
    ("factor", "slug"),
    [(1.2, None), (2.0, None), (2.8, "eval-far-below-train"), (8.0, "eval-far-below-train")],
    ids=["usual", "augmentation", "growing leak", "leak"],
)
def test_an_evaluation_far_below_training_may_leak(factor, slug):
    # The model gradually learns to read the evaluation labels.
    heldout = TRAIN / np.linspace(1.0, factor, N) ** 2
    report = stabdiag.diagnose(run(TRAIN, heldout))
    slugs = {finding.slug: finding.severity for finding in report.findings}
    assert slugs.get("eval-far-below-train") == (None if slug is None else "note")


@pytest.mark.parametrize(
    ("right", "heldout_right", "is_reported"),
    [
        (0.63, 0.99, True),
        (63.0, 99.0, True),
        (0.8, 0.95, False),  # as with usual augmentation
        (0.4, 0.7, True),
        (0.4, 0.5, False),
        (0.6, 0.75, False),
        (0.99, 0.999, False),
    ],
)
def test_an_accuracy_far_above_that_in_training_is_reported(
    symptom, right, heldout_right, is_reported
):
    course = 1 - np.exp(-np.arange(1, 16) / 2)
    scores = {"accuracy": right * course, "val_accuracy": heldout_right * course**0.1}
    losses = {"loss": 2.3 - course, "val_loss": 0.4 * (2.3 - course)}
    finding = symptom("eval-far-below-train", {"epoch": np.arange(15)} | losses | scores)
    assert (finding is not None) == is_reported
    if is_reported:
        assert "accuracy is far above" in finding.title


@pytest.mark.parametrize(
    ("heldout_right", "severity"), [(0.62, None), (0.74, "note"), (0.89, "warning")]
)
def test_accuracies_of_tiny_batches_are_averaged(symptom, heldout_right, severity):
    right = np.random.default_rng(1).binomial(2, 0.55, 600) / 2
    evaluated = [heldout_right if step % 50 == 49 else None for step in range(600)]
    losses = {"loss": 1 + np.exp(-np.arange(600) / 60), "val_loss": np.ones(600)}
    log = {"step": np.arange(600), "accuracy": right, "val_accuracy": evaluated, **losses}
    finding = symptom("eval-far-below-train", log)
    assert (None if finding is None else finding.severity.value) == severity


def test_a_solved_task_has_no_gap():
    def gap(scale):
        train = 2.3 * np.exp(-AT / 20) + 1e-4 * scale
        heldout = [4e-4 * scale if step % 80 == 79 else None for step in AT]
        report = stabdiag.diagnose({"step": AT, "loss": train, "val_loss": heldout})
        return [finding.slug for finding in report.findings]

    assert "eval-gap-from-start" not in gap(1)
    assert "eval-gap-from-start" in gap(1000)


@pytest.mark.parametrize(("start", "is_reported"), [(10.4, True), (6.9, False)])
def test_half_of_the_training_loss_is_far_below_it_for_tokens(symptom, start, is_reported):
    train = falling(start, 3.0)
    finding = symptom("eval-far-below-train", run(train, train / np.linspace(1.5, 2.5, N)))
    assert (finding is not None) == is_reported


def test_an_evaluation_loss_is_not_a_training_loss(symptom):
    assert symptom("overfitting", {"step": AT, "eval_loss": TURNED}) == ("eval_loss",)


def test_no_checkpoint_step_is_invented(symptom):
    finding = symptom("eval-gap-from-start", run(TRAIN, 3 * TRAIN + 0.5), {"checkpoint_every": 750})
    assert finding.first_action.startswith("Evaluate the checkpoint nearest to step ")


CYCLES = 1e-3 * (1 + np.cos(np.pi * (AT % 300) / 300)) / 2
RAISED = np.where(AT < 300, falling(5.0, 1.0), falling(5.0, 1.0)[300] * (1 + 0.5 * CYCLES / 1e-3))


@pytest.mark.parametrize(
    ("lr", "restarted"),
    # A cycle that has ended does not explain the rise; a falling rate does not either.
    [(CYCLES, True), (np.where(AT < 780, CYCLES, 1e-6), False), (1e-3 * (1 - AT / N), False)],
    ids=["restarted", "ended", "falling"],
)
@pytest.mark.parametrize("train", [TRAIN, FLAT], ids=["falls", "flat"])
def test_an_evaluation_that_rises_with_a_warm_restart_is_not_reported(
    symptom, train, lr, restarted
):
    slug = "overfitting" if train is TRAIN else "eval-rising"
    assert (symptom(slug, run(train, RAISED) | {"lr": lr}) is None) == restarted


@pytest.mark.parametrize(
    ("column", "values", "slug"),
    [
        ("eval_accuracy", (0.85, 0.87, 0.88), "overconfident"),
        ("eval_accuracy", (0.85, 0.85, 0.85), "overfitting"),
        # Less than a twentieth of what is missing.
        ("eval_accuracy", (0.45, 0.472, 0.47), "overfitting"),
        ("eval_accuracy", (0.85, 0.86, 0.82), "overfitting"),
        ("eval_wer", (30.0, 22.0, 20.0), "overconfident"),
        ("eval_wer", (20.0, 22.0, 30.0), "overfitting"),
        ("dev_f1", (0.85, 0.87, 0.88), "overconfident"),
        # The direction of this score is unknown.
        ("eval_magic", (0.85, 0.87, 0.88), "overfitting"),
        # A score on training data says nothing about the evaluation.
        ("train_accuracy", (0.85, 0.9, 0.95), "overfitting"),
    ],
)
def test_a_score_that_still_improves_means_overconfidence(symptom, column, values, slug):
    logged = np.full(12, np.nan)
    logged[3::4] = values
    log = TUNED | {column: logged}
    finding = symptom(slug, log)
    assert finding.severity == ("note" if slug == "overconfident" else "warning")
    assert (f"step 300 by {column!r}" in finding.first_action) == (slug == "overconfident")
    assert symptom({"overconfident", "overfitting"}.difference({slug}).pop(), log) in (
        None,
        ("eval_accuracy or score",),
    )


def test_a_score_next_to_its_evaluation_is_of_the_training_data(symptom):
    epochs = np.arange(8)
    log = {"epoch": epochs, "loss": 0.5 * 0.7**epochs, "mse": 0.5 * 0.7**epochs}
    log |= {"val_loss": 0.3 + 0.02 * (epochs - 2) ** 2, "val_mse": 0.3 + 0.02 * (epochs - 2) ** 2}
    assert symptom("overconfident", log) is None
    assert symptom("overfitting", log).severity == "warning"


@pytest.mark.parametrize(("last", "is_reported"), [(0.31, False), (0.41, True)])
def test_the_first_of_two_higher_evaluations_may_be_noise(symptom, last, is_reported):
    log = {"epoch": range(5), "loss": [0.6, 0.4, 0.25, 0.16, 0.1]}
    log["val_loss"] = [0.52, 0.36, 0.3, 0.4, last]
    assert (symptom("overfitting", log) is not None) == is_reported


def test_a_checkpoint_without_a_step_is_named_by_its_epoch(symptom):
    log = run(TRAIN, TURNED)
    integer_epochs, fractional_epochs = {"epoch": AT}, {"epoch": AT / 8 + 0.5}
    losses = {name: values for name, values in log.items() if name != "step"}
    assert "nearest to epoch 320," in symptom("overfitting", losses | integer_epochs).first_action
    assert (
        "nearest to record 320 (epoch 40.5),"
        in symptom("overfitting", losses | fractional_epochs).first_action
    )


@pytest.mark.parametrize(("at", "is_reported"), [(0, False), (1, True)])
def test_a_nan_before_the_first_evaluation_is_a_placeholder(symptom, at, is_reported):
    eval_loss = TRAIN.copy()
    eval_loss[at * EVERY] = np.nan
    assert (symptom("eval-nonfinite", run(TRAIN, eval_loss)) is not None) == is_reported


def test_a_model_that_is_mostly_right_has_learned_something(symptom):
    run = WORSE_MODE | {"eval_loss": [1.26, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 1.96]}
    run |= {"eval_accuracy": [0.78, 0.77, 0.77, 0.76, 0.76, 0.75, 0.75, 0.75]}
    finding = symptom("learning-not-transferring", run)
    assert "What the model learned later does not carry over" in finding.summary
    wrong = run | {"eval_accuracy": [0.1, 0.11, 0.1, 0.12, 0.1, 0.11, 0.1, 0.1]}
    assert "Nothing the model learned carries over" in symptom(finding.slug, wrong).summary


@pytest.mark.parametrize(("last", "severity"), [(0.8, "note"), (4.0, "warning")])
def test_overconfidence_at_a_multiple_of_the_loss_is_a_warning(symptom, last, severity):
    at = np.arange(12)
    run = {
        "epoch": at,
        "loss": 0.7 * 0.7**at,
        "eval_loss": np.interp(at, [0, 3, 11], [0.7, 0.42, last]),
        "eval_accuracy": np.linspace(0.6, 0.88, 12),
    }
    assert symptom("overconfident", run).severity == severity


def boosted(rise, noise=0.0):
    """Return 150 rounds of boosting whose evaluation loss rises early and settles."""
    at, rng = np.arange(150), np.random.default_rng(6)
    heldout = 1.0 + 0.6 * np.exp(-at) + rise * (1 - np.exp(-np.maximum(at - 3, 0) / 6))
    heldout += noise * rng.standard_normal(150)
    return {"step": at, "loss": 1.6 * np.exp(-at / 9), "eval_loss": heldout}


@pytest.mark.parametrize(
    ("rise", "noise", "is_present"), [(0.3, 0.0005, True), (0.0, 0.0005, False), (0.0, 0.1, False)]
)
def test_evaluations_that_rise_and_settle_are_overfitting(symptom, rise, noise, is_present):
    assert (symptom("overfitting", boosted(rise, noise)) is not None) == is_present


@pytest.mark.parametrize(
    ("rise", "noise", "last", "is_present"),
    [
        (0.08, 0.001, 0.3, True),
        (0.04, 0.001, 0.3, True),
        (0.04, 0.01, 0.3, False),
        (0.008, 0.001, 0.3, False),
        (0.08, 0.1, 0.3, False),
        (0.08, 0.001, 0.5, False),  # the training loss is flat
    ],
)
def test_a_small_rise_over_many_evaluations_is_a_note(symptom, rise, noise, last, is_present):
    at, rng = np.arange(30), np.random.default_rng(6)
    heldout = np.interp(at, [0, 10, 29], [0.95, 0.6, 0.6 * (1 + rise)])
    heldout += noise * rng.standard_normal(30)
    trained = np.interp(at, [0, 10, 29], [1.0, 0.5, last]) + 0.001 * rng.standard_normal(30)
    finding = symptom("overfitting", {"epoch": at, "loss": trained, "eval_loss": heldout})
    assert (finding is not None) == is_present
    assert finding is None or finding.severity == "note"


@pytest.mark.parametrize(
    ("right", "heldout_right", "is_present"), [(0.95, 0.12, True), (0.95, 0.6, False)]
)
def test_accuracies_that_disagree_outweigh_a_hard_first_batch(
    symptom, right, heldout_right, is_present
):
    at = np.arange(0, 300, 10)
    evaluated_at = at % 50 == 40
    log = {
        "step": at,
        "loss": 0.08 + 2.5 * np.exp(-at / 30),
        "accuracy": right - 0.85 * np.exp(-at / 30),
        "eval_loss": np.where(evaluated_at, 2.3 - at / 20000, np.nan),
        "eval_accuracy": np.where(evaluated_at, heldout_right, np.nan),
    }
    assert (symptom("learning-not-transferring", log) is not None) == is_present


@pytest.mark.parametrize(("right", "is_present"), [(0.12, True), (0.97, False)])
def test_a_low_accuracy_that_never_improves_is_not_pretrained(symptom, right, is_present):
    at = np.arange(12)
    log = {
        "epoch": at + 1,
        "loss": 0.02 + 0.9 * np.exp(-at),
        "accuracy": np.full(12, right),
        "eval_loss": 2.3 + 0.003 * np.random.default_rng(9).standard_normal(12),
        "eval_accuracy": np.full(12, 0.12),
    }
    assert (symptom("learning-not-transferring", log) is not None) == is_present


@pytest.mark.parametrize(
    ("manifest", "severity"), [({}, "warning"), ({"init_from": "the/model"}, "note")]
)
def test_a_pretrained_model_may_know_the_training_data(symptom, manifest, severity):
    finding = symptom("eval-gap-from-start", run(TRAIN, 3 * TRAIN + 0.5), manifest)
    assert finding.severity.value == severity


@pytest.mark.parametrize(
    ("evaluated", "is_reported"),
    [([0.71, 0.92, 1.15, 1.3], True), ([0.71, 0.92, 1.15, 0.86], False)],
)
def test_a_few_evaluations_rise_if_none_falls(symptom, evaluated, is_reported):
    log = {"step": range(40, 44), "loss": [0.76, 0.78, 0.99, 0.77], "val_loss": evaluated}
    assert (symptom("eval-rising", log) is not None) == is_reported


@pytest.mark.parametrize(
    ("begin", "factor", "falls", "is_reported"),
    [
        (500, 3.0, False, True),
        (500, 1.4, False, False),
        (500, 40.0, False, False),
        (500, 3.0, True, False),
        (50, 3.0, False, False),
    ],
)
def test_the_end_of_a_run_whose_evaluations_no_longer_fall(begin, factor, falls, is_reported):
    """The evaluations are a multiple of the training loss, which falls on."""
    count = np.arange(16)
    noise = np.random.default_rng(2).normal(0, 0.02, 16)
    train = 1.0 - 0.01 * count
    heldout = factor * (train if falls else 1 + noise)
    log = {"epoch": begin + 10 * count, "loss": train, "eval_loss": heldout}
    slugs = {finding.slug for finding in stabdiag.diagnose(log).findings}
    assert ("overfitting" in slugs) == is_reported


@pytest.mark.parametrize(
    ("change", "count", "is_reported"),
    [(0.0, 20, True), (1e-6, 20, False), (0.0, 5, False)],
)
def test_evaluations_identical_to_the_training_loss(symptom, change, count, is_reported):
    train = 0.3 + 0.9 ** np.arange(count)
    heldout = train.copy()
    heldout[-1] += change
    log = {"epoch": np.arange(count), "loss": train, "val_loss": heldout}
    assert (symptom("eval-equals-train", log) is not None) == is_reported


def test_a_constant_loss_is_not_the_training_loss_evaluated(symptom):
    flat = np.full(20, 0.25)
    log = {"epoch": np.arange(20), "loss": flat, "val_loss": flat}
    assert symptom("eval-equals-train", log) is None
    assert symptom("eval-equals-train", {"epoch": np.arange(20), "loss": flat}) == ("eval_loss",)


ALONE = np.r_[np.linspace(0.7, 0.4, 15), np.linspace(0.41, 0.6, 25)]


def alone(values, **columns):
    """Return evaluations without a training loss."""
    noise = 0.002 * np.random.default_rng(6).standard_normal(len(values))
    return {"epoch": np.arange(len(values)) + 1, "val_loss": values + noise, **columns}


@pytest.mark.parametrize(
    ("columns", "slug", "severity"),
    [
        (alone(ALONE), "eval-only-rising", "warning"),
        (alone(ALONE, val_acc=0.5 + np.arange(40) / 100), "eval-only-rising", "note"),
        (
            alone(np.r_[ALONE[:15], np.linspace(0.41, 3, 25)], val_acc=0.5 + np.arange(40) / 100),
            "eval-only-rising",
            "warning",
        ),
        (alone(ALONE, train_loss=np.linspace(0.7, 0.1, 40)), "overfitting", "warning"),
        (alone(np.linspace(0.7, 0.4, 40)), "healthy", "ok"),
        (alone(np.r_[ALONE[:15], np.linspace(0.41, 9, 25)]), "divergence-unexplained", "error"),
    ],
)
def test_an_evaluation_loss_alone_may_rise_by_overfitting(columns, slug, severity):
    report = stabdiag.diagnose(columns)
    slugs = {finding.slug: finding.severity.value for finding in report.findings}
    assert slugs.get(slug) == severity, slugs
    is_unknown = slug == "eval-only-rising"
    climb = next(answer for answer in report.tree.answers if answer.question == "Q4.1")
    assert (climb.verdict.value == "unknown") == is_unknown


def test_a_log_that_begins_late_does_not_show_whether_learning_carries_over(symptom):
    at = np.arange(40, 71)
    run = {
        "step": at,
        "loss": np.linspace(0.24, 0.18, 31),
        "eval_loss": np.linspace(0.41, 0.43, 31),
    }
    assert symptom("learning-not-transferring", run) is None
    assert symptom("overfitting", run).severity == "note"
