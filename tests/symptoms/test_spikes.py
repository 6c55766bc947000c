"""Spikes that recur, hard batches and heavy tails."""

import numpy as np
import pytest

import stabdiag

N = 2000
STEPS = np.arange(N)
ODD = (220, 410, 670, 780, 1040, 1500, 1710)
EPOCH = 250


def log(positions=(), height=1.0, seed=0, **columns):
    """Return a falling loss with spikes at these positions; ``height`` may be a number for each."""
    noise = np.random.default_rng(seed).normal(0, 0.02, N)
    loss = 2 + 1.5 * np.exp(-STEPS / 200) + noise
    loss[list(positions)] += height
    return {"step": STEPS, "loss": loss, **columns}


def at(positions, high, low=1.0):
    """Return a column that is high at these positions."""
    values = np.full(N, low) + np.random.default_rng(1).uniform(0, 0.1, N)
    values[list(positions)] = high
    return values


def finding(report, slug="frequent-spikes"):
    return next((item for item in report.findings if item.slug == slug), None)


@pytest.mark.parametrize("count", [4, 5, 6, 7])
@pytest.mark.parametrize("height", [0.4, 1.0, 20.0])
def test_separated_spikes_are_a_warning_with_their_number(count, height):
    report = stabdiag.diagnose(log(ODD[:count], height))
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == (
        "frequent-spikes",
        "warning",
    )
    assert report.diagnosis.evidence["spikes"] == count
    assert (
        f"spiked {count} times between steps 220 and {ODD[count - 1]}" in report.diagnosis.summary
    )
    answer = next(item for item in report.tree.answers if item.question == "Q2.1")
    assert (answer.verdict.value, answer.measured["spikes"]) == ("yes", count)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_up_to_three_spikes_are_single_events(count):
    report = stabdiag.diagnose(log(ODD[:count]))
    assert report.diagnosis.slug == "spike-recovered"
    assert finding(report) is None


def test_a_spike_that_stays_up_is_judged_by_itself():
    columns = log(ODD)
    columns["loss"][1850:] += 1.0
    report = stabdiag.diagnose(columns)
    assert report.diagnosis.slug == "spike-persistent"
    assert finding(report) is None  # the persistent spike explains it


def test_noise_alone_is_not_reported():
    report = stabdiag.diagnose(log())
    assert finding(report) is None
    assert finding(report, "heavy-tailed-loss") is None


def test_the_gradient_norm_at_the_spikes_is_named():
    report = stabdiag.diagnose(log(ODD, grad_norm=at(ODD, 50.0)))
    assert "At 7 of the 7, the gradient norm was 50" in report.diagnosis.summary
    assert report.diagnosis.actions[0].setting == "grad_clip"


def test_a_gradient_norm_that_is_usual_at_the_spikes_is_not_named():
    report = stabdiag.diagnose(log(ODD, grad_norm=at((), 50.0)))
    assert "gradient norm was" not in report.diagnosis.summary


def test_the_sequence_length_at_the_spikes_is_named():
    lengths = np.where(np.isin(STEPS, ODD), 4096.0, 512.0)
    report = stabdiag.diagnose(log(ODD, seq_len=lengths))
    assert "At 7 of the 7, the seq_len was 4096" in report.diagnosis.summary


def test_spikes_that_grow_call_for_a_lower_rate():
    heights = np.geomspace(0.5, 5.0, len(ODD))
    report = stabdiag.diagnose(log(ODD, heights, lr=np.full(N, 1e-3)))
    assert "The spikes grow." in report.diagnosis.summary
    first = report.diagnosis.actions[0]
    assert (first.kind, first.setting, first.to) == ("lower-lr", "peak_lr", 5e-4)
    # In any other order they do not.
    report = stabdiag.diagnose(log(ODD, heights[[3, 0, 6, 1, 5, 2, 4]]))
    assert "grow" not in report.diagnosis.summary


def test_spikes_that_come_closer_together_are_named():
    places = (300, 800, 1200, 1480, 1680, 1800, 1870)
    report = stabdiag.diagnose(log(places))
    assert "The spikes come closer together." in report.diagnosis.summary


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (log(range(200, N, 180)), "every 180 steps"),
        (log(range(200, N, 180), grad_norm=at(range(200, N, 180), 5.0)), "every 180 steps"),
        (log((200, 560, 740, 1100, 1280, 1460, 1820)), "every 180 steps"),
        (log((300, 550, 1050), epoch=STEPS // EPOCH), "at the same position in each epoch"),
        (log(ODD, batch_id=np.where(np.isin(STEPS, ODD), 17, 100 + STEPS)), "all on batch 17"),
        (log(ODD[:3], batch_id=np.where(np.isin(STEPS, ODD), 17, 100 + STEPS)), "all on batch 17"),
    ],
)
def test_one_batch_or_one_period_is_a_hard_batch(columns, words):
    hard_batch = finding(stabdiag.diagnose(columns))
    assert (hard_batch.severity.value, hard_batch.title) == ("note", "A hard batch recurs")
    assert words in hard_batch.summary


