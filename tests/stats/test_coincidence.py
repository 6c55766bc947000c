"""A change near to an onset: which one, and how likely by chance."""

import numpy as np
import pytest

from stabdiag.stats.coincidence import Onset, nearest, steps_since_seen, unlikely_repeats


def near(changes, at, *, last=None, n=1000):
    where = np.array(changes)
    onset = Onset(first=at, last=at if last is None else last, late=20, points=n)
    return nearest(where, where, onset)


def test_the_nearest_change_up_to_an_onset():
    result = near([100, 490, 700], 500)
    assert (result.number, result.off) == (1, 10)
    exact = near([500], 500)
    assert exact.off == 0
    assert exact.chance == pytest.approx(1 / 1000)


def test_later_and_much_earlier_events_are_not_near():
    assert near([501], 500) is None
    assert near([479], 500) is None
    assert near([505], 500, last=510) is not None
    assert near([], 500) is None


def test_a_value_is_constant_before_a_change_and_after_it():
    assert near([498, 500], 500) is None
    assert near([500, 501, 502], 500) is None
    assert near([2], 3) is None
    # At the very end of a log nothing may follow.
    assert near([999], 999) is not None


def test_a_change_that_was_logged_late_may_have_come_at_any_point_before():
    result = nearest(
        np.array([491]), np.array([500]), Onset(first=495, last=495, late=0, points=999)
    )
    assert result.chance == pytest.approx(10 / 999)


@pytest.mark.parametrize("points", [40, 300, 3000])
@pytest.mark.parametrize("count", [1, 5, 30])
def test_chance_alone_rarely_yields_a_change(points, count):
    rng, reported = np.random.default_rng(points + count), 0
    for _ in range(1500):
        changes = np.sort(rng.choice(points, min(count, points // 4), replace=False))
        at, wide = int(rng.integers(points)), int(rng.choice([0, 0, 3, 30]))
        onset = Onset(first=at, last=min(at + wide, points - 1), late=20, points=points)
        result = nearest(changes, changes, onset)
        reported += result is not None and result.chance < 0.05
    assert reported < 0.05 * 1500


def test_repeats_of_a_random_order_are_not_unlikely():
    rng = np.random.default_rng(0)
    steps, ids = np.arange(400), rng.integers(0, 4096, 400).astype(np.float64)
    since = steps_since_seen(steps, ids)
    assert (since <= 100).any()
    assert not unlikely_repeats(ids, since, 100).any()
    # A loader that is stuck repeats a batch more often than that.
    ids[200:206] = ids[199]
    unlikely = unlikely_repeats(ids, steps_since_seen(steps, ids), 100)
    assert unlikely[200:206].all()


def test_a_repeat_of_shuffled_epochs_is_not_unlikely():
    rng = np.random.default_rng(0)
    ids = np.concatenate([rng.permutation(500) for _ in range(8)]).astype(np.float64)
    steps = np.arange(len(ids))
    since = steps_since_seen(steps, ids)
    assert (since <= 100).any()
    assert not unlikely_repeats(ids, since, 100).any()


@pytest.mark.parametrize("at", [50, 300])
def test_a_single_repeat_of_ordered_or_unique_ids_is_unlikely(at):
    steps, ids = np.arange(400), np.random.default_rng(0).permutation(400).astype(np.float64)
    for order in (np.arange(400.0), ids):
        order[at] = order[at - 40]
        unlikely = unlikely_repeats(order, steps_since_seen(steps, order), 100)
        assert np.flatnonzero(unlikely).tolist() == [at]


def test_missing_ids_are_never_repeats():
    steps, ids = np.arange(50), np.full(50, np.nan)
    assert not unlikely_repeats(ids, steps_since_seen(steps, ids), 100).any()
