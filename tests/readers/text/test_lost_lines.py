"""Values outside the records of a log that turn into NaN."""

import numpy as np
import pytest

import stabdiag as api

STEPS = np.arange(1, 121)
LOSS = 1.3 + 2.5 * np.exp(-STEPS / 25) + np.random.default_rng(8).normal(0, 0.02, 120)


def diagnosis(tmp_path, record, other, lost, every=1):
    values = np.where(np.isin(STEPS, lost), np.nan, 0.7 * LOSS)
    lines = []
    for step, loss, value in zip(STEPS, LOSS, values, strict=True):
        lines.append(other.format(step=step, value=value))
        if step % every == 0:
            lines.append(record.format(step=step, loss=loss))
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return api.diagnose(path).diagnosis


FORMS = [
    ("step {step} loss {loss:.4f}", "probe {step}: q = {value:.4f}", 1),
    ("val loss {loss:.4f}", "it {step} energy={value:.4f} lr=0.1", 10),
    ("val loss: {loss:.4f}", "epoch {step}: zeta={value:.4f}", 1),
]


@pytest.mark.parametrize(("record", "other", "every"), FORMS)
def test_a_value_that_stays_nan_is_not_green(tmp_path, record, other, every):
    result = diagnosis(tmp_path, record, other, STEPS[60:], every)
    assert result.slug == "partly-read"
    assert "60 lines have NaN in the place of a number" in result.summary


@pytest.mark.parametrize(("record", "other", "every"), FORMS)
@pytest.mark.parametrize("lost", [[], [60], [60, 61, 62, 63], [119, 120], [*STEPS]])
def test_other_values_do_not_matter(tmp_path, record, other, every, lost):
    """They are finite, NaN for a while, at the very end, or always."""
    assert diagnosis(tmp_path, record, other, lost, every).slug != "partly-read"


@pytest.mark.parametrize(
    "name", ["nll", "cost", "MSE", "huber", "Train XE", "train error", "negative log likelihood"]
)
@pytest.mark.parametrize("evaluation", ["val loss: {loss:.4f}", "[val] loss {loss:.4f}"])
def test_the_training_loss_may_have_another_name_than_the_evaluated_one(tmp_path, name, evaluation):
    training = f"step {{step}}, {name}: {{value:.4f}}"
    assert diagnosis(tmp_path, evaluation, training, [], 10).slug == "healthy"
    assert diagnosis(tmp_path, evaluation, training, STEPS[60:], 10).slug.startswith("nan")