@pytest.mark.parametrize(
    "columns",
    [
        log(ODD, batch_id=STEPS % 7),  # few ids prove nothing
        log(range(200, N, 180), np.geomspace(0.5, 5.0, 10)),  # it grows: more than one hard batch
        log(range(200, N, 180), grad_norm=at(range(200, N, 180), 50.0)),  # the gradients surge
    ],
)
def test_recurring_spikes_without_a_hard_batch_stay_a_warning(columns):
    hard_batch = finding(stabdiag.diagnose(columns))
    assert hard_batch.severity.value == "warning"


def low_peaks(positions, seed=3):
    """Return peaks that fall with the loss and its noise, so that no gap separates them."""
    n = 400
    rows = np.arange(n)
    loss = 0.3 + 2 * np.exp(-rows / 80)
    sigma = 0.02 * loss
    loss += np.random.default_rng(seed).normal(0, 1, n) * sigma
    loss[list(positions)] += 18 * sigma[list(positions)]
    return {"step": rows, "loss": loss}


@pytest.mark.parametrize("epoch", [None, 40])
def test_a_hard_batch_in_each_epoch_needs_no_gap_to_the_noise(epoch):
    run = low_peaks(range(25, 400, 40))
    if epoch:
        run["epoch"] = run["step"] // epoch
    report = stabdiag.diagnose(run)
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == ("frequent-spikes", "note")
    assert report.diagnosis.title == "A hard batch recurs"
    assert ("each epoch" in report.diagnosis.summary) is bool(epoch)


def test_low_peaks_at_irregular_distances_are_not_one_hard_batch():
    report = stabdiag.diagnose(low_peaks((25, 71, 98, 152, 187, 229, 251, 303, 320, 383)))
    assert not any(item.title == "A hard batch recurs" for item in report.findings)


def heavy_tailed(peak=0.0):
    """Return a log with heavy-tailed noise, its highest loss raised by a fraction."""
    columns = log()
    noise = 0.02 * np.abs(np.random.default_rng(0).standard_t(2, N))
    noise[np.argmax(noise)] *= 1 + peak
    columns["loss"] += noise
    return columns


def test_a_heavy_tail_without_a_gap_is_usual_for_the_run():
    report = stabdiag.diagnose(heavy_tailed())
    assert report.diagnosis.slug == "healthy"
    assert "no spike separated from the noise (single losses reach" in report.diagnosis.summary
    assert "no spike above the noise" not in report.diagnosis.summary


def test_a_peak_above_a_heavy_tail_is_a_note():
    columns = heavy_tailed(peak=1.5)
    report = stabdiag.diagnose(columns)
    assert report.diagnosis.slug == "heavy-tailed-loss"
    assert report.diagnosis.severity.value == "note"
    assert report.diagnosis.step == int(np.argmax(columns["loss"][20:])) + 20
    assert f"batch of step {report.diagnosis.step}:" in report.diagnosis.first_action
    assert "no spike above the noise" not in report.tree.outcome.summary


PEAKS = (45, 61, 77, 90, 111, 125, 140, 171, 200, 225)


@pytest.mark.parametrize(("end", "severity"), [(400, "warning"), (300, "warning"), (240, "note")])
def test_peaks_in_more_than_four_percent_of_a_short_log_are_hard_batches(end, severity):
    columns = {name: column[:end] for name, column in log(PEAKS).items()}
    report = stabdiag.diagnose(columns)
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == ("frequent-spikes", severity)


def test_peaks_in_more_than_two_percent_of_a_long_log_are_hard_batches():
    positions = np.flatnonzero(np.random.default_rng(2).random(N) < 0.03)
    report = stabdiag.diagnose(log(positions[positions > 200]))
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == ("frequent-spikes", "note")
    assert report.diagnosis.evidence["fraction"] > 0.02
    assert "no spike other than those that recur" in report.tree.outcome.summary


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_loss_does_not_matter(scale):
    columns = log(ODD)
    columns["loss"] *= scale
    assert stabdiag.diagnose(columns).diagnosis.slug == "frequent-spikes"


NOISES = {
    "gaussian": lambda random: random.normal(size=N),
    "t5": lambda random: random.standard_t(5, size=N),
    "lognormal": lambda random: random.lognormal(sigma=0.5, size=N),
}


