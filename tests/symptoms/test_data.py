"""The symptoms of data."""

import re

import numpy as np
import pytest

import stabdiag

N = 1000
STEPS = np.arange(N)
EPOCHS = STEPS // 100
RNG = np.random.default_rng(6)
NOISE = RNG.normal(0, 0.02, N)
FALLING = 2 + 2 * np.exp(-STEPS / 200) + NOISE
MEMORISED = 4 * np.exp(-STEPS / 50) + 1e-3
WITHIN = (STEPS % 100) / 100
SAW = FALLING - 0.5 * WITHIN


def log(loss, **columns):
    return {"step": STEPS, "loss": loss, **columns}


def spiky(*places, height=3.0):
    loss = FALLING.copy()
    loss[list(places)] += height
    return loss


def ids(*stretches):
    """Number the batches, with some stretches (first, length) of one batch."""
    batches = STEPS.astype(float)
    for first, length in stretches:
        batches[first : first + length] = first
    return batches


REGULAR = range(90, 1000, 90)
ODD = (120, 210, 370, 480, 640, 700, 910)

# Ten classes in a row: the loss of each part of the epoch has its own level.
SORTED = 3 + np.repeat([0.1, -1.5, 1, 0.5, -1, 1.2, -0.3, 0.8, -0.9, 0.6], 10)[STEPS % 100] + NOISE
ORDERED = 3 + np.repeat([0.3, -0.4, 0.5, 0.1, -0.6, 0.7, -0.2, 0.4, -0.5, 0.2], 10)[STEPS % 100]

CASES = [
    ("epoch-pattern", log(SORTED, epoch=EPOCHS), "shuffle=True"),
    ("epoch-pattern", log(ORDERED, epoch=EPOCHS), "shuffle=True"),
    ("epoch-boundary-jump", log(SAW, epoch=EPOCHS), "shuffle"),
    # The HF Trainer logs fractions.
    ("epoch-boundary-jump", log(SAW, epoch=np.round(STEPS / 100, 2)), "set_epoch"),
    ("batch-repeats", log(FALLING, batch_id=ids((300, 40))), "step 301"),
    ("batch-repeats", log(FALLING, batch_id=ids(*((at, 2) for at in ODD))), "step 121"),
    # More than a tenth of a fixed order, and after more steps than a cause of a spike.
    ("batch-repeats", log(FALLING, batch_id=np.where(STEPS < 500, STEPS, STEPS - 150)), "step 500"),
    ("batch-repeats", log(MEMORISED, batch_id=STEPS * 0, eval_loss=FALLING), "step 1:"),
    ("frequent-spikes", log(spiky(*REGULAR)), "every 90 steps"),
]

