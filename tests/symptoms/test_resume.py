"""The symptoms of a resume."""

import numpy as np
import pytest

import stabdiag

LAST, AT, END = 550, 500, 900
# The log goes on to step 549, goes back to step 500 and on to the end.
STEPS = np.append(np.arange(LAST), np.arange(AT, END))
SECOND = np.arange(len(STEPS)) >= LAST
SINCE = np.where(SECOND, STEPS - AT, 0)
RNG = np.random.default_rng(9)
NOISE = RNG.normal(0, 0.02, len(STEPS))
FALLING = 2 + 2 * np.exp(-STEPS / 200) + NOISE
LR = 1e-3 * (1 - STEPS / 1000)
COSINE = 1e-3 * np.minimum(STEPS / 700, 1)


def log(loss=FALLING, **more):
    return {"step": STEPS, "loss": loss, **more}


def test_the_same_steps_before_and_after_a_resume_are_compared():
    # The rise is far below what the loss falls in the meantime, and within its noise.
    worse = log(FALLING + np.where(SECOND, 0.06, 0))
    report = stabdiag.diagnose(worse)
    found = next(one for one in report.findings if one.slug == "resume-loss-jump")
    assert found.step == AT
    assert found.evidence["rise"] == pytest.approx(0.06, abs=0.02)
    assert found.evidence["pairs"] == LAST - AT
    retaken = report.history.retaken[0]
    assert (retaken.step, len(retaken.steps)) == (AT, LAST - AT)


def after(change):
    """Return what changes with the resume, as a factor."""
    return np.where(SECOND, change, 1.0)


JUMPED = FALLING + np.where(SECOND, 0.8 * np.exp(-SINCE / 60), 0)
GAP = np.append(np.arange(300), np.arange(400, 800))

FOUND = [
    ("resume-loss-jump", log(JUMPED), "step 500"),
    ("resume-loss-jump", log(FALLING - np.where(SECOND, 0.3, 0)), "the batches after step 500"),
    # The warm-up once more, and the schedule from its beginning.
    ("resume-lr-reset", log(lr=LR * after(np.minimum((SINCE + 1) / 50, 1))), "step 500"),
    ("resume-lr-reset", log(lr=LR * after(2.0)), "step 500"),
    ("resume-data-replayed", log(batch_id=np.where(SECOND, SINCE, STEPS)), "step 500"),
    # Of epochs of 200 batches, the third is half over.
    ("resume-data-replayed", log(batch_id=np.where(SECOND, SINCE, STEPS) % 200), "step 500"),
    ("resume-step-gap", {"step": GAP, "loss": FALLING[:700]}, "299 to 400"),
]

PASSED = [
    # A jump elsewhere is not the resume's.
    ("resume-loss-jump", log(FALLING + (STEPS > 700) * SECOND * 0.8)),
    # A step of the schedule that stays, and a resume within the warm-up.
    ("resume-lr-reset", log(lr=0.001 * after(0.1))),
    ("resume-lr-reset", log(lr=COSINE)),
    # An epoch of 250 batches is over where the run resumes.
    ("resume-data-replayed", log(batch_id=STEPS % 250)),
    # The rhythm changes, or gaps are how this log is kept.
    (
        "resume-step-gap",
        {"step": np.append(np.arange(100), np.arange(100, 9000, 100)), "loss": FALLING[:189]},
    ),
    (
        "resume-step-gap",
        {"step": np.arange(600) + 100 * (np.arange(600) // 60), "loss": FALLING[:600]},
    ),
    # A stretch of losses that are not finite is no stretch without any.
    ("resume-step-gap", log(np.where((STEPS >= 300) & (STEPS < 400), np.nan, FALLING))),
]


@pytest.mark.parametrize(("slug", "run", "says"), FOUND)
def test_it_is_found(symptom, slug, run, says):
    assert says in symptom(slug, run).first_action


@pytest.mark.parametrize(("slug", "run"), PASSED)
def test_a_near_miss_is_none(symptom, slug, run):
    assert symptom(slug, run) is None


def test_ids_are_told_in_full(symptom):
    run = log(batch_id=123_456_789 + np.where(SECOND, SINCE, STEPS))
    assert "123456789, 123456790, 123456791, …" in symptom("resume-data-replayed", run).summary


def test_records_that_are_counted_have_no_gap(tmp_path):
    """Whose steps were not logged, and whose evaluation lies between two epochs."""
    lines = [f"{loss}," for loss in FALLING[:500].tolist()]
    lines[200:200] = [f",{2.0 + n / 100}" for n in range(20)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["loss,val_loss", *lines]))
    report = stabdiag.diagnose(path)
    assert "the record number is used as the step" in report.history.events[0].message
    assert [finding.slug for finding in report.findings] == ["healthy"]
