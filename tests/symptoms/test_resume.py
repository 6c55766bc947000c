"""The symptoms of a resume."""

import math

import numpy as np
import pytest

import stabdiag

LAST, AT, END = 550, 500, 900
# The log runs to step 549, resumes from step 500 and runs to the end.
STEPS = np.append(np.arange(LAST), np.arange(AT, END))
SECOND = np.arange(len(STEPS)) >= LAST
SINCE = np.where(SECOND, STEPS - AT, 0)
RNG = np.random.default_rng(9)
NOISE = RNG.normal(0, 0.02, len(STEPS))
FALLING = 2 + 2 * np.exp(-STEPS / 200) + NOISE
LR = 1e-3 * (1 - STEPS / 1000)
COSINE = 1e-3 * np.minimum(STEPS / 700, 1)


def log(loss=FALLING, **columns):
    return {"step": STEPS, "loss": loss, **columns}


def test_the_same_steps_before_and_after_a_resume_are_compared():
    # The rise is much smaller than the fall of the loss in between, and within its noise.
    worse = log(FALLING + np.where(SECOND, 0.06, 0))
    report = stabdiag.diagnose(worse)
    finding = next(item for item in report.findings if item.slug == "resume-loss-jump")
    assert finding.step == AT
    assert finding.evidence["rise"] == pytest.approx(0.06, abs=0.02)
    assert finding.evidence["pairs"] == LAST - AT
    overlap = report.history.repeated_steps[0]
    assert (overlap.step, len(overlap.steps)) == (AT, LAST - AT)


def after(change):
    """Return a factor of 1 before the resume and of ``change`` after it."""
    return np.where(SECOND, change, 1.0)


JUMPED = FALLING + np.where(SECOND, 0.8 * np.exp(-SINCE / 60), 0)
GAP = np.append(np.arange(300), np.arange(400, 800))

CASES = [
    ("resume-loss-jump", log(JUMPED), "step 500"),
    ("resume-loss-jump", log(FALLING - np.where(SECOND, 0.3, 0)), "the batches after step 500"),
    # A second warm-up, and the schedule from its beginning.
    ("resume-lr-reset", log(lr=LR * after(np.minimum((SINCE + 1) / 50, 1))), "step 500"),
    ("resume-lr-reset", log(lr=LR * after(2.0)), "step 500"),
    ("resume-data-replayed", log(batch_id=np.where(SECOND, SINCE, STEPS)), "step 500"),
    # With 200 batches per epoch, the resume is in the middle of the third epoch.
    ("resume-data-replayed", log(batch_id=np.where(SECOND, SINCE, STEPS) % 200), "step 500"),
    ("resume-step-gap", {"step": GAP, "loss": FALLING[:700]}, "299 to 400"),
]

NEAR_MISSES = [
    # A jump away from the resume.
    ("resume-loss-jump", log(FALLING + (STEPS > 700) * SECOND * 0.8)),
    # A permanent step of the schedule, and a resume within the warm-up.
    ("resume-lr-reset", log(lr=0.001 * after(0.1))),
    ("resume-lr-reset", log(lr=COSINE)),
    # With 250 batches per epoch, the run resumes at the start of an epoch.
    ("resume-data-replayed", log(batch_id=STEPS % 250)),
    # The logging interval changes, or the log has regular gaps.
    (
        "resume-step-gap",
        {"step": np.append(np.arange(100), np.arange(100, 9000, 100)), "loss": FALLING[:189]},
    ),
    (
        "resume-step-gap",
        {"step": np.arange(600) + 100 * (np.arange(600) // 60), "loss": FALLING[:600]},
    ),
    # A range of non-finite losses is not a gap.
    ("resume-step-gap", log(np.where((STEPS >= 300) & (STEPS < 400), np.nan, FALLING))),
]


@pytest.mark.parametrize(("slug", "run", "says"), CASES)
def test_symptom_is_reported(symptom, slug, run, says):
    assert says in symptom(slug, run).first_action


@pytest.mark.parametrize(("slug", "run"), NEAR_MISSES)
def test_near_miss_is_not_reported(symptom, slug, run):
    assert symptom(slug, run) is None


def test_batch_ids_are_printed_in_full(symptom):
    run = log(batch_id=123_456_789 + np.where(SECOND, SINCE, STEPS))
    assert "123456789, 123456790, 123456791, …" in symptom("resume-data-replayed", run).summary


def test_counted_records_have_no_gap(tmp_path):
    """The steps are not logged, and an evaluation is between two epochs."""
    lines = [f"{loss}," for loss in FALLING[:500].tolist()]
    lines[200:200] = [f",{2.0 + n / 100}" for n in range(20)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["loss,val_loss", *lines]))
    report = stabdiag.diagnose(path)
    assert "the record number is used as the step" in report.history.events[0].message
    assert [finding.slug for finding in report.findings] == ["healthy"]


def test_repeated_steps_above_an_attempt_without_a_finite_loss():
    steps = [*range(20, 30), *[*range(25, 30)] * 3, *range(5)]
    loss = [3.0] * 10 + [3 + rise / 10 for rise in range(15)] + [math.nan] * 5
    report = stabdiag.diagnose({"step": steps, "loss": loss})
    assert report.diagnosis.slug == "nan-dtype-unknown"
