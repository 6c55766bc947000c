"""A reward that fell, or never rose."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError

N = 400
STEPS = np.arange(N)
NOISE = np.random.default_rng(5).normal(0, 2, N)
PART = STEPS / N


def log(reward, **columns):
    return {"step": STEPS, "loss": 0.1 * NOISE, "episode_reward": reward} | columns


UP_AND_DOWN = np.interp(PART, [0, 0.4, 0.5, 0.6, 1], [20.0, 200.0, 200.0, 20.0, 20.0])
DIPS = np.interp(PART, [0, 0.4, 0.5, 0.6, 1], [20.0, 200.0, 200.0, 80.0, 80.0])
FLAT = 20 + NOISE
# Two enormous rewards at the beginning: the others do not fall.
LUCKY = np.where(np.isin(STEPS, (3, 9)), 90_000.0, 700 + 900 * PART + 100 * NOISE)
# Few episodes reach a reward.
RARE = (np.random.default_rng(1).random(N) < 0.02) * 1.0


@pytest.mark.parametrize(
    ("run", "title", "severity", "first"),
    [
        (log(UP_AND_DOWN + NOISE), "The reward fell and stayed down", "error", "Reload the last"),
        (log(DIPS + NOISE), "The reward fell and stayed down", "warning", "Reload the last"),
        # A tenth or more of the gain is left: an error up to there.
        (log(UP_AND_DOWN + 14 * (PART > 0.6) + NOISE), *("The reward fell", "error", "Reload")),
        (log(UP_AND_DOWN + 30 * (PART > 0.6) + NOISE), *("The reward fell", "warning", "Reload")),
        (
            {name: values[::5] for name, values in log(UP_AND_DOWN + NOISE).items()},
            *("The reward fell and stayed down", "error", "Reload the last"),
        ),
        (log(FLAT), "The reward does not rise", "warning", "Run the same code"),
        (log(RARE), "The reward does not rise", "warning", "Run the same code"),
        (log(np.full(N, -200.0)), "The reward does not rise", "warning", "Run the same code"),
        (log(FLAT, lr=np.zeros(N)), "", "warning", "Find out why the learning rate is 0"),
    ],
)
def test_reward_that_fails_is_reported(symptom, run, title, severity, first):
    finding = symptom("reward-not-rising", run)
    assert title in finding.title
    assert finding.severity.value == severity
    assert finding.first_action.startswith(first)


@pytest.mark.parametrize(
    "run",
    [
        log(20 + 20 * PART + NOISE),
        # In stages, up and down by less than a quarter, and solved from the start.
        log(np.where(PART < 0.8, 20, 60) + NOISE),
        log(UP_AND_DOWN[: N // 2].repeat(2) * (1 - 0.1 * (PART > 0.9)) + NOISE),
        log(np.minimum(500, 505 + NOISE)),
        log(np.full(N, 500.0)),
        log(LUCKY),
        log(np.maximum(DIPS, np.where(PART > 0.5, 130, 0)) + NOISE),
        # A log that begins in mid-run, and a short one.
        log(FLAT) | {"step": 10_000 + STEPS},
        {name: values[:90] for name, values in log(FLAT).items()},
    ],
)
def test_near_miss_is_not_reported(symptom, run):
    assert symptom("reward-not-rising", run) is None


def test_a_better_episode_among_equal_ones_is_no_fall(symptom):
    reward = np.where(np.arange(58) == 53, 0.0, -1.0)
    finding = symptom("reward-not-rising", {"step": 10 * np.arange(58), "reward": reward})
    assert finding is None or "fell" not in finding.title


def test_a_log_of_rewards_alone():
    run = {"episode": STEPS, "reward": UP_AND_DOWN + NOISE, "length": np.full(N, 200.0)}
    report = stabdiag.diagnose(run)
    assert report.diagnosis.slug == "reward-not-rising"
    assert report.diagnosis.severity.value == "error"
    assert stabdiag.diagnose(run | {"reward": FLAT}).diagnosis.slug == "reward-not-rising"
    # The log does not say whether more than the rising reward was to be checked.
    risen = stabdiag.diagnose(run | {"reward": 20 + 20 * PART + NOISE})
    assert risen.diagnosis.slug == "insufficient-data"
    assert risen.diagnosis.title.endswith("improves, but no loss was logged")
    assert "The reward (medians of tenths) went from 20" in risen.diagnosis.summary
    # If episodes are counted, the score is the objective of a game.
    scores = {"Mean Score": run["reward"], "length": run["length"]}
    assert stabdiag.diagnose(scores | {"episode": STEPS}).diagnosis.slug == "reward-not-rising"
    with pytest.raises(LogError, match="no column looks like a training loss"):
        stabdiag.diagnose(scores | {"epoch": STEPS})


def test_a_loss_that_jumps_while_the_reward_rises_is_not_its_cause():
    loss = 1 + 0.1 * NOISE
    loss[60:90] += 40
    report = stabdiag.diagnose(log(UP_AND_DOWN + NOISE, loss=loss))
    assert [item.slug for item in report.findings] == ["reward-not-rising"]


@pytest.mark.parametrize(
    ("last", "is_present"), [(1e-4, True), (0.01, True), (0.05, False), (-0.5, False)]
)
def test_a_policy_without_entropy_is_a_note(symptom, last, is_present):
    entropy = last + 1.4 * np.exp(-STEPS / 20)
    finding = symptom("policy-entropy-collapsed", log(20 + STEPS + NOISE, entropy=entropy))
    assert (finding is not None) == is_present
    if finding:
        assert finding.severity.value == "note"


@pytest.mark.parametrize(("last", "first", "is_present"), [(90, 0.02, True), (9, 0.02, False)])
def test_a_policy_far_from_its_reference_is_a_note(symptom, last, first, is_present):
    kl = np.geomspace(first, last, N)
    finding = symptom("policy-drifts", log(20 + STEPS + NOISE, kl=kl))
    assert (finding is not None) == is_present


def test_a_high_but_steady_distance_is_no_drift(symptom):
    assert symptom("policy-drifts", log(20 + STEPS + NOISE, kl=np.full(N, 40.0))) is None


@pytest.mark.parametrize(
    ("last", "begin"),
    [(0.001, "Raise the weight of the entropy bonus"), (1.0, "Run the same code")],
)
def test_a_flat_reward_without_exploration_needs_entropy(symptom, last, begin):
    entropy = last + 1.4 * np.exp(-STEPS / 20)
    finding = symptom("reward-not-rising", log(20 + NOISE, entropy=entropy))
    assert finding.first_action.startswith(begin)
    assert not any("entropy," in action.text for action in finding.actions)


def rewards(bad):
    """Return a log of 200 rising rewards, some of them NaN."""
    at = np.arange(200)
    reward = 400 * (1 - np.exp(-at / 50)) + np.random.default_rng(1).normal(0, 5, 200)
    reward[bad] = np.nan
    return {"step": at * 1000, "episodic_return": reward}


def test_a_reward_that_is_nan_to_the_end_is_reported():
    diagnosis = stabdiag.diagnose(rewards(slice(120, None))).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("reward-not-rising", 120_000)
    assert diagnosis.title == "The reward is not finite"
    assert diagnosis.severity == "warning"


@pytest.mark.parametrize(
    "bad",
    [slice(0, 12), slice(5, None, 7), slice(197, None)],
    ids=["no episode has ended yet", "occasionally", "the last records"],
)
def test_a_reward_without_an_episode_is_not_a_failure(bad):
    report = stabdiag.diagnose(rewards(bad))
    assert "reward-not-rising" not in {finding.slug for finding in report.findings}


def few(rewards):
    return {"step": range(len(rewards)), "reward": rewards}


@pytest.mark.parametrize(
    ("rewards", "title"),
    [
        ([22.6, 20.3, 17, 14.9, 14.2, 14.1, 13.8, 14.1], "The reward falls"),
        ([-10, -14, -19, -22, -21, -30, -33, -35, -36], "The reward falls"),
        ([1.2, 1.3, -3.6, -3.9, -31.7, -88.3], "The reward falls"),
        ([12, 9, 7, 5, 3, 1], None),
        ([3.8] * 6, "The reward never changes"),
        ([3.8] * 5, None),
        # Too small, too short, not to the end, up and down
        ([22.6, 22.3, 22, 21.9, 21.2, 21.1, 20.8, 20.1], None),
        ([22.6, 20.3, 17, 14.9, 14.2, 14.1, 13.8], None),
        ([22.6, 20.3, 17, 14.9, 14.2, 14.1, 13.8, 24.1], None),
        ([22, 9, 24, 12, 18, 7, 14, 21, 9, 8, 13], None),
        ([-10, -9, -7, -5, -4, -1, 0, 0, 0, 0], None),
    ],
)
def test_a_few_rewards(rewards, title):
    slug = "reward-not-rising"
    findings = [f for f in stabdiag.diagnose(few(rewards)).findings if f.slug == slug]
    assert [f.title for f in findings] == ([] if title is None else [title])
