"""Runs that follow each other in a file, which only the totals of their steps tell apart."""

import pytest

import stabdiag

FORMS = [
    "INFO:root:Epoch [{epoch}/10], Step [{step}/{total}], Loss: {loss}\n",
    "epoch: {epoch} step: {step}/{total} loss: {loss}\n",
    "iter {step}/{total} | loss {loss}\n",
]


def stretch(form, total, count, *, epoch=1):
    """Return a stretch of a run whose loss is stuck."""
    return "".join(
        form.format(epoch=epoch, step=10 * n, total=total, loss=5 + 7 * n % 5 / 10)
        for n in range(1, count + 1)
    )


@pytest.fixture
def attempts(tmp_path):
    def count(text):
        (tmp_path / "train.log").write_text(text)
        return stabdiag.diagnose(tmp_path / "train.log").history.source.attempts

    return count


@pytest.mark.parametrize("form", FORMS)
def test_another_total_begins_another_run(attempts, form):
    text = stretch(form, 1130, 8) + stretch(form, 904, 28) + stretch(form, 322, 12)
    assert attempts(text) == 3


@pytest.mark.parametrize("form", FORMS[:2])
def test_epochs_of_different_lengths_are_one_run(attempts, form):
    epochs = [stretch(form, 100 + n, 10, epoch=n) for n in range(1, 6)]
    assert attempts("".join(epochs)) == 1


@pytest.mark.parametrize("form", FORMS[:2])
def test_two_loops_of_each_epoch_are_one_run(attempts, form):
    epochs = [stretch(form, 100, 10, epoch=n) + stretch(form, 80, 8, epoch=n) for n in range(1, 6)]
    assert attempts("".join(epochs)) == 1


def test_a_stage_after_a_full_one_is_the_same_run(attempts):
    falling = [f"iter {10 * n}/200 | loss {9 - n / 10}\n" for n in range(1, 21)]
    falling += [f"iter {10 * n}/400 | loss {7 - n / 10}\n" for n in range(1, 41)]
    assert attempts("".join(falling)) == 1
