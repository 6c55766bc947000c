"""Epochs, games and iterations on lines around the values."""

import math

import numpy as np
import pytest

import stabdiag


@pytest.fixture
def series(tmp_path):
    def series(text):
        log = tmp_path / "run.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return series


def test_scores_below_the_lines_of_their_epochs(series):
    """torch-ngp prints no loss."""
    text = "".join(
        f"==> Start Training Epoch {n}, lr=0.01 ...\n==> Finished Epoch {n}.\n"
        f"++> Evaluate at epoch {n} ...\nPSNR = {12 + n / 2}\n"
        for n in range(1, 13)
    )
    psnr = series(text)["score/PSNR"]
    assert psnr.steps.tolist() == list(range(1, 13))
    assert psnr.values.tolist() == [12 + n / 2 for n in range(1, 13)]


def test_two_scores_below_epochs_are_read(series):
    text = "".join(f"Epoch {n} is done.\nPSNR = {12 + n / 2}\n" for n in range(1, 3))
    assert series(text)["score/PSNR"].values.tolist() == [12.5, 13]


def test_games_between_the_epochs_are_not_steps(series):
    """Each iteration trains for three epochs again, and plays 20 games."""
    text = "".join(
        "positions from 3000 game(s) (2565 decisive)\n"
        + "".join(
            f"  epoch {n}/3  loss={2 - n / 10 - at / 100:.2f}  val={2 + n / 10:.2f}\n"
            for n in (1, 2, 3)
        )
        + "".join(f"  eval game {n}/20  moves={n + 9}\n" for n in range(1, 21))
        for at in range(3)
    )
    loss = series(text)["loss"]
    assert loss.steps.tolist() == [1, 2, 3]
    assert loss.values.tolist() == [1.88, 1.78, 1.68]


def test_tesseract_evaluates_on_the_line_of_a_later_iteration(series):
    text = "".join(
        f"At iteration {80 * n}/{100 * n}/{103 * n}, Mean rms={5 - n / 10:.1f}%, delta=8.5%, "
        f"char train={90 - n}%, word train={95 - n}%, skip ratio=0.2%,  New best char error = 9"
        f"At iteration {70 * n}, stage 0, Eval Char error rate={91 - n}, Word error rate={96 - n} "
        "wrote checkpoint.\n"
        for n in range(1, 13)
    )
    read = series(text)
    assert read["loss"].steps.tolist() == list(range(100, 1300, 100))
    assert read["score/eval_cer"].values.tolist() == list(range(90, 78, -1))


@pytest.mark.parametrize("lost", ["nan%", "-nan%", "inf%"])
def test_an_error_of_tesseract_may_be_lost(series, lost):
    errors = [*(f"{5 - n / 10:.1f}%" for n in range(12)), lost, lost]
    text = "".join(
        f"At iteration {80 * n}/{100 * n}/{103 * n}, Mean rms={error}, delta=8.5%, char train=80%, "
        "word train=85%, skip ratio=0.2%, wrote checkpoint.\n"
        for n, error in enumerate(errors, start=1)
    )
    loss = series(text)["loss"]
    assert loss.steps[-2:].tolist() == [1300, 1400]
    assert not any(map(math.isfinite, loss.values[-2:]))


@pytest.mark.parametrize("form", ["[E{}] step {} loss {}", "E{} step {} loss {}"])
def test_the_first_of_several_glued_epochs_is_longer_than_the_sample(series, form):
    rows = ((epoch, 10 * n) for epoch in range(1, 5) for n in range(3000))
    lines = (form.format(e, s, 0.8 / e + s % 70 / 100) for e, s in rows)
    assert len(series("\n".join(lines) + "\n")["loss"]) == 12000


@pytest.fixture
def batches():
    """Return the lines of an epoch: losses of batches, and their mean below."""

    def batches(epoch):
        rng = np.random.default_rng(epoch)
        losses = 0.5 + 1.5 / epoch * np.exp(0.5 * rng.standard_normal(20))
        lines = (f"  Batch {n}/20 | Loss: {loss:.4f}\n" for n, loss in enumerate(losses, 1))
        return "".join(lines) + f"Epoch {epoch}/6 | Loss: {losses.mean():.4f} | Accuracy: 0.9\n"

    return batches


def test_the_line_of_an_epoch_below_its_batches_names_their_epoch(series, batches):
    read = series("".join(map(batches, range(1, 7))))
    assert read["loss"].steps.tolist() == list(range(1, 121))
    assert read["epoch"].values.tolist() == [n // 20 + 1 for n in range(120)]


def test_a_log_that_ends_within_an_epoch_is_one_run(series, batches):
    read = series("".join(map(batches, range(1, 7)))[:-400])
    assert len(read["loss"]) > 100


def test_rewards_of_two_values_next_to_a_time(series):
    rewards = [20.0, 21.0, 21.0, 21.0, 20.0, 20.0, 20.0, 21.0, 21.0, 21.0]
    text = "".join(
        f"Time 02h {n:02d}m 39s, episode reward {reward}, episode length {1698 + n}\n"
        for n, reward in enumerate(rewards)
    )
    assert series(text)["reward"].values.tolist() == rewards


def test_the_mean_and_the_last_reward_of_episodes_are_two_values(series):
    text = "".join(
        f"Episodes: {9 * n}\nNum steps: {5000 * n}\nMean Episode reward: {n - 40:.2f} \n"
        f"Last Episode reward: {3 * n - 44:.2f} \n======= agent =======\n"
        for n in range(1, 9)
    )
    reward = series(text)["reward"]
    assert reward.column == "Mean Episode reward"
    assert reward.values.tolist() == [n - 40 for n in range(1, 9)]


@pytest.mark.parametrize("count", [1, 9])
def test_the_length_of_an_episode_is_no_step(series, count):
    lengths = [150 + 7 * n % 40 for n in range(count)]
    ends = np.cumsum(lengths).tolist()
    text = "".join(
        f" {end:6d}/50000: episode: {n}, duration: 1.9s, episode steps: {length}, steps per second:"
        f"  12, episode reward: {4 + n}.5, loss: {0.5 - n / 100:.4f}, mae: 3.2, mean_q: 3.3\n"
        for n, (end, length) in enumerate(zip(ends, lengths, strict=True), start=1)
    )
    assert series(text)["loss"].steps.tolist() == ends
