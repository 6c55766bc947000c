"""The scores of a few checkpoints, without another record."""

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def series(tmp_path):
    def read(text):
        path = tmp_path / "scores.txt"
        path.write_text(text)
        return stabdiag.diagnose(path).history.series

    return read


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("epoch4:\nmAP: 0.5\nother: 1.5\nepoch8:\nmAP: 0.25\nother: 1.25\n", [4, 8]),
        ("Checkpoint 1000: BLEU 0.5\nCheckpoint 2000: BLEU 0.25\n", [1000, 2000]),
        ("step 5000 valid BLEU = 0.5\nstep 10000 valid BLEU = 0.25\n", [5000, 10000]),
        ("model_0.h5: **F1: 0.5, IoU: 0.25.**\nmodel_5.h5: **F1: 0.25, IoU: 0.2.**\n", [0, 5]),
        ("checkpoint-5\n{'eval_f1': 0.5}\ncheckpoint-10\n{'eval_f1': 0.25}\n", [5, 10]),
        ("10k iterations: mIoU 0.5\n20k iterations: mIoU 0.25\n", [10_000, 20_000]),
    ],
)
def test_a_counter_or_a_checkpoint_begins_each_evaluation(series, text, steps):
    first = next(logged for role, logged in series(text).items() if role.startswith("score/"))
    assert first.steps.tolist() == steps
    assert first.values.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    "text",
    [
        "Method A\nmAP: 0.5\nMethod B\nmAP: 0.25\n",
        "class 1:\nprecision: 0.5\nclass 2:\nprecision: 0.25\n",
        "fold 1:\naccuracy: 0.5\nfold 2:\naccuracy: 0.25\n",
        "model_50: accuracy: 0.76, size: 25\nmodel_101: accuracy: 0.78, size: 44\n",
        "epoch 8:\nmAP: 0.5\nepoch 4:\nmAP: 0.25\n",
        "After 1 epoch the F1 was 0.71, and after 2 epochs it was 0.73.\n",
    ],
)
def test_other_scores_are_no_course(series, text):
    with pytest.raises(LogError):
        series(text)


def test_names_and_values_with_an_arrow_are_scores(series):
    text = "epoch -> 2.0\nvalid_en_acc -> 31.95\nvalid_en_bleu -> 2.48\n"
    assert [logged.values.tolist() for logged in series(text).values()] == [[31.95], [2.48]]