def reported(noise, places, height):
    """Return the rank of the severity, the worst first, and the number of spikes in the answer."""
    columns = log(places, height, seed=3)
    columns["loss"] += 0.02 * NOISES[noise](np.random.default_rng(4))
    report = stabdiag.diagnose(columns)
    answer = next(item for item in report.tree.answers if item.question == "Q2.1")
    return report.diagnosis.severity.rank, answer.measured.get("spikes", 0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_higher_spikes_are_never_less_severe(noise, count):
    heights = (0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 30.0, 3000.0)
    ranks = [reported(noise, ODD[:count], height)[0] for height in heights]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] > ranks[-1]


@pytest.mark.parametrize("noise", NOISES)
def test_one_more_spike_is_never_reported_as_fewer(noise):
    counts = [reported(noise, ODD[:count], 2.0)[1] for count in range(1, len(ODD) + 1)]
    assert counts == [*range(1, len(ODD) + 1)]


def test_a_loss_below_those_before_it_is_no_tail(symptom):
    at = np.arange(100)
    log = {"step": at, "loss": 24 + 876 / (1 + at / 8) * np.exp(0.02 * np.sin(7.0 * at))}
    log["loss"][30] *= 1.12
    finding = symptom("heavy-tailed-loss", log)
    assert finding is None or finding.evidence["loss"] > np.median(log["loss"][:30])


@pytest.mark.parametrize("seed", range(8))
def test_autocorrelated_noise_of_a_sparse_log_is_no_tail(symptom, seed):
    rng = np.random.default_rng(seed)
    noise = np.zeros(1500)
    for i in range(1, 1500):
        noise[i] = 0.6 * noise[i - 1] + 0.8 * rng.standard_normal()
    at = np.arange(1500)
    log = {"step": 10 * at, "loss": (0.5 + 2 / (1 + at / 100)) * (1 + 0.06 * noise)}
    assert symptom("heavy-tailed-loss", log) is None


def on_descent(n=800, positions=(), height=0.08, seed=0):
    """Return a log whose loss falls far for most of it, relative to its noise."""
    at = np.arange(n)
    noise = np.random.default_rng(seed).normal(0, 0.0008, n)
    loss = 0.08 + 0.82 * np.exp(-at / (n / 5)) + noise
    loss[list(positions)] += height
    return {"step": at, "loss": loss}


ON_DESCENT = (118, 198, 247, 316, 406, 479, 554, 614, 673, 758)


@pytest.mark.parametrize("count", [5, 7, 10])
def test_a_descent_does_not_hide_spikes(count):
    report = stabdiag.diagnose(on_descent(positions=ON_DESCENT[:count]))
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == (
        "frequent-spikes",
        "warning",
    )
    assert report.diagnosis.evidence["spikes"] >= count - 1


def test_spikes_that_decay_into_each_other_are_found():
    n = 700
    rows = np.arange(n)
    loss = 0.16 + 0.84 * np.exp(-rows / 120)
    sigma = 0.01 * loss
    loss += np.random.default_rng(4).normal(0, 1, n) * sigma
    for place in (230, 247, 314, 562, 585, 632):
        loss[place:] += 60 * sigma[place] * np.exp(-(rows[place:] - place) / 2)
    report = stabdiag.diagnose({"step": 25 * rows, "loss": loss})
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == (
        "frequent-spikes",
        "warning",
    )


@pytest.mark.parametrize("seed", range(5))
def test_noise_on_a_descent_is_not_reported(seed):
    assert stabdiag.diagnose(on_descent(seed=seed)).diagnosis.slug == "healthy"


def test_peaks_on_a_descent_that_come_near_the_noise_are_not_spikes():
    report = stabdiag.diagnose(on_descent(positions=ON_DESCENT, height=0.003))
    assert report.diagnosis.severity.value in ("ok", "note")


@pytest.mark.parametrize(
    ("jumps", "height", "name", "is_reported"),
    [
        ([3, 6, 10, 20, 34], 2.0, "epoch", True),
        ([3, 6, 10], 2.0, "epoch", False),
        ([3, 6, 10, 20, 34], 0.4, "epoch", False),
        ([3, 6, 10, 20, 34], 2.0, "step", False),  # single losses may have a heavy tail
    ],
)
def test_epochs_that_jump_again_and_again_are_reported(symptom, jumps, height, name, is_reported):
    loss = 0.15 + 0.1 * np.random.default_rng(4).random(40)
    loss[jumps] = height * np.linspace(1, 1.5, len(jumps))
    finding = symptom("frequent-spikes", {name: np.arange(1, 41), "loss": loss})
    assert (finding is not None and "jumped" in finding.summary) == is_reported
