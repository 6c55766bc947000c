"""Adversarial training that loses its balance, and healthy games."""

import numpy as np
import pytest

import stabdiag

N = 600
STEPS = np.arange(N)
RNG = np.random.default_rng(3)
NOISE = RNG.normal(0, 1, (2, N))
DECAY = np.exp(-STEPS / 60)
WON = 0.001 + 1.35 * DECAY
LOSING = 15.0 - 14.2 * DECAY
BALANCED = np.full(N, 1.35), np.full(N, 0.9)


def game(discriminator=WON, generator=LOSING, names=("d_loss", "g_loss"), **columns):
    losses = (discriminator * np.exp(0.2 * NOISE[0]), generator * np.exp(0.05 * NOISE[1]))
    return {"step": STEPS, **dict(zip(names, losses, strict=True)), **columns}


NAMES = [("d_loss", "g_loss"), ("loss_D", "loss_G"), ("errD", "errG"), ("disc_loss", "gen_loss")]


@pytest.mark.parametrize("names", NAMES)
def test_a_discriminator_without_mistakes_wins(names):
    report = stabdiag.diagnose(game(names=names))
    finding = report.diagnosis
    assert (finding.slug, finding.severity.value) == ("discriminator-wins", "warning")
    assert finding.evidence["generator_last"] > 10
    assert names[1] in finding.summary


def test_a_spike_of_a_discriminator_that_wins_is_not_the_diagnosis():
    spiked = np.where(np.isin(STEPS, (200, 201)), 1.2, WON)
    report = stabdiag.diagnose(game(spiked))
    assert report.diagnosis.slug == "discriminator-wins"
    assert "Keep the run going" not in report.diagnosis.first_action


@pytest.mark.parametrize("size", [15, 40])
def test_a_few_means_show_that_a_discriminator_wins(symptom, size):
    def means(values):
        return values.reshape(-1, size).mean(axis=1)

    log = {"step": means(STEPS), "d_loss": means(0.3 * WON), "g_loss": means(LOSING)}
    assert symptom("discriminator-wins", log) is not None
    log["g_loss"] = means(LOSING) / 8 + 1
    assert symptom("discriminator-wins", log) is None


@pytest.mark.parametrize(
    ("discriminator", "generator", "is_reported"),
    [
        ([0.68, 0.44, 0.3, 0.0004, 0.0003, 0.0003], [0.7, 0.9, 1.4, 10.2, 11.0, 10.8], True),
        ([0.68, 0.44, 0.3, 0.04, 0.02, 0.03], [0.7, 0.9, 1.4, 10.2, 11.0, 10.8], False),
        ([0.68, 0.44, 0.3, 0.0004, 0.0003, 0.0003], [0.7, 0.9, 1.4, 2.2, 2.1, 2.3], False),
        ([0.68, 0.44, 0.3, 0.31, 0.52, 0.0003], [0.7, 0.9, 1.4, 1.2, 1.0, 10.8], False),
    ],
)
def test_a_few_losses_show_a_clear_win(symptom, discriminator, generator, is_reported):
    log = {"step": range(6), "d_loss": discriminator, "g_loss": generator}
    assert (symptom("discriminator-wins", log) is not None) is is_reported


@pytest.mark.parametrize(
    ("every", "level", "is_reported"), [(9, 15, True), (3, 15, False), (9, 0, False)]
)
def test_a_log_may_begin_after_a_discriminator_has_won(symptom, every, level, is_reported):
    log = game(np.where(STEPS % every == 0, 0.2, 0.0), np.full(N, float(level)))
    finding = symptom("discriminator-wins", log)
    assert (finding is not None) is is_reported
    assert finding is None or finding.evidence["discriminator_zeros"] == np.sum(STEPS % every != 0)


@pytest.mark.parametrize(
    ("terms", "generator", "is_reported"),
    [(2, 0.693, True), (1, 0.693, True), (2, 0.95, False), (1.7, 0.693, False)],
)
def test_a_discriminator_that_answers_one_half_guesses(symptom, terms, generator, is_reported):
    at, end = np.arange(100), np.arange(60)
    rival = 0.3 + 0.2 * np.sin(at / 3)
    losses = 3.0 - rival
    rival[40:], losses[40:] = terms * np.log(2) + 0.003 * np.cos(end), generator
    run = {"epoch": at, "disc_loss": rival, "gen_loss": losses}
    finding = symptom("discriminator-wins", run)
    assert (finding is not None) == is_reported
    if is_reported:
        assert finding.title == "The discriminator guesses"
        assert stabdiag.diagnose(run).diagnosis.slug == "discriminator-wins"


def test_a_guess_at_the_start_is_a_note(symptom):
    at = np.arange(40)
    rival = 2 * np.log(2) + 0.02 * np.sin(at)
    finding = symptom("discriminator-wins", {"step": at, "disc_loss": rival, "gen_loss": rival / 2})
    assert finding.severity == "note"


def test_losses_that_swing_show_no_winner(symptom):
    swings = np.where(STEPS % 150 == 20, 9.0, WON)
    assert symptom("discriminator-wins", game(swings)) is None
    swings[N // 3 :] = WON[N // 3 :]
    assert symptom("discriminator-wins", game(swings)).step > 170


@pytest.mark.parametrize("names", NAMES)
def test_a_balanced_game_is_not_reported(names):
    report = stabdiag.diagnose(game(*BALANCED, names=names))
    assert report.diagnosis.slug == "insufficient-data"


def test_a_winner_next_to_a_calm_generator_is_not_reported(symptom):
    assert symptom("discriminator-wins", game(WON, BALANCED[1])) is None


def test_better_samples_outweigh_the_losses(symptom):
    fid = {"fid": np.where(STEPS % 30 == 29, 12 + 170 * DECAY, np.nan)}
    assert symptom("discriminator-wins", game(**fid)) is None


def test_a_game_is_healthy_if_its_samples_get_better():
    fid = {"fid": [12 + 170 * DECAY[step] if step % 30 == 29 else None for step in STEPS]}
    report = stabdiag.diagnose(game(*BALANCED, **fid))
    assert report.diagnosis.slug == "healthy"
    answers = {answer.question: answer for answer in report.tree.answers}
    assert "fid" in answers["Q4.1"].because
    fid = {"fid": [180 + NOISE[0][step] if step % 30 == 29 else None for step in STEPS]}
    assert stabdiag.diagnose(game(*BALANCED, **fid)).diagnosis.slug != "healthy"


def test_a_loss_that_falls_by_twelve_orders_was_not_too_large():
    won = 1e-12 + 0.7 * np.exp(-STEPS / 4)
    slugs = [finding.slug for finding in stabdiag.diagnose(game(won)).findings]
    assert "loss-implausible" not in slugs
    assert "discriminator-wins" in slugs
