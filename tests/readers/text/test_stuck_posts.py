"""Logs that people post because nothing improves: a constant, a fall, a gap."""

import pytest

import stabdiag


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(lines):
        log = tmp_path / "run.log"
        log.write_text("\n".join(lines) + "\n")
        return stabdiag.diagnose(log)

    return diagnose


@pytest.mark.parametrize("call", ["loss(x, y)", "loss(data[1]...)", "Flux.loss(m, d)"])
@pytest.mark.parametrize("counter", ["i", "epoch"])
@pytest.mark.parametrize("end", ["", " (tracked)"])
def test_the_calls_that_julia_shows_name_their_values(diagnosed, call, counter, end):
    report = diagnosed(f"    ({counter}, {call}) = ({n}, 0.4812{end})" for n in range(1, 11))
    assert report.diagnosis.slug == "loss-constant"
    assert report.history.series["loss"].steps.tolist() == list(range(1, 11))


@pytest.mark.parametrize("name", ["score", "Score", "Total score"])
@pytest.mark.parametrize("total", ["", "/40"])
def test_the_score_of_episodes_is_a_reward_next_to_a_loss(diagnosed, name, total):
    report = diagnosed(
        f"episode: {n}{total}, {name}: {9 + n}, loss: {0.4 + 0.1 * (n % 3):.4f}, e: 0.5"
        for n in range(40)
    )
    assert report.history.series["reward"].values.tolist() == [9.0 + n for n in range(40)]


def test_the_score_of_epochs_is_not_a_reward(diagnosed):
    report = diagnosed(f"epoch: {n}, score: {9 + n}, loss: {2 / (n + 1):.4f}" for n in range(40))
    assert "reward" not in report.history.series


def test_accuracies_of_two_domains(diagnosed):
    report = diagnosed(
        f"Epoch: {n}/50, loss: {0.3 - n / 200:.4f}, source_train_acc: 100.00%, "
        f"target_train_acc: {60 - n:.2f}%, target_val_acc: {58 - n:.2f}%"
        for n in range(30, 39)
    )
    assert report.history.series["eval_accuracy"].values[-1] == 20
    assert "the evaluation accuracy went from 28 to 20" in report.diagnosis.summary


def test_accu_is_an_accuracy(diagnosed):
    report = diagnosed(f"step {n} loss {0.7 - n / 50:.4f} Accu :0.00{n % 4}" for n in range(30))
    assert report.history.series["accuracy"].column == "Accu"


def test_a_rise_below_the_printed_figures_is_not_a_plateau(diagnosed):
    report = diagnosed(
        f"Progress: 0.3%  lr: 0.0996{60 - n}  loss: 1.3860{32 + n // 2}  eta: 0h11m"
        for n in range(11)
    )
    assert report.diagnosis.slug == "insufficient-data"
    assert "1.386, the loss of a guess among 4 classes" in report.diagnosis.summary


def test_a_loss_that_rose_and_fell_back_has_a_highest_value(diagnosed):
    losses = [0, 0.3, 0.45, 0.36, 0.4, 0.47, 0.45, 0.47, 0.43, 0.35, 0.2, 0.1, 0.05]
    report = diagnosed(f"step {2**n} loss {loss}" for n, loss in enumerate(losses))
    assert "The highest loss was 0.47, at step 32." in report.diagnosis.summary


@pytest.mark.parametrize(("heldout", "shows"), [(4.1, True), (1.3, False)])
def test_two_evaluations_far_above_the_training_loss(diagnosed, heldout, shows):
    lines = [f"Epoch 1, step {n}, Loss: {0.8 + 4 * 0.7**n:.4f}" for n in range(1, 25)]
    lines[12:12] = [f"Epoch 1, step 12, Val Loss: {heldout:.4f}"]
    report = diagnosed([*lines, f"Epoch 1, step 24, Val Loss: {heldout - 0.01:.4f}"])
    assert report.diagnosis.slug == "healthy"
    assert ("x the training loss" in report.diagnosis.summary) is shows


def test_the_monitored_score_of_saved_models(diagnosed):
    report = diagnosed(
        f"Epoch {n}, global step {7 * n + 6}: 'val_roc_auc' reached 0.9{n}512 (best 0.9{n}512), "
        f"saving model to '/runs/epoch={n}-step={7 * n + 6}.ckpt' as top 3"
        for n in range(6)
    )
    score = report.history.series["score/val_roc_auc"]
    assert score.values.tolist() == [0.90512, 0.91512, 0.92512, 0.93512, 0.94512, 0.95512]
    assert "reward" not in report.history.series


def test_the_epochs_of_two_scores_on_lines_of_their_own(diagnosed):
    report = diagnosed(
        f"Epoch[{n}] {name}-accuracy=0.{70 + n}"
        for n in range(3, 12)
        for name in ("Train", "Validation")
    )
    assert report.history.unit == "epoch"
    for role in ("accuracy", "eval_accuracy"):
        assert report.history.series[role].steps.tolist() == list(range(3, 12))


