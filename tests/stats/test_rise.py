"""A net increase of the loss that did not recover."""

import numpy as np
import pytest

from stabdiag.stats.rise import net_rise


def falling(seed, n=1000):
    rng = np.random.default_rng(seed)
    return 2.0 + 2.0 * np.exp(-np.arange(n) / 200) + 0.05 * rng.standard_normal(n)


@pytest.mark.parametrize("window", [8, 9])
def test_ten_points_are_the_least(window):
    assert net_rise(np.arange(9, dtype=np.float64), window, 0.001) is None
    assert net_rise(np.arange(10, dtype=np.float64), window, 0.001) is not None


@pytest.mark.parametrize(
    ("losses", "climbs"),
    [
        ([2.77, 3.5, 4.4, 5.6, 7.0, 8.7, 10.9], True),
        ([9.0, 5.0, 2.0, 1.5, 1.7, 1.9, 2.2, 2.5, 2.9], True),
        ([2.77, 3.5, 4.4, 5.6, 7.0], False),
        ([2.77, 3.5, 4.4, 5.6, 5.5, 8.7, 10.9], False),
        ([2.77, 2.8, 2.9, 3.0, 3.1, 3.2, 3.3], False),
        ([7.1, 19.0, 74.0], True),
        ([7.1, 19.0, 60.0], False),
        ([0.4, 0.5, 30.0], False),
        ([0.02, 0.09, 0.41], False),
        ([2.2, 79.4, 79.4, 79.4], True),
        ([2.2, 79.4, 79.4, 79.4, 8.0], False),
        ([0.03, 2.2, 2.1, 2.3], False),
        # It falls again, and ends far above its start or near it.
        ([850.0, 1.6e6, 1.1e6, 3.5e5], True),
        ([850.0, 1.6e6, 1.1e6, 8.4e3], False),
        ([0.003, 2.2, 2.1, 0.9], False),
        ([], False),
    ],
)
def test_a_climb_shows_in_a_few_losses(losses, climbs):
    assert (net_rise(np.array(losses), 200, 0.001) is not None) is climbs


def test_a_climb_to_the_end():
    x = falling(0)
    x[700:] += np.linspace(0, 3.0, 300)
    rise = net_rise(x, 200, 0.001)
    assert rise.amount == pytest.approx(3.0, abs=0.5)
    assert rise.amount > rise.bar
    assert rise.p_value < 1e-6
    assert rise.recent_p_value < 1e-6
    assert 600 <= rise.onset <= 800
    assert rise.best <= rise.onset < rise.crest <= 999
    assert rise.progress == pytest.approx(2.0, abs=0.3)


def test_a_climb_is_made_good_by_the_last_few_losses():
    x = 3.7 + np.exp(-np.arange(80) / 10)
    x[57:75] += np.linspace(4.0, 20.0, 18)
    rise = net_rise(x, 20, 0.001)
    assert rise.amount <= rise.bar
    x[75:] += 0.3
    still = net_rise(x, 20, 0.001)
    assert still.amount > still.bar


def test_a_constant_does_not_rise():
    rise = net_rise(np.full(400, 2.5), 200, 0.001)
    assert rise.amount == 0.0
    assert rise.bar > 0.0
    assert rise.p_value == 1.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("climbing", [300, 1000, 3000])
@pytest.mark.parametrize(("noise", "late"), [(0.02, 0.05), (0.1, 0.06), (0.2, 0.14)])
def test_a_climb_begins_where_a_tenth_of_it_is_made(seed, climbing, noise, late):
    n = 2000 + climbing + 500
    x = 2.0 + np.exp(-np.arange(n) / 400) + noise * np.random.default_rng(seed).standard_normal(n)
    x += np.clip((np.arange(n) - 2000) / climbing, 0, 1)
    rise = net_rise(x, 200, 0.001)
    assert (rise.onset - 2000) / climbing == pytest.approx(0.08, abs=late)


def test_a_bump_before_a_climb_does_not_begin_it():
    x = 2.0 + 0.01 * np.random.default_rng(0).standard_normal(2000)
    x[800:820] += 0.5
    x[1200:] += np.linspace(0, 1, 800)
    rise = net_rise(x, 200, 0.001)
    assert 1250 < rise.onset < 1320


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.01])
@pytest.mark.parametrize(("points", "period"), [(60, 7), (100, 9), (200, 25), (300, 7), (1000, 9)])
def test_a_periodic_loss_does_not_rise(points, period, noise):
    # The mean of 20 points depends on the phase of a period of 9; the mean of 18 points does not.
    x = np.arange(points) % period / period
    x += np.random.default_rng(points).normal(0.0, noise, points)
    rise = net_rise(x, min(points, 200), 0.001)
    assert rise.amount < 2.5 * rise.bar


@pytest.mark.parametrize("seed", [4, 7, 16])
def test_the_return_from_a_short_dip_is_not_a_climb(seed):
    at = np.arange(600)
    x = 1.85 + 0.7 * np.exp(-at / 50) + 0.06 * np.random.default_rng(seed).standard_normal(600)
    dip = net_rise(x - 0.1 * np.clip(1 - np.abs(at - 190) / 40, 0, 1), 100, 0.001)
    assert dip.amount <= dip.bar
    # The same rise, from a level that lasted.
    climb = net_rise(x + 0.1 * np.clip((at - 190) / 40, 0, 1), 100, 0.001)
    assert climb.amount > climb.bar
    assert climb.p_value < 0.001
    # And at the end, where no level follows it.
    late = net_rise(x + 0.3 * np.clip((at - 560) / 40, 0, 1), 100, 0.001)
    assert late.amount > late.bar
