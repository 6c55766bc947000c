"""The tables of rules that decide what is a spike."""

import numpy as np
import pytest

from stabdiag.stats.shape import SearchWindows
from stabdiag.tree.classify import EVENT_RULES, EventVerdict, Rule, classify, find_spikes
from stabdiag.tree.spike_rules import JUMP_RULES, SPIKE_RULES

REACH = SearchWindows(window=100, least=20, recovery=50)
TABLES = {"events": EVENT_RULES, "spikes": SPIKE_RULES, "jumps": JUMP_RULES}


def rule(name, verdict, *, applies):
    return Rule(name=name, purpose="", applies=lambda _: applies, verdict=verdict)


def test_the_first_rule_that_applies_decides():
    rules = (
        rule("never", EventVerdict.CLIMB, applies=False),
        rule("first", EventVerdict.NOISE, applies=True),
        rule("second", EventVerdict.EXPECTED, applies=True),
    )
    assert classify(rules, None) is EventVerdict.NOISE


def test_an_event_that_no_rule_explains_is_a_spike():
    assert classify((rule("never", EventVerdict.CLIMB, applies=False),), None) is EventVerdict.SPIKE


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_names_of_rules_are_unique_and_purposes_fit_on_a_line(table):
    assert len({row.name for row in table}) == len(table)
    assert all(0 < len(row.purpose) <= 90 for row in table)


def heavy(jump):
    """Return a loss with heavy-tailed noise that rises by ``jump`` noise scales at its highest."""
    x = 1.0 + 0.02 * np.abs(np.random.default_rng(0).standard_t(1.5, 1000))
    at = 300 + int(np.argmax(x[300:900]))
    x[at:] += 0.02 * jump
    return x, at


def test_the_highest_loss_of_a_heavy_tail_is_not_a_jump():
    x, _ = heavy(jump=0.5)
    assert not find_spikes(x, REACH, 3.0, 0.005, 0.02).spikes


def test_a_jump_in_a_heavy_tail_is_a_spike_if_it_lasts():
    x, at = heavy(jump=20)
    (spike,) = find_spikes(x, REACH, 3.0, 0.005, 0.02).spikes
    assert abs(spike.onset - at) <= 8
    assert spike.recovered is False


def test_peaks_of_all_heights_are_noise_because_of_rows_of_the_table(monkeypatch):
    random = np.random.default_rng(0)
    x = 2.0 + 0.02 * random.standard_normal(1000)
    at = random.choice(np.arange(120, 990), 15, replace=False)
    x[at] += 0.02 * random.uniform(8, 20, 15)
    assert not find_spikes(x, REACH, 3.0, 0.005, 0.02).spikes
    names = ("recurring", "gap in the tail", "as high elsewhere")
    rows = tuple(row for row in EVENT_RULES if row.name not in names)
    monkeypatch.setattr("stabdiag.tree.classify.EVENT_RULES", rows)
    spikes = find_spikes(x, REACH, 3.0, 0.005, 0.02).spikes
    assert {spike.peak for spike in spikes} & {*at.tolist()}


@pytest.mark.parametrize("seed", [29, 53])
def test_noise_of_a_short_log_is_compared_with_the_whole_log(seed):
    # Squared errors of batches of 16, with heavy tails.
    at, errors = np.arange(90), np.random.default_rng(seed).standard_t(4, (90, 16))
    x = (0.2 + 2.0 * np.exp(-at / 12)) * np.square(errors).mean(axis=1)
    assert find_spikes(x, REACH, 3.0, 0.05, 0.05).spikes == ()
    x[60] += 20.0
    (spike,) = find_spikes(x, REACH, 3.0, 0.05, 0.05).spikes
    assert spike.onset == 60


# Losses of a small batch of a fine-tuned model, every tenth step.
TUNED = (
    *(7, 60, 16, 106, 61, 11, 17, 76, 125, 18, 51, 37, 36, 91, 35),
    *(10, 32, 11, 29, 24, 68, 18, 23, 26, 5, 42, 22, 32, 26),
)


@pytest.mark.parametrize(("last", "is_spike"), [(115, False), (1150, True)])
def test_the_last_loss_of_a_short_log_is_compared_with_its_noise(last, is_spike):
    x = np.array([*TUNED, last]) / 1000.0
    reach = SearchWindows(window=20, least=10, recovery=10)
    assert bool(find_spikes(x, reach, 3.0, 0.05, 0.05).spikes) == is_spike
