"""What the summary of a stable run says about its evaluations."""

import numpy as np
import pytest

import stabdiag

AT = np.arange(60)
LOSS = 2.0 * 0.95**AT


def summary(**columns):
    report = stabdiag.diagnose({"epoch": AT, "loss": LOSS, **columns})
    assert report.diagnosis.slug == "healthy"
    return report.diagnosis.summary


@pytest.mark.parametrize(("factor", "is_stated"), [(1.5, False), (2.5, True), (40, True)])
def test_evaluations_that_end_far_above_the_training_loss_are_stated(factor, is_stated):
    heldout = factor * LOSS[-1] + 2.0 * 0.8**AT
    assert ("x the training loss: both" in summary(eval_loss=heldout)) == is_stated


@pytest.mark.parametrize(("last", "is_named"), [(0.036, False), (0.008, True)])
def test_the_best_of_a_low_score_is_named_if_it_fell(last, is_named):
    score = np.interp(AT, [0, 20, 40, 59], [0.001, 0.04, last, last])
    assert ("'val_prec' was highest, 0.04, at epoch 20." in summary(val_prec=score)) == is_named


@pytest.mark.parametrize("late", [(5.0, 7.2, 1.7, 1.2), (2.0, 1.1, 1.4), (3.0, 3.1, 3.2, 3.0, 3.1)])
def test_evaluations_that_blow_up_count_in_spite_of_their_noise(late):
    heldout = [0.73, 0.5, 0.39, 0.52, 0.33, 0.44, *late]
    loss = 1.1 * 0.8 ** np.arange(len(heldout))
    report = stabdiag.diagnose({"epoch": np.arange(len(loss)), "loss": loss, "val_loss": heldout})
    assert report.diagnosis.slug == "overfitting"
    assert report.diagnosis.step == 4


def test_evaluations_that_vary_as_much_as_before_are_no_turn():
    heldout = [0.9, 0.5, 1.0, 0.35, 0.9, 0.5, 0.8, 0.6, 0.9, 0.5]
    loss = 1.1 * 0.8 ** np.arange(10)
    report = stabdiag.diagnose({"epoch": np.arange(10), "loss": loss, "val_loss": heldout})
    assert report.diagnosis.slug != "overfitting"
