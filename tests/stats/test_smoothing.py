"""Moving averages: their recognition, and the correction of one that starts at zero."""

import numpy as np
import pytest

from stabdiag.assemble.means import corrected_average
from stabdiag.stats.smoothing import chance_start, find_average, single_value_sigma

STEPS = 1_000


def noise(seed=0, level=2.0, sigma=0.2):
    return level + np.random.default_rng(seed).normal(0, sigma, STEPS)


def exponential(values, decay, first=None):
    average, out = values[0] if first is None else first, []
    for value in values:
        average = decay * average + (1 - decay) * value
        out.append(average)
    return np.array(out)


def window(values, size):
    return np.array([values[max(0, i - size + 1) : i + 1].mean() for i in range(len(values))])


@pytest.mark.parametrize("decay", [0.9, 0.98, 0.99])
@pytest.mark.parametrize("fall", [0.0, 2.0])
def test_an_average_that_starts_at_zero_is_corrected(decay, fall):
    values = noise() + fall * np.exp(-np.arange(STEPS) / 300)
    corrected = corrected_average(exponential(values, decay, first=0.0))
    assert corrected is not None
    usual = exponential(values, decay)
    assert np.abs(corrected - usual).max() < 0.5 * usual[0]
    assert corrected[-1] == pytest.approx(usual[-1], rel=1e-3)


@pytest.mark.parametrize(
    "x",
    [
        noise(),
        exponential(noise(), 0.98),
        window(noise(), 100),
        # A loss that explodes in its first steps, or grows without reaching a level.
        np.where(np.arange(STEPS) < 5, 0.2, noise(level=9.0)),
        0.2 * np.exp(np.arange(STEPS) / 250),
        # It rises to its level too slowly for its first value.
        2.0 - 1.9 * np.exp(-np.arange(STEPS) / 200),
    ],
    ids=["noise", "average", "window", "explosion", "growth", "slow"],
)
def test_other_series_are_not_corrected(x):
    assert corrected_average(x) is None


@pytest.mark.parametrize(
    ("x", "memory"),
    [(exponential(noise(), 0.95), 20), (exponential(noise(), 0.98), 50), (window(noise(), 50), 50)],
)
def test_an_average_is_recognized_with_its_memory(x, memory):
    average = find_average(x)
    assert average is not None
    assert memory / 2 < 1 / average.weight < 2 * memory
    assert average.value_sigma == pytest.approx(0.2, rel=0.5)
    assert single_value_sigma(x) == average.value_sigma


@pytest.mark.parametrize(
    "x",
    [
        noise(),
        # A climb, a step and a smooth curve are not averages.
        noise() + np.linspace(0, 4, STEPS) ** 2,
        noise() + np.where(np.arange(STEPS) > 700, 3.0, 0.0),
        3.0 * np.exp(-np.arange(STEPS) / 300),
        np.full(STEPS, 2.0),
        noise()[:50],
    ],
    ids=["noise", "climb", "step", "smooth", "constant", "short"],
)
def test_other_series_are_not_averages(x):
    assert find_average(x) is None


def test_a_low_first_value_of_an_average_is_chance_and_an_explosion_is_not():
    values = noise()
    values[0] = 1.6  # two deviations
    low = exponential(values, 0.98)
    assert chance_start(low, find_average(low)) > 50
    values[0] = 0.5
    exploded = exponential(values, 0.98)
    assert chance_start(exploded, find_average(exploded)) == 0
    assert chance_start(values, find_average(values)) == 0


def test_a_rounded_average_is_recognized():
    x = window(noise(sigma=0.5), 200)
    assert find_average(np.round(x, 3)) is not None


def test_a_wave_is_not_an_average():
    wave = np.sin(np.arange(STEPS) / 4)
    assert find_average(noise(sigma=0.1) + wave) is None


def test_the_mean_of_many_averages_varies_less():
    average = find_average(exponential(noise(), 0.95))
    assert average.level_sigma(1_000) < 0.5 * average.level_sigma(10) == 0.5 * average.sigma


def test_spikes_that_decay_do_not_make_an_average():
    rng = np.random.default_rng(0)
    x = 1.2 + rng.normal(0, 0.012, 400)
    for at in (40, 110, 180, 260, 330):
        x[at : at + 30] += 0.8 * np.exp(-np.arange(30) / 5)
    assert find_average(x) is None
