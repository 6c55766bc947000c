"""What recurs is a habit, what stands alone is a spike."""

import numpy as np
import pytest

from stabdiag.stats.shape import Reach
from stabdiag.stats.spikes import find_spikes

REACH = Reach(window=100, least=30, recovery=50)


def noise(n=1500):
    return 2.0 + 0.1 * np.random.default_rng(7).standard_normal(n)


def onsets(x, suspect=None):
    return [s.onset for s in find_spikes(x, REACH, 3.0, 0.005, 0.02, suspect=suspect).spikes]


def test_a_hard_batch_every_sixty_steps_is_a_habit():
    x = noise()
    x[90::60] += np.random.default_rng(8).uniform(1.0, 1.6, len(x[90::60]))
    assert onsets(x) == []


@pytest.mark.parametrize(("count", "habit"), [(1, False), (2, False), (3, True)])
def test_three_in_a_short_log_are_a_habit(count, habit):
    x = noise(600)
    places = [200, 350, 500][:count]
    x[places] += 1.5
    assert onsets(x) == ([] if habit else places)


def test_a_spike_far_above_the_hard_batches_is_found_among_them():
    x = noise()
    x[90::60] += 0.8
    x[1000] += 6.0
    assert onsets(x) == [1000]


def test_shards_that_are_harder_by_turns_are_a_habit():
    x = noise()
    x += 0.8 * ((np.arange(len(x)) // 150) % 2)
    assert onsets(x) == []


def test_what_follows_a_break_does_not_excuse_it():
    x = noise()
    x[700:] += 5.0
    x[900::40] += 8.0
    assert onsets(x)[0] == 700


def test_a_logged_cause_is_not_excused_by_habit():
    x = noise()
    x[[300, 500, 800, 1000, 1200]] += 1.5
    cause = np.zeros(len(x), dtype=bool)
    cause[1000:1010] = True
    assert onsets(x) == []
    assert onsets(x, cause) == [1000]


def test_a_long_log_is_judged_by_whole_windows_from_its_start_on():
    x = np.linspace(3.0, 2.0, 300_000) + 0.1 * np.random.default_rng(9).standard_normal(300_000)
    assert onsets(x) == []


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_points_that_are_often_high_are_so_together_now_and_then(share):
    # Without the chance that is counted off the run itself, a third to a half of these have spikes.
    flagged = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        x = 0.05 + 0.01 * draw.standard_normal(2000)
        x[draw.random(2000) < share] += 1.0 + 0.2 * draw.standard_normal()
        flagged += len(onsets(x)) > 0
    assert flagged <= 1


@pytest.mark.parametrize("freedom", [3, 4])
def test_the_farthest_of_squared_heavy_tailed_errors_is_seldom_a_spike(freedom):
    # Without a look at the gaps every fifth of these has spikes.
    flagged = 0
    for seed in range(100):
        errors = np.random.default_rng(seed).standard_t(freedom, (1000, 4))
        flagged += len(onsets(np.mean(errors**2, axis=1))) > 0
    assert flagged <= 12


@pytest.mark.parametrize(("count", "found"), [(3, 3), (18, 0)])
def test_three_spikes_are_single_events_but_not_any_number(count, found):
    x = noise(15_000)
    x[np.linspace(500, 14_500, count).astype(int)] += 1.5
    assert len(onsets(x)) == found


@pytest.mark.parametrize(("lasts", "noisy", "found"), [(20, 0.4, 1.5), (1, 0.5, 2.5)])
def test_what_the_noise_of_the_run_reaches_elsewhere_is_no_spike(lasts, noisy, found):
    at = np.arange(1200)
    rng = np.random.default_rng(1)
    wide = 0.3 * rng.standard_normal(1200) + 0.13 * waves(rng, 1200)
    x = 2 + np.exp(-at / 50) + np.where(at < 500, wide, 0.02 * rng.standard_normal(1200))
    x[900 : 900 + lasts] += noisy
    assert not [onset for onset in onsets(x) if onset > 800]
    x[900 : 900 + lasts] += found - noisy
    assert [onset for onset in onsets(x) if onset > 800]


def waves(rng, n):
    """Noise that goes together for some twenty points, of about unit deviation."""
    smooth = np.convolve(rng.standard_normal(n + 19), np.ones(20), "valid")
    return smooth / np.sqrt(20)