def test_the_counter_of_rewards_is_not_ignored(diagnosed):
    report = diagnosed(
        f"INFO:trainers: Brain: Step: {1000 * n}. Mean Reward: {n}.5. Std of Reward: 0.3."
        for n in range(1, 9)
    )
    ignored = [e.message for e in report.history.events if e.message.startswith("ignored")]
    assert ignored == ["ignored columns: Std of Reward (--column ROLE=NAME assigns a role)"]


def test_scores_of_a_split_are_those_of_its_losses(diagnosed):
    def table(number):
        rows = (("train", 1.2), ("vali", 1.4), ("test", 1.3))
        yield from (f"Epoch {number}", "╒═══════╤════════╤════════════╕")
        yield "│ sort  │   loss │   accuracy │"
        for row, loss in rows:
            yield "├───────┼────────┼────────────┤"
            yield f"│ {row:5} │ {loss - number / 10:.4f} │     0.{round(loss * 10)}{number} │"
        yield "╘═══════╧════════╧════════════╛"

    series = diagnosed([line for n in range(1, 6) for line in table(n)]).history.series
    assert series["eval_loss"].values[0] == pytest.approx(1.3)
    assert series["eval_accuracy"].values.tolist() == [0.141, 0.142, 0.143, 0.144, 0.145]


@pytest.mark.parametrize(("word", "unit"), [("Episode", "episode"), ("Game number:", "game")])
def test_rewards_are_reported_by_their_episode(diagnosed, word, unit):
    report = diagnosed(f"{word} {n}, Average reward: {10 + n / 4}" for n in range(30, 42))
    assert report.diagnosis.summary.startswith(f"12 rewards from {unit} 30 to 41.")


def test_a_run_after_another_one_at_a_fraction_of_its_loss(diagnosed):
    losses = ([0.71, 0.70, 0.70, 0.69], [0.07, 0.07, 0.06, 0.06])
    report = diagnosed(
        f"epoch: {10 * n} Train loss: {loss + n / 10000:.5f} Val loss: {loss + 0.05:.5f}"
        for run in losses
        for n, loss in enumerate(run, start=1)
    )
    assert report.history.source.attempts == 2
    assert report.history.series["loss"].steps.tolist() == [10, 20, 30, 40]


def test_a_paste_that_begins_below_the_heading_of_an_epoch(diagnosed):
    def epoch(number):
        loss = 2 - number / 20
        yield f"189/189 [==============================] - 12s - loss: {loss} - val_loss: {loss}"
        yield f"Epoch 0000{number}: val_loss improved from {loss + 0.05} to {loss}, saving model"

    lines = [*epoch(6)]
    for number in (7, 8, 9):
        lines += [f"Epoch {number}/100", *epoch(number)]
    assert diagnosed(lines).history.series["loss"].steps.tolist() == [6, 7, 8, 9]


def test_the_printed_values_of_a_test_are_not_of_the_training(diagnosed):
    lines = [
        "Epoch 1/2",
        "90/90 [=====] - 1s - loss: 0.4 - acc: 0.81 - val_loss: 0.5 - val_acc: 0.7",
    ]
    lines += [
        "Epoch 2/2",
        "90/90 [=====] - 1s - loss: 0.3 - acc: 0.91 - val_loss: 0.6 - val_acc: 0.6",
    ]
    lines += ["31/31 [=====] - 0s - loss: 0.5512 - acc: 0.6512"]
    series = diagnosed([*lines, "loss :  0.55123", "accuracy :  0.65117"]).history.series
    assert series["accuracy"].values.tolist() == [0.81, 0.91]
    assert series["eval_accuracy"].values[-1] != 0.65117


@pytest.mark.parametrize(
    ("losses", "is_reported"),
    [
        ([2410.25, 0.0, 512.75, 0.0, 0.0, 0.0, 0.0, 0.0], True),
        ([2410.25, 0.0, 512.75, 0.0, 0.0, 0.0], False),
        ([2410.25, 512.75, 40.5, 2.125, 0.0, 0.0, 0.0, 0.0], False),  # gradually
    ],
)
def test_epochs_whose_loss_jumps_to_zero_are_an_error(diagnosed, losses, is_reported):
    lines = (f"Epoch {i}/9\n80/80 [===] - 2s - loss: {x:.4f}" for i, x in enumerate(losses, 1))
    report = diagnosed(lines)
    assert (report.diagnosis.slug == "loss-constant") == is_reported


@pytest.mark.parametrize(
    ("right", "carried", "words"),
    [
        (0.98, 0.52, "'test_acc' ends at 0.52, far below 'train_acc' at 0.98: the model memorizes"),
        (98.5, 52.0, "'test_acc' ends at 52, far below 'train_acc' at 98.5: the model memorizes"),
        (0.98, 0.81, ""),
        (98.5, 0.52, ""),  # in percent
    ],
)
def test_a_test_accuracy_far_below_the_one_of_the_training_is_named(
    diagnosed, right, carried, words
):
    def part(i):
        return 1 - 0.5 * 0.6**i

    report = diagnosed(
        f"Epoch {i}: train_loss {1.4 * 0.7**i:.4f} train_acc {right * part(i):.4f} "
        f"test_acc {carried * part(i):.4f}"
        for i in [*range(30), 99]
    )
    assert report.diagnosis.slug == "healthy"
    assert ("far below" in report.diagnosis.summary) == bool(words)
    assert words in report.diagnosis.summary
