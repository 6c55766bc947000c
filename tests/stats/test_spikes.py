"""Spikes: single points and lasting shifts, in noise of every kind."""

from dataclasses import replace

import numpy as np
import pytest

from stabdiag.stats.events import change_point
from stabdiag.stats.rolling import baseline
from stabdiag.stats.shape import SearchWindows, Spike, late_recovery, rise_points
from stabdiag.stats.spikes import outliers, with_rise_as_onset
from stabdiag.tree.classify import find_spikes

REACH = SearchWindows(window=100, least=30, recovery=50)


def scan(x):
    return find_spikes(x, REACH, 3.0, 0.01, 0.02)


def onsets(x, after_logged_cause=None):
    result = find_spikes(x, REACH, 3.0, 0.01, 0.02, after_logged_cause=after_logged_cause)
    return [spike.onset for spike in result.spikes]


def calm(seed=0, n=1000, noise=0.05):
    """A loss that falls from 4 to 2 with a little noise."""
    rng = np.random.default_rng(seed)
    return 2.0 + 2.0 * np.exp(-np.arange(n) / (n / 4)) + noise * rng.standard_normal(n)


@pytest.mark.parametrize("at", [40, 150, 500, 900])
def test_a_single_high_point_is_a_spike(at):
    x = calm()
    x[at] += 3.0
    (spike,) = scan(x).spikes
    assert (spike.onset, spike.peak) == (at, at)
    assert spike.recovered is True
    assert spike.end - at <= 10
    assert spike.height == pytest.approx(3.0, abs=0.5)
    assert spike.score > scan(x).limit


@pytest.mark.parametrize("n", [130, 160, 200, 300, 450])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_up_on_a_descent_shows_though_its_window_is_wider_than_its_noise(n, seed):
    at = int(0.6 * n)
    x = 1.0 + 1.5 * np.exp(-np.arange(n) / (n / 4))
    x += 0.05 * np.random.default_rng(seed).standard_normal(n)
    assert onsets(x) == []
    x[at:] += 0.6
    (spike,) = scan(x).spikes
    assert (spike.onset, spike.recovered) == (at, False if n - at >= REACH.recovery else None)