NEAR_MISSES = [
    # A running mean, small differences, a period that is not the epoch, and restarts of the rate.
    ("epoch-pattern", log(SAW, epoch=EPOCHS)),
    # Printed as 0.0000.
    ("epoch-pattern", log(np.where(STEPS < 200, SAW, 0.0), epoch=EPOCHS)),
    ("epoch-pattern", log(3 + 0.2 * (ORDERED - 3), epoch=EPOCHS)),
    ("epoch-pattern", log(SORTED, epoch=STEPS // 130)),
    ("epoch-pattern", log(SORTED, epoch=EPOCHS, lr=0.001 * (1.01 - WITHIN))),
    # A model that sees its data again: the loss falls with each epoch.
    ("epoch-boundary-jump", log(4 - 0.2 * EPOCHS + NOISE, epoch=EPOCHS)),
    # Warm restarts of the learning rate with each epoch.
    ("epoch-boundary-jump", log(SAW, epoch=EPOCHS, lr=0.001 * (1.01 - WITHIN))),
    # A sawtooth that is small compared with the noise.
    ("epoch-boundary-jump", log(FALLING - 0.07 * WITHIN, epoch=EPOCHS)),
    # A sawtooth whose period is not the epoch.
    ("epoch-boundary-jump", log(FALLING - 0.5 * (STEPS % 70) / 70, epoch=EPOCHS)),
    # Each batch is logged four times, as with accumulation; ids start again with each epoch.
    ("batch-repeats", log(FALLING, batch_id=STEPS // 4)),
    ("batch-repeats", log(FALLING, batch_id=STEPS % 250)),
    # Two epochs of a fixed order, logged at every third batch.
    ("batch-repeats", log(FALLING, batch_id=3 * (STEPS % 500) + (STEPS >= 500))),
    # A run with a single batch, and a number that does not identify a batch.
    ("batch-repeats", log(MEMORISED, batch_id=STEPS * 0, eval_loss=MEMORISED)),
    ("batch-repeats", log(FALLING, batch_id=STEPS * 0, eval_loss=FALLING)),
    # Ids drawn at random repeat by chance.
    ("batch-repeats", log(FALLING, batch_id=np.random.default_rng(5).integers(0, 4096, N))),
    # Two steps were retried.
    ("batch-repeats", log(FALLING, batch_id=ids((200, 2), (500, 2)))),
    # Three spikes are single events; a burst counts as one.
    ("frequent-spikes", log(spiky(*ODD[:3]))),
    ("frequent-spikes", log(spiky(300, 303, 306, 309, 312, 315))),
]


@pytest.mark.parametrize(("slug", "run", "says"), CASES)
def test_symptom_is_reported(symptom, slug, run, says):
    assert says in symptom(slug, run).first_action


@pytest.mark.parametrize(("slug", "run"), NEAR_MISSES)
def test_near_miss_is_not_reported(symptom, slug, run):
    assert symptom(slug, run) is None


@pytest.mark.parametrize("stretches", [((300, 40),), [(at, 2) for at in ODD]])
def test_batch_ids_are_printed_in_full(symptom, stretches):
    finding = symptom("batch-repeats", log(FALLING, batch_id=123_456_789 + ids(*stretches)))
    assert " 1 steps" not in finding.summary
    assert re.search(r"atch 12345[67]\d{3}\b", finding.summary)


def test_spikes_that_begin_with_each_epoch_are_one_finding():
    jumps = FALLING + 1.5 * np.exp(-WITHIN * 8) * (EPOCHS > 0)
    with_epochs = stabdiag.diagnose(log(jumps, epoch=EPOCHS))
    assert with_epochs.diagnosis.slug == "epoch-boundary-jump"
    assert not any("spike" in finding.slug for finding in with_epochs.findings)
    assert "spike" in stabdiag.diagnose(log(jumps)).diagnosis.slug


def test_a_spike_within_an_epoch_is_reported_as_well():
    jumps = FALLING + 1.5 * np.exp(-WITHIN * 8) * (EPOCHS > 0)
    jumps[650:653] += 6.0
    slugs = [finding.slug for finding in stabdiag.diagnose(log(jumps, epoch=EPOCHS)).findings]
    assert "epoch-boundary-jump" in slugs
    assert any("spike" in slug for slug in slugs)


@pytest.mark.parametrize(("pattern", "severity"), [(SORTED, "warning"), (ORDERED, "note")])
def test_small_differences_between_the_parts_of_an_epoch_are_a_note(symptom, pattern, severity):
    assert symptom("epoch-pattern", log(pattern, epoch=EPOCHS)).severity == severity


def test_a_period_of_the_loss_shows_the_epoch_if_none_was_logged(symptom):
    finding = symptom("epoch-pattern", log(SORTED))
    assert finding.severity == "note"
    assert "In each of 10 periods (epochs were not logged) of 100 steps" in finding.summary


@pytest.mark.parametrize(
    "columns",
    [
        log(3 + np.sin(2 * np.pi * WITHIN) + NOISE),
        log(SAW),
        log(SORTED, lr=0.001 * (1.01 - WITHIN)),
        log(SORTED, reward=STEPS * 1.0),
        log(3 + RNG.normal(0, 1, N)),
        log(ORDERED),
    ],
    ids=[
        "a wave",
        "a running mean",
        "restarts of the rate",
        "a policy",
        "noise",
        "small differences",
    ],
)
def test_other_periods_are_not_epochs(symptom, columns):
    assert symptom("epoch-pattern", columns) is None


def test_the_first_switch_of_classes_is_no_spike():
    loss = SORTED.copy()
    loss[:10], loss[10:20] = 0.01, 17.0
    report = stabdiag.diagnose(log(loss, epoch=EPOCHS))
    assert report.diagnosis.slug == "epoch-pattern"
    assert not [finding for finding in report.findings if finding.slug.startswith("spike")]


def classes_in_blocks(seed, switch=20.0):
    """Ten classes of 9 or 10 batches each; the loss falls within each class."""
    rng = np.random.default_rng(seed)
    within = np.concatenate([np.arange(size) for size in [9, 10] * 5])
    levels = np.repeat(rng.uniform(0.7, 1.3, 10), [9, 10] * 5)
    course = 2.5 * levels * (0.55 + 0.9 * np.exp(-within / 3))
    loss = np.tile(course, 11) * np.exp(rng.normal(0, 0.03, 95 * 11))
    bursts = rng.random(len(loss)) < 0.05
    loss[bursts] *= rng.uniform(3, switch, bursts.sum())
    loss[:30] = np.linspace(2.3, 0.5, 30)
    return {"step": np.arange(len(loss)), "loss": loss, "epoch": np.arange(len(loss)) // 95}


@pytest.mark.parametrize("seed", range(3))
def test_classes_of_another_length_than_a_twentieth_are_a_pattern(symptom, seed):
    assert symptom("epoch-pattern", classes_in_blocks(seed)) is not None


def test_a_rise_into_the_pattern_is_explained_by_it():
    run = classes_in_blocks(0, switch=4.0)
    run["loss"][20:] += 1.5
    report = stabdiag.diagnose(run)
    assert report.diagnosis.slug == "epoch-pattern"
    assert report.diagnosis.severity == "warning"
    run["loss"][700:] *= np.geomspace(1, 30, len(run["loss"]) - 700)
    assert stabdiag.diagnose(run).diagnosis.slug.startswith("divergence")


def test_small_noisy_batches_in_the_same_order_are_not_a_pattern(symptom):
    rng = np.random.default_rng(3)
    order = np.tile(rng.normal(0, 0.3, 100), 10)
    assert symptom("epoch-pattern", log(FALLING + order, epoch=EPOCHS)) is None


def test_a_later_blowup_is_not_part_of_the_pattern():
    loss = SORTED.copy()
    loss[640:] += 60
    report = stabdiag.diagnose(log(loss, epoch=EPOCHS))
    assert report.diagnosis.slug == "spike-persistent"
