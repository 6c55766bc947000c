"""Runs that are trained for a reward."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Verdict
from tests.tree.made import answer_to

EARNED = np.linspace(10.0, 200.0, 800)


def climbs(log):
    log["loss"] += np.linspace(0.0, 8.0, 800)


def jumps(log):
    log["loss"][400:] += 5.0


@pytest.mark.parametrize(
    ("damage", "question", "slug"),
    [(climbs, "Q4.1", "divergence-unexplained"), (jumps, "Q2.1", "spike-persistent")],
)
def test_the_loss_is_excused_while_the_reward_is_maintained(calm, damage, question, slug):
    log = calm()
    damage(log)
    assert stabdiag.diagnose(log).diagnosis.slug == slug
    log["reward"] = EARNED + np.random.default_rng(0).normal(0, 5, 800)
    report = stabdiag.diagnose(log)
    answer = answer_to(report, question)
    assert report.diagnosis.slug == "healthy"
    assert "'reward' did not fall" in report.diagnosis.summary
    assert answer.verdict is Verdict.NO
    assert answer.measured["reward_last"] == pytest.approx(200, abs=8)


FALLEN = np.concatenate([EARNED[::2], EARNED[::-2]])


def sagging(lost):
    return np.interp(np.arange(800), [0, 400, 799], [10.0, 200.0, 200.0 * (1 - lost)])


@pytest.mark.parametrize(
    ("damage", "column", "reward", "slug"),
    [
        (climbs, "reward", FALLEN, "divergence-unexplained"),
        (jumps, "rollout/ep_rew_mean", FALLEN, "spike-persistent"),
        (climbs, "charts/episodic_return", sagging(0.1), "healthy"),
        (climbs, "reward", sagging(0.5), "divergence-unexplained"),
        # Logged for the last time a little before the loss, and long before it.
        (climbs, "reward", np.append(EARNED[:760], [None] * 40), "healthy"),
        (climbs, "reward", np.append(EARNED[:400], [None] * 400), "divergence-unexplained"),
        (climbs, "reward", np.full(800, 0.5), "divergence-unexplained"),
    ],
)
def test_fallen_or_short_reward_does_not_explain_the_loss(calm, damage, column, reward, slug):
    log = calm()
    damage(log)
    log[column] = reward.tolist()
    assert stabdiag.diagnose(log).diagnosis.slug == slug


def test_a_reward_that_never_rose_excuses_no_explosion(calm):
    log = calm()
    log["reward"] = 50 + np.random.default_rng(1).normal(0, 5, 800)
    log["loss"] *= np.exp(np.linspace(0, 12, 800))
    finding = stabdiag.diagnose(log).diagnosis
    assert finding.slug == "divergence-unexplained"
    assert "reward" not in finding.summary
    log["reward"] = EARNED
    assert stabdiag.diagnose(log).diagnosis.slug == "healthy"


def test_no_reward_excuses_errors_beyond_all_values(calm):
    log = calm() | {"reward": EARNED}
    log["loss"] *= np.exp(np.linspace(0, 25, 800))
    assert stabdiag.diagnose(log).diagnosis.slug == "divergence-unexplained"


def test_fallen_reward_determines_the_sound_checkpoint(calm):
    log = calm()
    log["loss"] += np.arange(800) / 100  # from the first step on, as while a policy learns
    log["reward"] = np.interp(log["step"], [0, 500, 799], [10.0, 200.0, 50.0])
    finding = stabdiag.diagnose(log, settings={"checkpoint_every": 100}).diagnosis
    assert finding.slug == "divergence-unexplained"
    assert "'reward' fell from 19" in finding.summary
    assert finding.first_action.startswith("Reload the checkpoint of step 500, the last before the")
    assert "halve the learning rate to 0.0005 (now 0.001)" in finding.first_action


def test_a_reward_without_a_loss_excuses_nothing(calm):
    log = calm() | {"reward": EARNED}
    del log["loss"]
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "insufficient-data"
    text = f"{len(EARNED)} rewards from step 0 to {len(EARNED) - 1}. No loss was logged, so NaN"
    assert report.diagnosis.summary.startswith(text)


def summary_with(rewards):
    at = np.arange(1, len(rewards) + 1)
    log = {"step": at, "value_loss": 50.0 / at, "ep_rew_mean": np.array(rewards)}
    return stabdiag.diagnose(log).diagnosis.summary


@pytest.mark.parametrize(
    ("rewards", "since"),
    [
        ([np.nan], ""),
        ([np.nan] * 3, " from step 1 on"),
        ([2.5, np.nan, np.nan], " from step 2 on"),
    ],
)
def test_rewards_that_are_not_finite_at_the_end_of_a_short_log(rewards, since):
    text = f"The reward 'ep_rew_mean' is not finite{since}: no episode ended"
    assert text in summary_with(rewards)


@pytest.mark.parametrize("rewards", [[np.nan, np.nan, 2.5], [1.5, 2.5, np.nan], [1.5]])
def test_rewards_without_an_episode_at_one_step_are_not_reported(rewards):
    assert "no episode ended" not in summary_with(rewards)


@pytest.mark.parametrize("divergence", ["kl", "rewards_train/KL"])
def test_a_few_rewards_next_to_a_divergence_are_of_a_policy(divergence):
    at = np.arange(1, 16)
    log = {"step": at, "loss": 9.3e-5 * at, divergence: 1e-3 * at, "reward": 0.3 + 0.1 * (at % 3)}
    assert stabdiag.diagnose(log).diagnosis.slug == "insufficient-data"


def test_a_policy_without_any_reward_is_not_judged_by_its_loss():
    at = np.arange(1, 301)
    log = {"step": at, "loss": 1e-5 * at, "kl": 1e-3 * at, "reward": np.zeros(300)}
    finding = stabdiag.diagnose(log).diagnosis
    assert (finding.slug, finding.severity) == ("reward-not-rising", "warning")


def returns(growth, **others):
    rng = np.random.default_rng(3)
    at = np.arange(300)
    loss = 0.4 * growth(at / 300) * rng.uniform(0.8, 1.2, 300)
    return {"step": at * 100, "loss": loss, **others}


FALLING = np.maximum(0.05, 0.98 ** np.arange(300))


def test_a_loss_may_grow_while_the_run_explores_less():
    grows = lambda x: 1 + 40 * x  # noqa: E731
    assert stabdiag.diagnose(returns(grows)).diagnosis.slug == "divergence-unexplained"
    for name in ("epsilon", "eps"):
        report = stabdiag.diagnose(returns(grows, **{name: FALLING}))
        assert report.diagnosis.slug == "insufficient-data"
        assert answer_to(report, "Q4.1").verdict is Verdict.UNKNOWN
    # The epsilon of an adversary, and of an optimizer.
    for epsilon in (FALLING[::-1], np.full(300, 1e-8)):
        report = stabdiag.diagnose(returns(grows, epsilon=epsilon))
        assert answer_to(report, "Q4.1").verdict is not Verdict.UNKNOWN


def test_a_loss_that_falls_while_the_run_explores_less_is_healthy():
    report = stabdiag.diagnose(returns(lambda x: 0.1 + np.exp(-5 * x), epsilon=FALLING))
    assert report.diagnosis.slug == "healthy"


def test_no_return_grows_a_million_times():
    report = stabdiag.diagnose(returns(lambda x: 1e7**x, epsilon=FALLING))
    assert report.diagnosis.slug == "divergence-unexplained"


def test_a_constant_reward_says_nothing_about_a_value_loss():
    log = returns(lambda x: 1 + 40 * x, reward=np.full(300, -21.0))
    log["critic_loss"] = log.pop("loss")
    assert answer_to(stabdiag.diagnose(log), "Q4.1").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("growth", "excused"), [(3, True), (-3, False)])
def test_a_few_rewards_that_rise_excuse_a_value_loss(growth, excused):
    at = np.arange(1, 13)
    log = {"step": at, "critic_loss": 2 + 0.4 * at, "reward": 40 + growth * at}
    verdict = answer_to(stabdiag.diagnose(log), "Q4.1").verdict
    assert verdict is (Verdict.NO if excused else Verdict.YES)
