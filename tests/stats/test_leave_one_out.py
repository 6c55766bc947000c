"""The distance of each reference from the others."""

import numpy as np
import pytest

from stabdiag.stats.bands import Prior, bin_levels, deviation_bar
from stabdiag.stats.leave_one_out import leave_one_out, shared_band

LOSS = Prior(level=0.01, shift=0.06)
STEPS = np.arange(1, 401)


def levels(seed, factor=1.0, since=0):
    rng = np.random.default_rng(seed)
    loss = (0.5 + 3 / STEPS**0.5) * np.exp(0.02 * rng.standard_normal(400))
    return bin_levels(STEPS, np.where(since <= STEPS, factor * loss, loss), 400)


def test_good_references_have_low_peaks():
    peaks = leave_one_out([levels(seed) for seed in range(5)], LOSS)
    assert all(peak.size < deviation_bar(4) and not peak.lasts for peak in peaks)


@pytest.mark.parametrize("number", [4, 8, 24])
def test_a_bad_reference_has_the_highest_peak(number):
    references = [*(levels(seed) for seed in range(number - 1)), levels(99, 1.6, since=200)]
    *others, bad = leave_one_out(references, LOSS)
    assert bad.lasts
    assert bad.size > 2 * deviation_bar(number - 1)
    assert all(peak.size < bad.size / 2 for peak in others)


def test_a_series_that_is_not_logged_has_no_peak():
    first, *others, last = leave_one_out([None, *map(levels, range(3)), None], LOSS)
    assert first is None
    assert last is None
    assert all(peak is not None for peak in others)


def test_a_band_needs_half_of_the_references():
    assert shared_band([levels(0), None], LOSS) is not None
    assert shared_band([levels(0), None, None], LOSS) is None
