"""The outputs of Caffe's nets: parts of a weighted sum, and the total of an evaluation."""

from itertools import chain

import numpy as np
import pytest

import stabdiag

LOSSES = np.round(90 + 110 * np.exp(-np.arange(30) / 8), 3)


def lines(count, *outputs, test=()):
    stamp = f"I0714 09:{count:02d}:00.5  913 "
    evaluation = [f"{stamp}solver.cpp:330] Iteration {50 * count}, Testing net (#0)", *test]
    training = [
        f"{stamp}solver.cpp:218] Iteration {50 * count}, loss = {LOSSES[count]}",
        *outputs,
        f"{stamp}sgd_solver.cpp:105] Iteration {50 * count}, lr = 0.002",
    ]
    return [*(evaluation if test else ()), *training]


def output(net, number, name, value, weight=None):
    stamp = "I0714 09:00:00.5  913 solver.cpp:237]     "
    text = f"{stamp}{net} net output #{number}: {name} = {value:.6g}"
    return text if weight is None else f"{text} (* {weight} = {weight * value:.6g} loss)"


def weighted(count):
    loss = LOSSES[count]
    test = (
        output("Test", 0, "accuracy", count / 40),
        output("Test", 1, "near/loss", loss / 2, 0.4),
        output("Test", 2, "far/loss", loss * 0.8, 1),
    )
    return lines(
        count,
        output("Train", 0, "accuracy", count / 40),
        output("Train", 1, "near/loss", loss / 2, 0.4),
        output("Train", 2, "far/loss", loss * 0.8, 1),
        test=test if count % 5 == 0 else (),
    )


def box(count):
    outputs = (
        output("Train", 0, "accuracy", count / 40),
        output("Train", 1, "loss_bbox", LOSSES[count] / 20, 20),
    )
    return lines(count, *outputs)


@pytest.fixture
def diagnose(put):
    def read(make):
        return stabdiag.diagnose(put("\n".join(chain.from_iterable(map(make, range(30))))))

    return read


@pytest.mark.parametrize("make", [weighted, box])
def test_a_weighted_sum_is_not_compared_with_chance(diagnose, make):
    report = diagnose(make)
    assert report.diagnosis.slug == "healthy"
    assert report.history.series["loss"].values.tolist() == LOSSES.tolist()
    assert report.history.series["accuracy"].values[-1] == 29 / 40


def test_the_loss_of_an_evaluation_is_the_sum_of_its_terms(diagnose):
    series = diagnose(weighted).history.series
    np.testing.assert_allclose(series["eval_loss"].values, LOSSES[::5], rtol=1e-5)
    assert series["eval_accuracy"].steps.tolist() == [*range(0, 1500, 250)]


def test_a_term_counts_with_its_weight(diagnose):
    series = diagnose(box).history.series
    term = series["other_loss/weighted_loss_bbox"]
    np.testing.assert_allclose(term.values, LOSSES, rtol=1e-5)


def test_the_terms_are_the_loss_where_no_total_was_kept(put):
    text = "\n".join(chain.from_iterable(box(count)[1:] for count in range(12)))
    report = stabdiag.diagnose(put(text))
    assert report.diagnosis.slug == "healthy"
    assert report.history.series["loss"].column == "weighted_loss_bbox"
    assert set(report.history.series["loss"].values.tolist()) <= set(LOSSES.tolist())


def test_a_term_that_is_not_finite_is_named(diagnose):
    def make(count):
        return lines(count, output("Train", 0, "rpn_loss", np.nan if count > 20 else 1.5, 1))

    diagnosis = diagnose(make).diagnosis
    assert diagnosis.slug.startswith("nan-")
    assert diagnosis.step == 1050
    assert "rpn_loss" in diagnosis.summary


def test_a_plain_loss_is_read_once(diagnose):
    def make(count):
        return lines(count, output("Train", 0, "loss", LOSSES[count], 1))

    assert {*diagnose(make).history.series} == {"loss", "lr"}


@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_paste_without_the_prefixes_of_its_lines(tmp_path, count):
    form = (
        "Iteration {0} (1.5 iter/s, 13.2s/20 iters), loss = {1}\n"
        "    Train net output #0: accuracy_top = 0.4375\n"
        "    Train net output #1: loss_cls = {1} (* 1 = {1} loss)\n"
    )
    text = "".join(form.format(20 * n, 1.5 + n) for n in range(1, count + 1))
    (tmp_path / "run.txt").write_text(text)
    loss = stabdiag.read(tmp_path / "run.txt").series["loss"]
    assert loss.steps.tolist() == [20 * n for n in range(1, count + 1)]
    assert loss.values[0] == 2.5
