"""The limit that a whole log of a run's own noise exceeds by chance."""

import numpy as np
import pytest

from stabdiag.stats.tails import medians_tail, noise_tail

NOISES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "t5": lambda rng, n: rng.standard_t(5, n),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 0.5, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "uniform": lambda rng, n: rng.random(n),
}


def family_limit(x, false_alarm, tests=None):
    """The score that noise exceeds with this chance anywhere among its points."""
    chance = min(false_alarm / (tests or len(x)), 0.25)
    return noise_tail(x, chance).exceeded_with_chance(chance)


@pytest.mark.parametrize("count", [5, 10])
@pytest.mark.parametrize("name", NOISES)
def test_medians_rarely_exceed_their_own_limit(name, count):
    rng = np.random.default_rng([count, *name.encode()])
    runs, n = 150, 1000
    false_positives = 0
    for _ in range(runs):
        x = NOISES[name](rng, n * count).reshape(n, count)
        tail = noise_tail(x[:, 0], 1e-5)
        medians = np.median(x, axis=1)
        limit = medians_tail(tail, medians, count).exceeded_with_chance(0.01 / n)
        false_positives += int(medians.max() > limit)
    assert false_positives / runs <= 0.08


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("name", NOISES)
def test_noise_rarely_exceeds_its_own_limit(name, n):
    rng = np.random.default_rng([n, *name.encode()])
    runs = 150
    false_positives = 0
    for _ in range(runs):
        x = NOISES[name](rng, n)
        false_positives += int(x.max() > family_limit(x, 0.01))
    # The nominal rate is 1 in 100; a fitted tail is not exact, so allow for more.
    assert false_positives / runs <= 0.08


def test_a_spike_does_not_raise_the_bar_for_itself():
    x = np.random.default_rng(1).standard_normal(1000)
    before = family_limit(x, 0.01)
    x[500:506] = 50.0
    assert family_limit(x, 0.01) == pytest.approx(before, rel=0.2)
    assert family_limit(x, 0.01) < 50.0


@pytest.mark.parametrize("shift", [0.0, -7.0, 1000.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_limit_moves_with_the_scores(shift, scale):
    x = np.random.default_rng(4).standard_normal(400)
    expected = shift + scale * family_limit(x, 0.01)
    assert family_limit(shift + scale * x, 0.01) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 5, 31])
def test_short_and_constant_samples_have_a_limit(n):
    assert np.isfinite(family_limit(np.zeros(n), 0.01))
    assert np.isfinite(family_limit(np.arange(n, dtype=np.float64), 0.01))


@pytest.mark.parametrize("zeros", [0.6, 0.9, 0.97])
def test_a_sample_that_is_mostly_one_value_is_judged_by_the_others(zeros):
    rng = np.random.default_rng(3)
    x = np.where(rng.random(4000) < zeros, 0.0, rng.exponential(0.01, 4000))
    assert 0.5 * x.max() < family_limit(x, 0.5) < 100 * x.max()