@pytest.mark.parametrize(("sigmas", "count"), [(15, 1), (4, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_a_high_point_on_a_descent_is_compared_with_the_noise_and_not_the_slope(
    seed, sigmas, count
):
    x = 2.0 + 1.5 * np.exp(-np.arange(2000) / 200)
    x += 0.02 * np.random.default_rng(seed).standard_normal(2000)
    x[330] += sigmas * 0.02
    assert len(onsets(x)) == count


def epochs(*factors, n=30):
    """Losses of epochs, some of them times a factor."""
    x = 0.2 + 2.0 * np.exp(-np.arange(n) / 6)
    x *= np.exp(0.04 * np.random.default_rng(0).standard_normal(n))
    for at, factor in factors:
        x[at] *= factor
    return x


def towers(x):
    result = find_spikes(
        x, SearchWindows(window=100, least=20, recovery=3), 3.0, 0.01, 0.02, of_means=True
    )
    return [spike.onset for spike in result.spikes]


@pytest.mark.parametrize("at", [12, 15, 25])
def test_an_epoch_unlike_all_others_is_a_spike(at):
    assert towers(epochs((at, 6.0))) == [at]
    # The loss of a single batch may do so.
    assert onsets(epochs((at, 6.0))) == []
    # However little those before it vary.
    assert towers(np.where(np.arange(30) == at, 6.0, 1.0)) == [at]


@pytest.mark.parametrize(
    "x",
    [
        epochs(),
        epochs((12, 2.0)),  # not above the five before by three times their range
        epochs((15, 6.0), (22, 5.0)),  # not the only one
        3.0 + 0.1 * epochs((15, 8.0)),  # less than half as high again as those before
        epochs((15, 6.0)) - 0.4,  # a loss that may be negative has no times
        epochs(n=5),
    ],
    ids=["calm", "low", "two", "flat", "negative", "few"],
)
def test_other_epochs_are_none(x):
    assert towers(x) == []


def test_a_logged_cause_lowers_the_threshold():
    x = calm(4, noise=0.2)
    x[600:608] += 0.2
    after_logged_cause = np.zeros(1000, dtype=bool)
    after_logged_cause[598:620] = True
    assert not onsets(x)
    result = find_spikes(x, REACH, 3.0, 0.01, 0.02, after_logged_cause=after_logged_cause).spikes
    assert [spike.onset for spike in result if 595 <= spike.onset <= 608]


def test_earlier_spikes_do_not_mask_later_ones():
    x = calm(n=1500)
    for at, height in ((300, 50.0), (340, 20.0), (700, 5.0), (760, 1.0)):
        x[at] += height
    assert onsets(x) == [300, 340, 700, 760]


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("normal", lambda rng, n: rng.standard_normal(n)),
        ("t5", lambda rng, n: rng.standard_t(5, n)),
        ("lognormal", lambda rng, n: rng.lognormal(0.0, 0.5, n)),
        ("uniform", lambda rng, n: rng.random(n)),
    ],
)
def test_noise_has_no_spikes(name, noise):
    rng = np.random.default_rng([7, *name.encode()])
    runs = 40
    false_positives = sum(
        bool(onsets(calm(noise=0.0) + 0.05 * noise(rng, 1000))) for _ in range(runs)
    )
    assert false_positives / runs <= 0.1


def test_a_steady_climb_takes_its_time_and_a_spike_does_not():
    jump, climb = calm(), calm()
    jump[500:] += 4.0
    climb[500:700] += np.linspace(0, 4.0, 200)
    climb[700:] += 4.0
    (spike,) = scan(jump).spikes
    assert rise_points(jump, spike.onset, REACH) <= 3
    assert all(rise_points(climb, result.onset, REACH) > 25 for result in scan(climb).spikes)


@pytest.mark.parametrize("n", [0, 1, 2, 30, 31])
def test_too_few_points_are_not_tested(n):
    result = find_spikes(np.arange(n, dtype=np.float64), REACH, 3.0, 0.01, 0.0)
    assert (result.spikes, result.tested) == ((), 0)


@pytest.mark.parametrize("n", [32, 60, 400])
def test_a_constant_has_no_spikes(n):
    result = find_spikes(np.full(n, 2.5), REACH, 3.0, 0.01, 0.0)
    assert result.spikes == ()
    assert result.tested == n - 30


def test_one_point_off_a_constant_is_a_spike():
    x = np.full(300, 2.5)
    x[200] = 3.0
    assert onsets(x) == [200]


@pytest.mark.parametrize("seed", [3, 6, 25, 33, 42])
def test_a_last_digit_that_moves_is_not_a_spike(seed):
    at, draw = np.arange(600), np.random.default_rng(seed)
    x = 2 + np.exp(-at / 150) + 0.03 * draw.standard_normal(600) + 0.05 * np.sin(at / 40)
    assert onsets(np.round(x, 1)) == []


# To the letter.


def test_to_the_letter_every_exceedance_is_a_spike():
    x = np.tile([1.0, 1.1], 200)
    x[[200, 300]] = 1.3
    result = outliers(x, 100, REACH, 3.0)
    assert [spike.onset for spike in result.spikes] == [200, 300]
    assert [spike.recovered for spike in result.spikes] == [True, True]
    assert result.tested == 299  # from the step after the first window on
    assert result.limit == 3.0
    assert result.largest_at == 200


@np.errstate(all="ignore")  # as all that calls it has
def test_to_the_letter_a_step_up_from_a_constant_is_a_spike():
    x = np.append(np.full(150, 2.0), np.full(100, 2.5))
    result = outliers(x, 100, REACH, 3.0)
    assert result.spikes[0].onset == 150


@pytest.mark.parametrize(
    ("after", "recovered"),
    [([-0.1] * 2, None), ([-0.1] * 3, True), ([-0.1] * 5, True), ([-0.1, 0.5, -0.1], None)],
    ids=["two", "three", "five", "one of them high"],
)
def test_a_few_points_at_the_end_show_that_a_spike_is_over(after, recovered):
    x = calm()[: 701 + len(after)]
    x[700] += 3.0
    x[701:] += after
    (spike,) = scan(x).spikes
    assert (spike.onset, spike.recovered) == (700, recovered)


def test_consecutive_high_losses_of_a_short_log_are_compared_with_the_previous_losses():
    for at, stays in ((24, 3), (40, 5), (40, 20)):
        x = epochs(*((at + i, 3.0) for i in range(stays)), n=60)
        assert onsets(x) == [at]
    assert onsets(epochs((24, 2.0), (25, 2.0), n=60)) == []
    assert onsets(epochs(*((6 + i, 5.0) for i in range(4)), n=15)) == [6]


@pytest.mark.parametrize(("high", "back"), [(1, 259), (2, 259), (5, None), (10, None)])
def test_a_late_recovery_is_usually_kept(high, back):
    x = np.ones(450)
    x[200:250] = 3.0
    x[260 : 260 + 10 * high] = 3.0  # of twenty levels of ten points
    spike = Spike(
        onset=200,
        peak=200,
        end=250,
        base=1.0,
        sigma=0.1,
        level=1.0,
        height=2.0,
        score=20.0,
        recovered=False,
    )
    assert late_recovery(x, spike, 0.5) == back


@pytest.mark.parametrize("top", [1e4, 1e8, 1e12, 1e20])
def test_a_blowup_does_not_hide_earlier_spikes(top):
    x = calm(noise=0.002)
    x[500:505] += [0.8, 0.6, 0.4, 0.2, 0.1]
    x[-40:] *= np.geomspace(1, top, 40)
    assert onsets(x)[0] == 500


def test_a_loss_that_explodes_within_a_few_points_begins_where_it_left_its_level():
    x = np.append(calm(), [2.0, 2.1, 1.9, 2.0, 2e3, 2e9, 2e18, 2e27, 2e36, 2e36])
    base = baseline(x, REACH.window)
    assert change_point(x, base, 1000, 5) == 1004


# Spikes recur if a gap separates them from the noise.


def noise(n=1500):
    return 2.0 + 0.1 * np.random.default_rng(7).standard_normal(n)


@pytest.mark.parametrize("count", range(1, 7))
def test_separated_spikes_are_found_however_many_they_are(count):
    x = noise(600)
    places = [100, 180, 270, 350, 430, 500][:count]
    x[places] += 3.0
    assert onsets(x) == places


@pytest.mark.parametrize("count", range(2, 11))
def test_one_more_spike_never_hides_another(count):
    x = noise()
    places = np.random.default_rng(count).choice(np.arange(120, 1450, 30), count, replace=False)
    x[places] += 1.5
    group = scan(x).group
    assert group is not None
    assert group.peaks.tolist() == sorted(places)


def test_peaks_of_all_heights_are_not_a_group():
    x = noise()
    places = np.arange(150, 1450, 50)
    x[places] += 0.15 * 1.2 ** np.arange(len(places))
    assert scan(x).group is None or len(scan(x).group) < 4


def test_steps_up_that_recur_are_not_spikes():
    x = noise()
    x[(np.arange(len(x)) // 150) % 2 == 1] += 1.5
    assert onsets(x) == []


def test_a_logged_cause_is_not_excused_by_other_peaks():
    x = noise()
    x[np.random.default_rng(3).choice(np.arange(100, 1500), 30, replace=False)] += 1.5
    x[1000] = 3.5
    cause = np.zeros(len(x), dtype=bool)
    cause[1000:1010] = True
    assert onsets(x) == []
    assert onsets(x, cause) == [1000]


def test_a_long_log_is_judged_by_whole_windows_from_its_start():
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
def test_extremes_of_squared_heavy_tailed_errors_are_rarely_spikes(freedom):
    # Without a look at the gaps every fourth of these has spikes.
    flagged = 0
    for seed in range(100):
        errors = np.random.default_rng(seed).standard_t(freedom, (1000, 4))
        flagged += len(onsets(np.mean(errors**2, axis=1))) > 0
    assert flagged <= 16


@pytest.mark.parametrize(("count", "result"), [(3, 3), (18, 18), (140, 140), (400, 0)])
def test_peaks_are_spikes_unless_more_than_one_in_a_hundred_losses_is_one(count, result):
    x = noise(15_000)
    x[np.linspace(500, 14_500, count).astype(int)] += 1.5
    assert len(onsets(x)) == result


@pytest.mark.parametrize(("lasts", "noisy", "result"), [(20, 0.4, 1.5), (1, 0.5, 2.5)])
def test_levels_within_the_noise_are_not_spikes(lasts, noisy, result):
    at = np.arange(1200)
    rng = np.random.default_rng(1)
    wide = 0.3 * rng.standard_normal(1200) + 0.13 * waves(rng, 1200)
    x = 2 + np.exp(-at / 50) + np.where(at < 500, wide, 0.02 * rng.standard_normal(1200))
    x[900 : 900 + lasts] += noisy
    assert not [onset for onset in onsets(x) if onset > 800]
    x[900 : 900 + lasts] += result - noisy
    assert [onset for onset in onsets(x) if onset > 800]


def waves(rng, n):
    """Noise that goes together for some twenty points, of about unit deviation."""
    smooth = np.convolve(rng.standard_normal(n + 19), np.ones(20), "valid")
    return smooth / np.sqrt(20)


@pytest.mark.parametrize("n", [0, 1, 100])
def test_to_the_letter_too_few_points_are_not_tested(n):
    result = outliers(np.ones(n), 100, REACH, 3.0)
    assert (result.spikes, result.tested, result.largest) == ((), 0, 0.0)


@pytest.mark.parametrize("before", [8, 15])
def test_a_rise_before_the_first_tested_point_begins_where_the_loss_left_its_level(before):
    rng = np.random.default_rng(3)
    low = np.linspace(0.33, 0.28, before)
    x = np.concatenate([low, [0.43], np.full(13, 0.405), np.linspace(0.28, 0.26, 12)])
    x *= 1 + 0.004 * rng.standard_normal(len(x))
    spike = Spike(
        onset=before + 5,
        peak=before + 5,
        end=before + 14,
        base=0.31,
        sigma=0.02,
        level=0.34,
        height=0.1,
        score=6.0,
        recovered=True,
    )
    moved = with_rise_as_onset(x, spike)
    assert (moved.onset, moved.peak, moved.end) == (before, before, before + 14)
    assert moved.level == pytest.approx(np.median(x[before - 5 : before]))
    assert moved.base + moved.height == pytest.approx(x[before])
    # Without a low point before, the loss did not rise.
    assert with_rise_as_onset(x[before:], replace(spike, onset=5, peak=5, end=14)).onset == 5
