"""Objectives of Kaldi."""

import pytest

import stabdiag
from stabdiag.errors import LogError

VALUES = {"train": (-2.75, -2.25, -1.5), "valid": (-2.9, -2.5, -1.9)}


def probabilities(kind="probability", file="compute_prob_{}.{}.log:", penalty="-0.25 + -0.01 = "):
    """Return the lines of the files of all iterations, as grep prints them."""
    return "\n".join(
        f"exp/net/log/{file.format(split, 20 * n)}LOG (nnet3-compute-prob[5.5]:Print():d.cc:9) "
        f"Overall log-{kind} for '{output}' is {sum_}{value} per frame, over 900 frames."
        for n in range(3)
        for split, values in VALUES.items()
        for output, sum_, value in (("output-xent", "", -4.5), ("output", penalty, values[n]))
    )


@pytest.mark.parametrize("kind", ["probability", "likelihood"])
@pytest.mark.parametrize("penalty", ["", "-0.25 + -0.01 = "])
def test_probabilities_of_all_iterations(tmp_path, kind, penalty):
    path = tmp_path / "log"
    path.write_text(probabilities(kind, penalty=penalty))
    history = stabdiag.diagnose(path).history
    assert history.series["loss"].steps.tolist() == [0, 20, 40]
    assert history.series["loss"].values.tolist() == [2.75, 2.25, 1.5]
    assert history.series["eval_loss"].values.tolist() == [2.9, 2.5, 1.9]


def test_a_probability_that_is_nan(tmp_path):
    path = tmp_path / "log"
    path.write_text(probabilities().replace("-1.5 per", "nan per"))
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 40)


def test_probabilities_without_an_iteration_have_no_count(tmp_path):
    path = tmp_path / "log"
    path.write_text(probabilities(file="decode_{}.final.{}.txt:"))
    with pytest.raises(LogError):
        stabdiag.diagnose(path)
